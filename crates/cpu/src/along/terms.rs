//! Terms and results of a row, written as they are computed.
//!
//! How it can be wrong: at the end of a row. Whole windows are computed there too, of whatever stands behind the row, and
//! what is not the row's is thrown away.

use crate::simd::fetch::fetch;
use crate::simd::room::{At, Room};

/// Elements that are computed together: four registers of AVX-512 of f32, eight of AVX2.
pub(super) const WINDOW: usize = 64;
/// A row's last elements are not worth a window if they are no more than these: one such register.
const FEW: usize = 16;

/// Numbers that are computed, in windows. Unlike closures, these functions can be `#[inline(always)]`, and must be: in a
/// function of their own they would be compiled without the kernel's instruction set.
pub(crate) trait Terms<T>: Copy {
    /// What the elements of a window are computed from.
    type Window: Copy;
    /// A window by number.
    fn window(&self, number: usize) -> Self::Window;
    /// Element `j` of a window.
    fn at(&self, w: &Self::Window, j: usize) -> T;
}

/// How far ahead memory is fetched, in bytes: the next row of a thousand f32, or some short ones. The processor foresees what
/// follows within a page, and pages are as long.
const AHEAD: usize = 4096;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Writes whole windows. For each, as much is fetched of what lies [`AHEAD`] of the places, element for element.
#[inline(always)]
pub(super) fn write<T: Copy>(x: impl Terms<T>, y: &mut [T], places: &[*const T]) {
    for (window, y) in y.as_chunks_mut::<WINDOW>().0.iter_mut().enumerate() {
        for place in places {
            let place = place.wrapping_add(window * WINDOW).cast::<u8>().wrapping_add(AHEAD);
            (0..size_of_val(y)).step_by(LINE).for_each(|i| fetch(place.wrapping_add(i)));
        }
        let w = x.window(window);
        for (j, y) in y.iter_mut().enumerate() {
            *y = x.at(&w, j);
        }
    }
}

/// A window of results, for a [`Room`].
#[derive(Clone, Copy)]
struct One<X: Terms<T>, T>(X, X::Window);

impl<X: Terms<T>, T: Copy> At<T> for One<X, T> {
    #[inline(always)]
    fn at(&self, i: usize) -> T {
        self.0.at(&self.1, i)
    }
    #[inline(always)]
    fn cut(self, _: usize) -> Self {
        self
    }
}

/// Writes the next `n` results, the first `n` of `x`.
#[inline(always)]
pub(super) fn finish<T: Copy>(x: impl Terms<T>, n: usize, y: &mut Room<'_, T>) {
    let whole = n / WINDOW;
    for window in 0..whole {
        y.window::<WINDOW>(WINDOW, One(x, x.window(window)));
    }
    let rest = n % WINDOW;
    if rest > FEW {
        y.window::<WINDOW>(rest, One(x, x.window(whole)));
    } else if rest > 0 {
        y.window::<FEW>(rest, One(x, x.window(whole)));
    }
}
