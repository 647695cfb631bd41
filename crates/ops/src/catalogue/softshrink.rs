//! softshrink: x shrunk by lambd towards 0, and 0 in between. NaN propagates.

use crate::prelude::*;

/// x shrunk towards zero.
#[derive(Clone, Copy, Debug)]
pub struct Softshrink {
    /// The amount; not negative.
    pub lambd: f64,
}

impl Map<1> for Softshrink {
    const NAME: &'static str = "softshrink";
    const SAVES: Saves = Saves::INPUTS;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        let l = L::lit(self.lambd);
        let below = L::select(x.lt(-l), x + l, L::lit(0.0) * x.abs());
        L::select(x.gt(l), x - l, below)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        // At NaN g, so that it does not vanish on the way back.
        L::select(x.abs().le(L::lit(self.lambd)), L::lit(0.0), g)
    }
}
compile_map! { 1 Softshrink; }

/// x - lambd above lambd, x + lambd below -lambd, else 0, elementwise.
///
/// # Errors
/// `InvalidArgument` if `lambd` is negative; `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn softshrink<V: Value>(x: &V, lambd: f64) -> Result<V> {
    if lambd.is_nan() || lambd < 0.0 {
        return Err(Error::argument(format!("softshrink: lambd is {lambd}; it must not be negative")));
    }
    map(Softshrink { lambd }, [x])
}

/// By name: operand x; attribute lambd.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![softshrink(a.input("x")?, a.f64("lambd")?)?])
}
