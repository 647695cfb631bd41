//! Kernels: the results of rows.

use super::element::{ElementFormula, chunk, splat};
use super::terms::once;
use super::{RowBlock, RowLanes, Statistics, TAIL_ELEMENTS, TERM_CHUNK};
use crate::dispatch::{LaneKernel, ReduceLanes, SimdFloat, SimdLanes, run_lanes};
use crate::isa::Isa;
use crate::uninit::UninitSlice;
use elinvar_lane::formula::RowFormula;
use elinvar_lane::lane::Lane;
use std::mem::MaybeUninit;

/// A kernel: results of some rows by a formula of their elements.
pub(super) struct ResultsTask<'a, 'y, T, F, const N: usize> {
    pub(super) f: F,
    pub(super) b: &'a RowBlock<'a, T>,
    pub(super) s: &'a Statistics<T>,
    pub(super) n: T,
    pub(super) y: &'a mut UninitSlice<'y, T>,
}

impl<T: SimdFloat, F: ElementFormula<N>, const N: usize> ResultsTask<'_, '_, T, F, N> {
    /// The check of what the kernel relies on.
    pub(super) fn run(mut self, isa: Isa) {
        assert!(self.b.operands == N, "a formula is given as many operands as it has");
        assert!(self.b.rows * self.b.len <= self.y.remaining(), "room for the results");
        run_lanes(isa, &mut self);
    }
}

impl<T: SimdFloat, F: ElementFormula<N>, const N: usize> LaneKernel for &mut ResultsTask<'_, '_, T, F, N> {
    type T = T;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        let (f, b, all, n, dst) = (self.f, self.b, self.s, self.n, &mut *self.y);
        // Not to be read again after each store.
        let (len, rows) = (b.len, b.rows);
        let slots = dst.unwritten();
        let (y, room) = (slots.as_mut_ptr(), slots.len());
        let rest = len % TERM_CHUNK;
        let chunks = len / TERM_CHUNK + usize::from(rest > TAIL_ELEMENTS);
        let mut last = [MaybeUninit::uninit(); TERM_CHUNK];
        for row in 0..rows {
            let s = splat::<T, M>(all, row);
            // SAFETY: `run` has counted the operands.
            let x_row = unsafe { b.row::<N>(row) };
            for number in 0..chunks {
                let at = row * len + number * TERM_CHUNK;
                // A whole chunk, where there is room for it: what is too much of it is written over
                // by the next row.
                let is_last = at + TERM_CHUNK > room;
                // SAFETY: `run` has counted the operands; there is room for the chunk, here or
                // there.
                let (x, y) = unsafe {
                    let y = if is_last { last.as_mut_ptr() } else { y.add(at) };
                    (x_row.at::<TERM_CHUNK>(number), &mut *y.cast::<[MaybeUninit<T>; TERM_CHUNK]>())
                };
                chunk(f, x, s, M::splat(n), y);
                if is_last {
                    // SAFETY: the end of the row, for which there is room.
                    let y = unsafe { slots.get_unchecked_mut(at..(row + 1) * len) };
                    y.copy_from_slice(&last[..y.len()]);
                }
            }
            if (1..=TAIL_ELEMENTS).contains(&rest) {
                let at = (row + 1) * len - rest;
                let is_last = at + TAIL_ELEMENTS > room;
                // SAFETY: as above.
                let (x, y) = unsafe {
                    let y = if is_last { last.as_mut_ptr() } else { y.add(at) };
                    let x = x_row.at::<TAIL_ELEMENTS>(len / TERM_CHUNK);
                    (x, &mut *y.cast::<[MaybeUninit<T>; TAIL_ELEMENTS]>())
                };
                chunk(f, x, splat::<T, S>(all, row), S::splat(n), y);
                if is_last {
                    // SAFETY: as above.
                    let y = unsafe { slots.get_unchecked_mut(at..at + rest) };
                    y.copy_from_slice(&last[..rest]);
                }
            }
        }
        // SAFETY: these are all chunks of all rows.
        unsafe { dst.count(rows * len) };
    }
}

/// A kernel: the result of each of some rows.
pub(super) struct OnceTask<'a, T, R, const N: usize> {
    pub(super) r: R,
    pub(super) rows: usize,
    pub(super) s: &'a Statistics<T>,
    pub(super) n: T,
    pub(super) y: &'a mut RowLanes<T>,
}

impl<T: SimdFloat, R: RowFormula<N>, const N: usize> LaneKernel for &mut OnceTask<'_, T, R, N> {
    type T = T;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        once::<T, R, S, N>(self.r, self.rows, self.s, self.n, self.y);
    }
}
