//! mish: x tanh(softplus(x)). Relatively accurate in the negative tail; NaN at -inf.

use crate::prelude::*;

/// x tanh(ln(1 + e^x))
#[derive(Clone, Copy, Debug)]
pub struct Mish;

impl Map<1> for Mish {
    const NAME: &'static str = "mish";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        let (_, n) = parts(x);
        x * (n / (n + L::lit(2.0)))
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        // With t = n / (n + 2): t + x (1 - t^2) sigmoid(x) = t + x 4 e (e + 1) / (n + 2)^2.
        let (e, n) = parts(x);
        let below = n + L::lit(2.0);
        let x = x.min(L::lit(FLAT)).max(L::lit(-1000.0));
        let bend = x * (e * L::lit(4.0) / below) * ((e + L::lit(1.0)) / below);
        g * (n / below + bend)
    }
}
compile_map! { 1 Mish; }

/// From here on, tanh(softplus(x)) is 1 in both f32 and f64, and e^(2 x) is still finite in f32.
const FLAT: f64 = 40.0;

/// e = e^x and n = e^2 + 2 e, for x up to [`FLAT`]: tanh(ln(1 + e)) is n / (n + 2), without
/// cancellation.
#[inline(always)]
fn parts<L: Lane>(x: L) -> (L, L) {
    let e = x.min(L::lit(FLAT)).exp();
    (e, e * (e + L::lit(2.0)))
}

/// x tanh(softplus(x)), elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn mish<V: Value>(x: &V) -> Result<V> {
    map(Mish, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![mish(a.input("x")?)?])
}
