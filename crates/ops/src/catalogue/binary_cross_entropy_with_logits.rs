//! binary_cross_entropy_with_logits: the negative log-likelihood of a binary target, given logits.
//!
//! How it can be wrong: cancellation. Both terms are written with softplus, which is not negative,
//! so nothing is subtracted and small losses keep their digits.

use super::reduction::{Reduced, Reduction, Weighted, reduce, reduction, same_shape};
use crate::prelude::*;

/// t softplus(-x) + (1 - t) softplus(x), with operands x and t; p t in the first term if there is a
/// third operand p.
#[derive(Clone, Copy, Debug)]
pub struct BinaryCrossEntropyWithLogits;

/// max(x, 0) and max(-x, 0), each plus log(1 + exp(-|x|)): softplus(x) and softplus(-x).
#[inline(always)]
fn softplus<L: Lane>(x: L) -> (L, L) {
    let (zero, rest) = (L::lit(0.0), (-x.abs()).exp().log1p());
    (x.max(zero) + rest, (-x).max(zero) + rest)
}

impl<const N: usize> Map<N> for BinaryCrossEntropyWithLogits {
    const NAME: &'static str = "binary_cross_entropy_with_logits";
    #[inline(always)]
    fn lane<L: Lane>(&self, x: [L; N]) -> L {
        let (up, down) = softplus(x[0]);
        let hit = if N == 3 { x[2] * x[1] } else { x[1] };
        hit * down + (L::lit(1.0) - x[1]) * up
    }
    /// By x: (1 - t) sigmoid(x) - p t sigmoid(-x). By t: p softplus(-x) - softplus(x). By p: t
    /// softplus(-x).
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, x: [L; N], _: L, g: L) -> L {
        let (up, down) = softplus(x[0]);
        match i {
            0 => {
                let hit = if N == 3 { x[2] * x[1] } else { x[1] };
                g * ((L::lit(1.0) - x[1]) * x[0].sigmoid() - hit * (-x[0]).sigmoid())
            }
            1 => g * (if N == 3 { x[2] * down - up } else { down - up }),
            _ => g * (x[1] * down),
        }
    }
}
compile_map! { 2 BinaryCrossEntropyWithLogits; 3 BinaryCrossEntropyWithLogits; }
compile_rows! { 2 Reduced<BinaryCrossEntropyWithLogits>; 3 Reduced<BinaryCrossEntropyWithLogits>; }

/// target softplus(-x) + (1 - target) softplus(x), which is -(target log s + (1 - target)
/// log(1 - s)) for s = sigmoid(x) without its overflows; elementwise and reduced (a mean is over
/// the elements, whatever their weights).
///
/// * x: logits
/// * target: of x's shape
/// * weight, pos_weight: broadcast to x; factors of the loss, and of its term where the target is 1
///
/// # Errors
/// `ShapeMismatch`; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn binary_cross_entropy_with_logits<V: Value>(
    x: &V,
    target: &V,
    weight: Option<&V>,
    pos_weight: Option<&V>,
    reduction: Reduction,
) -> Result<V> {
    autocast!("binary_cross_entropy_with_logits", x, target; weight, pos_weight =>
        binary_cross_entropy_with_logits(x, target, weight, pos_weight, reduction));
    let m = BinaryCrossEntropyWithLogits;
    same_shape("binary_cross_entropy_with_logits", x, target)?;
    match (pos_weight, weight) {
        (None, None) => reduce(m, [x, target], reduction),
        (None, Some(w)) => reduce::<_, Weighted<_>, 3>(Weighted(m), [x, target, w], reduction),
        (Some(p), None) => reduce(m, [x, target, p], reduction),
        (Some(p), Some(w)) => reduce::<_, Weighted<_>, 4>(Weighted(m), [x, target, p, w], reduction),
    }
}

/// By name: operands x, target, weight and pos_weight if there are; attribute reduction.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, target) = (a.input("x")?, a.input("target")?);
    let (weight, pos_weight) = (a.optional("weight"), a.optional("pos_weight"));
    Ok(vec![binary_cross_entropy_with_logits(x, target, weight, pos_weight, reduction(a)?)?])
}
