//! cross_entropy: the negative log-likelihood of classes whose logits are given.
//!
//! The log-probabilities never stand in memory: each row's loss is a statistic of its logits. All statistics are of
//! x - max, so large logits cost no digits.

use super::classes::{Targets, check_weight, class_axis, over_classes};
use super::reduction::{Reduction, reduce, reduction, same_shape};
use super::{eq, log_softmax, mul, neg, reshape, softmax, sub};
use crate::prelude::*;
use crate::rows::STATS;
use crate::value::cast;

/// -log softmax(x) of the element that is marked; operands x and a bool that marks one element of each row.
///
/// Statistics: the maximum, the sum of exp(x - maximum), x - maximum of the marked element.
#[derive(Clone, Copy, Debug)]
pub struct HardLoss;

/// The gradient of [`HardLoss`] by x, from (x, mark, g): (softmax(x) - mark) g.
#[derive(Clone, Copy, Debug)]
pub struct HardLossGrad;

/// -sum(q log softmax(x)), with operands x and q.
///
/// Statistics: the maximum, log of the sum of exp(x - maximum), the result.
#[derive(Clone, Copy, Debug)]
pub struct SoftLoss;

impl Rows<2> for HardLoss {
    const NAME: &'static str = "cross_entropy";
    const FOLDS: &'static [Fold] = &[Fold::Max, Fold::Sum, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Once;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x, mark]: [L; 2], s: [L; STATS], _: L) -> L {
        match k {
            0 => x,
            1 => (x - s[0]).exp(),
            _ => L::select(mark.to_mask(), x - s[0], L::lit(0.0)),
        }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 2], s: [L; STATS], _: L) -> L {
        s[1].log() - s[2]
    }
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        let (x, mark) = (c.x(0), c.x(1));
        let dx = c.want(0, || {
            if V::TRACKS {
                mul(&sub(&softmax(x, axes[0] as isize)?, &cast(mark, x.dtype())?)?, g)
            } else {
                rows(HardLossGrad, axes, [x, mark, g])
            }
        })?;
        Ok(vec![dx, None])
    }
}

impl Rows<3> for HardLossGrad {
    const NAME: &'static str = "cross_entropy_grad";
    const FOLDS: &'static [Fold] = &[Fold::Max, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Each;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x, ..]: [L; 3], s: [L; STATS], _: L) -> L {
        if k == 0 { x } else { (x - s[0]).exp() }
    }
    /// As softmax does.
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], _: L) -> L {
        if k == 0 { folded } else { L::lit(1.0) / folded }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, [x, mark, g]: [L; 3], s: [L; STATS], _: L) -> L {
        ((x - s[0]).exp() * s[1] - mark) * g
    }
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        Err(Error::autograd(
            "cross_entropy_grad: it stands in for the recorded gradient only where nothing records",
        ))
    }
}

impl Rows<2> for SoftLoss {
    const NAME: &'static str = "cross_entropy";
    const FOLDS: &'static [Fold] = &[Fold::Max, Fold::Sum, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Once;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x, q]: [L; 2], s: [L; STATS], _: L) -> L {
        match k {
            0 => x,
            1 => (x - s[0]).exp(),
            _ => q * (s[1] - (x - s[0])),
        }
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], _: L) -> L {
        if k == 1 { folded.log() } else { folded }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 2], s: [L; STATS], _: L) -> L {
        s[2]
    }
    /// dx = g (softmax(x) sum(q) - q), dq = -g log softmax(x)
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        let (x, q) = (c.x(0), c.x(1));
        let dim = axes[0] as isize;
        Ok(vec![
            c.want(0, || mul(&sub(&mul(&softmax(x, dim)?, &over_classes(q, axes[0])?)?, q)?, g))?,
            c.want(1, || mul(&neg(&log_softmax(x, dim)?)?, g))?,
        ])
    }
}

/// What a class should have, mixed with the same for all classes, times its weight: (q (1 - smoothing) + each) w
#[derive(Clone, Copy, Debug)]
struct Smooth {
    smoothing: f64,
    each: f64,
}

impl Map<2> for Smooth {
    const NAME: &'static str = "cross_entropy";
    const LIGHT: bool = true;
    #[inline(always)]
    fn lane<L: Lane>(&self, [q, w]: [L; 2]) -> L {
        q.fma(L::lit(1.0 - self.smoothing), L::lit(self.each)) * w
    }
}

/// The loss of a row as it is.
#[derive(Clone, Copy, Debug)]
struct Same;

impl Map<1> for Same {
    const NAME: &'static str = "cross_entropy";
    const LIGHT: bool = true;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x
    }
}

/// The cross entropy of the target distribution and softmax(x), reduced.
///
/// x: logits [n, c, ..] or \[c\]   weight: \[c\]   losses: [n, ..] or []   target: class indices [n, ..] or [], of
/// integers; or probabilities, of x's shape and dtype
///
/// Indices: the loss is -weight\[target\] log softmax(x)\[target\]; targets equal to `ignore_index` are left out, with a
/// loss of 0; a mean divides by the weights. Probabilities: -sum over c of weight\[c\] target\[c\] log softmax(x)\[c\]; a mean
/// divides by the number of rows. `label_smoothing` mixes that much of an even distribution into the target.
/// f16 and bf16 run in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch`; `InvalidArgument` if a target is neither a class nor left out, `label_smoothing` is not in 0..=1, or
/// a class is to be left out of probabilities; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn cross_entropy<V: Value>(
    x: &V,
    target: &V,
    weight: Option<&V>,
    ignore_index: i64,
    reduction: Reduction,
    label_smoothing: f64,
) -> Result<V> {
    let op = "cross_entropy";
    if !(0.0..=1.0).contains(&label_smoothing) {
        return Err(Error::argument(format!("{op}: label_smoothing is {label_smoothing}; it is in 0..=1")));
    }
    let dtype = x.dtype();
    let wide = |v: &V| cast(v, v.dtype().compute());
    let x = wide(x)?;
    let weight = weight.map(wide).transpose()?;
    let axis = class_axis(op, x.shape())?;
    let classes = x.shape()[axis];
    let column = |v: &V| {
        let mut dims = Dims::from_elem(1, x.shape().rank() - axis);
        dims[0] = classes;
        reshape::to_shape(v, &Shape::new(&dims)?)
    };
    // The target distribution: smoothed, and weighed.
    let soft = |q: &V| -> Result<V> {
        if label_smoothing == 0.0 && weight.is_none() && q.dtype() == x.dtype() {
            return Ok(q.clone());
        }
        let w = match &weight {
            Some(w) => column(w)?,
            None => x.scalar_like(1.0)?,
        };
        map(Smooth { smoothing: label_smoothing, each: label_smoothing / classes as f64 }, [q, &w])
    };
    if target.dtype().is_float() {
        if target.dtype() != dtype {
            return Err(Error::dtype(format!(
                "{op}: logits are {dtype} and target probabilities {}; convert one with to_dtype",
                target.dtype()
            )));
        }
        same_shape(op, &x, target)?;
        check_weight(op, weight.as_ref(), classes)?;
        if ignore_index >= 0 {
            return Err(Error::argument(format!(
                "{op}: ignore_index {ignore_index} with probabilities as targets, which have no class to leave out"
            )));
        }
        let losses = rows(SoftLoss, &[axis], [&x, &soft(&wide(target)?)?])?;
        let losses = reshape::to_shape(&losses, &x.shape().without(&[axis], false))?;
        return cast(&reduce(Same, [&losses], reduction)?, dtype);
    }
    let targets = Targets::new(op, &x, target, weight.as_ref(), ignore_index)?;
    let count = (0..classes as i64).collect::<Vec<_>>();
    let count = V::from_array(Array::from_vec(x.device(), count, &[classes])?);
    let mark = eq(&column(&count)?, &targets.column()?)?;
    let smooth = label_smoothing != 0.0;
    let losses = if smooth {
        rows(SoftLoss, &[axis], [&x, &soft(&mark)?])?
    } else {
        rows(HardLoss, &[axis], [&x, &mark])?
    };
    cast(&targets.reduce(op, &losses, smooth, reduction)?, dtype)
}

/// By name: operands x, target, weight if there is one; attributes reduction, ignore_index and label_smoothing.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, target, weight) = (a.input("x")?, a.input("target")?, a.optional("weight"));
    let (ignore, smoothing) = (a.int("ignore_index")?, a.f64("label_smoothing")?);
    Ok(vec![cross_entropy(x, target, weight, ignore, reduction(a)?, smoothing)?])
}
