//! triplet_margin_loss: a hinge loss on the distances from an anchor to a positive and a negative.

use super::reduction::{Reduced, Reduction, reduce, reduction};
use super::{minimum, norm};
use crate::prelude::*;

/// x - y + eps
#[derive(Clone, Copy, Debug)]
struct Apart {
    eps: f64,
}

impl Map<2> for Apart {
    const NAME: &'static str = "triplet_margin_loss";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        x - y + L::lit(self.eps)
    }
}
compile_map! { 2 Apart; }

/// max(0, margin + near - far)
#[derive(Clone, Copy, Debug)]
struct Lacks {
    margin: f64,
}

impl Map<2> for Lacks {
    const NAME: &'static str = "triplet_margin_loss";
    #[inline(always)]
    fn lane<L: Lane>(&self, [near, far]: [L; 2]) -> L {
        let (zero, v) = (L::lit(0.0), L::lit(self.margin) + near - far);
        L::select(v.lt(zero), zero, v)
    }
}
compile_map! { 2 Lacks; }
compile_rows! { 2 Reduced<Lacks>; }

/// max(0, margin + d(anchor, positive) - d(anchor, negative)) over the last axis, reduced, where
/// d(a, b) is the p-norm of a - b + eps. With `swap` the negative's distance is that to the
/// positive where this is less.
///
/// anchor, positive, negative: [.., d], broadcast; losses: [..]. Storage floats run in f32 and are
/// rounded once.
///
/// # Errors
/// `InvalidArgument` if p is NaN or the margin is not above 0; `ShapeMismatch` if the shapes do not
/// broadcast or are scalars; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn triplet_margin_loss<V: Value>(
    anchor: &V,
    positive: &V,
    negative: &V,
    margin: f64,
    p: f64,
    eps: f64,
    swap: bool,
    reduction: Reduction,
) -> Result<V> {
    autocast!("triplet_margin_loss", anchor, positive, negative =>
        triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction));
    if [anchor, positive, negative].iter().any(|v| v.shape().rank() == 0) {
        return Err(Error::shape("triplet_margin_loss: operands are scalars; they should be [.., d]"));
    }
    if margin.is_nan() || margin <= 0.0 {
        return Err(Error::argument(format!("triplet_margin_loss: margin is {margin}; it must be above 0")));
    }
    widen([anchor, positive, negative], |[a, pos, neg]| {
        let distance = |x: &V, y: &V| norm(&map(Apart { eps }, [x, y])?, p, Some(&[-1]), false);
        let near = distance(a, pos)?;
        let mut far = distance(a, neg)?;
        if swap {
            far = minimum(&far, &distance(pos, neg)?)?;
        }
        reduce(Lacks { margin }, [&near, &far], reduction)
    })
}

/// By name: operands anchor, positive, negative; attributes margin, p, eps, swap, reduction.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (anchor, positive, negative) = (a.input("anchor")?, a.input("positive")?, a.input("negative")?);
    let (margin, p, eps, swap) = (a.f64("margin")?, a.f64("p")?, a.f64("eps")?, a.bool("swap")?);
    Ok(vec![triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction(a)?)?])
}
