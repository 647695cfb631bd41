//! cross_entropy: the negative log-likelihood of classes, given logits.
//!
//! The log-probabilities are not materialised: each row's loss is a statistic of its logits. All
//! statistics are of x - max, so large logits lose no digits.

use super::classes::{Targets, check_weight, class_axis, over_classes};
use super::reduction::{Reduced, Reduction, reduce, reduction, same_shape};
use super::{eq, log_softmax, mul, neg, reshape, softmax, sub};
use crate::prelude::*;
use elinvar_core::host;
use crate::rows::{STATS, stands_in};
use crate::value::cast;

/// -log softmax(x) of the element whose class is the target's; operands x, the number of each
/// class, and the target's.
///
/// Statistics: the maximum, the sum of exp(x - maximum), x - maximum of the target's class. The
/// target is matched by class number inside the formula, which avoids the memory traffic of a
/// one-hot mask of all elements.
#[derive(Clone, Copy, Debug)]
pub struct HardLoss;

/// The gradient of [`HardLoss`] by x, from (x, class, target, g): (softmax(x) - mark) g, where mark
/// is 1 for the target's class, else 0.
#[derive(Clone, Copy, Debug)]
pub struct HardLossGrad;

/// -sum(q log softmax(x)), with operands x and q.
///
/// Statistics: the maximum, log of the sum of exp(x - maximum), the result.
#[derive(Clone, Copy, Debug)]
pub struct SoftLoss;

/// The same with q from the number of each class, the target's, and the weight of each class;
/// operands x and these three.
#[derive(Clone, Copy, Debug)]
pub struct SmoothLoss(Smooth);

/// The gradient of [`SmoothLoss`] by x, from its operands and g: (softmax(x) sum(q) - q) g.
///
/// Statistics: the maximum, 1 / the sum of exp(x - maximum), the sum of q.
#[derive(Clone, Copy, Debug)]
pub struct SmoothLossGrad(Smooth);

/// 1 for the target's class, else 0.
#[inline(always)]
fn mark<L: Lane>(class: L, target: L) -> L {
    L::from_mask(class.eq(target))
}

impl RowFormula<3> for HardLoss {
    const NAME: &'static str = "cross_entropy";
    const FOLDS: &'static [Fold] = &[Fold::Max, Fold::Sum, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Once;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x, class, target]: [L; 3], s: [L; STATS], _: L) -> L {
        match k {
            0 => x,
            1 => (x - s[0]).exp(),
            _ => L::select(class.eq(target), x - s[0], L::lit(0.0)),
        }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 3], s: [L; STATS], _: L) -> L {
        s[1].log() - s[2]
    }
}
impl Rows<3> for HardLoss {
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        let (x, class, target) = (c.x(0), c.x(1), c.x(2));
        let dx = c.want(0, || {
            if V::TRACKS {
                mul(&sub(&softmax(x, axes[0] as isize)?, &cast(&eq(class, target)?, x.dtype())?)?, g)
            } else {
                rows(HardLossGrad, axes, [x, class, target, g])
            }
        })?;
        Ok(vec![dx, None, None])
    }
}
compile_rows! { 3 HardLoss; }

impl RowFormula<4> for HardLossGrad {
    const NAME: &'static str = "cross_entropy_grad";
    const FOLDS: &'static [Fold] = &[Fold::Max, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Each;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x, ..]: [L; 4], s: [L; STATS], _: L) -> L {
        if k == 0 { x } else { (x - s[0]).exp() }
    }
    /// As softmax does.
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], _: L) -> L {
        if k == 0 { folded } else { L::lit(1.0) / folded }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, [x, class, target, g]: [L; 4], s: [L; STATS], _: L) -> L {
        ((x - s[0]).exp() * s[1] - mark(class, target)) * g
    }
}
impl Rows<4> for HardLossGrad {
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        stands_in(<Self as RowFormula<4>>::NAME)
    }
}
compile_rows! { 4 HardLossGrad; }

/// The terms of [`SoftLoss`].
#[inline(always)]
fn soft_term<L: Lane>(k: usize, x: L, q: L, s: [L; STATS]) -> L {
    match k {
        0 => x,
        1 => (x - s[0]).exp(),
        _ => q * (s[1] - (x - s[0])),
    }
}

impl RowFormula<2> for SoftLoss {
    const NAME: &'static str = "cross_entropy";
    const FOLDS: &'static [Fold] = &[Fold::Max, Fold::Sum, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Once;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x, q]: [L; 2], s: [L; STATS], _: L) -> L {
        soft_term(k, x, q, s)
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], _: L) -> L {
        if k == 1 { folded.log() } else { folded }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 2], s: [L; STATS], _: L) -> L {
        s[2]
    }
}
impl Rows<2> for SoftLoss {
    /// dx = g (softmax(x) sum(q) - q), dq = -g log softmax(x)
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        let (x, q) = (c.x(0), c.x(1));
        let dx = c.want(0, || soft_gradient(x, q, axes[0], g))?;
        Ok(vec![dx, c.want(1, || wanted_gradient(x, axes[0], g))?])
    }
}
compile_rows! { 2 SoftLoss; }

/// The gradient of [`SoftLoss`] by x.
fn soft_gradient<V: Value>(x: &V, q: &V, axis: usize, g: &V) -> Result<V> {
    mul(&sub(&mul(&softmax(x, axis as isize)?, &over_classes(q, axis)?)?, q)?, g)
}

/// The gradient of [`SoftLoss`] by q.
fn wanted_gradient<V: Value>(x: &V, axis: usize, g: &V) -> Result<V> {
    mul(&neg(&log_softmax(x, axis as isize)?)?, g)
}

impl RowFormula<4> for SmoothLoss {
    const NAME: &'static str = "cross_entropy";
    const FOLDS: &'static [Fold] = &[Fold::Max, Fold::Sum, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Once;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x, class, target, w]: [L; 4], s: [L; STATS], _: L) -> L {
        soft_term(k, x, self.0.lane([mark(class, target), w]), s)
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], _: L) -> L {
        if k == 1 { folded.log() } else { folded }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 4], s: [L; STATS], _: L) -> L {
        s[2]
    }
}
impl Rows<4> for SmoothLoss {
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        let (x, class, target, w) = (c.x(0), c.x(1), c.x(2), c.x(3));
        // The target probability of a class with this weight.
        let wanted = |w: &V| map(self.0, [&cast(&eq(class, target)?, x.dtype())?, w]);
        let dx = c.want(0, || {
            if V::TRACKS {
                soft_gradient(x, &wanted(w)?, axes[0], g)
            } else {
                rows(SmoothLossGrad(self.0), axes, [x, class, target, w, g])
            }
        })?;
        let dw = c.want(3, || mul(&wanted_gradient(x, axes[0], g)?, &wanted(&x.scalar_like(1.0)?)?))?;
        Ok(vec![dx, None, None, dw])
    }
}
compile_rows! { 4 SmoothLoss; }

impl RowFormula<5> for SmoothLossGrad {
    const NAME: &'static str = "cross_entropy_grad";
    const FOLDS: &'static [Fold] = &[Fold::Max, Fold::Sum, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Each;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x, class, target, w, _]: [L; 5], s: [L; STATS], _: L) -> L {
        match k {
            0 => x,
            1 => (x - s[0]).exp(),
            _ => self.0.lane([mark(class, target), w]),
        }
    }
    /// As softmax does.
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], _: L) -> L {
        if k == 1 { L::lit(1.0) / folded } else { folded }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, [x, class, target, w, g]: [L; 5], s: [L; STATS], _: L) -> L {
        let q = self.0.lane([mark(class, target), w]);
        ((x - s[0]).exp() * s[1] * s[2] - q) * g
    }
}
impl Rows<5> for SmoothLossGrad {
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        stands_in(<Self as RowFormula<5>>::NAME)
    }
}
compile_rows! { 5 SmoothLossGrad; }

/// The target probability of a class, smoothed, times its weight: (q (1 - smoothing) + each) w
#[derive(Clone, Copy, Debug)]
struct Smooth {
    smoothing: f64,
    each: f64,
}

impl Map<2> for Smooth {
    const NAME: &'static str = "cross_entropy";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [q, w]: [L; 2]) -> L {
        q.fma(L::lit(1.0 - self.smoothing), L::lit(self.each)) * w
    }
}
compile_map! { 2 Smooth; }

/// The loss of a row, unchanged.
#[derive(Clone, Copy, Debug)]
struct Same;

impl Map<1> for Same {
    const NAME: &'static str = "cross_entropy";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x
    }
}
compile_map! { 1 Same; }
compile_rows! { 1 Reduced<Same>; }

/// The cross entropy of the target distribution and softmax(x), reduced.
///
/// * x: logits [n, c, ..] or \[c\]
/// * target: class indices [n, ..] or [], of integers; or probabilities, of x's shape and dtype
/// * weight: \[c\]
/// * losses: [n, ..] or []
///
/// Indices: the loss is -weight\[target\] log softmax(x)\[target\]; targets equal to `ignore_index`
/// are left out, with a loss of 0; a mean divides by the weights. Probabilities: -sum over c of
/// weight\[c\] target\[c\] log softmax(x)\[c\]; a mean divides by the number of rows.
/// `label_smoothing` mixes this share of a uniform distribution into the target. Storage floats run
/// in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch`; `InvalidArgument` if a target is neither a class nor ignored, `label_smoothing`
/// is not in 0..=1, or a class is to be ignored with probabilities; `DTypeMismatch`;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn cross_entropy<V: Value>(
    x: &V,
    target: &V,
    weight: Option<&V>,
    ignore_index: i64,
    reduction: Reduction,
    label_smoothing: f64,
) -> Result<V> {
    let op = "cross_entropy";
    autocast!(op, x, target; weight =>
        cross_entropy(x, target, weight, ignore_index, reduction, label_smoothing));
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
    let smoothed = Smooth { smoothing: label_smoothing, each: label_smoothing / classes as f64 };
    let class_weight = || match &weight {
        Some(w) => column(w),
        None => x.scalar_like(1.0),
    };
    // The target distribution: smoothed, and weighted.
    let soft = |q: V| -> Result<V> {
        if label_smoothing == 0.0 && weight.is_none() {
            return Ok(q);
        }
        map(smoothed, [&q, &class_weight()?])
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
        let losses = rows(SoftLoss, &[axis], [&x, &soft(wide(target)?)?])?;
        let losses = reshape::to_shape(&losses, &x.shape().without(&[axis], false))?;
        return cast(&reduce(Same, [&losses], reduction)?, dtype);
    }
    let targets = Targets::new(op, &x, target, weight.as_ref(), ignore_index)?;
    let (class, wanted) = numbers(op, &x, &targets, column)?;
    let smooth = label_smoothing != 0.0;
    let losses = if smooth {
        rows(SmoothLoss(smoothed), &[axis], [&x, &class, &wanted, &class_weight()?])?
    } else {
        rows(HardLoss, &[axis], [&x, &class, &wanted])?
    };
    cast(&targets.reduce(op, &losses, smooth, reduction)?, dtype)
}

/// The number of each class, along the axis of classes, and that of each target: distinct values of
/// x's dtype.
///
/// # Errors
/// `InvalidArgument` for more classes than there are such numbers; `OutOfMemory`.
fn numbers<V: Value>(
    op: &str,
    x: &V,
    targets: &Targets<V>,
    column: impl Fn(&V) -> Result<V>,
) -> Result<(V, V)> {
    let classes = x.shape()[targets.axis];
    // Whole numbers are exact up to 2^24 only. All floats from the smallest normal one on are
    // distinct.
    let class = if x.dtype() == DType::F32 {
        let (first, end) = (f32::MIN_POSITIVE.to_bits(), f32::INFINITY.to_bits());
        if classes > (end - first) as usize {
            return Err(Error::argument(format!("{op}: {classes} classes are more than there are numbers in f32")));
        }
        Array::from_vec(x.device(), host::collected((0..classes).map(|i| f32::from_bits(first + i as u32)))?, &[classes])
    } else {
        let first = f64::MIN_POSITIVE.to_bits();
        Array::from_vec(x.device(), host::collected((0..classes).map(|i| f64::from_bits(first + i as u64)))?, &[classes])
    };
    let class = V::from_array(class?);
    let wanted = reshape::to_shape(&targets.of_class(&class)?, targets.column()?.shape())?;
    Ok((column(&class)?, wanted))
}

/// By name: operands x, target, weight if there is one; attributes reduction, ignore_index and
/// label_smoothing.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, target, weight) = (a.input("x")?, a.input("target")?, a.optional("weight"));
    let (ignore, smoothing) = (a.int("ignore_index")?, a.f64("label_smoothing")?);
    Ok(vec![cross_entropy(x, target, weight, ignore, reduction(a)?, smoothing)?])
}
