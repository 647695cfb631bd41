//! The lanes of a fold: where they start, how they are combined, and what they become.

use super::{RowLanes, TERM_CHUNK};
use crate::dispatch::{LaneKernel, ReduceLanes, SimdFloat, SimdLanes, run_lanes};
use crate::isa::Isa;
use elinvar_core::order::LANES;
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
        if const { M::WIDTH > 1 } {
            let mut all = AllLanes([M::splat(initial(self.f)); MAX_READINGS]);
            let lanes = self.lanes.as_flattened();
            for (reading, some) in all.0.iter_mut().enumerate().take(readings::<T, M>()) {
                *some = M::load(&lanes[reading * M::WIDTH..]);
            }
            *self.folded = M::folded(all.combined(self.f).few(self.f), self.f);
        } else {
            unreachable!("terms are summed in registers only where there are registers for it");
        }
    }
}

/// Readings that all lanes are, at most: of 16 lanes, by AVX2.
pub(super) const MAX_READINGS: usize = 8;

/// Readings that all lanes are.
#[inline(always)]
pub(super) const fn readings<T, M: SimdLanes<T>>() -> usize {
    LANES / M::WIDTH
}

/// Where a reading of the lanes and the next one are: in which half of them, and from which element
/// of it on. `first` is the half that a row begins with.
#[inline(always)]
pub(super) fn places<T, M: SimdLanes<T>>(reading: usize, first: usize) -> [(usize, usize); 2] {
    let left = reading * M::WIDTH;
    let right = left + M::WIDTH;
    [
        ((first + left / TERM_CHUNK) % 2, left % TERM_CHUNK),
        ((first + right / TERM_CHUNK) % 2, right % TERM_CHUNK),
    ]
}

/// All lanes, reading after reading.
pub(super) struct AllLanes<M>(pub(super) [M; MAX_READINGS]);

impl<M: Copy> AllLanes<M> {
    /// The first half of the lanes with the second, then the halves of what that gives, as long as
    /// both are in different readings.
    #[inline(always)]
    pub(super) fn combined<T>(mut self, f: Fold) -> M
    where
        M: ReduceLanes<T>,
    {
        let mut half = readings::<T, M>() / 2;
        while half > 0 {
            for i in 0..half {
                self.0[i] = M::combine(f, self.0[i], self.0[i + half]);
            }
            half /= 2;
        }
        self.0[0]
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
