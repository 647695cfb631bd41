//! addcmul: x + value * t1 * t2. Each operation rounds.

use crate::prelude::*;

/// x + value * t1 * t2
#[derive(Clone, Copy, Debug)]
pub struct Addcmul {
    /// Factor of the product.
    pub value: f64,
}

impl Map<3> for Addcmul {
    const NAME: &'static str = "addcmul";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, t1, t2]: [L; 3]) -> L {
        x + L::lit(self.value) * t1 * t2
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [_, t1, t2]: [L; 3], _: L, g: L) -> L {
        match i {
            0 => g,
            1 => g * (t2 * L::lit(self.value)),
            _ => g * (t1 * L::lit(self.value)),
        }
    }
}
compile_map! { 3 Addcmul; }

/// x + value * t1 * t2, elementwise, operands broadcast.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn addcmul<V: Value>(x: &V, t1: &V, t2: &V, value: f64) -> Result<V> {
    map(Addcmul { value }, [x, t1, t2])
}

/// By name: operands x, t1 and t2; attribute value.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![addcmul(a.input("x")?, a.input("t1")?, a.input("t2")?, a.f64("value")?)?])
}
