//! Kernels: 64 strided rows side by side, one in each lane.

use super::element::{Each, ElementFormula, Term, each_statistic, load, load_statistics};
use super::lane_sums::{combine_lanes, initial};
use super::{RowBlock, RowLanes, Statistics, TERM_CHUNK, keeps_terms};
use crate::dispatch::{LaneKernel, ReduceLanes, SimdFloat, SimdLanes};
use elinvar_core::order::LANES;
use elinvar_lane::formula::{Fold, RowFormula, STATS};
use elinvar_lane::lane::Lane;

/// A kernel: terms of strided rows, and the lanes that they join.
pub(super) struct StridedFoldTask<'a, T, R, const N: usize> {
    pub(super) r: R,
    pub(super) k: usize,
    pub(super) b: &'a RowBlock<'a, T>,
    pub(super) s: &'a Statistics<T>,
    pub(super) n: T,
    pub(super) at: usize,
    pub(super) lanes: &'a mut [RowLanes<T>],
    pub(super) terms: &'a mut [RowLanes<T>],
}

impl<T: SimdFloat, R: RowFormula<N>, const N: usize> StridedFoldTask<'_, T, R, N> {
    #[inline(always)]
    fn fold<M: ReduceLanes<T>, const K: usize>(&mut self) {
        let keep = const { keeps_terms::<R, N>() && K + 1 == R::FOLDS.len() };
        let (chunks, n) = (self.b.chunks(), M::splat(self.n));
        // SAFETY: `strided_fold` has counted the operands; here and below.
        let x = unsafe { self.b.row::<N>(0) };
        for i in 0..chunks {
            // SAFETY: as above.
            let x = unsafe { x.at::<TERM_CHUNK>(i) };
            let (lane, begins) = (&mut self.lanes[(self.at + i) % LANES], self.at + i < LANES);
            if keep {
                strided_chunk::<T, M, _, N>(Term::<R, K>(self.r), x, self.s, n, &mut self.terms[i]);
                strided_add::<T, M, _, 1>(R::FOLDS[K], Same, [&self.terms[i]], self.s, n, begins, lane);
            } else {
                strided_add::<T, M, _, N>(R::FOLDS[K], Term::<R, K>(self.r), x, self.s, n, begins, lane);
            }
        }
    }
}

/// The element itself.
#[derive(Clone, Copy)]
pub(super) struct Same;
impl ElementFormula<1> for Same {
    #[inline(always)]
    fn at<L: Lane>(&self, [x]: [L; 1], _: [L; STATS], _: L) -> L {
        x
    }
}

/// An element of 64 strided rows.
#[inline(always)]
pub(super) fn strided_chunk<T: SimdFloat, L: SimdLanes<T> + Lane, F: ElementFormula<N>, const N: usize>(
    f: F,
    x: [&RowLanes<T>; N],
    s: &Statistics<T>,
    n: L,
    y: &mut RowLanes<T>,
) {
    let mut c = 0;
    while c < TERM_CHUNK {
        // First, as in a loop over blocks (`vector_loop`).
        let y = &mut y[c..c + L::WIDTH];
        f.at(load(&x, c), load_statistics::<T, L>(s, c), n).store(y);
        c += L::WIDTH;
    }
}

/// An element of 64 strided rows joins a lane of each; `begins`: it is the first.
#[inline(always)]
pub(super) fn strided_add<T: SimdFloat, L: SimdLanes<T> + Lane, F: ElementFormula<N>, const N: usize>(
    by: Fold,
    f: F,
    x: [&RowLanes<T>; N],
    s: &Statistics<T>,
    n: L,
    begins: bool,
    lane: &mut RowLanes<T>,
) {
    let (start, mut c) = (L::splat(initial(by)), 0);
    while c < TERM_CHUNK {
        let lane = &mut lane[c..c + L::WIDTH];
        let term = f.at(load(&x, c), load_statistics::<T, L>(s, c), n);
        let before = if begins { start } else { L::load(lane) };
        combine_lanes(by, before, term).store(lane);
        c += L::WIDTH;
    }
}

impl<T: SimdFloat, R: RowFormula<N>, const N: usize> LaneKernel for &mut StridedFoldTask<'_, T, R, N> {
    type T = T;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        each_statistic!(self.k, K => self.fold::<M, K>());
    }
}

/// A kernel: results of strided rows; without operands, of the terms that they are written over.
pub(super) struct StridedResultsTask<'a, T, R, const N: usize> {
    pub(super) r: R,
    pub(super) b: Option<&'a RowBlock<'a, T>>,
    pub(super) s: &'a Statistics<T>,
    pub(super) n: T,
    pub(super) y: &'a mut [RowLanes<T>],
}

impl<T: SimdFloat, R: RowFormula<N>, const N: usize> LaneKernel for &mut StridedResultsTask<'_, T, R, N> {
    type T = T;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        let n = M::splat(self.n);
        let Some(b) = self.b else {
            if const { keeps_terms::<R, N>() } {
                for y in &mut *self.y {
                    let mut c = 0;
                    while c < TERM_CHUNK {
                        let y = &mut y[c..c + M::WIDTH];
                        self.r.out_of_term(M::load(y), load_statistics(self.s, c), n).store(y);
                        c += M::WIDTH;
                    }
                }
            }
            return;
        };
        // SAFETY: `strided_results` has counted the operands and their chunks; here and below.
        let x = unsafe { b.row::<N>(0) };
        for (i, y) in self.y.iter_mut().enumerate() {
            // SAFETY: as above.
            let x = unsafe { x.at::<TERM_CHUNK>(i) };
            strided_chunk(Each(self.r), x, self.s, n, y);
        }
    }
}
