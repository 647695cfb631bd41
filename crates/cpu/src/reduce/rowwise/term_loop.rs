//! The vector loop over terms and results of a row, in chunks, with a prefetch policy.
//!
//! How it can be wrong: at the end of a row. A whole chunk is computed there, from whatever follows
//! the row, and what does not belong to the row is dropped.

use elinvar_ops::lane::Lane;
use elinvar_simd::LINE;
use elinvar_simd::dispatch::SimdLanes;
use elinvar_simd::prefetch::{prefetch_l1, prefetch_lines};
use elinvar_simd::uninit::{FillChunk, UninitSlice};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Elements that are computed together: four registers of AVX-512 of f32, eight of AVX2. What a formula reads at once
/// divides them.
pub(crate) const TERM_CHUNK: usize = 64;
/// A row's last elements are not worth a window if they are no more than these: one such register. What it reads at once of few
/// divides them.
const TAIL_ELEMENTS: usize = 16;

/// Numbers that are computed, in windows. Unlike closures, these functions can be `#[inline(always)]`, and must be: in a
/// function of their own they would be compiled without the kernel's instruction set.
pub(crate) trait TermSource<T>: Copy {
    /// What the elements of a window are computed from.
    type Chunk: Copy;
    /// Only these windows, so many, from the first on. Where a loop goes through as many, the compiler then sees that no number needs a
    /// check; that was a seventh of layer norm.
    fn cut(self, chunks: usize) -> Self;
    /// A window by number.
    fn chunk(&self, number: usize) -> Self::Chunk;
    /// The elements of a window from `j` on that go at once.
    fn at<R: SimdLanes<T> + Lane>(&self, w: &Self::Chunk, j: usize) -> R;
}

/// How far ahead memory is fetched, in bytes: the next row of a thousand f32, or some short ones. The processor foresees what
/// follows within a page, and pages are as long.
pub(crate) const PREFETCH_DISTANCE_BYTES: usize = 4096;

/// What memory fetches, window by window, while terms are computed.
pub(crate) trait PrefetchPolicy: Copy {
    /// Has as much as a window fetched.
    fn chunk(&self, number: usize);
}

/// What lies from these places on, for soon.
#[derive(Clone, Copy)]
pub(crate) struct PrefetchL1<T, const P: usize>(pub(crate) [*const T; P]);

impl<T: Copy, const P: usize> PrefetchPolicy for PrefetchL1<T, P> {
    #[inline(always)]
    fn chunk(&self, number: usize) {
        for place in self.0 {
            let place = place.wrapping_add(number * TERM_CHUNK).cast::<u8>();
            (0..TERM_CHUNK * size_of::<T>()).step_by(LINE).for_each(|i| prefetch_l1(place.wrapping_add(i)));
        }
    }
}

/// What lies from a place on, for when all of this row has been read: more than the first-level cache holds.
#[derive(Clone, Copy)]
pub(crate) struct PrefetchL2<T>(pub(crate) *const T);

impl<T: Copy> PrefetchPolicy for PrefetchL2<T> {
    #[inline(always)]
    fn chunk(&self, number: usize) {
        prefetch_lines(self.0.wrapping_add(number * TERM_CHUNK), TERM_CHUNK);
    }
}

/// One of these, or nothing.
#[derive(Clone, Copy)]
pub(crate) enum AnyPrefetch<T> {
    Nothing,
    L1(PrefetchL1<T, 2>),
    L2(PrefetchL2<T>),
}

/// Writes whole windows. For each, as much is fetched as is said.
#[inline(always)]
pub(crate) fn write_terms<T: Copy, L: SimdLanes<T> + Lane>(
    x: impl TermSource<T>,
    y: &mut [T],
    prefetch: impl PrefetchPolicy,
) {
    for (number, y) in y.as_chunks_mut::<TERM_CHUNK>().0.iter_mut().enumerate() {
        prefetch.chunk(number);
        let w = x.chunk(number);
        let mut j = 0;
        while j < TERM_CHUNK {
            x.at::<L>(&w, j).store(&mut y[j..]);
            j += L::WIDTH;
        }
    }
}

/// As [`write_terms`], with what is said fetched.
#[inline(always)]
pub(crate) fn write_terms_prefetching<T: Copy, L: SimdLanes<T> + Lane>(
    x: impl TermSource<T>,
    y: &mut [T],
    prefetch: AnyPrefetch<T>,
) {
    match prefetch {
        AnyPrefetch::L1(soon) => write_terms::<_, L>(x, y, soon),
        AnyPrefetch::Nothing => write_terms::<_, L>(x, y, PrefetchL1::<T, 0>([])),
        AnyPrefetch::L2(later) => write_terms::<_, L>(x, y, later),
    }
}

/// Results in windows, for a [`UninitSlice`].
struct TermChunks<X, L>(X, PhantomData<L>);

impl<T: Copy, X: TermSource<T>, L: SimdLanes<T> + Lane, const W: usize> FillChunk<T, W> for TermChunks<X, L> {
    #[inline(always)]
    fn fill(&self, number: usize, y: &mut [MaybeUninit<T>; W]) {
        let w = self.0.chunk(number);
        let mut j = 0;
        while j < W {
            self.0.at::<L>(&w, j).write(&mut y[j..]);
            j += L::WIDTH;
        }
    }
}

/// Writes the next `n` results, the first `n` of `x`.
#[inline(always)]
pub(crate) fn write_results<T: Copy, L: SimdLanes<T> + Lane, S: SimdLanes<T> + Lane>(
    x: impl TermSource<T>,
    n: usize,
    y: &mut UninitSlice<'_, T>,
) {
    let (whole, rest) = (n / TERM_CHUNK, n % TERM_CHUNK);
    y.chunks::<TERM_CHUNK>(whole, &TermChunks(x.cut(whole), PhantomData::<L>));
    if rest > TAIL_ELEMENTS {
        y.partial_chunk::<TERM_CHUNK>(rest, whole, &TermChunks(x, PhantomData::<L>));
    } else if rest > 0 {
        y.partial_chunk::<TAIL_ELEMENTS>(rest, whole, &TermChunks(x, PhantomData::<S>));
    }
}
