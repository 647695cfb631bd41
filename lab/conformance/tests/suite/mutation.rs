//! Mutation tests of the suite: it must pass the reference and refuse every mutant.

use elinvar_conformance::capabilities::{Support, support};
use elinvar_conformance::execute::{Results, execute};
use elinvar_conformance::filter::Filter;
use elinvar_conformance::golden::{Case, Expected};
use elinvar_conformance::run::{Outcome, judge, refuses_zeros, run, run_beside, same};
use elinvar_conformance::sample;
use elinvar_conformance::twist::{Twist, Twisted, TwistedDevice, Work};
use elinvar_conformance::{Options, conformance};
use elinvar_core::{DType, Element, HostData, HostTensor, each_data};
use elinvar_devices::{Any, Device};

type Mutant = Twisted<Any>;

fn device(twist: Twist) -> TwistedDevice<Device> {
    TwistedDevice { inner: Device::reference(), twist }
}

fn cases() -> Vec<Case> {
    sample::cases(&Filter::default()).unwrap()
}

/// The ids of the cases that a mutant passes.
fn survived(cases: &[Case], twist: &Twist) -> Vec<String> {
    let device = device(twist.clone());
    let passes = |c: &&Case| run::<Mutant>(c, &device) == Outcome::Passed;
    cases.iter().filter(passes).map(|c| c.id.clone()).collect()
}

#[test]
fn the_reference_passes_the_whole_sample() {
    let mut out = Vec::new();
    let summary = conformance(&Options::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(summary.failed, 0, "{text}");
    assert!(summary.passed > 280, "{text}");
    let total = format!("{} passed, 0 failed, 0 skipped\n", summary.passed);
    assert!(text.ends_with(&total), "{text}");
}

/// Are the bits of a mutant those of the reference?
fn has_the_bits(c: &Case, device: &TwistedDevice<Device>) -> bool {
    let want = execute::<Any>(c, &Device::reference()).unwrap();
    execute::<Mutant>(c, device).is_ok_and(|got| same(&got, &want).is_ok())
}

#[test]
fn an_echo_of_the_reference_passes_and_has_its_bits() {
    let device = device(Twist::echo());
    for c in cases() {
        assert_eq!(run::<Mutant>(&c, &device), Outcome::Passed, "{}", c.id);
        assert!(has_the_bits(&c, &device), "{}", c.id);
    }
}

/// Ops whose cases accept zeros, although other results are expected. The tolerances were measured
/// by rounding the inputs, and this op's target is either 1 or -1: near them, it is another
/// function.
const SILENT: &[&str] = &["hinge_embedding_loss"];

#[test]
fn a_backend_that_writes_nothing_fails_every_case_that_does_not_expect_zeros() {
    let all = cases();
    let (said, silent): (Vec<Case>, Vec<Case>) = all.iter().cloned().partition(refuses_zeros);
    let wants_zeros = |c: &&Case| c.outputs.iter().all(|o| o.tensor.to_f64_vec().iter().all(|v| *v == 0.0));
    let loose: Vec<&str> = silent.iter().filter(|c| !wants_zeros(c)).map(|c| c.op.as_str()).collect();
    assert!(loose.iter().all(|op| SILENT.contains(op)), "{loose:?}");
    // Conditions that are false and indices that are 0 are zeros, too.
    assert!(said.len() * 16 >= all.len() * 15, "{} of {}", said.len(), all.len());
    assert_eq!(survived(&said, &Twist::lazy()), Vec::<String>::new());
}

#[test]
fn ops_with_silent_cases_are_right_to_the_usual_tolerance() {
    for op in SILENT {
        let cases: Vec<Case> = cases().into_iter().filter(|c| c.op == *op).collect();
        assert!(!cases.is_empty(), "{op}");
        for mut c in cases {
            let scale = |w: &Expected| w.tensor.to_f64_vec().iter().fold(0.0f64, |m, v| m.max(v.abs()));
            for want in c.outputs.iter_mut().chain(c.grads.iter_mut().map(|g| &mut g.want)) {
                want.atol = 4.0 * want.dtype.epsilon() * scale(want);
            }
            assert!(refuses_zeros(&c), "{}", c.id);
            assert_eq!(run::<Any>(&c, &Device::reference()), Outcome::Passed, "{}", c.id);
        }
    }
}

#[test]
fn a_backend_that_moves_memory_but_computes_nothing_fails_all_but_views() {
    let idle = device(Twist::idle());
    // A view is layout arithmetic: no backend work to skip, unless the view is differentiated.
    // Where an operand is empty, or a mask false throughout, the result may be a copy of another.
    let is_something = |x: &HostTensor| {
        x.shape().numel() > 0 && (x.dtype() != DType::Bool || x.to_f64_vec().iter().any(|v| *v != 0.0))
    };
    let has_work = |c: &&Case| refuses_zeros(c) && c.inputs.iter().all(|i| is_something(&i.tensor));
    for c in cases().iter().filter(has_work) {
        if support::<Any>(c, &Device::reference()) != Support::View {
            assert_ne!(run::<Mutant>(c, &idle), Outcome::Passed, "{}", c.id);
        }
    }
}

#[test]
fn no_kind_of_work_can_be_left_out_unnoticed() {
    let cases = cases();
    for &work in Work::ALL {
        // No case of the sample is random; `equal` compares random numbers.
        if work != Work::Random {
            let failed = cases.len() - survived(&cases, &Twist::without(work)).len();
            assert!(failed > 0, "no case needs {work:?}");
        }
    }
}

#[test]
fn one_wrong_bit_in_any_kind_of_work_is_seen_beside_the_reference() {
    let cases = cases();
    for &work in Work::ALL {
        if work != Work::Random {
            let device = device(Twist::wrong_bit(work));
            assert!(cases.iter().any(|c| !has_the_bits(c, &device)), "{work:?}");
        }
    }
}

#[test]
fn a_device_within_the_tolerance_is_refused_for_its_bits() {
    let beside = |c: &Case, twist: Twist| run_beside::<Mutant, Any>(c, &device(twist), &Device::reference());
    let sums: Vec<Case> = cases().into_iter().filter(|c| c.op == "sum" && c.dtype == DType::F32).collect();
    assert!(!sums.is_empty());
    for c in sums {
        assert_eq!(beside(&c, Twist::echo()), Outcome::Passed, "{}", c.id);
        assert_eq!(run::<Mutant>(&c, &device(Twist::wrong_bit(Work::Fold))), Outcome::Passed, "{}", c.id);
        let Outcome::Failed(why) = beside(&c, Twist::wrong_bit(Work::Fold)) else {
            panic!("{} passed", c.id)
        };
        assert!(why.starts_with("other bits than on reference: outputs 0: element"), "{why}");
    }
}

/// The same tensor with its last element replaced.
fn with_last(t: &HostTensor, f: impl Fn(f64) -> f64) -> HostTensor {
    fn change<T: Element>(v: &[T], f: impl Fn(f64) -> f64) -> HostData {
        let mut v = v.to_vec();
        if let Some(last) = v.last_mut() {
            *last = T::from_f64(f(last.to_f64()));
        }
        T::wrap(v)
    }
    HostTensor::new(t.shape().clone(), each_data!(t.data(), v => change(v, f))).unwrap()
}

#[test]
fn a_result_that_is_slightly_wrong_is_refused() {
    let mut tried = [0; 5];
    for c in cases().iter().filter(|c| c.outputs[0].dtype.is_float()) {
        let good: Results = execute::<Any>(c, &Device::reference()).unwrap();
        assert_eq!(judge(c, &good), Ok(()), "{}", c.id);
        let refused = |what: &str, bad: Results| assert!(judge(c, &bad).is_err(), "{}: {what}", c.id);
        let mutate = |f: &dyn Fn(f64) -> f64| {
            let mut bad = good.clone();
            bad.outputs[0] = with_last(&good.outputs[0], f);
            bad
        };
        let want = &c.outputs[0];
        let Some(last) = want.tensor.to_f64_vec().last().copied().filter(|v| v.is_finite()) else { continue };
        // Ten tolerances away, or two steps of the dtype where the result is exact.
        let step = (want.dtype.epsilon() * 2.0 * last.abs()).max(1e-30);
        let away = (10.0 * (want.atol + want.rtol * last.abs())).max(step);
        let max = match want.dtype {
            DType::F16 => 65504.0,
            DType::BF16 | DType::F32 => f32::MAX as f64,
            _ => f64::MAX,
        };
        let target = if last + away < max { last + away } else { last - away };
        if want.dtype != DType::F16 || away > 1e-7 {
            refused("ten tolerances away", mutate(&|_| target));
            tried[0] += 1;
        }
        refused("NaN instead of a number", mutate(&|_| f64::NAN));
        refused("infinity instead of a number", mutate(&|_| f64::INFINITY));
        tried[1] += 1;
        if last == 0.0 && want.signed_zero {
            let sign = if last.is_sign_negative() { 0.0 } else { -0.0 };
            refused("the other zero", mutate(&|_| sign));
            tried[2] += 1;
        }
        let mut bad = good.clone();
        bad.outputs[0] =
            HostTensor::from_vec(good.outputs[0].to_f64_vec(), good.outputs[0].shape().clone()).unwrap();
        if want.dtype != DType::F64 {
            refused("f64 instead of the dtype", bad);
        }
        let mut bad = good.clone();
        bad.outputs.pop();
        refused("an output missing", bad);
        for i in 0..good.grads.len() {
            let mut bad = good.clone();
            bad.grads[i] = with_last(&good.grads[i], |_| f64::NAN);
            let wanted_nan = c.grads[i].want.tensor.to_f64_vec().last().is_none_or(|v| v.is_nan());
            if !wanted_nan {
                refused("NaN in a gradient", bad);
                tried[3] += 1;
            }
            if c.grads[i].base.is_some() {
                let mut bad = good.clone();
                bad.base_grads[i] = None;
                refused("no gradient of a base", bad);
                tried[4] += 1;
            }
        }
    }
    assert!(tried[0] > 150 && tried[1] > 150 && tried[3] > 100 && tried[4] > 10, "{tried:?}");
}
