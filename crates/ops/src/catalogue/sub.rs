//! sub: x - y. Correctly rounded; integers wrap.

use crate::prelude::*;

/// x - y
#[derive(Clone, Copy, Debug)]
pub struct Sub;

impl Map<2> for Sub {
    const NAME: &'static str = "sub";
    const SAVES: Saves = Saves::NOTHING;
    const HINTS: Hints = Hints::LIGHT;
    const PASSES: &'static [usize] = &[0];
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        x - y
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, _: [L; 2], _: L, g: L) -> L {
        if i == 0 { g } else { -g }
    }
}
compile_map! { 2 Sub; }

impl IntMap<2> for Sub {
    const NAME: &'static str = "sub";
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        x.sub(y)
    }
}
compile_int_map! { 2 Sub; }

/// x - y, elementwise, operands broadcast.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`, also if both are bool;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn sub<V: Value>(x: &V, y: &V) -> Result<V> {
    if x.dtype() == DType::Bool && y.dtype() == DType::Bool {
        return Err(Error::dtype("sub: not defined for bool; use logical_xor, or convert one with to_dtype"));
    }
    map_any(Sub, [x, y])
}

/// x - alpha * y, elementwise, operands broadcast. Storage floats run in f32 and are rounded once.
///
/// # Errors
/// As [`sub`]; `DTypeMismatch` if alpha does not fit the operands.
pub fn scaled<V: Value>(x: &V, y: &V, alpha: impl Into<Scalar>) -> Result<V> {
    let alpha = alpha.into();
    alpha.fits(y.dtype()).map_err(|e| e.at("sub"))?;
    if V::autocast().is_some() {
        return crate::autocast::run("sub", [x, y], |[x, y]| scaled(x, y, alpha));
    }
    widen([x, y], |[x, y]| sub(x, &super::mul(y, &y.scalar_like(alpha)?)?))
}

/// By name: operands x and y, or x and the attribute scalar; attribute alpha (absent: 1).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![match a.maybe("alpha", Args::scalar)? {
        Some(alpha) => scaled(&x, &y, alpha)?,
        None => sub(&x, &y)?,
    }])
}
