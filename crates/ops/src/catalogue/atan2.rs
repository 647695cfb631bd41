//! atan2: the angle of the point (y, x), in -pi..=pi. Bound: `math::atan2`. The gradient at (0, 0)
//! is 0.

use crate::prelude::*;

/// The angle of the point (y, x).
#[derive(Clone, Copy, Debug)]
pub struct Atan2;

impl Map<2> for Atan2 {
    const NAME: &'static str = "atan2";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        x.atan2(y)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, y]: [L; 2], _: L, g: L) -> L {
        // y / (x^2 + y^2) and -x / (x^2 + y^2), with the larger of the two taken out so that no
        // square overflows.
        let (zero, one) = (L::lit(0.0), L::lit(1.0));
        let m = x.abs().max(y.abs());
        let m = L::select(m.eq(zero) | m.eq(L::lit(f64::INFINITY)), one, m);
        let (a, b) = (x / m, y / m);
        let s = a * a + b * b;
        let origin = s.eq(zero);
        let top = if i == 0 { b } else { -a };
        L::select(origin, zero, g * (top / L::select(origin, one, s) / m))
    }
}
compile_map! { 2 Atan2; }

/// The angle of the point (y, x) in radians, elementwise, operands broadcast.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn atan2<V: Value>(x: &V, y: &V) -> Result<V> {
    map(Atan2, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![atan2(&x, &y)?])
}
