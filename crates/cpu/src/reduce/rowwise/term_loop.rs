//! Terms and results of a row, written as they are computed.
//!
//! How it can be wrong: at the end of a row. Whole windows are computed there too, of whatever stands behind the row, and
//! what is not the row's is thrown away.

use elinvar_ops::lane::Lane;
use elinvar_simd::LINE;
use elinvar_simd::dispatch::SimdLanes;
use elinvar_simd::prefetch::{prefetch_l1, prefetch_lines};
use elinvar_simd::uninit::{FillChunk, UninitSlice};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Elements that are computed together: four registers of AVX-512 of f32, eight of AVX2. What a formula reads at once
/// divides them.
pub(crate) const WINDOW: usize = 64;
/// A row's last elements are not worth a window if they are no more than these: one such register. What it reads at once of few
/// divides them.
const FEW: usize = 16;

/// Numbers that are computed, in windows. Unlike closures, these functions can be `#[inline(always)]`, and must be: in a
/// function of their own they would be compiled without the kernel's instruction set.
pub(crate) trait Terms<T>: Copy {
    /// What the elements of a window are computed from.
    type Window: Copy;
    /// Only these windows, so many, from the first on. Where a loop goes through as many, the compiler then sees that no number needs a
    /// check; that was a seventh of layer norm.
    fn cut(self, windows: usize) -> Self;
    /// A window by number.
    fn window(&self, number: usize) -> Self::Window;
    /// The elements of a window from `j` on that go at once.
    fn at<R: SimdLanes<T> + Lane>(&self, w: &Self::Window, j: usize) -> R;
}

/// How far ahead memory is fetched, in bytes: the next row of a thousand f32, or some short ones. The processor foresees what
/// follows within a page, and pages are as long.
pub(crate) const AHEAD: usize = 4096;

/// What memory fetches, window by window, while terms are computed.
pub(crate) trait Fetch: Copy {
    /// Has as much as a window fetched.
    fn window(&self, number: usize);
}

/// What lies from these places on, for soon.
#[derive(Clone, Copy)]
pub(crate) struct Soon<T, const P: usize>(pub(crate) [*const T; P]);

impl<T: Copy, const P: usize> Fetch for Soon<T, P> {
    #[inline(always)]
    fn window(&self, number: usize) {
        for place in self.0 {
            let place = place.wrapping_add(number * WINDOW).cast::<u8>();
            (0..WINDOW * size_of::<T>()).step_by(LINE).for_each(|i| prefetch_l1(place.wrapping_add(i)));
        }
    }
}

/// What lies from a place on, for when all of this row has been read: more than the first-level cache holds.
#[derive(Clone, Copy)]
pub(crate) struct Later<T>(pub(crate) *const T);

impl<T: Copy> Fetch for Later<T> {
    #[inline(always)]
    fn window(&self, number: usize) {
        prefetch_lines(self.0.wrapping_add(number * WINDOW), WINDOW);
    }
}

/// One of these, or nothing.
#[derive(Clone, Copy)]
pub(crate) enum Ahead<T> {
    Nothing,
    Soon(Soon<T, 2>),
    Later(Later<T>),
}

/// Writes whole windows. For each, as much is fetched as is said.
#[inline(always)]
pub(crate) fn write<T: Copy, L: SimdLanes<T> + Lane>(x: impl Terms<T>, y: &mut [T], ahead: impl Fetch) {
    for (number, y) in y.as_chunks_mut::<WINDOW>().0.iter_mut().enumerate() {
        ahead.window(number);
        let w = x.window(number);
        let mut j = 0;
        while j < WINDOW {
            x.at::<L>(&w, j).store(&mut y[j..]);
            j += L::WIDTH;
        }
    }
}

/// As [`write`], with what is said fetched.
#[inline(always)]
pub(crate) fn write_ahead<T: Copy, L: SimdLanes<T> + Lane>(x: impl Terms<T>, y: &mut [T], ahead: Ahead<T>) {
    match ahead {
        Ahead::Soon(soon) => write::<_, L>(x, y, soon),
        Ahead::Nothing => write::<_, L>(x, y, Soon::<T, 0>([])),
        Ahead::Later(later) => write::<_, L>(x, y, later),
    }
}

/// Results in windows, for a [`UninitSlice`].
struct InWindows<X, L>(X, PhantomData<L>);

impl<T: Copy, X: Terms<T>, L: SimdLanes<T> + Lane, const W: usize> FillChunk<T, W> for InWindows<X, L> {
    #[inline(always)]
    fn fill(&self, number: usize, y: &mut [MaybeUninit<T>; W]) {
        let w = self.0.window(number);
        let mut j = 0;
        while j < W {
            self.0.at::<L>(&w, j).write(&mut y[j..]);
            j += L::WIDTH;
        }
    }
}

/// Writes the next `n` results, the first `n` of `x`.
#[inline(always)]
pub(crate) fn finish<T: Copy, L: SimdLanes<T> + Lane, S: SimdLanes<T> + Lane>(
    x: impl Terms<T>,
    n: usize,
    y: &mut UninitSlice<'_, T>,
) {
    let (whole, rest) = (n / WINDOW, n % WINDOW);
    y.chunks::<WINDOW>(whole, &InWindows(x.cut(whole), PhantomData::<L>));
    if rest > FEW {
        y.partial_chunk::<WINDOW>(rest, whole, &InWindows(x, PhantomData::<L>));
    } else if rest > 0 {
        y.partial_chunk::<FEW>(rest, whole, &InWindows(x, PhantomData::<S>));
    }
}
