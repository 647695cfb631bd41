//! var: the mean squared distance from the mean, in two passes, so that a large mean causes no
//! cancellation. Distances whose squares would overflow or become subnormal are multiplied by a
//! power of two before they are squared, and the result by the inverse of its square.

use super::{mul, sum};
use crate::math::exact_power;
use crate::prelude::*;
use crate::rows::STATS;

/// Statistics: the mean, the power of two c by which distances are multiplied, then the sum of ((x
/// - mean) c)^2.
#[derive(Clone, Copy, Debug)]
pub struct Var {
    /// Subtracted from the number of elements in the divisor.
    pub correction: f64,
}

impl RowFormula<1> for Var {
    const NAME: &'static str = "var";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Max, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Once;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x]: [L; 1], s: [L; STATS], _: L) -> L {
        let distance = x - s[0];
        match k {
            0 => x,
            1 => distance.abs(),
            _ => (distance * s[1]) * (distance * s[1]),
        }
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], n: L) -> L {
        match k {
            0 => folded / n,
            1 => level(folded),
            _ => folded,
        }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 1], s: [L; STATS], n: L) -> L {
        let back = L::lit(1.0) / s[1];
        self.mean_square(s, n) * back * back
    }
}

impl Var {
    /// The variance times c^2.
    #[inline(always)]
    pub(super) fn mean_square<L: Lane>(&self, s: [L; STATS], n: L) -> L {
        s[2] / (n - L::lit(self.correction)).max(L::lit(0.0))
    }
}

/// The power of two for numbers of which this is the largest: 1 unless their squares, or sums of
/// them, could leave the range of the type.
#[inline(always)]
fn level<L: Lane>(largest: L) -> L {
    // Of f32, numbers from 2^40 to 2^128 become 2^-40 to 2^48, and those from 2^-149 to 2^-40
    // become 2^-69 to 2^40.
    let (bound, power) = if L::BITS == 32 { (40, 80) } else { (300, 600) };
    let is_small = largest.lt(L::lit(exact_power(-bound))) & largest.gt(L::lit(0.0));
    let up = L::select(is_small, L::lit(exact_power(power)), L::lit(1.0));
    L::select(largest.gt(L::lit(exact_power(bound))), L::lit(exact_power(-power)), up)
}

impl Rows<1> for Var {
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        let scale = 2.0 / divisor(c.shape(0), axes, self.correction);
        Ok(vec![Some(centered(axes, c.x(0), g, scale)?)])
    }
}
compile_rows! { 1 Var; }

/// The divisor in the gradient of the sum of squares. (Not clamped: where the variance is NaN, it
/// does not matter.)
pub(super) fn divisor(shape: &Shape, axes: &[usize], correction: f64) -> f64 {
    sum::row_len(shape, axes) as f64 - correction
}

/// scale * g * (x - mean of x): how the statistics of second order depend on x.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn centered<V: Value>(axes: &[usize], x: &V, g: &V, scale: f64) -> Result<V> {
    rows(Centered { scale }, axes, [x, g])
}

/// Statistic: the mean of x.
#[derive(Clone, Copy, Debug)]
pub struct Centered {
    /// A constant factor.
    pub scale: f64,
}

impl RowFormula<2> for Centered {
    const NAME: &'static str = "centered";
    const FOLDS: &'static [Fold] = &[Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Each;

    #[inline(always)]
    fn term<L: Lane>(&self, _: usize, [x, _]: [L; 2], _: [L; STATS], _: L) -> L {
        x
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, _: usize, folded: L, _: [L; STATS], n: L) -> L {
        folded / n
    }
    #[inline(always)]
    fn out<L: Lane>(&self, [x, g]: [L; 2], s: [L; STATS], _: L) -> L {
        g * L::lit(self.scale) * (x - s[0])
    }
}
impl Rows<2> for Centered {
    /// With h for the gradient: dx = scale (g h - mean of g h), dg = scale h (x - mean of x).
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, h: &V) -> Result<Vec<Option<V>>> {
        let dx = c.want(0, || centered(axes, &mul(h, c.x(1))?, &h.scalar_like(1.0)?, self.scale))?;
        let dg = c.want(1, || centered(axes, c.x(0), h, self.scale))?;
        Ok(vec![dx, dg])
    }
}
compile_rows! { 2 Centered; }

/// The variance over `dims` (all axes if `None` or empty): the sum of squared distances from the
/// mean, divided by max(0, N - correction).
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `DTypeMismatch` if x is not of floats;
/// `OutOfMemory`.
pub fn var<V: Value>(x: &V, dims: Option<&[isize]>, correction: f64, keepdim: bool) -> Result<V> {
    let axes = sum::axes("var", x.shape(), dims)?;
    sum::drop_axes(rows(Var { correction }, &axes, [x])?, &axes, keepdim)
}

/// By name: operand x; attributes dim (null, an axis or a list), correction and keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    Ok(vec![var(a.input("x")?, dims.as_deref(), a.f64("correction")?, a.bool("keepdim")?)?])
}
