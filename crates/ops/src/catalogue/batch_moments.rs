//! batch_norm in training: the mean and variance of each channel, computed once, and used for the
//! values, the running statistics and the gradient.
//!
//! The row-wise formula of [`super::normalize`] recomputes them wherever they are needed, while a
//! row is in cache. A channel of a batch does not fit in cache: each pass over it reads memory. So
//! here they are operands, computed in one pass, and the sums over a channel in the gradient are
//! shared by x, weight and bias.

use super::normalize::{Normalize, Spread, grow, inverse_root, shrink, signed};
use super::{div, mean, mul, select, sub, sum};
use crate::array;
use crate::op::Outputs;
use crate::prelude::*;
use crate::rows::{STATS, stands_in};

/// (x - mean) * spread; times a weight if there are four operands; plus a bias if there are five.
#[derive(Clone, Copy, Debug)]
struct ByMoments;

impl<const N: usize> Map<N> for ByMoments {
    const NAME: &'static str = "batch_norm";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, x: [L; N]) -> L {
        let y = (x[0] - x[1]) * x[2];
        match N {
            3 => y,
            4 => y * x[3],
            _ => y.fma(x[3], x[4]),
        }
    }
}
compile_map! { 3 ByMoments; 4 ByMoments; 5 ByMoments; }

/// The mean of a row and the sum of (x - mean)^2, while the row is in cache; x - mean is made
/// smaller before it is squared ([`shrink`]).
#[derive(Clone, Copy, Debug)]
struct MeanAndSquares {
    eps: f64,
}

impl RowFormula<1> for MeanAndSquares {
    const NAME: &'static str = "batch_norm";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Sum];
    const OUT: RowOut = RowOut::Statistics;
    const PLAIN: bool = true;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x]: [L; 1], s: [L; STATS], _: L) -> L {
        let d = (x - s[0]) * shrink(self.eps);
        if k == 0 { x } else { d * d }
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], n: L) -> L {
        if k == 0 { folded / n } else { folded }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 1], s: [L; STATS], _: L) -> L {
        s[1]
    }
}
impl Rows<1> for MeanAndSquares {
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        Err(Error::autograd("batch_norm: its statistics are part of its own gradient"))
    }
}
compile_rows! { 1 MeanAndSquares; }

/// 1 / sqrt(squares / n + eps)
#[derive(Clone, Copy, Debug)]
struct SpreadOf {
    n: f64,
    eps: f64,
}

impl Map<1> for SpreadOf {
    const NAME: &'static str = "batch_norm";
    #[inline(always)]
    fn lane<L: Lane>(&self, [squares]: [L; 1]) -> L {
        inverse_root(squares, L::lit(self.n), self.eps)
    }
}
compile_map! { 1 SpreadOf; }

/// squares / (n - 1)
#[derive(Clone, Copy, Debug)]
struct VarianceOf {
    n: f64,
    eps: f64,
}

impl Map<1> for VarianceOf {
    const NAME: &'static str = "batch_norm";
    #[inline(always)]
    fn lane<L: Lane>(&self, [squares]: [L; 1]) -> L {
        let back = grow::<L>(self.eps);
        squares / (L::lit(self.n) - L::lit(1.0)).max(L::lit(0.0)) * back * back
    }
}
compile_map! { 1 VarianceOf; }

/// The sum of g over a row, and that of g times normalized x, while the row is in cache, from (g,
/// x, mean, spread).
#[derive(Clone, Copy, Debug)]
struct Sums;

impl RowFormula<4> for Sums {
    const NAME: &'static str = "batch_norm";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Sum];
    const OUT: RowOut = RowOut::Statistics;
    const PLAIN: bool = true;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [g, x, mean, spread]: [L; 4], _: [L; STATS], _: L) -> L {
        if k == 0 { g } else { g * ((x - mean) * spread) }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 4], s: [L; STATS], _: L) -> L {
        s[1]
    }
}
impl Rows<4> for Sums {
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        stands_in("batch_norm")
    }
}
compile_rows! { 4 Sums; }

/// The gradient by x from (x, g, mean, spread, the mean of g, the mean of g times normalized x):
/// the rest of g, times spread; the weight is a factor of all of it.
#[derive(Clone, Copy, Debug)]
struct Left;

impl Map<6> for Left {
    const NAME: &'static str = "batch_norm";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, g, mean, factor, level, slope]: [L; 6]) -> L {
        ((g - level) - (x - mean) * slope) * factor
    }
}
compile_map! { 6 Left; }

/// A channel's sums as the gradient uses them: sum / n, and for the slope times spread.
#[derive(Clone, Copy, Debug)]
struct Share {
    n: f64,
}

impl<const N: usize> Map<N> for Share {
    const NAME: &'static str = "batch_norm";
    #[inline(always)]
    fn lane<L: Lane>(&self, x: [L; N]) -> L {
        let share = x[0] / L::lit(self.n);
        if N == 1 { share } else { share * x[1] }
    }
}
compile_map! { 1 Share; 2 Share; }

/// x normalized by the mean and the spread of its channels, which are operands, with an optional
/// weight and bias: an op of (x, mean, spread, weight, bias). Its gradient is that of x normalized,
/// with mean and spread as functions of x.
#[derive(Clone, Debug)]
struct Normalized {
    /// The axes of a channel.
    axes: Dims,
    eps: f64,
}

impl Op for Normalized {
    fn name(&self) -> &'static str {
        "batch_norm"
    }

    fn saves(&self, _: DType) -> Saves {
        Saves::INPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok(Outputs::from_buf([match *x {
            [x, m, r] => array::map(&ByMoments, [x, m, r])?,
            [x, m, r, w] => array::map(&ByMoments, [x, m, r, w])?,
            [x, m, r, w, b] => array::map(&ByMoments, [x, m, r, w, b])?,
            _ => unreachable!("three operands, a weight, a bias"),
        }]))
    }
    /// With y = normalized x: dbias = sum(g), dweight = sum(g y), dx = (g - dbias / n - y dweight /
    /// n) weight spread.
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("it has one result");
        let (x, axes) = (c.x(0), &self.axes[..]);
        let n = axes.iter().map(|&a| x.shape()[a]).product::<usize>() as f64;
        let (level, slope, dx) = if V::TRACKS {
            let level = sum(g, Some(&signed(axes)), true)?;
            let y = rows(Normalize { eps: self.eps }, axes, [x])?;
            let slope = sum(&mul(g, &y)?, Some(&signed(axes)), true)?;
            let dx = c.want(0, || {
                let share = |v: &V| div(v, &v.scalar_like(n)?);
                let spread = rows(Spread { eps: self.eps }, axes, [x])?;
                let along = mul(&share(&slope)?, &spread)?;
                let off = sub(x, &mean(x, Some(&signed(axes)), true)?)?;
                let left = sub(&sub(g, &share(&level)?)?, &mul(&off, &along)?)?;
                mul(&left, &if c.len() > 3 { mul(&spread, c.x(3))? } else { spread })
            })?;
            (level, slope, dx)
        } else {
            let (m, r) = (c.x(1), c.x(2));
            let both = rows(Sums, axes, [g, x, m, r])?;
            let [level, slope] = [select(&both, -1, 0)?, select(&both, -1, 1)?];
            let dx = c.want(0, || {
                let share = Share { n };
                let by = array::map(&share, [level.array()])?;
                let along = array::map(&share, [slope.array(), r.array()])?;
                let factor = if c.len() > 3 { mul(r, c.x(3))? } else { r.clone() };
                let all = [x.array(), g.array(), m.array(), factor.array(), &by, &along];
                array::map(&Left, all).map(V::from_array)
            })?;
            (level, slope, dx)
        };
        let mut all = vec![dx, None, None];
        for (i, v) in [slope, level].into_iter().enumerate().take(c.len() - 3) {
            all.push(c.want(3 + i, || super::reshape::to_shape(&v, c.shape(3 + i)))?);
        }
        Ok(all)
    }
}

/// The result of [`batch_moments`].
pub(super) struct Moments<V> {
    /// The normalized values.
    pub(super) y: V,
    /// The mean of each channel.
    pub(super) mean: V,
    /// The unbiased variance of each channel (divided by one less than the number of elements).
    pub(super) variance: V,
}

/// `x` normalized over `axes`, then weight and bias, which broadcast against x; not
/// a storage float.
///
/// # Errors
/// `ShapeMismatch`, `DTypeMismatch`, `DeviceMismatch`, `OutOfMemory`.
pub(super) fn batch_moments<V: Value>(
    x: &V,
    axes: &[usize],
    weight: Option<&V>,
    bias: Option<&V>,
    eps: f64,
) -> Result<Moments<V>> {
    let n = axes.iter().map(|&a| x.shape()[a]).product::<usize>() as f64;
    let numbers = x.detached();
    let both = rows(MeanAndSquares { eps }, axes, [&numbers])?;
    let [mean, squares] = [select(&both, -1, 0)?, select(&both, -1, 1)?];
    let of = |a: Array<V::B>| V::from_array(a);
    let spread = of(array::map(&SpreadOf { n, eps }, [squares.array()])?);
    let variance = of(array::map(&VarianceOf { n, eps }, [squares.array()])?);
    let op = Normalized { axes: Dims::from_slice(axes), eps };
    let y = match (weight, bias) {
        (None, None) => V::apply(op, &[x, &mean, &spread]),
        (Some(w), None) => V::apply(op, &[x, &mean, &spread, w]),
        (Some(w), Some(b)) => V::apply(op, &[x, &mean, &spread, w, b]),
        (None, Some(b)) => V::apply(op, &[x, &mean, &spread, &x.scalar_like(1.0)?, b]),
    }?;
    Ok(Moments { y, mean, variance })
}
