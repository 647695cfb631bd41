//! var: the mean squared distance from the mean, in two passes, so that a large mean causes no
//! cancellation.

use super::{mul, sum};
use crate::prelude::*;
use crate::rows::STATS;

/// Statistics: the mean, then the sum of (x - mean)^2.
#[derive(Clone, Copy, Debug)]
pub struct Var {
    /// Subtracted from the number of elements in the divisor.
    pub correction: f64,
}

impl RowFormula<1> for Var {
    const NAME: &'static str = "var";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Once;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x]: [L; 1], s: [L; STATS], _: L) -> L {
        if k == 0 { x } else { (x - s[0]) * (x - s[0]) }
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], n: L) -> L {
        if k == 0 { folded / n } else { folded }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 1], s: [L; STATS], n: L) -> L {
        self.mean_square(s[1], n)
    }
}

impl Var {
    /// The variance from a sum of squares of `n` distances.
    #[inline(always)]
    pub(super) fn mean_square<L: Lane>(&self, sum: L, n: L) -> L {
        sum / (n - L::lit(self.correction)).max(L::lit(0.0))
    }
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
