//! lerp: x + weight (y - x), the way from x to y. Exactly x at weight 0, and exactly y at weight 1.

use crate::prelude::*;

/// From whichever end is nearer, so that both ends are exact.
#[inline(always)]
fn between<L: Lane>(x: L, y: L, weight: L) -> L {
    let d = y - x;
    L::select(weight.abs().lt(L::lit(0.5)), x + weight * d, y - d * (L::lit(1.0) - weight))
}

/// x + weight (y - x), of three operands.
#[derive(Clone, Copy, Debug)]
pub struct Lerp;

impl Map<3> for Lerp {
    const NAME: &'static str = "lerp";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y, weight]: [L; 3]) -> L {
        between(x, y, weight)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, y, weight]: [L; 3], _: L, g: L) -> L {
        match i {
            0 => g * (L::lit(1.0) - weight),
            1 => g * weight,
            _ => g * (y - x),
        }
    }
}
compile_map! { 3 Lerp; }

/// x + weight (y - x), with a number as weight.
#[derive(Clone, Copy, Debug)]
pub struct LerpBy {
    /// 0 gives x, 1 gives y.
    pub weight: f64,
}

impl Map<2> for LerpBy {
    const NAME: &'static str = "lerp";
    const SAVES: Saves = Saves::NOTHING;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        between(x, y, L::lit(self.weight))
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, _: [L; 2], _: L, g: L) -> L {
        let weight = L::lit(self.weight);
        if i == 0 { g * (L::lit(1.0) - weight) } else { g * weight }
    }
}
compile_map! { 2 LerpBy; }

/// x + weight (y - x), elementwise, all three broadcast.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn lerp<V: Value>(x: &V, y: &V, weight: &V) -> Result<V> {
    map(Lerp, [x, y, weight])
}

/// x + weight (y - x), elementwise, operands broadcast.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn lerp_by<V: Value>(x: &V, y: &V, weight: f64) -> Result<V> {
    map(LerpBy { weight }, [x, y])
}

/// By name: operands x and y; weight as an operand or an attribute.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = (a.input("x")?, a.input("y")?);
    Ok(vec![match a.optional("weight") {
        Some(weight) => lerp(x, y, weight)?,
        None => lerp_by(x, y, a.f64("weight")?)?,
    }])
}
