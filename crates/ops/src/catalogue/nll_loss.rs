//! nll_loss: the negative log-probability of the target class.

use super::classes::Targets;
use super::reduction::{Reduction, reduction};
use super::{gather, neg};
use crate::prelude::*;
use crate::value::cast;

/// -weight\[target\] * x\[target\] for each target, reduced; a mean divides by the weights. Targets
/// equal to `ignore_index` are left out: their loss is 0.
///
/// * x: log-probabilities [n, c, ..] or \[c\]
/// * target: integers [n, ..] or []
/// * weight: \[c\]
/// * losses: [n, ..] or []
///
/// Storage floats run in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch`; `InvalidArgument` if a target is neither a class nor left out; `DTypeMismatch`;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn nll_loss<V: Value>(
    x: &V,
    target: &V,
    weight: Option<&V>,
    ignore_index: i64,
    reduction: Reduction,
) -> Result<V> {
    autocast!("nll_loss", x, target; weight => nll_loss(x, target, weight, ignore_index, reduction));
    let dtype = x.dtype();
    let x = cast(x, dtype.compute())?;
    let weight = weight.map(|w| cast(w, w.dtype().compute())).transpose()?;
    let targets = Targets::new("nll_loss", &x, target, weight.as_ref(), ignore_index)?;
    let picked = neg(&gather(&x, targets.axis as isize, &targets.column()?)?)?;
    cast(&targets.reduce("nll_loss", &picked, false, reduction)?, dtype)
}

/// By name: operands x, target, weight if there is one; attributes reduction and ignore_index.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, target, weight) = (a.input("x")?, a.input("target")?, a.optional("weight"));
    Ok(vec![nll_loss(x, target, weight, a.int("ignore_index")?, reduction(a)?)?])
}
