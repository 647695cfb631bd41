//! gelu: x times the normal distribution function of x, exact or by its approximation with tanh.
//! NaN at -inf.

use super::erf::gauss;
use crate::prelude::*;
use core::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// How the normal distribution function is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approximate {
    /// By the normal distribution function.
    #[default]
    None,
    /// By (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
    Tanh,
}

/// x Phi(x)
#[derive(Clone, Copy, Debug)]
pub struct Gelu;

/// x Phi(x), with Phi by its approximation.
#[derive(Clone, Copy, Debug)]
pub struct GeluTanh;

/// The coefficient of the approximation.
const CUBIC: f64 = 0.044715;
/// 2 sqrt(2 / pi): (1 + tanh(u)) / 2 = sigmoid(2 u), and the sigmoid does not cancel for negative
/// u.
const TWICE: f64 = 2.0 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;

/// Phi(x) = sigmoid(2 u) of the approximation: 2 u.
#[inline(always)]
fn bent<L: Lane>(x: L) -> L {
    x * (x * x).fma(L::lit(TWICE * CUBIC), L::lit(TWICE))
}

/// Beyond this bound, to which x is clamped in gradients as it may be infinite, Phi' is 0.
const FAR: f64 = 100.0;

impl Map<1> for Gelu {
    const NAME: &'static str = "gelu";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x * x.phi()
    }
    /// Phi + x Phi'.
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let bound = L::lit(FAR);
        let x = x.min(bound).max(-bound);
        let density = gauss(x * L::lit(FRAC_1_SQRT_2)) * L::lit(0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2);
        g * x.fma(density, x.phi())
    }
}

impl Map<1> for GeluTanh {
    const NAME: &'static str = "gelu";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x / (L::lit(1.0) + (-bent(x)).exp())
    }
    /// Phi + x Phi'.
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let bound = L::lit(FAR);
        let x = x.min(bound).max(-bound);
        let u = bent(x);
        // The sigmoids of u and -u from one exponential that does not overflow.
        let one = L::lit(1.0);
        let e = (-u.abs()).exp();
        let large = one / (one + e);
        let small = e * large;
        let left = u.lt(L::lit(0.0));
        let (s, rest) = (L::select(left, small, large), L::select(left, large, small));
        let slope = (x * x).fma(L::lit(3.0 * TWICE * CUBIC), L::lit(TWICE));
        g * (x * slope * rest).fma(s, s)
    }
}
compile_map! { 1 Gelu; 1 GeluTanh; }

/// x times the normal distribution function of x, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn gelu<V: Value>(x: &V, approximate: Approximate) -> Result<V> {
    match approximate {
        Approximate::None => map(Gelu, [x]),
        Approximate::Tanh => map(GeluTanh, [x]),
    }
}

/// By name: operand x; attribute approximate, "none" or "tanh".
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let approximate = match a.maybe("approximate", Args::str)? {
        None | Some("none") => Approximate::None,
        Some("tanh") => Approximate::Tanh,
        Some(other) => {
            return Err(Error::argument(format!(
                "gelu: approximate is {other:?}, and should be \"none\" or \"tanh\""
            )));
        }
    };
    Ok(vec![gelu(a.input("x")?, approximate)?])
}
