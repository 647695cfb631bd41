//! xlog1py: x log(1 + y), and 0 where x is 0, unless y is NaN.

use crate::prelude::*;

/// x log(1 + y), 0 for x = 0.
#[derive(Clone, Copy, Debug)]
pub struct Xlog1py;

impl Map<2> for Xlog1py {
    const NAME: &'static str = "xlog1py";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        let zero = L::lit(0.0);
        L::select(x.eq(zero) & !y.is_nan(), zero, x * y.log1p())
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, y]: [L; 2], _: L, g: L) -> L {
        if i == 1 {
            return g * (x / (y + L::lit(1.0)));
        }
        let zero = L::lit(0.0);
        g * L::select(x.eq(zero) & !y.is_nan(), zero, y.log1p())
    }
}
compile_map! { 2 Xlog1py; }

/// x log(1 + y), elementwise, operands broadcast; 0 where x is 0 and y is a number.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn xlog1py<V: Value>(x: &V, y: &V) -> Result<V> {
    map(Xlog1py, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![xlog1py(&x, &y)?])
}
