//! What a step of training asks of a GPU may become less, and not more.

use elinvar_bench::{Made, Model, count};

/// Kernels that differ, launches, bytes moved: at most.
const LIMITS: [(Model, usize, usize, u64); 4] = [
    (Model::Mlp, 17, 27, 25_070_020),
    (Model::Cnn, 27, 40, 254_522_676),
    (Model::Gpt, 42, 251, 954_550_152),
    (Model::Bert, 44, 501, 1_331_273_384),
];

#[test]
fn a_step_asks_for_no_more_than_it_did() {
    let mut all = Vec::new();
    for (model, kernels, launches, bytes) in LIMITS {
        let c = count(model, Made::Plain).unwrap();
        assert!(c.kernels > 4 && c.launches >= c.kernels && c.bytes > 1 << 20, "{model:?}: {c:?}");
        if c.kernels > kernels || c.launches > launches || c.bytes > bytes {
            all.push(format!("{model:?}: {c:?}; the limit is {kernels}, {launches}, {bytes}"));
        }
    }
    assert!(all.is_empty(), "{all:#?}");
}

/// The graph, and a copy of the loss.
#[test]
fn a_captured_step_is_two_launches() {
    for model in Model::ALL {
        let c = count(model, Made::Captured).unwrap();
        assert_eq!(c.launches, 2, "{model:?}: {c:?}");
    }
}

/// Counting is not measuring: it gives the same each time.
#[test]
fn counts_do_not_depend_on_the_run() {
    assert_eq!(count(Model::Mlp, Made::Plain).unwrap(), count(Model::Mlp, Made::Plain).unwrap());
}
