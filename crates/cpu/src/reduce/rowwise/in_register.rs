//! In-register accumulation: terms of a row are folded as they are computed; the 128 canonical
//! lanes are two chunks of registers.
//!
//! How it can be wrong: at the end of a row, where elements behind it must not take part; they are
//! replaced by the initial value of a lane, which changes none. And by NaN, which the max and min
//! instructions ignore; it is tracked separately.

use super::term_loop::{PrefetchPolicy, TERM_CHUNK, TermSource};
use crate::reduce::float::Float;
use elinvar_core::order::LANES;
use elinvar_ops::backend::Fold;
use elinvar_simd::dispatch::ReduceLanes;

/// Terms of a row that are folded, and what is done with them besides.
pub(crate) struct RegisterFold<'a, T, X, A, const KEEP: bool> {
    pub(crate) f: Fold,
    pub(crate) x: X,
    /// So many terms take part, at most a block.
    pub(crate) n: usize,
    /// Where whole windows of the terms are written, if they are to be kept.
    pub(crate) kept: &'a mut [T],
    /// What is fetched meanwhile.
    pub(crate) prefetch: A,
}

/// The fold of a row but for its last steps, each of which waits for the one before: those of several rows may go side by side.
#[derive(Clone, Copy)]
pub(crate) struct PartialFold<T, M: ReduceLanes<T>> {
    lanes: M::Few,
    /// Not 0 if an extreme's terms have NaN.
    nan: u16,
}

impl<T: Float, M: ReduceLanes<T>> PartialFold<T, M> {
    /// Of nothing.
    #[inline(always)]
    pub(crate) fn empty() -> Self {
        PartialFold { lanes: M::splat(T::POSITIVE_ZERO).few(Fold::Max), nan: 0 }
    }
    /// What it becomes.
    #[inline(always)]
    pub(crate) fn folded(self, f: Fold) -> T {
        if self.nan != 0 { T::lit(f64::NAN) } else { M::folded(self.lanes, f) }
    }
}

/// The lanes of terms that come in several parts, at most a block of them.
pub(crate) struct LaneSums<T> {
    lanes: [T; LANES],
    /// So many terms came. Parts begin with a window.
    done: usize,
}

impl<T: Float> LaneSums<T> {
    /// Of nothing.
    pub(crate) fn empty(f: Fold) -> Self {
        LaneSums { lanes: [T::init(f); LANES], done: 0 }
    }
    /// What they become, once the last part was [added](RegisterFold::add_to).
    pub(crate) fn folded(&self) -> T {
        self.lanes[0]
    }
}

impl<T: Float, X: TermSource<T>, A: PrefetchPolicy, const KEEP: bool> RegisterFold<'_, T, X, A, KEEP> {
    /// Its fold.
    #[inline(always)]
    pub(crate) fn fold<M: ReduceLanes<T>>(self) -> PartialFold<T, M> {
        let (f, start) = (self.f, M::splat(T::init(self.f)));
        let (left, right, nan) = self.accumulate_onto(start, start);
        PartialFold { lanes: M::combine(f, left, right).few(f), nan }
    }
    /// Adds it to sums, and folds these if `last`.
    #[inline(always)]
    pub(crate) fn add_to<M: ReduceLanes<T>>(self, sums: &mut LaneSums<T>, last: bool) {
        let (f, n) = (self.f, self.n);
        debug_assert!(matches!(f, Fold::Sum | Fold::Prod), "NaN is not looked for");
        debug_assert!(sums.done.is_multiple_of(TERM_CHUNK), "parts begin with a window");
        // With which half does it begin?
        let transposed = !(sums.done / TERM_CHUNK).is_multiple_of(2);
        let (a, b) = if transposed { (TERM_CHUNK, 0) } else { (0, TERM_CHUNK) };
        let (left, right, _) =
            self.accumulate_onto::<M>(M::load(&sums.lanes[a..]), M::load(&sums.lanes[b..]));
        sums.done += n;
        if last {
            let both = if transposed { M::combine(f, right, left) } else { M::combine(f, left, right) };
            sums.lanes[0] = M::folded(both.few(f), f);
        } else {
            left.store(&mut sums.lanes[a..]);
            right.store(&mut sums.lanes[b..]);
        }
    }
    /// Both halves of the lanes with its terms, and what was seen of NaN. They are written out, as the compiler keeps them in registers
    /// only so.
    #[inline(always)]
    fn accumulate_onto<M: ReduceLanes<T>>(self, mut left: M, mut right: M) -> (M, M, u16) {
        debug_assert_eq!(M::WIDTH, LANES / 2, "the lanes are two windows");
        let RegisterFold { f, x, n, kept, prefetch } = self;
        let mut nan = 0;
        let kept = kept.as_chunks_mut::<TERM_CHUNK>().0;
        let whole = n / LANES * 2;
        // Of both as many as the loop goes through, so that it checks no more than its own numbers.
        let (all, all_kept) = (x.cut(whole), if KEEP { &mut kept[..whole] } else { &mut [] });
        let mut chunk = 0;
        while chunk < whole {
            prefetch.chunk(chunk);
            add::<T, M, KEEP>(f, all, chunk, all_kept, None, &mut left, &mut nan);
            chunk += 1;
            // Always so, as `whole` is even; the compiler does not know.
            if chunk < whole {
                prefetch.chunk(chunk);
                add::<T, M, KEEP>(f, all, chunk, all_kept, None, &mut right, &mut nan);
            }
            chunk += 1;
        }
        if whole * TERM_CHUNK < n {
            add::<T, M, KEEP>(f, x, whole, kept, Some(n - whole * TERM_CHUNK), &mut left, &mut nan);
        }
        if (whole + 1) * TERM_CHUNK < n {
            add::<T, M, KEEP>(
                f,
                x,
                whole + 1,
                kept,
                Some(n - (whole + 1) * TERM_CHUNK),
                &mut right,
                &mut nan,
            );
        }
        (left, right, nan)
    }
}

/// Adds a window's terms to half of the lanes, the `first` ones if it is said how many.
#[inline(always)]
fn add<T: Float, M: ReduceLanes<T>, const KEEP: bool>(
    f: Fold,
    x: impl TermSource<T>,
    chunk: usize,
    kept: &mut [[T; TERM_CHUNK]],
    first: Option<usize>,
    lanes: &mut M,
    nan: &mut u16,
) {
    let mut term = x.at::<M>(&x.chunk(chunk), 0);
    if KEEP {
        term.store(&mut kept[chunk]);
    }
    if let Some(first) = first {
        term = term.first(first, T::init(f));
    }
    if matches!(f, Fold::Max | Fold::Min) {
        *nan = term.or_nan(*nan);
    }
    *lanes = M::combine(f, *lanes, term);
}
