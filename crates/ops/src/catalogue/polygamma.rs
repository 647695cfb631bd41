//! polygamma: the derivatives of digamma.

use super::digamma;
use crate::math::{self, Cotangent, POLYGAMMA_MOST, cotangent};
use crate::prelude::*;

/// The derivative of digamma of an order from 1 on.
#[derive(Clone, Copy, Debug)]
pub struct Polygamma {
    order: usize,
    /// The polynomials of the derivatives of pi cot(pi x), of this order and the next.
    turns: [Cotangent; 2],
}

impl Map<1> for Polygamma {
    const NAME: &'static str = "polygamma";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        math::polygamma(self.order, &self.turns[0], x)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        g * math::polygamma(self.order + 1, &self.turns[1], x)
    }
}
compile_map! { 1 Polygamma; }

/// The derivative of digamma of order `n`, elementwise; digamma itself for 0.
///
/// # Errors
/// `Unsupported` for orders above 9; `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn polygamma<V: Value>(n: usize, x: &V) -> Result<V> {
    if n == 0 {
        return digamma(x);
    }
    if n >= POLYGAMMA_MOST {
        return Err(Error::unsupported(format!(
            "polygamma: order {n}; there are those up to {}",
            POLYGAMMA_MOST - 1
        )));
    }
    map(Polygamma { order: n, turns: [cotangent(n), cotangent(n + 1)] }, [x])
}

/// By name: operand x; attribute n.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![polygamma(a.size("n")?, a.input("x")?)?])
}
