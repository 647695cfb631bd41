//! Implicit-GEMM microkernel operand: rows of A are windows over padded planes, read in place; B is
//! packed.
//!
//! What consecutive windows see under one tap is contiguous in a padded plane, up to the end of a
//! row of windows. So a tile as high as a run of windows has one address for all of its rows, and
//! only weights are packed. A register holds output channels, however short rows of windows are.
//! Windows at the border are tiles of their own, over only those terms that are not padding there.
#![allow(unsafe_code, reason = "vector loads and stores without a check for each")]

use crate::elementwise::real::Real;
use crate::gemm::TermKind;
use crate::gemm::kernels::a_rows::{RowsOfA, opaque_address};
use crate::gemm::kernels::microkernel::accumulate_in_place;
use crate::gemm::kernels::prefetch::{LinePrefetch, OutputPrefetch, PanelPrefetch, RowPrefetch};
use crate::gemm::kernels::register_tile::{ColumnsOfB, PanelB, RegisterTile};
use elinvar_core::{Element, order::CHUNK};
use elinvar_simd::isa::Isa;
use elinvar_simd::quad::GatherVector;
use elinvar_simd::vector::{Vector, VectorKernel, dispatch_vectors, dispatch_vectors_of};
use std::ops::Range;
use std::sync::atomic::{Ordering, compiler_fence};

/// Windows that follow one another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowRun {
    /// Where the first one sees a term at place 0.
    pub(crate) from: usize,
    pub(crate) count: usize,
}

/// Where terms are, seen from place 0.
pub(crate) struct TermOffsets<'a> {
    all: Vec<usize>,
    /// Sets of terms, of which strips take one.
    sets: &'a [TermSubset],
    /// The nearest and the farthest term of all; nothing, if there are none.
    reach: Option<(usize, usize)>,
    /// The same of each set, where the other terms of its windows may be outside; else nothing.
    reaches: Vec<Option<(usize, usize)>>,
}

impl<'a> TermOffsets<'a> {
    /// # Panics
    /// If a set is not one of these terms.
    pub(crate) fn new(all: Vec<usize>, sets: &'a [TermSubset]) -> TermOffsets<'a> {
        assert!(sets.iter().all(|set| set.of == all.len()), "they are sets of these terms");
        let reach = all.iter().min().copied().zip(all.iter().max().copied());
        TermOffsets { reach, reaches: Vec::new(), sets, all }
    }
    /// For windows of which the terms of a set are there, and no others.
    pub(crate) fn of_sets(self) -> TermOffsets<'a> {
        let set = |set: &TermSubset| {
            let places = set.terms().map(|t| (self.all[t], self.all[t]));
            places.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
        };
        TermOffsets { reaches: self.sets.iter().map(set).collect(), ..self }
    }
    fn reach(&self, set: Option<usize>) -> Option<(usize, usize)> {
        set.and_then(|set| self.reaches.get(set).copied()).unwrap_or(self.reach)
    }
    /// How many terms there are.
    pub(crate) fn terms(&self) -> usize {
        self.all.len()
    }
}

/// Some of the terms, chunk by chunk.
pub(crate) struct TermSubset {
    /// Numbers of terms in their chunk.
    all: Vec<u16>,
    /// Where the picks of each chunk end.
    ends: Vec<usize>,
    /// Terms of which they are picked.
    of: usize,
}

impl TermSubset {
    pub(crate) fn new(terms: usize, is_picked: impl Fn(usize) -> bool) -> TermSubset {
        let (mut all, mut ends) = (Vec::new(), Vec::new());
        for chunk in (0..terms).step_by(CHUNK) {
            let some = (chunk..terms.min(chunk + CHUNK)).filter(|&t| is_picked(t));
            all.extend(some.map(|t| u16::try_from(t - chunk).expect("chunks are short")));
            ends.push(all.len());
        }
        TermSubset { all, ends, of: terms }
    }
    /// Those of a chunk.
    fn chunk(&self, n: usize) -> &[u16] {
        &self.all[n.checked_sub(1).map_or(0, |n| self.ends[n])..self.ends[n]]
    }
    /// Numbers of all of them.
    fn terms(&self) -> impl Iterator<Item = usize> {
        (0..self.ends.len()).flat_map(|n| self.chunk(n).iter().map(move |&t| n * CHUNK + usize::from(t)))
    }
}

/// Windows that are equally far apart.
pub(crate) struct WindowStrip {
    /// Where the first one sees a term at place 0, which may be before all planes, and how far on
    /// the next one does.
    pub(crate) from: isize,
    pub(crate) row_stride: usize,
    pub(crate) count: usize,
    /// The first one's row of the result, and how many rows on the next one's is.
    pub(crate) to: usize,
    pub(crate) down: usize,
    /// Which set of terms it is, if they are not all. All are for windows that are neighbours.
    pub(crate) picks: Option<usize>,
}

impl WindowStrip {
    /// Rows of the result.
    pub(crate) fn rows(&self) -> impl Iterator<Item = usize> {
        (0..self.count).map(|i| self.to + i * self.down)
    }
    /// Do all windows see terms as near and as far as these in so many numbers?
    fn is_within(&self, (least, most): (usize, usize), len: usize) -> bool {
        let is_within = |at: isize, place: usize| {
            at.checked_add_unsigned(place).and_then(|at| usize::try_from(at).ok()).is_some_and(|at| at < len)
        };
        let last =
            (self.count - 1).checked_mul(self.row_stride).and_then(|n| self.from.checked_add_unsigned(n));
        is_within(self.from, least) && last.is_some_and(|last| is_within(last, most))
    }
}

/// What windows that follow strips of neighbours see for the first time, which these have fetched:
/// in planes that are read in place.
#[derive(Clone, Copy)]
pub(crate) struct UnseenElements {
    /// How far on from where a strip sees a term at place 0 it begins, and how many numbers of a
    /// plane it is.
    pub(crate) on: usize,
    pub(crate) count: usize,
    /// Distance of planes, and terms of one.
    pub(crate) area: usize,
    pub(crate) taps: usize,
}

/// Windows and what they see.
pub(crate) struct PixelRows<'a, T> {
    /// Planes, with their padding if all terms of a window at an edge are multiplied.
    pub(crate) x: &'a [T],
    /// Of all terms, of which those of a chunk are multiplied.
    pub(crate) places: &'a TermOffsets<'a>,
    pub(crate) terms: Range<usize>,
    /// The rows.
    pub(crate) strips: &'a [WindowStrip],
    pub(crate) fresh: Option<UnseenElements>,
}

/// A chunk's part of a product with a panel.
pub(crate) struct PixelBlock<'a, T> {
    pub(crate) a: PixelRows<'a, T>,
    /// The panel.
    pub(crate) panel: &'a [T],
    /// The one that will be next, or nothing.
    pub(crate) next: &'a [T],
    /// Columns of the panel that count.
    pub(crate) cols: usize,
    /// The result: `cols` numbers of each row, `step` apart.
    pub(crate) c: &'a mut [T],
    pub(crate) step: usize,
    /// Is it the first chunk: the result is stored, not added?
    pub(crate) first: bool,
    pub(crate) kind: TermKind,
    /// Where it will be turned to.
    pub(crate) written: &'a mut OutputPrefetch,
}

/// Multiplies.
///
/// # Panics
/// If something is shorter than it should be.
pub(crate) fn multiply_pixels<T: Real>(isa: Isa, block: PixelBlock<'_, T>) {
    let (w, a) = (crate::gemm::kernels::nr::<T>(isa), &block.a);
    let (k, all) = (a.terms.len(), a.places.all.len());
    if block.cols == 0 {
        return;
    }
    assert!((1..=CHUNK).contains(&k) && a.terms.end <= all, "a chunk has terms");
    assert!(a.terms.start.is_multiple_of(CHUNK) && (k == CHUNK || a.terms.end == all), "it is a whole chunk");
    assert!(block.cols <= w && k * w <= block.panel.len(), "the panel is too short");
    for strip in a.strips.iter().filter(|strip| strip.count > 0) {
        let last = strip.to + (strip.count - 1) * strip.down;
        assert!(last * block.step + block.cols <= block.c.len(), "the result is too short");
        assert!(strip.picks.is_some() || strip.row_stride == 1, "windows of all terms are neighbours");
        let reach = a.places.reach(strip.picks);
        assert!(reach.is_none_or(|reach| strip.is_within(reach, a.x.len())), "a window leaves its planes");
    }
    let (kind, strips, mut prefetch_at, mut block) = (block.kind, block.a.strips, None, block);
    for strips in strips.chunk_by(|a, b| a.picks.is_some() == b.picks.is_some()) {
        let (block, prefetch_at) = (&mut block, &mut prefetch_at);
        if strips[0].picks.is_none() {
            dispatch_vectors_of(kind, isa, PixelTiles::<T, false> { block, strips, prefetch_at });
        } else {
            assert!(kind == TermKind::Elements, "pairs are of all terms");
            dispatch_vectors(isa, PixelTiles::<T, true> { block, strips, prefetch_at });
        }
    }
}

/// Strips of a block whose lengths have been checked, by `multiply_pixels` alone, either of all
/// terms or of some, so that each is compiled by itself: where nothing is optimised, a function
/// with the tiles of both takes more than the stack of a thread.
struct PixelTiles<'a, 'b, T, const PICKED: bool> {
    block: &'a mut PixelBlock<'b, T>,
    strips: &'a [WindowStrip],
    /// What is left to fetch; nothing has been yet.
    prefetch_at: &'a mut Option<PanelPrefetch>,
}

impl<T: Real, const PICKED: bool> VectorKernel for PixelTiles<'_, '_, T, PICKED> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(self) {
        let PixelBlock {
            a: PixelRows { x, places, terms, fresh, .. },
            panel,
            next,
            cols,
            c,
            step,
            first,
            written,
            ..
        } = self.block;
        let (cols, step, first) = (*cols, *step, *first);
        let (sets, places) = (places.sets, &places.all[terms.clone()]);
        let (places, k, w) = (places.as_ptr(), terms.len(), 2 * V::LANES);
        let (at, c) = (panel.as_ptr(), c.as_mut_ptr());
        let next = || (next.len() >= k * w).then_some(next.as_ptr());
        let prefetch_at = self.prefetch_at.get_or_insert_with(|| PanelPrefetch::of::<V>(next(), k));
        for strip in self.strips {
            let picks = strip.picks.map(|set| sets[set].chunk(terms.start / CHUNK));
            let k = picks.map_or(k, <[u16]>::len);
            let mut later = match *fresh {
                Some(UnseenElements { on, count, area, taps }) if strip.row_stride == 1 => {
                    let planes = terms.start / taps..terms.end.div_ceil(taps);
                    let at = x.as_ptr().wrapping_offset(strip.from).wrapping_add(on + planes.start * area);
                    RowPrefetch::rows(at, area, planes.len(), count)
                }
                _ => RowPrefetch::rows(at, 0, 0, 0),
            };
            let mut i = 0;
            while i < strip.count {
                // SAFETY: `multiply_pixels` checked that windows, terms and the panel are there,
                // that picks are of these terms, and that the result has the rows of each strip.
                // The instructions are there: our caller's.
                i += unsafe {
                    let from = x.as_ptr().wrapping_offset(strip.from).wrapping_add(i * strip.row_stride);
                    let c = c.add((strip.to + i * strip.down) * step);
                    let (step, lhs) = (strip.down * step, strip.count - i);
                    let before = accumulate_in_place(c, step, first);
                    let line_prefetch =
                        later.some(k).or_else(|| prefetch_at.some(k)).or_else(|| written.some(k));
                    let line_prefetch = line_prefetch.unwrap_or(LinePrefetch::none(at));
                    let b = PanelB::<V> { at, next: w, across: 0, line_prefetch };
                    if const { PICKED } {
                        let picks = picks.expect("terms are picked").as_ptr();
                        let a = StridedPixels::<V> {
                            picks,
                            places,
                            from,
                            row_stride: strip.row_stride,
                            at: from,
                        };
                        let b = TermSubsetOfB { panel: b, picks };
                        RegisterTile { a, b, k, c, step, cols, before }.next(lhs)
                    } else {
                        let a = ConsecutivePixels::<V> { places, from };
                        RegisterTile { a, b, k, c, step, cols, before }.next(lhs)
                    }
                };
            }
        }
    }
}

/// Windows that follow one another, as rows.
#[derive(Clone, Copy)]
struct ConsecutivePixels<V: Vector> {
    /// That of the next term.
    places: *const usize,
    from: *const V::T,
}

impl<V: Vector> RowsOfA<V> for ConsecutivePixels<V> {
    const ONE_ADDRESS: bool = true;
    const CONST_STRIDE: bool = true;
    #[inline(always)]
    unsafe fn element(self, r: usize, t: usize) -> V::T {
        // SAFETY: the caller's.
        unsafe { *self.from.wrapping_add(*self.places.add(t)).wrapping_add(r) }
    }
    #[inline(always)]
    unsafe fn advance(&mut self, terms: usize) {
        self.places = self.places.wrapping_add(terms);
    }
}

/// Rows that are read from one address: more would need another, fewer more additions for each
/// term.
const ROWS_PER_ADDRESS: usize = 3;

/// Windows that are equally far apart, of some terms of a chunk.
#[derive(Clone, Copy)]
struct StridedPixels<V: Vector> {
    /// The next term's number.
    picks: *const u16,
    places: *const usize,
    from: *const V::T,
    row_stride: usize,
    /// This term of the last row whose number is a multiple of [`ROWS_PER_ADDRESS`].
    at: *const V::T,
}

impl<V: Vector> RowsOfA<V> for StridedPixels<V> {
    const ONE_ADDRESS: bool = true;
    const CONST_STRIDE: bool = false;
    #[inline(always)]
    unsafe fn begin_term(&mut self) {
        // SAFETY: the caller's.
        let place = unsafe { *self.places.add(usize::from(*self.picks)) };
        self.at = self.from.wrapping_add(place);
    }
    #[inline(always)]
    fn row(&mut self, r: usize) {
        if r > 0 && r.is_multiple_of(ROWS_PER_ADDRESS) {
            // The compiler would keep the way to each row, and read all numbers before it
            // multiplies any: there are no registers for that.
            self.at = opaque_address(self.at.wrapping_add(ROWS_PER_ADDRESS * self.row_stride));
            compiler_fence(Ordering::SeqCst);
        }
    }
    #[inline(always)]
    unsafe fn element(self, r: usize, _: usize) -> V::T {
        // SAFETY: the caller's.
        unsafe { *self.at.add(r % ROWS_PER_ADDRESS * self.row_stride) }
    }
    #[inline(always)]
    unsafe fn advance(&mut self, terms: usize) {
        self.picks = self.picks.wrapping_add(terms);
    }
}

/// Those terms of a panel.
#[derive(Clone, Copy)]
struct TermSubsetOfB<V: Vector> {
    panel: PanelB<V>,
    picks: *const u16,
}

impl<V: Vector> ColumnsOfB<V> for TermSubsetOfB<V> {
    const LOAD_BOUND: bool = false;
    #[inline(always)]
    unsafe fn load_term<const R: usize, const W: usize>(&mut self) -> [V; W] {
        // SAFETY: the caller's: there is one more term, whose columns are in the panel.
        unsafe {
            let at = self.panel.at.add(usize::from(*self.picks) * self.panel.next);
            self.picks = self.picks.wrapping_add(1);
            let mut rhs = [V::splat(V::T::ZERO); W];
            for (v, rhs) in rhs.iter_mut().enumerate() {
                *rhs = V::load(at.add(v * V::LANES));
            }
            rhs
        }
    }
    #[inline(always)]
    unsafe fn prefetch_next<const R: usize, const W: usize>(&mut self, terms: usize) {
        // SAFETY: the caller's.
        unsafe { self.panel.prefetch_next::<R, W>(terms) };
    }
}
