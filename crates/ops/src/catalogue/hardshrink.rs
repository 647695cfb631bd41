//! hardshrink: 0 where |x| is at most lambd, else x. NaN propagates.

use crate::prelude::*;

/// x, but zero where it is small.
#[derive(Clone, Copy, Debug)]
pub struct Hardshrink {
    /// The bound of small values; not negative.
    pub lambd: f64,
}

impl Map<1> for Hardshrink {
    const NAME: &'static str = "hardshrink";
    const SAVES: Saves = Saves::INPUTS;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        L::select(x.abs().le(L::lit(self.lambd)), L::lit(0.0), x)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        // At NaN g, so that it does not vanish on the way back.
        L::select(x.abs().le(L::lit(self.lambd)), L::lit(0.0), g)
    }
}
compile_map! { 1 Hardshrink; }

/// 0 where `|x| <= lambd`, else x, elementwise.
///
/// # Errors
/// `InvalidArgument` if `lambd` is negative; `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn hardshrink<V: Value>(x: &V, lambd: f64) -> Result<V> {
    if lambd.is_nan() || lambd < 0.0 {
        return Err(Error::argument(format!("hardshrink: lambd is {lambd}; it must not be negative")));
    }
    map(Hardshrink { lambd }, [x])
}

/// By name: operand x; attribute lambd.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![hardshrink(a.input("x")?, a.f64("lambd")?)?])
}
