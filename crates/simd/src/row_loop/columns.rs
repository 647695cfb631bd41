//! Kernel: sums over the rows.

use super::element::{load, splat};
use super::{RowBlock, Statistics, TERM_CHUNK};
use crate::dispatch::{LaneKernel, ReduceLanes, SimdFloat, SimdLanes};
use elinvar_lane::formula::Columns;
use elinvar_lane::lane::Lane;

/// A kernel: a row that is added to the sums of its columns.
pub(super) struct AddRowTask<'a, T, R, const N: usize> {
    pub(super) r: R,
    pub(super) k: usize,
    pub(super) b: &'a RowBlock<'a, T>,
    pub(super) s: &'a Statistics<T>,
    pub(super) n: T,
    pub(super) sums: &'a mut [T],
}

impl<T: SimdFloat, R: Columns<N>, const N: usize> AddRowTask<'_, T, R, N> {
    #[inline(always)]
    fn add<M: SimdLanes<T> + Lane, const K: usize>(&mut self) {
        let (s, n) = (splat::<T, M>(self.s, 0), M::splat(self.n));
        // SAFETY: `add_row` has counted the operands and their chunks; here and below.
        let x = unsafe { self.b.row::<N>(0) };
        for (number, sums) in self.sums.as_chunks_mut::<TERM_CHUNK>().0.iter_mut().enumerate() {
            // SAFETY: as above.
            let x = unsafe { x.at::<TERM_CHUNK>(number) };
            // A copy: the compiler does not see that operands and sums are apart.
            let (mut all, mut j) = (*sums, 0);
            while j < TERM_CHUNK {
                let term = self.r.column(K, load(&x, j), s, n);
                (M::load(&all[j..]) + term).store(&mut all[j..]);
                j += M::WIDTH;
            }
            *sums = all;
        }
    }
}

impl<T: SimdFloat, R: Columns<N>, const N: usize> LaneKernel for &mut AddRowTask<'_, T, R, N> {
    type T = T;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        match self.k {
            0 => self.add::<M, 0>(),
            1 if const { R::SUMS > 1 } => self.add::<M, 1>(),
            _ => unreachable!("{}: so many sums are not written out", R::NAME),
        }
    }
}
