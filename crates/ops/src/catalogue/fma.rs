//! fma: x * y + z with one rounding.

use crate::prelude::*;

/// x * y + z
#[derive(Clone, Copy, Debug)]
pub struct Fma;

impl Map<3> for Fma {
    const NAME: &'static str = "fma";
    const SAVES: Saves = Saves::INPUTS;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y, z]: [L; 3]) -> L {
        x.fma(y, z)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, y, _]: [L; 3], _: L, g: L) -> L {
        match i {
            0 => g * y,
            1 => g * x,
            _ => g,
        }
    }
}
compile_map! { 3 Fma; }

/// x * y + z, rounded once, elementwise, operands broadcast.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn fma<V: Value>(x: &V, y: &V, z: &V) -> Result<V> {
    map(Fma, [x, y, z])
}

/// By name: operands x, y and z.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![fma(a.input("x")?, a.input("y")?, a.input("z")?)?])
}
