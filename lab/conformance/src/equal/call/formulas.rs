//! The formulas of random calls: each groups the operations of one kind.

use super::*;

/// Arithmetic that a compiler may contract or reorder, and the operations that treat NaN and zero
/// specially. NaN that is computed has either sign, by the processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Primitives;

impl Map<3> for Primitives {
    const NAME: &'static str = "test_primitives";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y, z]: [L; 3]) -> L {
        let a = x * y + z;
        let b = x.fma(y, z) - a;
        let c = (x / y).max(z).min(y) + x.abs().sqrt();
        L::select(x.lt(y), a + b, c.copysign(b + z))
    }
}

/// All roundings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounding;

impl Map<1> for Rounding {
    const NAME: &'static str = "test_rounding";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        let part = x - x.floor();
        L::select(part.lt(L::lit(0.5)), x.round() + x.trunc() * L::lit(0.25), x.ceil() - part)
    }
}

/// A map to bool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inside;

impl Map<3> for Inside {
    const NAME: &'static str = "test_inside";
    const OUT: Out = Out::Bool;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y, z]: [L; 3]) -> L {
        L::from_mask((y.le(x) & x.lt(z)) | x.is_nan())
    }
}

/// The elementary functions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elementary;

impl Map<2> for Elementary {
    const NAME: &'static str = "test_elementary";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        let smooth = x.exp() + x.sin() * y.cos() + x.tanh() + y.erf();
        let partly = x.abs().log() - y.abs().log1p() + x.atan2(y) + x.abs().pow(y);
        smooth + L::select(partly.is_nan(), L::lit(0.0), partly)
    }
}

/// Integer arithmetic at its limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Integers;

impl IntMap<2> for Integers {
    const NAME: &'static str = "test_integers";
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        let sums = x.mul(y).add(x.div_floor(y)).sub(x.rem_trunc(y));
        sums.xor(x.shl(y.and(I::lit(15)))).max(x.shr(y)).add(x.rem_floor(y))
    }
}

/// (x - mean) / sqrt(1 + variance) * y, in two statistics.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standard;

impl RowFormula<2> for Standard {
    const NAME: &'static str = "test_standard";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Sum];
    const OUT: RowOut = RowOut::Each;
    const SAVES: Saves = Saves::NOTHING;
    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x, _]: [L; 2], s: [L; STATS], _: L) -> L {
        if k == 0 { x } else { (x - s[0]) * (x - s[0]) }
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, _: usize, folded: L, _: [L; STATS], n: L) -> L {
        folded / n
    }
    #[inline(always)]
    fn out<L: Lane>(&self, [x, y]: [L; 2], s: [L; STATS], _: L) -> L {
        (x - s[0]) / (L::lit(1.0) + s[1]).sqrt() * y
    }
}

impl Rows<2> for Standard {
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        Err(elinvar_core::Error::autograd("test_standard: has no gradient"))
    }
}

/// The largest minus the smallest, plus the sum of products, in three statistics.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread;

impl RowFormula<2> for Spread {
    const NAME: &'static str = "test_spread";
    const FOLDS: &'static [Fold] = &[Fold::Max, Fold::Min, Fold::Sum];
    const OUT: RowOut = RowOut::Once;
    const SAVES: Saves = Saves::NOTHING;
    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x, y]: [L; 2], s: [L; STATS], _: L) -> L {
        match k {
            0 | 1 => x,
            _ => (x - s[0]).exp() * y,
        }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 2], s: [L; STATS], n: L) -> L {
        (s[0] - s[1]) + s[2] / n
    }
}

impl Rows<2> for Spread {
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        Err(elinvar_core::Error::autograd("test_spread: has no gradient"))
    }
}

/// (x, m) from (g, s): m moves towards g, and x decreases by the new m.
#[derive(Clone, Copy, Debug)]
pub(super) struct Averages;

impl Update<2, 2> for Averages {
    const NAME: &'static str = "test_averages";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, m]: [L; 2], [g, s]: [L; 2]) -> [L; 2] {
        let m = s.fma(g - m, m);
        [x - m / (x.abs().sqrt() + s), m]
    }
}
