//! The vector loops of row-wise formulas: terms of a statistic, results, and what they are folded
//! to.
//!
//! What depends on the formula is nothing but loops over chunks of [`TERM_CHUNK`] elements
//! ([`RowLoops`]): of a group of rows, or of 64 strided rows side by side, one per lane. Which
//! rows, how they are staged, and how terms in memory are folded is common to all formulas, and not
//! here.
//!
//! Where the instruction set has registers for it, terms are folded as they are computed: the 128
//! lanes of the canonical order are two chunks of registers. Elsewhere terms are written to a block
//! and folded there.
//!
//! How it can be wrong: at the end of a row. A whole chunk is computed there, from whatever follows
//! the row; of its terms those behind the row are replaced by the initial value of a lane, and its
//! results are written over by those of the next row, or dropped. And by NaN, which the max and min
//! instructions ignore; it is tracked separately.
#![allow(unsafe_code, reason = "a check for each chunk would take as long as a light formula")]

use crate::dispatch::{SimdFloat, folds_in_registers, run_lanes};
use crate::isa::Isa;
use crate::uninit::UninitSlice;
use elinvar_lane::formula::{Columns, RowFormula, RowOut, STATS};
use std::marker::PhantomData;

mod columns;
mod element;
mod lane_sums;
mod prefetch;
mod results;
mod strided;
mod terms;

use columns::AddRowTask;
use element::{Each, OfTerm};
pub use lane_sums::{LaneSums, combine_lanes, initial};
pub use prefetch::Prefetch;
use results::{OnceTask, ResultsTask};
use strided::{StridedFoldTask, StridedResultsTask};
use terms::{FinishTask, TermsTask, Whole};

/// Elements that are computed together: four registers of AVX-512 of f32, eight of AVX2.
pub const TERM_CHUNK: usize = 64;
/// The last elements of a row are not worth a chunk if they are no more than these: one register of
/// AVX-512.
const TAIL_ELEMENTS: usize = 16;
/// Rows of a group, at most. Each step of a row waits for the one before, most of all a fold for
/// the last of its terms; the steps of several short rows fill the gaps, and share the calls.
pub const MAX_GROUP_ROWS: usize = 16;
/// Operands of the largest formula.
pub const MAX_ROW_OPERANDS: usize = 5;

/// A number of each of 64 rows.
pub type RowLanes<T> = [T; TERM_CHUNK];
/// The statistics of up to 64 rows. Those that a formula has not, or not yet, are 0.
pub type Statistics<T> = [RowLanes<T>; STATS];

/// An operand of some rows, followed by anything up to a whole chunk.
#[derive(Clone, Copy, Debug)]
pub struct RowSlice<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// From a row to the next.
    pub step: usize,
    /// Is it but one chunk, which stands for all of a row?
    pub repeats: bool,
}

impl<T> RowSlice<'_, T> {
    /// Nothing.
    pub const EMPTY: Self = RowSlice { data: &[], step: 0, repeats: false };
}

/// The operands of some rows, or of a part of one; or those of strided rows, of which a chunk is an
/// element of 64.
#[derive(Clone, Copy)]
pub struct RowBlock<'a, T> {
    /// Where each operand begins.
    x: [*const T; MAX_ROW_OPERANDS],
    /// From a row to the next.
    step: [usize; MAX_ROW_OPERANDS],
    /// From a chunk to the next.
    chunk: [usize; MAX_ROW_OPERANDS],
    operands: usize,
    rows: usize,
    /// Elements here of a row.
    len: usize,
    life: PhantomData<&'a [T]>,
}

impl<'a, T: SimdFloat> RowBlock<'a, T> {
    /// `rows` rows of `len` elements.
    ///
    /// # Panics
    /// If an operand has not all chunks of the rows.
    pub fn new(x: &[RowSlice<'a, T>], rows: usize, len: usize) -> Self {
        let mut b = RowBlock {
            x: [std::ptr::null(); MAX_ROW_OPERANDS],
            step: [0; MAX_ROW_OPERANDS],
            chunk: [0; MAX_ROW_OPERANDS],
            operands: x.len(),
            rows,
            len,
            life: PhantomData,
        };
        for (i, x) in x.iter().enumerate() {
            let chunks = if x.repeats { TERM_CHUNK } else { len.next_multiple_of(TERM_CHUNK) };
            let reach = rows.saturating_sub(1) * x.step + if len == 0 { 0 } else { chunks };
            assert!(rows == 0 || reach <= x.data.len(), "an operand ends within a row");
            (b.x[i], b.step[i]) = (x.data.as_ptr(), x.step);
            b.chunk[i] = if x.repeats { 0 } else { TERM_CHUNK };
        }
        b
    }
    /// Strided rows: of each operand the chunks of `count` elements, or one for all.
    pub fn strided(x: &[(&'a [RowLanes<T>], bool)], count: usize) -> Self {
        let mut all = [RowSlice::EMPTY; MAX_ROW_OPERANDS];
        for (into, (chunks, repeats)) in all.iter_mut().zip(x) {
            *into = RowSlice { data: chunks.as_flattened(), step: 0, repeats: *repeats };
        }
        RowBlock::new(&all[..x.len()], 1, count * TERM_CHUNK)
    }
    /// `rows` of these rows, from `first` on.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn group(&self, first: usize, rows: usize) -> Self {
        assert!(first + rows <= self.rows, "a group ends behind the rows");
        let mut b = RowBlock { rows, ..*self };
        for (x, step) in b.x.iter_mut().zip(&b.step).take(b.operands) {
            *x = x.wrapping_add(first * step);
        }
        b
    }
    /// How many chunks a row has.
    #[inline(always)]
    fn chunks(&self) -> usize {
        self.len.div_ceil(TERM_CHUNK)
    }
    /// A row of each operand. Places are read one by one: a load of several just after each was
    /// stored waits until they are in the cache.
    ///
    /// # Safety
    /// There are `N` operands and so many rows.
    #[inline(always)]
    unsafe fn row<const N: usize>(&self, row: usize) -> RowOf<'a, T, N> {
        let mut of = RowOf { x: [std::ptr::null(); N], chunk: [0; N], life: PhantomData };
        for i in 0..N {
            // SAFETY: `new` saw that the operand has all rows.
            (of.x[i], of.chunk[i]) = (unsafe { self.x[i].add(row * self.step[i]) }, self.chunk[i]);
        }
        of
    }
}

/// A row of each operand.
#[derive(Clone, Copy)]
struct RowOf<'a, T, const N: usize> {
    x: [*const T; N],
    /// From a chunk to the next.
    chunk: [usize; N],
    life: PhantomData<&'a [T]>,
}

impl<'a, T, const N: usize> RowOf<'a, T, N> {
    /// Chunk `number`, or the first elements of it.
    ///
    /// # Safety
    /// The row has so many chunks.
    #[inline(always)]
    unsafe fn at<const W: usize>(&self, number: usize) -> [&'a [T; W]; N] {
        const { assert!(W <= TERM_CHUNK) };
        // SAFETY: `RowBlock::new` saw that the operand has all chunks of all rows.
        // (A loop: a closure would be compiled without the instruction set of the kernel.)
        let mut all: [&'a [T; W]; N] = [unsafe { &*self.x[0].add(number * self.chunk[0]).cast() }; N];
        for (i, x) in all.iter_mut().enumerate().skip(1) {
            // SAFETY: as above.
            *x = unsafe { &*self.x[i].add(number * self.chunk[i]).cast() };
        }
        all
    }
}

/// Where the terms of a statistic go.
pub struct TermsOut<'a, T> {
    /// Room for whole chunks of them, if they are wanted.
    pub terms: &'a mut [T],
    /// From a row of terms to the next.
    pub step: usize,
    /// Where [`folds_in_registers`] says that it can be done: the lanes that they join.
    pub sums: Option<&'a mut LaneSums<T>>,
    /// What is fetched meanwhile.
    pub prefetch: Prefetch<T>,
}

impl<'a, T> TermsOut<'a, T> {
    /// Written.
    pub fn written(terms: &'a mut [T], step: usize, prefetch: Prefetch<T>) -> Self {
        TermsOut { terms, step, sums: None, prefetch }
    }
}

/// What is stored of a group of rows beside its statistics, and fetched meanwhile.
pub struct GroupOut<'a, T> {
    /// Room for whole chunks of the last statistic's terms, if they are kept.
    pub terms: &'a mut [T],
    /// From a row of terms to the next.
    pub step: usize,
    /// What is fetched during each statistic. (A reference, as all of this is passed on by one: a
    /// copy of what was just stored waits for all stores before it.)
    pub prefetch: &'a [Prefetch<T>; STATS],
    /// The result of each row, of a formula that has one.
    pub once: &'a mut [T; MAX_GROUP_ROWS],
}

/// The loops of a formula over rows of floats, compiled for each instruction set.
pub trait RowLoops<T: SimdFloat>: Send + Sync {
    /// The terms of statistic `k` of all rows. Statistics are only read: one kernel serves this and
    /// [`RowLoops::statistics`], so that a formula's loops are compiled once. `n` is the number of
    /// elements of a whole row, here as below.
    fn terms(
        &self,
        isa: Isa,
        k: usize,
        b: &RowBlock<'_, T>,
        s: &mut Statistics<T>,
        n: T,
        out: TermsOut<'_, T>,
    );
    /// All statistics of at most [`MAX_GROUP_ROWS`] whole rows of at most a block, and the result
    /// of each row of a formula that has one, in one call. Terms are folded in registers, where
    /// that can be done.
    fn statistics(
        &self,
        isa: Isa,
        b: &RowBlock<'_, T>,
        s: &mut Statistics<T>,
        n: T,
        out: &mut GroupOut<'_, T>,
    );
    /// Statistic `k` of so many rows from their folds.
    fn finish(&self, isa: Isa, k: usize, rows: usize, folded: &RowLanes<T>, s: &mut Statistics<T>, n: T);
    /// The results of all elements of all rows.
    fn results(&self, isa: Isa, b: &RowBlock<'_, T>, s: &Statistics<T>, n: T, y: &mut UninitSlice<'_, T>);
    /// The same from the terms of the last statistic, the only operand.
    fn results_of_terms(
        &self,
        isa: Isa,
        b: &RowBlock<'_, T>,
        s: &Statistics<T>,
        n: T,
        y: &mut UninitSlice<'_, T>,
    );
    /// The result of each of so many rows.
    fn once(&self, isa: Isa, rows: usize, s: &Statistics<T>, n: T, y: &mut RowLanes<T>);

    /// The terms of statistic `k` of 64 strided rows join the lanes, of which the first is that of
    /// the block's term `at`. Those of a last statistic that is kept are written as well.
    fn strided_fold(
        &self,
        isa: Isa,
        k: usize,
        b: &RowBlock<'_, T>,
        s: &Statistics<T>,
        n: T,
        at: usize,
        lanes: &mut [RowLanes<T>],
        terms: &mut [RowLanes<T>],
    );
    /// The results of all elements of 64 strided rows.
    fn strided_results(&self, isa: Isa, b: &RowBlock<'_, T>, s: &Statistics<T>, n: T, y: &mut [RowLanes<T>]);
    /// The same from the terms of the last statistic, which they are written over.
    fn strided_results_of_terms(&self, isa: Isa, s: &Statistics<T>, n: T, y: &mut [RowLanes<T>]);
}

/// The loops of a formula's sums over rows.
pub trait ColumnLoops<T: SimdFloat>: Send + Sync {
    /// Adds the terms of sum `k` at the elements of a row to `sums`, whole chunks.
    fn add_row(&self, isa: Isa, k: usize, b: &RowBlock<'_, T>, s: &Statistics<T>, n: T, sums: &mut [T]);
}

/// Does a formula make its results from the last statistic's terms?
pub const fn keeps_terms<R: RowFormula<N>, const N: usize>() -> bool {
    R::KEEPS && matches!(R::OUT, RowOut::Each) && !R::FOLDS.is_empty()
}

/// Is anything fetched while terms of statistic `K` are computed? Not while a row comes from memory
/// itself, unless it has several operands.
const fn fetches<R: RowFormula<N>, const N: usize, const K: usize>() -> bool {
    N > 1 || K + 1 == R::FOLDS.len() && (K > 0 || keeps_terms::<R, N>())
}

macro_rules! column_loops {
    ($($t:ty),*) => {$(
        impl<R: Columns<N>, const N: usize> ColumnLoops<$t> for crate::compiled::Compiled<R, N> {
            fn add_row(
                &self,
                isa: Isa,
                k: usize,
                b: &RowBlock<'_, $t>,
                s: &Statistics<$t>,
                n: $t,
                sums: &mut [$t],
            ) {
                assert!(b.operands == N, "{}: a formula is given as many operands as it has", R::NAME);
                assert!(sums.len() / TERM_CHUNK <= b.chunks(), "{}: a sum for each element", R::NAME);
                run_lanes(isa, &mut AddRowTask { r: self.0, k, b, s, n, sums });
            }
        }
    )*};
}
column_loops!(f32, f64);

/// The loops of formula `R`.
macro_rules! row_loops {
    ($($t:ty),*) => {$(
        impl<R: RowFormula<N>, const N: usize> RowLoops<$t> for crate::compiled::Compiled<R, N> {
            fn terms(
                &self,
                isa: Isa,
                k: usize,
                b: &RowBlock<'_, $t>,
                s: &mut Statistics<$t>,
                n: $t,
                out: TermsOut<'_, $t>,
            ) {
                let TermsOut { terms, step, sums, prefetch } = out;
                let (of, whole, mut once) = (k..k + 1, Whole::No(sums), [0.0; MAX_GROUP_ROWS]);
                let mut out = GroupOut { terms, step, prefetch: &[prefetch; STATS], once: &mut once };
                TermsTask { r: self.0, of, b, s, n, out: &mut out, whole }.run(isa);
            }
            fn statistics(
                &self,
                isa: Isa,
                b: &RowBlock<'_, $t>,
                s: &mut Statistics<$t>,
                n: $t,
                out: &mut GroupOut<'_, $t>,
            ) {
                assert!(folds_in_registers::<$t>(isa), "{}: no registers to fold terms in", R::NAME);
                TermsTask { r: self.0, of: 0..R::FOLDS.len(), b, s, n, out, whole: Whole::Yes }.run(isa);
            }
            fn finish(
                &self,
                isa: Isa,
                k: usize,
                rows: usize,
                folded: &RowLanes<$t>,
                s: &mut Statistics<$t>,
                n: $t,
            ) {
                assert!(rows <= TERM_CHUNK, "{}: statistics of so many rows", R::NAME);
                run_lanes(isa, &mut FinishTask { r: self.0, k, rows, folded, s, n });
            }
            fn results(
                &self,
                isa: Isa,
                b: &RowBlock<'_, $t>,
                s: &Statistics<$t>,
                n: $t,
                y: &mut UninitSlice<'_, $t>,
            ) {
                if const { matches!(R::OUT, RowOut::Each) } {
                    ResultsTask::<'_, '_, _, _, N> { f: Each(self.0), b, s, n, y }.run(isa);
                } else {
                    unreachable!("{}: it has no result at an element", R::NAME);
                }
            }
            fn results_of_terms(
                &self,
                isa: Isa,
                b: &RowBlock<'_, $t>,
                s: &Statistics<$t>,
                n: $t,
                y: &mut UninitSlice<'_, $t>,
            ) {
                if const { keeps_terms::<R, N>() } {
                    ResultsTask { f: OfTerm::<R, N>(self.0), b, s, n, y }.run(isa);
                } else {
                    unreachable!("{}: its terms are not kept", R::NAME);
                }
            }
            fn once(&self, isa: Isa, rows: usize, s: &Statistics<$t>, n: $t, y: &mut RowLanes<$t>) {
                if const { matches!(R::OUT, RowOut::Once) } {
                    assert!(rows <= TERM_CHUNK, "{}: statistics of so many rows", R::NAME);
                    run_lanes(isa, &mut OnceTask { r: self.0, rows, s, n, y });
                } else {
                    unreachable!("{}: it has no result for a row", R::NAME);
                }
            }
            fn strided_fold(
                &self,
                isa: Isa,
                k: usize,
                b: &RowBlock<'_, $t>,
                s: &Statistics<$t>,
                n: $t,
                at: usize,
                lanes: &mut [RowLanes<$t>],
                terms: &mut [RowLanes<$t>],
            ) {
                assert!(b.operands == N, "{}: a formula is given as many operands as it has", R::NAME);
                run_lanes(isa, &mut StridedFoldTask { r: self.0, k, b, s, n, at, lanes, terms });
            }
            fn strided_results(
                &self,
                isa: Isa,
                b: &RowBlock<'_, $t>,
                s: &Statistics<$t>,
                n: $t,
                y: &mut [RowLanes<$t>],
            ) {
                assert!(b.operands == N, "{}: a formula is given as many operands as it has", R::NAME);
                assert!(y.len() <= b.chunks(), "{}: a result for each element", R::NAME);
                if const { matches!(R::OUT, RowOut::Each) } {
                    run_lanes(isa, &mut StridedResultsTask { r: self.0, b: Some(b), s, n, y });
                } else {
                    unreachable!("{}: it has no result at an element", R::NAME);
                }
            }
            fn strided_results_of_terms(
                &self,
                isa: Isa,
                s: &Statistics<$t>,
                n: $t,
                y: &mut [RowLanes<$t>],
            ) {
                if const { keeps_terms::<R, N>() } {
                    run_lanes(isa, &mut StridedResultsTask { r: self.0, b: None, s, n, y });
                } else {
                    unreachable!("{}: its terms are not kept", R::NAME);
                }
            }
        }
    )*};
}
row_loops!(f32, f64);
