//! quantile: the element at a fraction of the way through a sorted axis, between two neighbours
//! where that is none.

use super::{
    any, ceil, flatten, floor, gather, isnan, lerp, logical_not, masked_fill, maximum, movedim, mul, reshape, round, sort,
    sub, sum, view,
};
use crate::prelude::*;
use crate::value::{broadcast, cast};

/// What a quantile between two elements is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// On the line between the two.
    Linear,
    /// The one below.
    Lower,
    /// The one above.
    Higher,
    /// Half-way between the two.
    Midpoint,
    /// The nearer one; half-way, the one of even rank.
    Nearest,
}

impl Between {
    /// From the word for it.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none.
    pub fn parse(op: &str, word: &str) -> Result<Between> {
        Ok(match word {
            "linear" => Between::Linear,
            "lower" => Between::Lower,
            "higher" => Between::Higher,
            "midpoint" => Between::Midpoint,
            "nearest" => Between::Nearest,
            other => {
                return Err(Error::argument(format!(
                    "{op}: interpolation is {other}; it must be linear, lower, higher, midpoint or nearest"
                )));
            }
        })
    }
}

/// The quantiles for the op of this name, of all elements or of those that are not NaN.
///
/// # Errors
/// As [`quantile`].
pub(super) fn run<V: Value>(
    op: &str,
    x: &V,
    q: &V,
    dim: Option<isize>,
    keepdim: bool,
    between: Between,
    skip_nan: bool,
) -> Result<V> {
    autocast!(op, x, q => run(op, x, q, dim, keepdim, between, skip_nan));
    let wide = x.dtype().compute();
    if !x.dtype().is_float() || (q.dtype() != x.dtype() && q.dtype() != wide) || q.shape().rank() > 1 {
        return Err(Error::dtype(format!(
            "{op}: x is {} and q of shape {} is {}; both must be of one float type, and q a number or a vector",
            x.dtype(),
            q.shape(),
            q.dtype()
        )));
    }
    let q = cast(q, wide)?;
    widen([x], |[x]| wide_run(op, x, &q, dim, keepdim, between, skip_nan))
}

/// The same of f32 or f64.
fn wide_run<V: Value>(
    op: &str,
    x: &V,
    q: &V,
    dim: Option<isize>,
    keepdim: bool,
    between: Between,
    skip_nan: bool,
) -> Result<V> {
    let axis = dim.map(|d| x.shape().axis(op, d)).transpose()?;
    let rows = match axis {
        Some(axis) if x.shape().rank() > 0 => movedim(x, &[axis as isize], &[-1])?,
        _ => flatten::all(x)?,
    };
    let n = *rows.shape().last().expect("it has an axis");
    if n == 0 {
        return Err(Error::argument(format!("{op}: the axis of shape {} is empty", x.shape())));
    }
    let (sorted, _) = sort(&rows, -1, false)?;
    let nan = isnan(&rows.detached())?;
    let number = q.shape().rank() == 0;
    let q = reshape(&q.detached(), &[-1])?;
    let k = q.shape().numel();
    let mut ranks = Dims::from_slice(rows.shape());
    *ranks.last_mut().expect("it has an axis") = k;
    let ranks_shape = Shape::new(&ranks)?;
    let rank = if skip_nan {
        let count = sum(&cast(&logical_not(&nan)?, x.dtype())?, Some(&[-1]), true)?;
        let one = count.scalar_like(1.0)?;
        mul(&q, &maximum(&sub(&count, &one)?, &count.scalar_like(0.0)?)?)?
    } else {
        let last = n - 1;
        let all = broadcast(&mul(&q, &q.scalar_like(last)?)?, &ranks_shape)?;
        // The last one of a row with NaN is NaN.
        masked_fill(&all, &any(&nan, Some(&[-1]), true)?, Scalar::from(last))?
    };
    let at = |rank: &V| gather(&sorted, -1, &cast(rank, DType::I64)?).map_err(|e| e.at(op));
    let y = match between {
        Between::Lower => at(&floor(&rank)?)?,
        Between::Higher => at(&ceil(&rank)?)?,
        Between::Nearest => at(&round(&rank)?)?,
        Between::Linear | Between::Midpoint => {
            let below = floor(&rank)?;
            let way = match between {
                Between::Midpoint => view::full(&rank, rank.shape(), Scalar::Float(0.5))?,
                _ => sub(&rank, &below)?,
            };
            lerp(&at(&below)?, &at(&ceil(&rank)?)?, &way)?
        }
    };
    // [rows.., k]: k comes first, and goes if q is a number.
    let y = movedim(&y, &[-1], &[0])?;
    let mut dims = Dims::new();
    if !number {
        dims.push(k);
    }
    let all: Dims = (0..x.shape().rank()).collect();
    let reduced = axis.map_or(all, |axis| Dims::from_elem(axis, 1));
    let reduced: Dims = reduced.into_iter().filter(|&a| a < x.shape().rank()).collect();
    dims.extend(x.shape().without(&reduced, keepdim).iter().copied());
    reshape::to_shape(&y, &Shape::new(&dims)?)
}

/// The quantiles of `x` along `dim`, or of all elements: for each of `q`, fractions in 0..=1, a
/// number or a vector of the dtype of `x`, which is a first axis of the result then. NaN if there
/// is any in a row.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, it is empty, or a fraction is outside of 0..=1;
/// `DTypeMismatch` if x is not of floats, or q of another dtype; `DeviceMismatch`; `OutOfMemory`.
pub fn quantile<V: Value>(x: &V, q: &V, dim: Option<isize>, keepdim: bool, between: Between) -> Result<V> {
    run("quantile", x, q, dim, keepdim, between, false)
}

/// The operand q, or the attribute of this name: a number or a list.
pub(super) fn fractions<V: Value>(a: &Args<V>) -> Result<V> {
    if let Some(q) = a.optional("q") {
        return Ok(q.clone());
    }
    let x = a.input("x")?;
    let wide = x.dtype().compute();
    let Ok(list) = a.list("q") else {
        return Ok(V::from_array(Array::scalar(x.device(), a.scalar("q")?, wide)?));
    };
    let one = |v: &Attr| match v {
        Attr::Float(v) => Ok(*v),
        Attr::Int(v) => Ok(*v as f64),
        other => Err(Error::argument(format!("{}: {other:?} in q is no number", a.op))),
    };
    let all = list.iter().map(one).collect::<Result<Vec<f64>>>()?;
    let n = all.len();
    Ok(V::from_array(Array::from_f64s(x.device(), all, &[n], wide)?))
}

/// By name: operands x and q, or the attribute q, a number or a list; attributes dim (null: all
/// elements), keepdim (absent: false) and interpolation (absent: linear).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    named(a, false)
}

/// By name, for `quantile` and `nanquantile`.
pub(super) fn named<V: Value>(a: &Args<V>, skip_nan: bool) -> Result<Vec<V>> {
    let between = Between::parse(&a.op, a.maybe("interpolation", Args::str)?.unwrap_or("linear"))?;
    let keepdim = a.maybe("keepdim", Args::bool)?.unwrap_or(false);
    let dim = a.maybe("dim", Args::dim)?;
    Ok(vec![run(&a.op, a.input("x")?, &fractions(a)?, dim, keepdim, between, skip_nan)?])
}
