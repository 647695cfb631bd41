//! Shared by losses over classes: targets are checked, ignored ones masked, and weighted.

use super::gather::as_index;
use super::reduction::{Reduced, Reduction, not_by_batch, reduce};
use super::{div::div, expand, gather, ne, reshape, sum, where_};
use crate::prelude::*;

/// Targets as indices, prepared.
pub(super) struct Targets<V> {
    /// The axis of classes.
    pub axis: usize,
    /// The class of each target, 0 where it is ignored. Shaped like the input without the axis of
    /// classes.
    pub index: V,
    /// Does the target count?
    kept: V,
    /// The weight of the target's class.
    weight: V,
}

/// w y where the target counts, else 0; operands mask, w, y.
#[derive(Clone, Copy, Debug)]
struct Counted;

impl Map<3> for Counted {
    const NAME: &'static str = "nll_loss";
    #[inline(always)]
    fn lane<L: Lane>(&self, [kept, w, y]: [L; 3]) -> L {
        L::select(kept.to_mask(), w * y, L::lit(0.0))
    }
    /// An ignored target has no part in the gradient either, not even in one that is infinite
    /// because all are ignored.
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [kept, w, y]: [L; 3], _: L, g: L) -> L {
        let slope = match i {
            1 => g * y,
            2 => g * w,
            _ => L::lit(0.0),
        };
        L::select(kept.to_mask(), slope, L::lit(0.0))
    }
}
compile_map! { 3 Counted; }
compile_rows! { 3 Reduced<Counted>; }

/// The axis of classes: the first of a vector, else the second.
pub(super) fn class_axis(op: &str, x: &Shape) -> Result<usize> {
    match x.rank() {
        0 => Err(Error::shape(format!("{op}: the input is a scalar; it should be [c], or [n, c, ..]"))),
        1 => Ok(0),
        _ => Ok(1),
    }
}

/// Checks that there is one weight per class.
pub(super) fn check_weight<V: Value>(op: &str, weight: Option<&V>, classes: usize) -> Result<()> {
    match weight {
        Some(w) if w.shape()[..] != [classes] => Err(Error::shape(format!(
            "{op}: weight {} should be [{classes}], one number per class",
            w.shape()
        ))),
        _ => Ok(()),
    }
}

/// The element of `x`, which has one per class, for each of the classes in `index`.
fn of_class<V: Value>(x: &V, index: &V) -> Result<V> {
    let flat = reshape::to_shape(index, &Shape::new(&[index.shape().numel()])?)?;
    reshape::to_shape(&gather(x, 0, &flat)?, index.shape())
}

impl<V: Value> Targets<V> {
    /// Checks targets against the input `x`, whose dtype the weights have.
    pub(super) fn new(op: &str, x: &V, target: &V, weight: Option<&V>, ignore_index: i64) -> Result<Self> {
        let s = x.shape();
        let axis = class_axis(op, s)?;
        let classes = s[axis];
        let wanted = s.without(&[axis], false);
        if *target.shape() != wanted {
            return Err(Error::shape(format!(
                "{op}: target {} for input {s} should have shape {wanted}",
                target.shape()
            )));
        }
        check_weight(op, weight, classes)?;
        let index = as_index(op, target)?;
        let kept = ne(&index, &index.scalar_like(ignore_index)?)?;
        let index = where_(&kept, &index, &index.scalar_like(0i64)?)?;
        let all = Shape::new(&[classes])?;
        let weight = match weight {
            Some(w) => w.clone(),
            None => expand(&x.scalar_like(1.0)?, &all)?,
        };
        // This gather also reports a target that is not a class.
        let weight = of_class(&weight, &index).map_err(|e| {
            e.at(format!(
                "{op}: a target for input {s} is neither a class nor {ignore_index}, which is left out"
            ))
        })?;
        Ok(Targets { axis, index, kept, weight })
    }
    /// The element of `x`, which has one per class, for each target's class; shaped like the
    /// indices.
    pub(super) fn of_class(&self, x: &V) -> Result<V> {
        of_class(x, &self.index)
    }
    /// The indices with the axis of classes, of size 1.
    pub(super) fn column(&self) -> Result<V> {
        let mut dims = Dims::from_slice(self.index.shape());
        dims.insert(self.axis, 1);
        reshape::to_shape(&self.index, &Shape::new(&dims)?)
    }
    /// The losses of the targets, reduced: weighted, if they are not yet, and 0 for ignored ones. A
    /// mean divides by the sum of the weights of those that count.
    pub(super) fn reduce(&self, op: &str, losses: &V, weighed: bool, r: Reduction) -> Result<V> {
        not_by_batch(op, r)?;
        let losses = reshape::to_shape(losses, self.index.shape())?;
        let one = losses.scalar_like(1.0)?;
        let w = if weighed { &one } else { &self.weight };
        let x = [&self.kept, w, &losses];
        match r {
            Reduction::None | Reduction::Sum | Reduction::BatchMean => reduce(Counted, x, r),
            Reduction::Mean => {
                let weights = reduce(Counted, [&self.kept, &self.weight, &one], Reduction::Sum)?;
                div(&reduce(Counted, x, Reduction::Sum)?, &weights)
            }
        }
    }
}

/// x summed over the axis of classes, which stays.
pub(super) fn over_classes<V: Value>(x: &V, axis: usize) -> Result<V> {
    sum(x, Some(&[axis as isize]), true)
}
