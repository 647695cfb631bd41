//! Runs a case on a backend and judges it.

use crate::compare::{bits, compare};
use crate::execute::{Results, execute};
use crate::golden::{Case, Expected};
use crate::guard::caught;
use crate::{refusal, second, training};
use elinvar_core::{HostData, HostTensor, Scalar};
use elinvar_ops::{Backend, catalogue};

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// All results were as expected.
    Passed,
    /// A mismatch: which result, where, actual and expected.
    Failed(String),
    /// It did not run, for this reason.
    Skipped(String),
}

/// Runs a case and compares with the expected results.
pub fn run<B: Backend>(case: &Case, device: &B::Device) -> Outcome {
    outcome(case, || attempt::<B>(case, device).and_then(|results| judge(case, &results)))
}

/// Runs a case on two backends: the first must give the expected results, and the bits of the
/// second. A case of f64 is skipped if the first has said that it has no 64-bit floats.
pub fn run_beside<A: Backend, B: Backend>(case: &Case, a: &A::Device, b: &B::Device) -> Outcome {
    let judged = outcome(case, || {
        let results = attempt::<A>(case, a)?;
        judge(case, &results)?;
        let definition = attempt::<B>(case, b).map_err(|why| format!("on {b}: {why}"))?;
        same(&results, &definition).map_err(|why| format!("other bits than on {b}: {why}"))
    });
    match judged {
        Outcome::Failed(why) => match refusal::of_case::<A>(case, a, &why) {
            Some(refused) => Outcome::Skipped(refused),
            None => Outcome::Failed(why),
        },
        judged @ (Outcome::Passed | Outcome::Skipped(_)) => judged,
    }
}

fn outcome(case: &Case, run: impl FnOnce() -> Result<(), String>) -> Outcome {
    if !known(case) {
        return Outcome::Skipped("not in the catalogue".to_string());
    }
    match run() {
        Ok(()) => Outcome::Passed,
        Err(why) => Outcome::Failed(why),
    }
}

/// Does the op exist?
fn known(case: &Case) -> bool {
    case.op == second::NAME || training::has(&case.op) || catalogue::NAMES.contains(&case.op.as_str())
}

/// The results of the op, or its error.
fn attempt<B: Backend>(case: &Case, device: &B::Device) -> Result<Results, String> {
    match caught(|| execute::<B>(case, device)) {
        Ok(Ok(results)) => Ok(results),
        Ok(Err(e)) => Err(format!("{e:?}")),
        Err(panic) => Err(panic),
    }
}

/// Compares with the expected results.
///
/// # Errors
/// The first difference.
pub fn judge(case: &Case, got: &Results) -> Result<(), String> {
    each(got.outputs.len(), case.outputs.len(), "outputs", |i| {
        compare(&got.outputs[i], &case.outputs[i]).map_err(|m| format!("output {i}: {m}"))
    })?;
    each(got.grads.len(), case.grads.len(), "gradients", |i| {
        let grad = &case.grads[i];
        let role = &case.inputs[grad.input].role;
        compare(&got.grads[i], &grad.want).map_err(|m| format!("gradient of {role}: {m}"))?;
        match (&grad.base, &got.base_grads[i]) {
            (None, _) => Ok(()),
            (Some(want), Some(got)) => {
                compare(got, want).map_err(|m| format!("gradient of the base of {role}: {m}"))
            }
            (Some(_), None) => Err(format!("no gradient of the base of {role}")),
        }
    })
}

/// Would the case fail if every result were zero? If not, it cannot distinguish a backend that
/// computes from one that does not.
pub fn refuses_zeros(case: &Case) -> bool {
    let refuses = |want: &Expected| {
        let zeros = HostData::full(want.dtype, want.tensor.shape().numel(), Scalar::Int(0));
        zeros
            .and_then(|z| HostTensor::new(want.tensor.shape().clone(), z))
            .is_ok_and(|z| compare(&z, want).is_err())
    };
    case.outputs.iter().chain(case.grads.iter().map(|g| &g.want)).any(refuses)
}

/// Compares the bits of all results.
///
/// # Errors
/// The first difference.
pub fn same(a: &Results, b: &Results) -> Result<(), String> {
    let all = |what: &str, a: &[HostTensor], b: &[HostTensor]| {
        each(a.len(), b.len(), what, |i| bits(&a[i], &b[i]).map_err(|m| format!("{what} {i}: {m}")))
    };
    let of_bases = |r: &Results| r.base_grads.iter().flatten().cloned().collect::<Vec<_>>();
    all("outputs", &a.outputs, &b.outputs)?;
    all("gradients", &a.grads, &b.grads)?;
    all("gradients of bases", &of_bases(a), &of_bases(b))
}

/// Checks that there are as many results as expected, and each of them.
fn each(
    got: usize,
    want: usize,
    what: &str,
    check: impl Fn(usize) -> Result<(), String>,
) -> Result<(), String> {
    if got != want {
        return Err(format!("{got} {what} instead of {want}"));
    }
    (0..want).try_for_each(check)
}
