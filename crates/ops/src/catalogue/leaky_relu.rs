//! leaky_relu: x if x > 0, else negative_slope * x. The gradient at 0 is negative_slope.

use crate::prelude::*;

/// x, or negative_slope * x below zero.
#[derive(Clone, Copy, Debug)]
pub struct LeakyRelu {
    /// The slope below zero.
    pub negative_slope: f64,
}

impl Map<1> for LeakyRelu {
    const NAME: &'static str = "leaky_relu";
    const SAVES: Saves = Saves::INPUTS;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        L::select(x.gt(L::lit(0.0)), x, x * L::lit(self.negative_slope))
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        L::select(x.gt(L::lit(0.0)), g, g * L::lit(self.negative_slope))
    }
}
compile_map! { 1 LeakyRelu; }

/// x where it is positive, else `negative_slope * x`, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn leaky_relu<V: Value>(x: &V, negative_slope: f64) -> Result<V> {
    map(LeakyRelu { negative_slope }, [x])
}

/// By name: operand x; attribute negative_slope.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![leaky_relu(a.input("x")?, a.f64("negative_slope")?)?])
}
