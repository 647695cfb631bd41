//! hinge_embedding_loss: a distance for similar pairs, and the shortfall to a margin for dissimilar
//! ones.

use super::reduction::{Reduced, Reduction, reduce, reduction};
use crate::prelude::*;

/// x where t is 1, max(0, margin - x) where t is -1; the sum of both elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct HingeEmbeddingLoss {
    /// The margin.
    pub margin: f64,
}

impl Map<2> for HingeEmbeddingLoss {
    const NAME: &'static str = "hinge_embedding_loss";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, t]: [L; 2]) -> L {
        let (zero, one) = (L::lit(0.0), L::lit(1.0));
        let lacks = L::lit(self.margin) - x;
        let apart = L::select(t.ne(one), L::select(lacks.lt(zero), zero, lacks), zero);
        apart + L::select(t.ne(-one), x, zero)
    }
}
compile_map! { 2 HingeEmbeddingLoss; }
compile_rows! { 2 Reduced<HingeEmbeddingLoss>; }

/// x where the target is 1, max(0, margin - x) where it is -1; elementwise and reduced; operands
/// broadcast.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn hinge_embedding_loss<V: Value>(x: &V, target: &V, reduction: Reduction, margin: f64) -> Result<V> {
    autocast!("hinge_embedding_loss", x, target => hinge_embedding_loss(x, target, reduction, margin));
    reduce(HingeEmbeddingLoss { margin }, [x, target], reduction)
}

/// By name: operands x and target; attributes reduction and margin.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![hinge_embedding_loss(a.input("x")?, a.input("target")?, reduction(a)?, a.f64("margin")?)?])
}
