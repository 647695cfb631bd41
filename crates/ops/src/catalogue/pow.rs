//! pow: x to the power of y. Bound and special values: `math::pow`; integers wrap.
//!
//! For floats, a scalar exponent of 2, 3 or -1 is a product or a quotient: x * x and 1 / x are
//! correctly rounded, x * x * x is rounded twice, which makes 1.5 ULP at most. These have IEEE
//! 754's special values by themselves. A tensor exponent always uses the function of two variables,
//! whatever its elements: the result for a pair of numbers does not depend on their neighbours.

use super::{reciprocal, square};
use crate::prelude::*;

/// x^y
#[derive(Clone, Copy, Debug)]
pub struct Pow;

impl Map<2> for Pow {
    const NAME: &'static str = "pow";
    const SAVES: Saves = Saves::BOTH;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        x.pow(y)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, y]: [L; 2], z: L, g: L) -> L {
        let zero = L::lit(0.0);
        if i == 0 {
            // y x^(y - 1). x^0 does not depend on x, not even at 0, where the power would be
            // infinite.
            let one = L::lit(1.0);
            let exponent = L::select(y.eq(zero), zero, y - one);
            g * (y * x.pow(exponent))
        } else {
            // x^y ln x; 0^y does not change with y >= 0.
            let flat = x.eq(zero) & y.ge(zero);
            L::select(flat, zero, g * (z * L::select(flat, L::lit(1.0), x).log()))
        }
    }
}
compile_map! { 2 Pow; }

impl IntMap<2> for Pow {
    const NAME: &'static str = "pow";
    /// By repeated squaring. A negative exponent gives 0, but for 1 and -1.
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        x.power(y)
    }
}
compile_int_map! { 2 Pow; }

/// x * x * x
#[derive(Clone, Copy, Debug)]
pub struct Cube;

impl Map<1> for Cube {
    const NAME: &'static str = "pow";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x * x * x
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        g * (L::lit(3.0) * (x * x))
    }
}
compile_map! { 1 Cube; }

/// x^y, elementwise, operands broadcast, for floats and integers.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn pow<V: Value>(x: &V, y: &V) -> Result<V> {
    map_any(Pow, [x, y])
}

/// x^y for a scalar y: a product or a quotient if it is 2, 3 or -1 and x is of floats.
///
/// # Errors
/// `DTypeMismatch` if y has a fraction and x is of integers; `OutOfMemory`.
pub fn pow_by<V: Value>(x: &V, y: impl Into<Scalar>) -> Result<V> {
    let y = y.into();
    if x.dtype().is_float() {
        match y.to_f64() {
            2.0 => return square(x),
            3.0 => return map(Cube, [x]),
            -1.0 => return reciprocal(x),
            _ => {}
        }
    }
    pow(x, &x.scalar_like(y)?)
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    if a.optional("y").is_none() && a.str("scalar_side")? != "left" {
        return Ok(vec![pow_by(a.input("x")?, a.scalar("scalar")?)?]);
    }
    let (x, y) = a.pair()?;
    Ok(vec![pow(&x, &y)?])
}
