//! norm: the vector p-norm, (sum |x|^p)^(1/p); the largest or smallest magnitude for p = inf
//! and -inf; for p = 0 how many elements are not zero. The gradient of a norm that is 0 is 0.
//! Powers are summed as they are: magnitudes whose p-th power leaves the range of the type (1e19
//! squared, in f32) give inf or 0.

use super::{abs, amax, sum};
use crate::fold;
use crate::prelude::*;
use crate::rows::STATS;

/// Statistic: the sum of |x|^p. p is finite.
#[derive(Clone, Copy, Debug)]
pub struct Norm {
    /// The power.
    pub p: f64,
}

/// g * dy/dx = g * sign(x) * (|x| / y)^(p - 1), and 0 at x = 0 or y = 0.
#[derive(Clone, Copy, Debug)]
struct Slope {
    p: f64,
}

impl Map<3> for Slope {
    const NAME: &'static str = "norm";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y, g]: [L; 3]) -> L {
        let zero = L::lit(0.0);
        let ratio = x.abs() / y;
        let size = if self.p == 0.0 {
            zero
        } else if self.p == 1.0 {
            L::lit(1.0)
        } else if self.p == 2.0 {
            ratio
        } else if self.p == 3.0 {
            ratio * ratio
        } else {
            ratio.pow(L::lit(self.p - 1.0))
        };
        let flat = x.eq(zero) | y.eq(zero);
        L::select(flat, zero, g * size.copysign(x))
    }
}
compile_map! { 3 Slope; }

impl RowFormula<1> for Norm {
    const NAME: &'static str = "norm";
    const FOLDS: &'static [Fold] = &[Fold::Sum];
    const OUT: RowOut = RowOut::Once;
    const SAVES: Saves = Saves::BOTH;

    #[inline(always)]
    fn term<L: Lane>(&self, _: usize, [x]: [L; 1], _: [L; STATS], _: L) -> L {
        if self.p == 0.0 {
            L::from_mask(x.ne(L::lit(0.0)))
        } else if self.p == 1.0 {
            x.abs()
        } else if self.p == 2.0 {
            x * x
        } else if self.p == 3.0 {
            x.abs() * x.abs() * x.abs()
        } else {
            x.abs().pow(L::lit(self.p))
        }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 1], s: [L; STATS], _: L) -> L {
        if self.p == 0.0 || self.p == 1.0 {
            s[0]
        } else if self.p == 2.0 {
            s[0].sqrt()
        } else {
            s[0].pow(L::lit(1.0 / self.p))
        }
    }
}
impl Rows<1> for Norm {
    fn backward<V: Value>(&self, _: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        Ok(vec![Some(map(Slope { p: self.p }, [c.x(0), c.y(0), g])?)])
    }
}
compile_rows! { 1 Norm; }

/// The `p`-norm of `x` over `dims` (all axes if `None` or empty). For p = inf and -inf, equal
/// magnitudes share the gradient equally.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, p is NaN, or a row is empty and p is negative or
/// infinite; `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn norm<V: Value>(x: &V, p: f64, dims: Option<&[isize]>, keepdim: bool) -> Result<V> {
    let axes = sum::axes("norm", x.shape(), dims)?;
    if p.is_nan() {
        return Err(Error::argument("norm: p is NaN; it must be a number, inf or -inf"));
    }
    if !x.dtype().is_float() {
        return Err(Error::dtype(format!(
            "norm: not defined for {}; convert with to_dtype to a float type",
            x.dtype()
        )));
    }
    if p < 0.0 || p.is_infinite() {
        sum::not_empty("norm", x.shape(), &axes)?;
    }
    if p.is_infinite() {
        let x = abs(x)?;
        return if p > 0.0 {
            amax::run("norm", fold::Max, &x, dims, keepdim)
        } else {
            amax::run("norm", fold::Min, &x, dims, keepdim)
        };
    }
    sum::drop_axes(rows(Norm { p }, &axes, [x])?, &axes, keepdim)
}

/// By name: operand x; attributes p, dim (null, an axis or a list) and keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    Ok(vec![norm(a.input("x")?, a.f64("p")?, dims.as_deref(), a.bool("keepdim")?)?])
}
