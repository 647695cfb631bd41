//! frexp: a number as m 2^e with m in 1/2..1. Exact.

use crate::math::exact_power;
use crate::prelude::*;
use crate::value::cast;

/// The exponent e; 0 of 0, NaN and infinity.
#[derive(Clone, Copy, Debug)]
struct Exponent;

/// The mantissa m.
#[derive(Clone, Copy, Debug)]
pub struct Mantissa;

/// e, and x times a power of two in the range of normal numbers, with the power's own exponent.
#[inline(always)]
fn exponent<L: Lane>(x: L) -> [L; 3] {
    let (zero, one) = (L::lit(0.0), L::lit(1.0));
    let (least, lift) = if L::bits() == 32 { (1e-37, 32.0) } else { (1e-300, 64.0) };
    let tiny = x.abs().lt(L::lit(least));
    let lifted = L::select(tiny, x * L::lit(exact_power(lift as i32)), x);
    let lift = L::select(tiny, L::lit(lift), zero);
    let ordinary = x.abs().lt(L::lit(f64::INFINITY)) & x.ne(zero);
    let a = L::select(ordinary, lifted.abs(), one);
    // The logarithm may have been rounded to a whole number: then e is off by one.
    let e = a.log2().floor();
    let m = halves(a, e);
    let e = L::select(m.ge(one), e + one, L::select(m.lt(L::lit(0.5)), e - one, e));
    [L::select(ordinary, e, zero), L::select(ordinary, lifted, x), L::select(ordinary, lift, zero)]
}

/// x 2^-e by two exact powers.
#[inline(always)]
fn halves<L: Lane>(x: L, e: L) -> L {
    let half = (e * L::lit(0.5)).trunc();
    x * (-half).exp2() * (half - e).exp2()
}

impl Map<1> for Exponent {
    const NAME: &'static str = "frexp";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        let [e, _, lift] = exponent(x);
        e - lift
    }
}
compile_map! { 1 Exponent; }

impl Map<1> for Mantissa {
    const NAME: &'static str = "frexp";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        let [e, lifted, _] = exponent(x);
        halves(lifted, e)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let [e, _, lift] = exponent(x);
        halves(g, e - lift)
    }
}
compile_map! { 1 Mantissa; }

/// The mantissa in 1/2..1 with the sign of x, and the exponent (i32), elementwise: x is m 2^e.
/// Zeros, infinities and NaN are their own mantissas.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn frexp<V: Value>(x: &V) -> Result<(V, V)> {
    // Not in a storage float, which does not hold all whole numbers.
    let wide = cast(&x.detached(), x.dtype().compute())?;
    Ok((map(Mantissa, [x])?, cast(&map(Exponent, [&wide])?, DType::I32)?))
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (mantissa, exponent) = frexp(a.input("x")?)?;
    Ok(vec![mantissa, exponent])
}
