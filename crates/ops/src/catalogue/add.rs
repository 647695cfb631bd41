//! add: x + y. Correctly rounded; integers wrap; bool is or.

use crate::prelude::*;

/// x + y
#[derive(Clone, Copy, Debug)]
pub struct Add;

impl Map<2> for Add {
    const NAME: &'static str = "add";
    const SAVES: Saves = Saves::NOTHING;
    const HINTS: Hints = Hints::LIGHT;
    const PASSES: &'static [usize] = &[0, 1];
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        x + y
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 2], _: L, g: L) -> L {
        g
    }
}
compile_map! { 2 Add; }

impl IntMap<2> for Add {
    const NAME: &'static str = "add";
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        x.add(y)
    }
}
compile_int_map! { 2 Add; }

/// x + y, elementwise, operands broadcast.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn add<V: Value>(x: &V, y: &V) -> Result<V> {
    map_any(Add, [x, y])
}

/// x + alpha * y, elementwise, operands broadcast. Storage floats run in f32 and are rounded once.
///
/// # Errors
/// As [`add`]; `DTypeMismatch` if alpha does not fit the operands.
pub fn scaled<V: Value>(x: &V, y: &V, alpha: impl Into<Scalar>) -> Result<V> {
    let alpha = alpha.into();
    alpha.fits(y.dtype()).map_err(|e| e.at("add"))?;
    if V::autocast().is_some() {
        return crate::autocast::run("add", [x, y], |[x, y]| scaled(x, y, alpha));
    }
    widen([x, y], |[x, y]| add(x, &super::mul(y, &y.scalar_like(alpha)?)?))
}

/// By name: operands x and y, or x and the attribute scalar; attribute alpha (absent: 1).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![match a.maybe("alpha", Args::scalar)? {
        Some(alpha) => scaled(&x, &y, alpha)?,
        None => add(&x, &y)?,
    }])
}
