//! binary_cross_entropy: the negative log-likelihood of a probability, with logarithms of -100 at
//! least.
//!
//! Inputs outside of 0..=1 are an error, which synchronises with the device; in a function that is
//! recorded they give NaN. With logits there is no such range
//! ([`super::binary_cross_entropy_with_logits()`]).

use super::range::check_range;
use super::reduction::{Reduced, Reduction, Weighted, reduce, reduction, same_shape};
use crate::prelude::*;

/// -(t log x + (1 - t) log(1 - x)), logarithms clamped at -100.
#[derive(Clone, Copy, Debug)]
pub struct BinaryCrossEntropy;

/// The logarithm, clamped at -100.
#[inline(always)]
fn bounded<L: Lane>(log: L) -> L {
    log.max(L::lit(-100.0))
}

impl Map<2> for BinaryCrossEntropy {
    const NAME: &'static str = "binary_cross_entropy";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, t]: [L; 2]) -> L {
        (t - L::lit(1.0)) * bounded((-x).log1p()) - t * bounded(x.log())
    }
    /// By x: (x - t) / (x (1 - x)), the denominator clamped at 1e-12. By t: log(1 - x) - log x.
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, t]: [L; 2], _: L, g: L) -> L {
        if i == 0 {
            g * (x - t) / ((L::lit(1.0) - x) * x).max(L::lit(1e-12))
        } else {
            g * (bounded((-x).log1p()) - bounded(x.log()))
        }
    }
}
compile_map! { 2 BinaryCrossEntropy; }
compile_rows! { 2 Reduced<BinaryCrossEntropy>; }

/// -(target log x + (1 - target) log(1 - x)) times the weight, elementwise and reduced (a mean is
/// over the elements, whatever their weights). Logarithms are clamped at -100, so a loss is at
/// most 100.
///
/// x: probabilities   target: of x's shape   weight: broadcasts to x
///
/// # Errors
/// `InvalidArgument` if an element of x is not in 0..=1; `ShapeMismatch`; `DTypeMismatch`;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn binary_cross_entropy<V: Value>(
    x: &V,
    target: &V,
    weight: Option<&V>,
    reduction: Reduction,
) -> Result<V> {
    autocast!("binary_cross_entropy", x, target; weight =>
        binary_cross_entropy(x, target, weight, reduction));
    same_shape("binary_cross_entropy", x, target)?;
    check_range("binary_cross_entropy", "x", x, 0.0, 1.0)?;
    match weight {
        None => reduce(BinaryCrossEntropy, [x, target], reduction),
        Some(w) => reduce(Weighted(BinaryCrossEntropy), [x, target, w], reduction),
    }
}

/// By name: operands x, target, weight if there is one; attribute reduction.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, target, weight) = (a.input("x")?, a.input("target")?, a.optional("weight"));
    Ok(vec![binary_cross_entropy(x, target, weight, reduction(a)?)?])
}
