//! The lanes of a fold: where they start, how they are combined, and what they become.

use super::{RowLanes, TERM_CHUNK};
use crate::dispatch::{LaneKernel, ReduceLanes, SimdFloat, SimdLanes, run_lanes};
use crate::isa::Isa;
use elinvar_lane::formula::Fold;
use elinvar_lane::lane::Lane;

/// The lanes of terms that come in several parts, at most a block of them.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct LaneSums<T> {
    pub(super) lanes: [RowLanes<T>; 2],
    /// So many terms came. Parts begin with a chunk.
    pub(super) done: usize,
}

impl<T: SimdFloat> LaneSums<T> {
    /// Of nothing.
    pub fn empty(f: Fold) -> Self {
        LaneSums { lanes: [[initial(f); TERM_CHUNK]; 2], done: 0 }
    }
    /// What they become.
    pub fn folded(&self, isa: Isa, f: Fold) -> T {
        let mut folded = T::ZERO;
        run_lanes(isa, FoldLanes { f, lanes: &self.lanes, folded: &mut folded });
        folded
    }
}

/// What the lanes of a fold start from.
#[inline(always)]
pub fn initial<T: SimdFloat>(f: Fold) -> T {
    T::lit(match f {
        Fold::Sum => 0.0,
        Fold::Prod => 1.0,
        Fold::Max => f64::NEG_INFINITY,
        Fold::Min => f64::INFINITY,
    })
}

/// A kernel: both halves of the lanes, as one number.
pub(super) struct FoldLanes<'a, T> {
    pub(super) f: Fold,
    pub(super) lanes: &'a [RowLanes<T>; 2],
    pub(super) folded: &'a mut T,
}

impl<T: SimdFloat> LaneKernel for FoldLanes<'_, T> {
    type T = T;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        if const { M::WIDTH == TERM_CHUNK } {
            let both = M::combine(self.f, M::load(&self.lanes[0]), M::load(&self.lanes[1]));
            *self.folded = M::folded(both.few(self.f), self.f);
        } else {
            unreachable!("terms are summed in registers only where there are registers for it");
        }
    }
}

/// Two terms of a fold, as one.
#[inline(always)]
pub fn combine_lanes<L: Lane>(f: Fold, a: L, b: L) -> L {
    match f {
        Fold::Sum => a + b,
        Fold::Prod => a * b,
        Fold::Max => a.max(b),
        Fold::Min => a.min(b),
    }
}
