//! where: x where a condition is true, else y. Exact. The side not taken affects neither result nor
//! gradient, even if it is NaN or infinite.

use crate::prelude::*;

/// x where the condition is true, else y.
#[derive(Clone, Copy, Debug)]
pub struct Where;

impl Map<3> for Where {
    const NAME: &'static str = "where";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [cond, x, y]: [L; 3]) -> L {
        L::select(cond.to_mask(), x, y)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [cond, ..]: [L; 3], _: L, g: L) -> L {
        let zero = L::lit(0.0);
        match i {
            0 => zero,
            1 => L::select(cond.to_mask(), g, zero),
            _ => L::select(cond.to_mask(), zero, g),
        }
    }
}
compile_map! { 3 Where; }

impl IntMap<3> for Where {
    const NAME: &'static str = "where";
    #[inline(always)]
    fn int<I: Int>(&self, [cond, x, y]: [I; 3]) -> I {
        I::select(cond.is_true(), x, y)
    }
}
compile_int_map! { 3 Where; }

/// Checks that a condition or mask is of bool.
///
/// # Errors
/// `DTypeMismatch` if it is not.
pub(super) fn check_bool<V: Value>(op: &str, role: &str, x: &V) -> Result<()> {
    if x.dtype() == DType::Bool {
        return Ok(());
    }
    Err(Error::dtype(format!("{op}: {role} is {}, and should be bool; compare it with ne(0)", x.dtype())))
}

/// `x` where `cond` is true, else `y`, elementwise, all three broadcast.
///
/// cond: bool   x, y: one dtype, any
///
/// # Errors
/// `DTypeMismatch` if `cond` is not bool or `x` and `y` differ; `ShapeMismatch` if the shapes do
/// not broadcast; `DeviceMismatch`; `OutOfMemory`.
pub fn where_<V: Value>(cond: &V, x: &V, y: &V) -> Result<V> {
    check_bool("where", "cond", cond)?;
    map_any(Where, [cond, x, y])
}

/// By name: operands cond, x and y.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![where_(a.input("cond")?, a.input("x")?, a.input("y")?)?])
}
