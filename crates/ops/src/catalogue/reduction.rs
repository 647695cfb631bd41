//! Shared by all losses: a formula per element, and the reduction of its values.
//!
//! Mean and sum run in one pass: the formula is the term of a fold, and the elementwise losses are
//! not materialised.

use super::{div::div, reshape};
use crate::array;
use crate::map::Pointwise;
use crate::prelude::*;
use crate::rows::STATS;
use crate::value::broadcast;

/// The reduction of the elementwise losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// None.
    None,
    /// Their mean; for losses of classes the weighted mean.
    Mean,
    /// Their sum.
    Sum,
    /// Their sum divided by the size of the first axis. For `kl_div` alone.
    BatchMean,
}

impl Reduction {
    /// By its name: none, mean, sum, batchmean.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such reduction.
    pub fn parse(op: &str, name: &str) -> Result<Self> {
        match name {
            "none" => Ok(Reduction::None),
            "mean" => Ok(Reduction::Mean),
            "sum" => Ok(Reduction::Sum),
            "batchmean" => Ok(Reduction::BatchMean),
            other => Err(Error::argument(format!(
                "{op}: there is no reduction {other}; there are none, mean, sum and batchmean"
            ))),
        }
    }
}

/// The attribute reduction.
pub(super) fn reduction<V: Value>(a: &Args<V>) -> Result<Reduction> {
    Reduction::parse(&a.op, a.str("reduction")?)
}

/// The sum of a map's values over a row, divided by a number.
///
/// The map's gradient must not read the map's result: here that is a sum.
#[derive(Clone, Copy, Debug)]
pub struct Reduced<M> {
    /// The formula of an element.
    pub map: M,
    /// What the sum is divided by.
    pub divisor: f64,
}

impl<M: Map<N>, const N: usize> RowFormula<N> for Reduced<M> {
    const NAME: &'static str = M::NAME;
    const FOLDS: &'static [Fold] = &[Fold::Sum];
    const OUT: RowOut = RowOut::Once;

    #[inline(always)]
    fn term<L: Lane>(&self, _: usize, x: [L; N], _: [L; STATS], _: L) -> L {
        self.map.lane(x)
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; N], s: [L; STATS], _: L) -> L {
        s[0] / L::lit(self.divisor)
    }
}
impl<M: CompiledMap<N>, const N: usize> Rows<N> for Reduced<M>
where
    Reduced<M>: CompiledRows<N>,
{
    /// The gradient of the map, with g / divisor at every element.
    fn backward<V: Value>(&self, _: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        const { assert!(!M::SAVES.outputs, "the gradient of a reduced map reads operands only") }
        let shape = (1..N).try_fold(c.shape(0).clone(), |s, i| s.broadcast(c.shape(i), M::NAME))?;
        let each = broadcast(&div(g, &g.scalar_like(self.divisor)?)?, &shape)?;
        Pointwise::of(self.map).backward(c, &[Some(each)])
    }
}

/// A map's values, reduced. Operands broadcast; storage floats run in f32 and are rounded once.
///
/// # Errors
/// `InvalidArgument` for [`Reduction::BatchMean`]; `ShapeMismatch`, `DTypeMismatch`,
/// `DeviceMismatch`, `OutOfMemory`.
pub(super) fn reduce<V: Value, M: CompiledMap<N>, const N: usize>(m: M, x: [&V; N], r: Reduction) -> Result<V>
where
    Reduced<M>: CompiledRows<N>,
{
    not_by_batch(M::NAME, r)?;
    reduce_any(m, x, r)
}

/// Refuses the reduction that one loss alone has.
///
/// # Errors
/// `InvalidArgument` for [`Reduction::BatchMean`].
pub fn not_by_batch(op: &str, r: Reduction) -> Result<()> {
    match r {
        Reduction::None | Reduction::Mean | Reduction::Sum => Ok(()),
        Reduction::BatchMean => Err(Error::argument(format!(
            "{op}: there is no reduction batchmean but of kl_div; there are none, mean and sum"
        ))),
    }
}

/// [`reduce`], also by batch.
///
/// # Errors
/// `ShapeMismatch`, `DTypeMismatch`, `DeviceMismatch`, `OutOfMemory`.
pub(super) fn reduce_any<V: Value, M: CompiledMap<N>, const N: usize>(
    m: M,
    x: [&V; N],
    r: Reduction,
) -> Result<V>
where
    Reduced<M>: CompiledRows<N>,
{
    let shape = array::broadcast_shape(M::NAME, &x.map(|v| v.array()))?;
    let divisor = match r {
        Reduction::None => return map(m, x),
        Reduction::Mean => shape.numel(),
        Reduction::Sum => 1,
        Reduction::BatchMean => shape.first().copied().unwrap_or(1),
    };
    let axes: Dims = (0..shape.rank()).collect();
    let y = rows(Reduced { map: m, divisor: divisor as f64 }, &axes, x)?;
    reshape::to_shape(&y, &Shape::scalar())
}

/// A map's values times a weight, the last operand.
#[derive(Clone, Copy, Debug)]
pub struct Weighted<M>(pub M);

impl<M: Map<2>> Map<3> for Weighted<M> {
    const NAME: &'static str = M::NAME;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, t, w]: [L; 3]) -> L {
        w * self.0.lane([x, t])
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, t, w]: [L; 3], _: L, g: L) -> L {
        if i == 2 { g * self.0.lane([x, t]) } else { self.0.vjp(i, [x, t], L::lit(f64::NAN), g * w) }
    }
}

impl<M: Map<3>> Map<4> for Weighted<M> {
    const NAME: &'static str = M::NAME;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, t, p, w]: [L; 4]) -> L {
        w * self.0.lane([x, t, p])
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, t, p, w]: [L; 4], _: L, g: L) -> L {
        if i == 3 { g * self.0.lane([x, t, p]) } else { self.0.vjp(i, [x, t, p], L::lit(f64::NAN), g * w) }
    }
}

compile_map! {
    3 Weighted<super::binary_cross_entropy::BinaryCrossEntropy>;
    3 Weighted<super::binary_cross_entropy_with_logits::BinaryCrossEntropyWithLogits>;
    4 Weighted<super::binary_cross_entropy_with_logits::BinaryCrossEntropyWithLogits>;
}
compile_rows! {
    3 Reduced<Weighted<super::binary_cross_entropy::BinaryCrossEntropy>>;
    3 Reduced<Weighted<super::binary_cross_entropy_with_logits::BinaryCrossEntropyWithLogits>>;
    4 Reduced<Weighted<super::binary_cross_entropy_with_logits::BinaryCrossEntropyWithLogits>>;
}

/// -1, 0 or 1; 0 and NaN stay what they are.
#[inline(always)]
pub(super) fn sign<L: Lane>(x: L) -> L {
    let zero = L::lit(0.0);
    L::select(x.gt(zero), L::lit(1.0), L::select(x.lt(zero), L::lit(-1.0), x))
}

/// Checks that a target has the shape of the input.
///
/// # Errors
/// `ShapeMismatch`.
pub(super) fn same_shape<V: Value>(op: &str, x: &V, target: &V) -> Result<()> {
    if x.shape() == target.shape() {
        return Ok(());
    }
    Err(Error::shape(format!(
        "{op}: target {} should have the shape of the input, {}",
        target.shape(),
        x.shape()
    )))
}
