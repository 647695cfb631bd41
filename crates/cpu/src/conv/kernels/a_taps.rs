//! c = a * b or c += a * b, for a chunk of terms, where the rows of a are taps of windows over padded planes, read as they lie, and b is
//! packed: a gradient by weights.
//!
//! What a tap sees from windows that follow one another are neighbours in a padded plane, up to the end of a row of windows; and taps
//! that are neighbours themselves see neighbours. So three rows have one address, and a tile goes from a row of windows to the next
//! by moving its addresses; nothing of a is packed, nine times as large as its planes if windows are 3 x 3.
#![allow(unsafe_code, reason = "vector loads and stores without a check for each")]

use super::a_pixels::Run;
use crate::gemm::Real;
use crate::gemm::kernels::a_rows::opaque_address;
use crate::gemm::kernels::microkernel::{
    PanelB, PanelsB, RegisterTile, RowsOfA, accumulate_in_place, dispatch_vectors_of,
};
use crate::gemm::kernels::prefetch::{LinePrefetch, PanelPrefetch};
use crate::simd::isa::Isa;
use crate::simd::quad::GatherVector;
use crate::simd::vector::{Vector, VectorKernel};
use elinvar_core::order::CHUNK;
use std::sync::atomic::{Ordering, compiler_fence};

/// Rows that have one address.
pub(crate) const THREE: usize = 3;

/// Rows of a left factor that are taps of windows.
#[derive(Clone, Copy)]
pub(crate) struct Taps<'a, T> {
    /// Padded planes.
    pub(crate) x: &'a [T],
    /// Where the first of each three rows lies, seen from place 0.
    pub(crate) threes: &'a [usize],
    /// The terms.
    pub(crate) runs: &'a [Run],
}

/// A chunk's part of a product.
pub(crate) struct Block<'a, T> {
    pub(crate) a: Taps<'a, T>,
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
struct Hop {
    /// How far the next one begins behind the end, wrapping.
    skip: usize,
    /// Its terms.
    count: usize,
}

/// Multiplies a block.
///
/// # Safety
/// `c` points to a row of `cols` numbers for each row of the left block, `step` apart, that nobody else reads or writes meanwhile;
/// unless it is the first chunk, they have been written.
///
/// # Panics
/// If `a` or `b` is shorter than it should be.
pub(crate) unsafe fn taps<T: Real>(isa: Isa, block: Block<'_, T>) {
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
    let end = end.checked_add(three + THREE - 1);
    assert!(end.is_some_and(|end| end <= block.a.x.len()), "a window leaves its planes");
    let mut hops = [Hop { skip: 0, count: usize::MAX }; CHUNK];
    for (hop, two) in hops.iter_mut().zip(runs.windows(2)) {
        let skip = two[1].from.wrapping_sub(two[0].from + two[0].count);
        *hop = Hop { skip, count: two[1].count };
    }
    dispatch_vectors_of(block.b.kind, isa, Tiles { block, k, hops: &hops });
}

/// A block whose lengths have been checked, by `taps` alone.
struct Tiles<'a, T> {
    block: Block<'a, T>,
    k: usize,
    /// One for the end of each run; behind the last run nothing is read.
    hops: &'a [Hop; CHUNK],
}

impl<T: Real> VectorKernel for Tiles<'_, T> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(self) {
        let Block { a, b, cols, c, step, first } = self.block;
        let (k, w) = (self.k, 2 * V::LANES);
        for (panel, j) in (0..cols).step_by(w).enumerate() {
            let at = b.data.as_ptr().wrapping_add(panel * b.across);
            let mut ahead = PanelPrefetch::of::<V>(b.next(panel, j + w >= cols), k);
            let mut i = 0;
            while i < a.threes.len() {
                let threes = &a.threes[i..];
                let from = a.runs[0].from;
                let place =
                    |n: usize| a.x.as_ptr().wrapping_add(threes.get(n).map_or(0, |three| three + from));
                let side = Lying::<V> {
                    at: [place(0), place(1), place(2), place(3)],
                    lhs: a.runs[0].count,
                    hops: self.hops.as_ptr(),
                };
                // SAFETY: `taps` checked that taps of all terms and the panels are there; the tile lies inside of the result, for
                // which its caller vouches. The instructions are there: our caller's.
                i += unsafe {
                    let b = PanelB::<V> {
                        at,
                        next: b.step,
                        across: 0,
                        line_prefetch: ahead.some(k).unwrap_or(LinePrefetch::nothing(at)),
                    };
                    let c = c.add(i * THREE * step + j);
                    let before = accumulate_in_place(c, step, first);
                    let tile = RegisterTile { a: side, b, k, c, step, cols: (cols - j).min(w), before };
                    match threes.len() {
                        4.. if const { V::ROWS >= 12 } => tile.wide::<12>(),
                        2.. if const { V::ROWS >= 6 } => tile.wide::<6>(),
                        _ => tile.wide::<3>(),
                    }
                } / THREE;
            }
        }
    }
}

/// Taps, as rows.
#[derive(Clone, Copy)]
struct Lying<V: Vector> {
    /// Rows 0, 3, 6 and 9.
    at: [*const V::T; 4],
    /// Terms of this run that are left, and the way to the next one.
    lhs: usize,
    hops: *const Hop,
}

impl<V: Vector> RowsOfA<V> for Lying<V> {
    const ONE_ADDRESS: bool = false;
    const CONST_STRIDE: bool = true;
    #[inline(always)]
    fn run(self) -> usize {
        self.lhs
    }
    #[inline(always)]
    unsafe fn number(self, r: usize, t: usize) -> V::T {
        // SAFETY: the caller's.
        unsafe { *self.at[r / THREE].add(r % THREE + t) }
    }
    #[inline(always)]
    fn between(self) {
        compiler_fence(Ordering::SeqCst);
    }
    #[inline(always)]
    unsafe fn step(&mut self, terms: usize) {
        self.at = self.at.map(|p| opaque_address(p.wrapping_add(terms)));
        self.lhs -= terms;
        if self.lhs == 0 {
            // SAFETY: the caller's: a run has ended, and there is a hop for the end of each.
            let Hop { skip, count } = unsafe { *self.hops };
            self.hops = self.hops.wrapping_add(1);
            self.at = self.at.map(|p| p.wrapping_add(skip));
            self.lhs = count;
        }
    }
}
