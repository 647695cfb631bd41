//! What a step of training asks of a GPU may become less, and not more.

use elinvar::DType;
use elinvar_bench::{Kind, Made, Model, count};

/// Kernels that differ, launches, bytes moved: at most.
const LIMITS: [(Model, Option<DType>, usize, usize, u64); 8] = [
    (Model::Mlp, None, 17, 27, 25_070_020),
    (Model::Cnn, None, 27, 40, 254_522_676),
    (Model::Gpt, None, 42, 251, 954_550_152),
    (Model::Bert, None, 44, 501, 1_331_273_384),
    (Model::Mlp, Some(DType::BF16), 19, 42, 27_105_689),
    (Model::Cnn, Some(DType::BF16), 29, 59, 173_382_041),
    (Model::Gpt, Some(DType::BF16), 45, 355, 730_595_328),
    (Model::Bert, Some(DType::BF16), 51, 783, 1_223_006_617),
];

#[test]
fn a_step_asks_for_no_more_than_it_did() {
    let mut all = Vec::new();
    for (model, amp, kernels, launches, bytes) in LIMITS {
        let c = count(model, Kind { amp, ..Made::Plain.into() }).unwrap();
        assert!(c.kernels > 4 && c.launches >= c.kernels && c.bytes > 1 << 20, "{model:?} {amp:?}: {c:?}");
        if c.kernels > kernels || c.launches > launches || c.bytes > bytes {
            all.push(format!("{model:?} {amp:?}: {c:?}; the limit is {kernels}, {launches}, {bytes}"));
        }
    }
    assert!(all.is_empty(), "{all:#?}");
}

/// The graph, and a copy of the loss.
#[test]
fn a_captured_step_is_two_launches() {
    for (model, step) in Model::ALL.into_iter().flat_map(|m| Kind::COUNTED.map(|step| (m, step))) {
        if step.made == Made::Captured {
            let c = count(model, step).unwrap();
            assert_eq!(c.launches, 2, "{model:?} {step:?}: {c:?}");
        }
    }
}

/// Counting is not measuring: it gives the same each time.
#[test]
fn counts_do_not_depend_on_the_run() {
    assert_eq!(count(Model::Mlp, Made::Plain).unwrap(), count(Model::Mlp, Made::Plain).unwrap());
}
