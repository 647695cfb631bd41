//! Powers of two by which matrices are multiplied, so that squares of their elements neither
//! overflow nor vanish.

use crate::array;
use crate::catalogue::{abs, amax};
use crate::prelude::*;

/// The power of two next to 1 / x; 1 for 0 and what is not finite.
#[derive(Clone, Copy, Debug)]
struct Unit;

impl Map<1> for Unit {
    const NAME: &'static str = "unit_scale";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        let most = if L::bits() == 64 { 1000.0 } else { 120.0 };
        let power = (-(x.log2().round())).at_least(L::lit(-most)).at_most(L::lit(most)).exp2();
        let usable = x.gt(L::lit(0.0)) & x.lt(L::lit(f64::INFINITY));
        L::select(usable, power, L::lit(1.0))
    }
}
compile_map! { 1 Unit; }

/// [b, 1, 1]: what brings the largest element of [b, m, n] near 1.
pub(super) fn unit<B: Backend>(x: &Array<B>) -> Result<Array<B>> {
    array::map(&Unit, [&amax(&abs(x)?, Some(&[1, 2]), true)?])
}
