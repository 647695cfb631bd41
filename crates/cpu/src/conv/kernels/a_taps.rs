//! Implicit-GEMM microkernel operand for the gradient by weight: rows of A are taps of windows over
//! padded planes, read in place; B is packed.
//!
//! What one tap sees from consecutive windows is contiguous in a padded plane, up to the end of a
//! row of windows, and neighbouring taps see neighbouring elements. So three rows share one
//! address, and a tile goes to the next row of windows by moving its addresses.
#![allow(unsafe_code, reason = "vector loads and stores without a check for each")]

use super::a_pixels::WindowRun;
use crate::elementwise::real::Real;
use crate::gemm::kernels::a_rows::{RowsOfA, opaque_address};
use crate::gemm::kernels::microkernel::accumulate_in_place;
use crate::gemm::kernels::prefetch::{LinePrefetch, PanelPrefetch};
use crate::gemm::kernels::register_tile::{PanelB, RegisterTile};
use crate::gemm::{OutputTile, PanelsB, TAPS_PER_ADDRESS};
use elinvar_core::order::CHUNK;
use elinvar_simd::isa::Isa;
use elinvar_simd::quad::GatherVector;
use elinvar_simd::vector::{Vector, VectorKernel, dispatch_vectors_of};
use std::sync::atomic::{Ordering, compiler_fence};

/// Rows of a left factor that are taps of windows.
#[derive(Clone, Copy)]
pub(crate) struct TapsA<'a, T> {
    /// Padded planes.
    pub(crate) x: &'a [T],
    /// Where the first of each three rows is, seen from place 0.
    pub(crate) threes: &'a [usize],
    /// The terms.
    pub(crate) runs: &'a [WindowRun],
}

/// A chunk's part of a product.
struct TapsBlock<'a, T> {
    pub(crate) a: TapsA<'a, T>,
    pub(crate) b: PanelsB<'a, T>,
    pub(crate) cols: usize,
    /// Where the result starts, and how far apart its rows are.
    pub(crate) c: *mut T,
    pub(crate) step: usize,
    /// Is it the first chunk: the result is stored, not added?
    pub(crate) first: bool,
}

/// From the end of a run to the next.
#[derive(Clone, Copy)]
struct RunGap {
    /// How far the next one begins behind the end, wrapping.
    skip: usize,
    /// Its terms.
    count: usize,
}

/// Multiplies a block.
///
/// # Safety
/// `c` points to a row of `cols` numbers for each row of the left block, `step` apart, that no
/// other thread reads or writes meanwhile; unless it is the first chunk, they have been written.
///
/// # Panics
/// If `a` or `b` is shorter than it should be.
unsafe fn multiply_taps<T: Real>(isa: Isa, block: TapsBlock<'_, T>) {
    let (w, runs) = (crate::gemm::kernels::nr::<T>(isa), block.a.runs);
    let k: usize = runs.iter().map(|run| run.count).sum();
    if block.a.threes.is_empty() || block.cols == 0 {
        return;
    }
    assert!((1..=CHUNK).contains(&k) && runs.iter().all(|run| run.count > 0), "a chunk has terms");
    let reach = (block.cols.div_ceil(w) - 1) * block.b.across + (k - 1) * block.b.step + w;
    assert!(reach <= block.b.data.len(), "the right block is too short");
    let three = block.a.threes.iter().max().expect("there are rows");
    let end = runs.iter().map(|run| run.from + run.count).max().expect("there are terms");
    let end = end.checked_add(three + TAPS_PER_ADDRESS - 1);
    assert!(end.is_some_and(|end| end <= block.a.x.len()), "a window leaves its planes");
    let mut gaps = [RunGap { skip: 0, count: usize::MAX }; CHUNK];
    for (gap, two) in gaps.iter_mut().zip(runs.windows(2)) {
        let skip = two[1].from.wrapping_sub(two[0].from + two[0].count);
        *gap = RunGap { skip, count: two[1].count };
    }
    dispatch_vectors_of(block.b.kind, isa, TapTiles { block, k, gaps: &gaps });
}

/// A block whose lengths have been checked, by `multiply_taps` alone.
struct TapTiles<'a, T> {
    block: TapsBlock<'a, T>,
    k: usize,
    /// One for the end of each run; behind the last run nothing is read.
    gaps: &'a [RunGap; CHUNK],
}

impl<T: Real> VectorKernel for TapTiles<'_, T> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(self) {
        let TapsBlock { a, b, cols, c, step, first } = self.block;
        let (k, w) = (self.k, 2 * V::LANES);
        for (panel, j) in (0..cols).step_by(w).enumerate() {
            let at = b.data.as_ptr().wrapping_add(panel * b.across);
            let mut prefetch_at = PanelPrefetch::of::<V>(b.next(panel, j + w >= cols), k);
            let mut i = 0;
            while i < a.threes.len() {
                let threes = &a.threes[i..];
                let from = a.runs[0].from;
                let place =
                    |n: usize| a.x.as_ptr().wrapping_add(threes.get(n).map_or(0, |three| three + from));
                let side = TapPointers::<V> {
                    at: [place(0), place(1), place(2), place(3)],
                    lhs: a.runs[0].count,
                    gaps: self.gaps.as_ptr(),
                };
                // SAFETY: `multiply_taps` checked that taps of all terms and the panels are there;
                // the tile is inside of the result, for which its caller vouches. The
                // instructions are there: our caller's.
                i += unsafe {
                    let b = PanelB::<V> {
                        at,
                        next: b.step,
                        across: 0,
                        line_prefetch: prefetch_at.some(k).unwrap_or(LinePrefetch::none(at)),
                    };
                    let c = c.add(i * TAPS_PER_ADDRESS * step + j);
                    let before = accumulate_in_place(c, step, first);
                    let tile = RegisterTile { a: side, b, k, c, step, cols: (cols - j).min(w), before };
                    match threes.len() {
                        4.. if const { V::TILE_ROWS >= 12 } => tile.wide::<12>(),
                        2.. if const { V::TILE_ROWS >= 6 } => tile.wide::<6>(),
                        _ => tile.wide::<3>(),
                    }
                } / TAPS_PER_ADDRESS;
            }
        }
    }
}

/// Taps, as rows.
#[derive(Clone, Copy)]
struct TapPointers<V: Vector> {
    /// Rows 0, 3, 6 and 9.
    at: [*const V::T; 4],
    /// Terms of this run that are left, and the way to the next one.
    lhs: usize,
    gaps: *const RunGap,
}

impl<V: Vector> RowsOfA<V> for TapPointers<V> {
    const ONE_ADDRESS: bool = false;
    const CONST_STRIDE: bool = true;
    #[inline(always)]
    fn run(self) -> usize {
        self.lhs
    }
    #[inline(always)]
    unsafe fn element(self, r: usize, t: usize) -> V::T {
        // SAFETY: the caller's.
        unsafe { *self.at[r / TAPS_PER_ADDRESS].add(r % TAPS_PER_ADDRESS + t) }
    }
    #[inline(always)]
    fn between_terms(self) {
        compiler_fence(Ordering::SeqCst);
    }
    #[inline(always)]
    unsafe fn advance(&mut self, terms: usize) {
        self.at = self.at.map(|p| opaque_address(p.wrapping_add(terms)));
        self.lhs -= terms;
        if self.lhs == 0 {
            // SAFETY: the caller's: a run has ended, and there is a hop for the end of each.
            let RunGap { skip, count } = unsafe { *self.gaps };
            self.gaps = self.gaps.wrapping_add(1);
            self.at = self.at.map(|p| p.wrapping_add(skip));
            self.lhs = count;
        }
    }
}

/// Adds a chunk of terms whose left rows are taps to a tile; the first chunk is stored.
///
/// # Panics
/// If the planes or `rhs` are too small, or there are more or fewer rows of taps than the tile has.
pub(crate) fn add_taps<T: Real>(tile: &mut OutputTile<'_, T>, isa: Isa, a: TapsA<'_, T>, b: PanelsB<'_, T>) {
    assert!(a.threes.len() * TAPS_PER_ADDRESS == tile.rows.len(), "rows of a tile");
    let cols = tile.cols.len();
    // SAFETY: the tile's rows and columns are in the result, and it is borrowed exclusively. If it
    // is not the first chunk, all of them have been written by it. `multiply_taps` writes so many
    // rows and columns.
    unsafe {
        tile.write_whole(|c, step, first| multiply_taps(isa, TapsBlock { a, b, cols, c, step, first }));
    }
}
