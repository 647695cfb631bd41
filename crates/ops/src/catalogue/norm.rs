//! norm: the vector p-norm, (sum |x|^p)^(1/p); the largest or smallest magnitude for p = inf
//! and -inf; for p = 0 how many elements are not zero. The gradient of a norm that is 0 is 0.
//! Powers are summed as they are: magnitudes whose p-th power leaves the range of the type (1e19
//! squared, in f32) give inf or 0.

use super::{abs, amax, sum};
use crate::fold;
use crate::prelude::*;
use crate::rows::STATS;
use std::fmt::Debug;

/// A power p of magnitudes. The frequent ones are types, so that each has a formula of its own: a
/// choice among powers within a formula is made anew for each block of elements.
pub trait Power: Copy + Debug + Send + Sync + 'static {
    /// |x|^p.
    fn raise<L: Lane>(self, x: L) -> L;
    /// x^(1 / p); x where p is 0.
    fn root<L: Lane>(self, x: L) -> L;
    /// p.
    fn value(self) -> f64;
}

/// p = 1.
#[derive(Clone, Copy, Debug)]
pub struct One;
/// p = 2.
#[derive(Clone, Copy, Debug)]
pub struct Two;
/// Any finite p.
#[derive(Clone, Copy, Debug)]
pub struct Real(pub f64);

impl Power for One {
    #[inline(always)]
    fn raise<L: Lane>(self, x: L) -> L {
        x.abs()
    }
    #[inline(always)]
    fn root<L: Lane>(self, x: L) -> L {
        x
    }
    fn value(self) -> f64 {
        1.0
    }
}
impl Power for Two {
    #[inline(always)]
    fn raise<L: Lane>(self, x: L) -> L {
        x * x
    }
    #[inline(always)]
    fn root<L: Lane>(self, x: L) -> L {
        x.sqrt()
    }
    fn value(self) -> f64 {
        2.0
    }
}
impl Power for Real {
    #[inline(always)]
    fn raise<L: Lane>(self, x: L) -> L {
        if self.0 == 0.0 {
            L::from_mask(x.ne(L::lit(0.0)))
        } else if self.0 == 3.0 {
            x.abs() * x.abs() * x.abs()
        } else {
            x.abs().pow(L::lit(self.0))
        }
    }
    #[inline(always)]
    fn root<L: Lane>(self, x: L) -> L {
        if self.0 == 0.0 { x } else { x.pow(L::lit(1.0 / self.0)) }
    }
    fn value(self) -> f64 {
        self.0
    }
}

/// Statistic: the sum of |x|^p.
#[derive(Clone, Copy, Debug)]
pub struct Norm<P>(pub P);

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

impl<P: Power> RowFormula<1> for Norm<P> {
    const NAME: &'static str = "norm";
    const FOLDS: &'static [Fold] = &[Fold::Sum];
    const OUT: RowOut = RowOut::Once;
    const SAVES: Saves = Saves::BOTH;

    #[inline(always)]
    fn term<L: Lane>(&self, _: usize, [x]: [L; 1], _: [L; STATS], _: L) -> L {
        self.0.raise(x)
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 1], s: [L; STATS], _: L) -> L {
        self.0.root(s[0])
    }
}
impl<P: Power> Rows<1> for Norm<P>
where
    Norm<P>: CompiledRows<1>,
{
    fn backward<V: Value>(&self, _: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        Ok(vec![Some(map(Slope { p: self.0.value() }, [c.x(0), c.y(0), g])?)])
    }
}
compile_rows! { 1 Norm<One>; 1 Norm<Two>; 1 Norm<Real>; }

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
    let y = if p == 1.0 {
        rows(Norm(One), &axes, [x])
    } else if p == 2.0 {
        rows(Norm(Two), &axes, [x])
    } else {
        rows(Norm(Real(p)), &axes, [x])
    };
    sum::drop_axes(y?, &axes, keepdim)
}

/// By name: operand x; attributes p, dim (null, an axis or a list) and keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    Ok(vec![norm(a.input("x")?, a.f64("p")?, dims.as_deref(), a.bool("keepdim")?)?])
}
