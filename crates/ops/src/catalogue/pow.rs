//! pow: x to the power of y. Bound and special values: `math::pow`; integers wrap.

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
            // y x^(y - 1). x^0 does not depend on x, not even at 0, where the power would be infinite.
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

impl IntMap<2> for Pow {
    const NAME: &'static str = "pow";
    /// By repeated squaring. A negative exponent gives 0, but for 1 and -1.
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        x.power(y)
    }
}

/// x^y, elementwise, operands broadcast, for floats and integers.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn pow<V: Value>(x: &V, y: &V) -> Result<V> {
    map_any(Pow, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![pow(&x, &y)?])
}
