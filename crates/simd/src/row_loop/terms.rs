//! Kernels: the terms of statistics, folded in registers where there are any, and what is made of
//! the folds.

use super::element::{Term, chunk, each_statistic, load, load_statistics, splat};
use super::lane_sums::{LaneSums, initial};
use super::prefetch::RowFetch;
use super::{
    GroupOut, MAX_GROUP_ROWS, RowBlock, RowLanes, RowOf, Statistics, TERM_CHUNK, fetches, keeps_terms,
};
use crate::dispatch::{LaneKernel, ReduceLanes, SimdFloat, SimdLanes, run_lanes};
use crate::isa::Isa;
use elinvar_core::order::LANES;
use elinvar_lane::formula::{Fold, RowFormula, RowOut, STATS};
use elinvar_lane::lane::Lane;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

/// A kernel: the terms of a statistic of some rows, or all statistics of a group.
pub(super) struct TermsTask<'a, 'o, T, R, const N: usize> {
    pub(super) r: R,
    /// Which statistics.
    pub(super) of: Range<usize>,
    pub(super) b: &'a RowBlock<'a, T>,
    pub(super) s: &'a mut Statistics<T>,
    pub(super) n: T,
    pub(super) out: &'a mut GroupOut<'o, T>,
    pub(super) whole: Whole<'a, T>,
}

/// Are these whole rows?
pub(super) enum Whole<'a, T> {
    /// Yes: statistics are finished, and the results of rows are computed.
    Yes,
    /// No: where terms are folded in registers, they join these lanes.
    No(Option<&'a mut LaneSums<T>>),
}

impl<T: SimdFloat, R: RowFormula<N>, const N: usize> TermsTask<'_, '_, T, R, N> {
    /// The check of what the kernel relies on. (The kernel gets a reference: a copy of what was
    /// just stored would wait for it.)
    pub(super) fn run(mut self, isa: Isa) {
        let reach = self.b.rows.saturating_sub(1) * self.out.step + self.b.chunks() * TERM_CHUNK;
        assert!(self.b.operands == N, "{}: a formula is given as many operands as it has", R::NAME);
        assert!(
            self.out.terms.is_empty() || reach <= self.out.terms.len(),
            "{}: room for the terms",
            R::NAME
        );
        assert!(self.b.rows <= MAX_GROUP_ROWS, "{}: so many rows are no group", R::NAME);
        if let Whole::No(Some(_)) = self.whole {
            assert!(self.b.rows == 1, "{}: the sums of one row", R::NAME);
        }
        run_lanes(isa, &mut self);
    }
    /// Terms to memory.
    #[inline(always)]
    fn write<M: SimdLanes<T> + Lane, const K: usize>(&mut self) {
        if self.out.terms.is_empty() {
            return;
        }
        let (b, step, y, n) = (self.b, self.out.step, self.out.terms.as_mut_ptr(), M::splat(self.n));
        let prefetch = &self.out.prefetch[K];
        for row in 0..b.rows {
            let s = splat::<T, M>(self.s, row);
            // SAFETY: `run` has counted the operands.
            let x = unsafe { b.row::<N>(row) };
            let fetch = prefetch.of_row(row, x.x[0]);
            for number in 0..b.chunks() {
                if const { fetches::<R, N, K>() } {
                    fetch.chunk(number);
                }
                // SAFETY: `run` has counted the operands, and seen that there is room for so many
                // chunks.
                let (x, y) = unsafe {
                    let y = y.add(row * step + number * TERM_CHUNK);
                    (x.at::<TERM_CHUNK>(number), &mut *y.cast::<[MaybeUninit<T>; TERM_CHUNK]>())
                };
                chunk(Term::<R, K>(self.r), x, s, n, y);
            }
        }
    }
    /// Terms that are folded while they are in registers.
    #[inline(always)]
    fn fold<M: ReduceLanes<T>, S: SimdLanes<T> + Lane, const K: usize>(&mut self) {
        let (f, start) = (R::FOLDS[K], M::splat(initial(R::FOLDS[K])));
        let (b, step, prefetch) = (self.b, self.out.step, &self.out.prefetch[K]);
        let keeps = const { keeps_terms::<R, N>() && K + 1 == R::FOLDS.len() } && !self.out.terms.is_empty();
        let terms = if keeps { self.out.terms.as_mut_ptr() } else { std::ptr::null_mut() };
        let len = b.len;
        let mut sums = match &mut self.whole {
            Whole::No(Some(sums)) => Some(&mut **sums),
            Whole::No(None) | Whole::Yes => None,
        };
        let mut partial = [const { MaybeUninit::<(M::Few, u16)>::uninit() }; MAX_GROUP_ROWS];
        for (row, partial) in partial.iter_mut().enumerate().take(b.rows) {
            // With which half does it begin? Both are written out, as the compiler keeps them in
            // registers only so.
            let (mut left, mut right, mut nan, mut half) = (start, start, 0u16, 0);
            if let Some(sums) = &sums {
                debug_assert!(sums.done.is_multiple_of(TERM_CHUNK), "parts begin with a chunk");
                half = sums.done / TERM_CHUNK % 2;
                (left, right) = (M::load(&sums.lanes[half]), M::load(&sums.lanes[1 - half]));
            }
            // SAFETY: `run` has counted the operands.
            let x = unsafe { b.row(row) };
            let chunk = RowChunks::<T, R, M, N, K> {
                r: self.r,
                fetch: prefetch.of_row(row, x.x[0]),
                x,
                s: [self.s[0][row], self.s[1][row], self.s[2][row], self.s[3][row]],
                n: self.n,
                lanes: PhantomData,
                terms: terms.wrapping_add(row * step),
                keeps,
            };
            let (mut number, whole) = (0, len / LANES * 2);
            while number < whole {
                // SAFETY: `run` has counted the operands, and seen that there is room for so many
                // chunks; here and below.
                unsafe {
                    left = chunk.add(number, left, &mut nan, None);
                    right = chunk.add(number + 1, right, &mut nan, None);
                }
                number += 2;
            }
            // At most a chunk for each half, written out: chosen at run time, the halves would be
            // kept in memory.
            let rest = len - whole * TERM_CHUNK;
            if rest > 0 {
                // SAFETY: as above.
                left = unsafe { chunk.add(whole, left, &mut nan, Some(rest)) };
            }
            if rest > TERM_CHUNK {
                // SAFETY: as above.
                right = unsafe { chunk.add(whole + 1, right, &mut nan, Some(rest - TERM_CHUNK)) };
            }
            match &mut sums {
                Some(sums) => {
                    debug_assert!(matches!(f, Fold::Sum | Fold::Prod), "NaN is not looked for");
                    left.store(&mut sums.lanes[half]);
                    right.store(&mut sums.lanes[1 - half]);
                    sums.done += len;
                }
                None => _ = partial.write((M::combine(f, left, right).few(f), nan)),
            }
        }
        if let Whole::Yes = self.whole {
            let mut folded = [T::ZERO; MAX_GROUP_ROWS];
            for (folded, partial) in folded.iter_mut().zip(&partial[..b.rows]) {
                // SAFETY: those of all rows were written, as there are no sums that they join.
                let (few, nan) = unsafe { partial.assume_init() };
                let number = M::folded(few, f);
                *folded = if nan != 0 { T::lit(f64::NAN) } else { number };
            }
            finish::<T, R, S, N, K>(self.r, &folded, b.rows, self.s, self.n);
        }
    }
}

/// Statistic `K` of some rows from their folds.
#[inline(always)]
pub(super) fn finish<
    T: SimdFloat,
    R: RowFormula<N>,
    S: SimdLanes<T> + Lane,
    const N: usize,
    const K: usize,
>(
    r: R,
    folded: &[T],
    rows: usize,
    s: &mut Statistics<T>,
    n: T,
) {
    let mut row = 0;
    while row < rows {
        let of_rows = S::load(&folded[row..]);
        r.finish(K, of_rows, load_statistics(s, row), S::splat(n)).store(&mut s[K][row..]);
        row += S::WIDTH;
    }
}

/// The result of each of some rows.
#[inline(always)]
pub(super) fn once<T: SimdFloat, R: RowFormula<N>, S: SimdLanes<T> + Lane, const N: usize>(
    r: R,
    rows: usize,
    s: &Statistics<T>,
    n: T,
    y: &mut [T],
) {
    let nan = [S::splat(T::lit(f64::NAN)); N];
    let mut row = 0;
    while row < rows {
        r.out(nan, load_statistics(s, row), S::splat(n)).store(&mut y[row..]);
        row += S::WIDTH;
    }
}

/// The chunks of a row, whose terms of statistic `K` are folded while they are in registers.
pub(super) struct RowChunks<'a, T, R, M, const N: usize, const K: usize> {
    pub(super) r: R,
    pub(super) x: RowOf<'a, T, N>,
    pub(super) fetch: RowFetch<T>,
    /// As numbers: copies of each in registers would be kept in memory, as a chunk's state is.
    pub(super) s: [T; STATS],
    pub(super) n: T,
    pub(super) lanes: PhantomData<M>,
    /// Where the terms are written, if they are kept.
    pub(super) terms: *mut T,
    pub(super) keeps: bool,
}

impl<T: SimdFloat, R: RowFormula<N>, M: ReduceLanes<T>, const N: usize, const K: usize>
    RowChunks<'_, T, R, M, N, K>
{
    /// Adds a chunk's terms to half of the lanes, the `first` ones if it is said how many.
    ///
    /// # Safety
    /// There are `N` operands, so many chunks of them, and room for as many of terms if they are
    /// kept.
    #[inline(always)]
    unsafe fn add(&self, number: usize, lanes: M, nan: &mut u16, first: Option<usize>) -> M {
        let f = R::FOLDS[K];
        if const { fetches::<R, N, K>() } {
            self.fetch.chunk(number);
        }
        // SAFETY: the caller's operands.
        let x = unsafe { self.x.at::<TERM_CHUNK>(number) };
        let mut s = [M::splat(T::ZERO); STATS];
        for (s, &number) in s.iter_mut().zip(&self.s) {
            *s = M::splat(number);
        }
        let x = load::<T, M, N, TERM_CHUNK>(&x, 0);
        let mut term = self.r.term(K, x, s, M::splat(self.n));
        if const { keeps_terms::<R, N>() } && self.keeps {
            // SAFETY: the caller's room.
            term.store(unsafe { &mut *self.terms.add(number * TERM_CHUNK).cast::<RowLanes<T>>() });
        }
        if let Some(first) = first {
            term = term.first(first, initial(f));
        }
        if matches!(f, Fold::Max | Fold::Min) {
            *nan = term.or_nan(*nan);
        }
        M::combine(f, lanes, term)
    }
}

impl<T: SimdFloat, R: RowFormula<N>, const N: usize> LaneKernel for &mut TermsTask<'_, '_, T, R, N> {
    type T = T;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        for k in self.of.clone() {
            // Terms that are wanted in memory, though their formula does not keep them, are those
            // of a row that comes in uneven parts.
            each_statistic!(k, K => if const { M::WIDTH == TERM_CHUNK } && !matches!(self.whole, Whole::No(None)) {
                self.fold::<M, S, K>()
            } else {
                self.write::<M, K>()
            });
        }
        if const { matches!(R::OUT, RowOut::Once) && M::WIDTH == TERM_CHUNK }
            && let Whole::Yes = self.whole
        {
            once::<T, R, S, N>(self.r, self.b.rows, self.s, self.n, &mut self.out.once[..]);
        }
    }
}

/// A kernel: statistic `k` of some rows from their folds.
pub(super) struct FinishTask<'a, T, R, const N: usize> {
    pub(super) r: R,
    pub(super) k: usize,
    pub(super) rows: usize,
    pub(super) folded: &'a RowLanes<T>,
    pub(super) s: &'a mut Statistics<T>,
    pub(super) n: T,
}

impl<T: SimdFloat, R: RowFormula<N>, const N: usize> LaneKernel for &mut FinishTask<'_, T, R, N> {
    type T = T;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        each_statistic!(self.k, K => {
            finish::<T, R, S, N, K>(self.r, self.folded, self.rows, self.s, self.n);
        });
    }
}
