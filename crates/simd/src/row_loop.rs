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

use crate::LINE;
use crate::dispatch::{LaneKernel, ReduceLanes, SimdFloat, SimdLanes, folds_in_registers, run_lanes};
use crate::isa::Isa;
use crate::prefetch::{prefetch_l1, prefetch_lines};
use crate::uninit::UninitSlice;
use elinvar_core::order::LANES;
use elinvar_lane::formula::{Columns, Fold, RowFormula, RowOut, STATS};
use elinvar_lane::lane::Lane;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

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

/// What memory fetches, chunk by chunk, while terms are computed.
#[derive(Clone, Copy)]
pub enum Prefetch<T> {
    /// Nothing.
    Nothing,
    /// What lies from this place on, for soon; so much further for the next row.
    One(*const T, usize),
    /// What lies from these places on, for soon; each so much further for the next row.
    Both([*const T; 2], [usize; 2]),
    /// What lies from a place on, for when all of this row has been read: more than the first-level
    /// cache holds.
    Later(*const T),
}

/// What is fetched during a row: plain places, as a choice for each chunk would take as long as a
/// light formula.
#[derive(Clone, Copy)]
struct RowFetch<T> {
    places: [*const T; 2],
    both: bool,
    later: bool,
}

impl<T> Prefetch<T> {
    /// During a row; where there is nothing to fetch, `x` of the row itself, which is there soon
    /// anyway.
    #[inline(always)]
    fn of_row(&self, row: usize, x: *const T) -> RowFetch<T> {
        let (mut places, mut both, mut later) = ([x; 2], false, false);
        match self {
            Prefetch::Nothing => {}
            Prefetch::One(place, step) => places[0] = place.wrapping_add(row * step),
            Prefetch::Both([a, b], [i, j]) => {
                (places, both) = ([a.wrapping_add(row * i), b.wrapping_add(row * j)], true);
            }
            Prefetch::Later(place) => (places[0], later) = (*place, true),
        }
        RowFetch { places, both, later }
    }
}

impl<T> RowFetch<T> {
    #[inline(always)]
    fn chunk(&self, number: usize) {
        let at = number * TERM_CHUNK;
        if self.later {
            return prefetch_lines(self.places[0].wrapping_add(at), TERM_CHUNK);
        }
        soon(self.places[0].wrapping_add(at));
        if self.both {
            soon(self.places[1].wrapping_add(at));
        }
    }
}

/// The lines of a chunk, to the first-level cache.
#[inline(always)]
fn soon<T>(chunk: *const T) {
    let mut i = 0;
    while i < TERM_CHUNK * size_of::<T>() {
        prefetch_l1(chunk.cast::<u8>().wrapping_add(i));
        i += LINE;
    }
}

/// The lanes of terms that come in several parts, at most a block of them.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct LaneSums<T> {
    lanes: [RowLanes<T>; 2],
    /// So many terms came. Parts begin with a chunk.
    done: usize,
}

impl<T: SimdFloat> LaneSums<T> {
    /// Of nothing.
    pub fn empty(f: Fold) -> Self {
        LaneSums { lanes: [[initial(f); TERM_CHUNK]; 2], done: 0 }
    }
    /// What they become.
    pub fn folded(&self, isa: Isa, f: Fold) -> T {
        let mut folded = T::ZERO;
        run_lanes(isa, FoldLanes { f, lanes: &self.lanes, folded: &mut folded });
        folded
    }
}

/// What the lanes of a fold start from.
#[inline(always)]
pub fn initial<T: SimdFloat>(f: Fold) -> T {
    T::lit(match f {
        Fold::Sum => 0.0,
        Fold::Prod => 1.0,
        Fold::Max => f64::NEG_INFINITY,
        Fold::Min => f64::INFINITY,
    })
}

/// A kernel: both halves of the lanes, as one number.
struct FoldLanes<'a, T> {
    f: Fold,
    lanes: &'a [RowLanes<T>; 2],
    folded: &'a mut T,
}

impl<T: SimdFloat> LaneKernel for FoldLanes<'_, T> {
    type T = T;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        if const { M::WIDTH == TERM_CHUNK } {
            let both = M::combine(self.f, M::load(&self.lanes[0]), M::load(&self.lanes[1]));
            *self.folded = M::folded(both.few(self.f), self.f);
        } else {
            unreachable!("terms are summed in registers only where there are registers for it");
        }
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

/// Two terms of a fold, as one.
#[inline(always)]
pub fn combine_lanes<L: Lane>(f: Fold, a: L, b: L) -> L {
    match f {
        Fold::Sum => a + b,
        Fold::Prod => a * b,
        Fold::Max => a.max(b),
        Fold::Min => a.min(b),
    }
}

/// Copies of each statistic of a row.
#[inline(always)]
fn splat<T: SimdFloat, L: SimdLanes<T>>(s: &Statistics<T>, row: usize) -> [L; STATS] {
    let mut all = [L::splat(T::ZERO); STATS];
    for (a, s) in all.iter_mut().zip(s) {
        *a = L::splat(s[row]);
    }
    all
}

/// Of each statistic those of rows `row` and after.
#[inline(always)]
fn load_statistics<T: SimdFloat, L: SimdLanes<T>>(s: &Statistics<T>, row: usize) -> [L; STATS] {
    let mut all = [L::splat(T::ZERO); STATS];
    for (a, s) in all.iter_mut().zip(s) {
        *a = L::load(&s[row..]);
    }
    all
}

/// Elements `j` and after of each operand.
#[inline(always)]
fn load<T: SimdFloat, L: SimdLanes<T>, const N: usize, const W: usize>(x: &[&[T; W]; N], j: usize) -> [L; N] {
    let mut all = [L::splat(T::ZERO); N];
    for (a, x) in all.iter_mut().zip(x) {
        *a = L::load(&x[j..]);
    }
    all
}

/// A formula of elements and statistics. Unlike a closure, `at` can be `#[inline(always)]`, and
/// must be: in a function of its own it would be compiled without the kernel's instruction set.
trait ElementFormula<const N: usize>: Copy {
    /// The number at an element.
    fn at<L: Lane>(&self, x: [L; N], s: [L; STATS], n: L) -> L;
}

/// The term of statistic `K`.
#[derive(Clone, Copy)]
struct Term<R, const K: usize>(R);
/// The result.
#[derive(Clone, Copy)]
struct Each<R>(R);
/// The result of the last statistic's term.
#[derive(Clone, Copy)]
struct OfTerm<R, const N: usize>(R);

impl<R: RowFormula<N>, const N: usize, const K: usize> ElementFormula<N> for Term<R, K> {
    #[inline(always)]
    fn at<L: Lane>(&self, x: [L; N], s: [L; STATS], n: L) -> L {
        self.0.term(K, x, s, n)
    }
}
impl<R: RowFormula<N>, const N: usize> ElementFormula<N> for Each<R> {
    #[inline(always)]
    fn at<L: Lane>(&self, x: [L; N], s: [L; STATS], n: L) -> L {
        self.0.out(x, s, n)
    }
}
impl<R: RowFormula<N>, const N: usize> ElementFormula<1> for OfTerm<R, N> {
    #[inline(always)]
    fn at<L: Lane>(&self, [term]: [L; 1], s: [L; STATS], n: L) -> L {
        self.0.out_of_term(term, s, n)
    }
}

/// A chunk of one row. What is written is known to be apart from what is read by being an argument.
#[inline(always)]
fn chunk<T: SimdFloat, L: SimdLanes<T> + Lane, F: ElementFormula<N>, const N: usize, const W: usize>(
    f: F,
    x: [&[T; W]; N],
    s: [L; STATS],
    n: L,
    y: &mut [MaybeUninit<T>; W],
) {
    let mut j = 0;
    while j < W {
        f.at(load(&x, j), s, n).write(&mut y[j..]);
        j += L::WIDTH;
    }
}

/// Runs the body with the constant `$K` for statistic `$k`.
macro_rules! each_statistic {
    ($k:expr, $K:ident => $body:expr) => {
        each_statistic!(@ $k, $K, $body, 0 1 2 3)
    };
    (@ $k:expr, $K:ident, $body:expr, $($number:literal)*) => {
        match $k {
            $($number if const { $number < R::FOLDS.len() } => {
                const $K: usize = $number;
                $body
            })*
            _ => unreachable!("a formula has no more statistics than it says"),
        }
    };
}

/// A kernel: the terms of a statistic of some rows, or all statistics of a group.
struct TermsTask<'a, 'o, T, R, const N: usize> {
    r: R,
    /// Which statistics.
    of: Range<usize>,
    b: &'a RowBlock<'a, T>,
    s: &'a mut Statistics<T>,
    n: T,
    out: &'a mut GroupOut<'o, T>,
    whole: Whole<'a, T>,
}

/// Are these whole rows?
enum Whole<'a, T> {
    /// Yes: statistics are finished, and the results of rows are computed.
    Yes,
    /// No: where terms are folded in registers, they join these lanes.
    No(Option<&'a mut LaneSums<T>>),
}

impl<T: SimdFloat, R: RowFormula<N>, const N: usize> TermsTask<'_, '_, T, R, N> {
    /// The check of what the kernel relies on. (The kernel gets a reference: a copy of what was
    /// just stored would wait for it.)
    fn run(mut self, isa: Isa) {
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
fn finish<T: SimdFloat, R: RowFormula<N>, S: SimdLanes<T> + Lane, const N: usize, const K: usize>(
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
fn once<T: SimdFloat, R: RowFormula<N>, S: SimdLanes<T> + Lane, const N: usize>(
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
struct RowChunks<'a, T, R, M, const N: usize, const K: usize> {
    r: R,
    x: RowOf<'a, T, N>,
    fetch: RowFetch<T>,
    /// As numbers: copies of each in registers would be kept in memory, as a chunk's state is.
    s: [T; STATS],
    n: T,
    lanes: PhantomData<M>,
    /// Where the terms are written, if they are kept.
    terms: *mut T,
    keeps: bool,
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
struct FinishTask<'a, T, R, const N: usize> {
    r: R,
    k: usize,
    rows: usize,
    folded: &'a RowLanes<T>,
    s: &'a mut Statistics<T>,
    n: T,
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

/// A kernel: results of some rows by a formula of their elements.
struct ResultsTask<'a, 'y, T, F, const N: usize> {
    f: F,
    b: &'a RowBlock<'a, T>,
    s: &'a Statistics<T>,
    n: T,
    y: &'a mut UninitSlice<'y, T>,
}

impl<T: SimdFloat, F: ElementFormula<N>, const N: usize> ResultsTask<'_, '_, T, F, N> {
    /// The check of what the kernel relies on.
    fn run(mut self, isa: Isa) {
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
struct OnceTask<'a, T, R, const N: usize> {
    r: R,
    rows: usize,
    s: &'a Statistics<T>,
    n: T,
    y: &'a mut RowLanes<T>,
}

impl<T: SimdFloat, R: RowFormula<N>, const N: usize> LaneKernel for &mut OnceTask<'_, T, R, N> {
    type T = T;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        once::<T, R, S, N>(self.r, self.rows, self.s, self.n, self.y);
    }
}

/// A kernel: terms of strided rows, and the lanes that they join.
struct StridedFoldTask<'a, T, R, const N: usize> {
    r: R,
    k: usize,
    b: &'a RowBlock<'a, T>,
    s: &'a Statistics<T>,
    n: T,
    at: usize,
    lanes: &'a mut [RowLanes<T>],
    terms: &'a mut [RowLanes<T>],
}

impl<T: SimdFloat, R: RowFormula<N>, const N: usize> StridedFoldTask<'_, T, R, N> {
    #[inline(always)]
    fn fold<M: ReduceLanes<T>, const K: usize>(&mut self) {
        let keep = const { keeps_terms::<R, N>() && K + 1 == R::FOLDS.len() };
        let (chunks, n) = (self.b.chunks(), M::splat(self.n));
        // SAFETY: `strided_fold` has counted the operands; here and below.
        let x = unsafe { self.b.row::<N>(0) };
        for i in 0..chunks {
            // SAFETY: as above.
            let x = unsafe { x.at::<TERM_CHUNK>(i) };
            let (lane, begins) = (&mut self.lanes[(self.at + i) % LANES], self.at + i < LANES);
            if keep {
                strided_chunk::<T, M, _, N>(Term::<R, K>(self.r), x, self.s, n, &mut self.terms[i]);
                strided_add::<T, M, _, 1>(R::FOLDS[K], Same, [&self.terms[i]], self.s, n, begins, lane);
            } else {
                strided_add::<T, M, _, N>(R::FOLDS[K], Term::<R, K>(self.r), x, self.s, n, begins, lane);
            }
        }
    }
}

/// The element itself.
#[derive(Clone, Copy)]
struct Same;
impl ElementFormula<1> for Same {
    #[inline(always)]
    fn at<L: Lane>(&self, [x]: [L; 1], _: [L; STATS], _: L) -> L {
        x
    }
}

/// An element of 64 strided rows.
#[inline(always)]
fn strided_chunk<T: SimdFloat, L: SimdLanes<T> + Lane, F: ElementFormula<N>, const N: usize>(
    f: F,
    x: [&RowLanes<T>; N],
    s: &Statistics<T>,
    n: L,
    y: &mut RowLanes<T>,
) {
    let mut c = 0;
    while c < TERM_CHUNK {
        f.at(load(&x, c), load_statistics::<T, L>(s, c), n).store(&mut y[c..]);
        c += L::WIDTH;
    }
}

/// An element of 64 strided rows joins a lane of each; `begins`: it is the first.
#[inline(always)]
fn strided_add<T: SimdFloat, L: SimdLanes<T> + Lane, F: ElementFormula<N>, const N: usize>(
    by: Fold,
    f: F,
    x: [&RowLanes<T>; N],
    s: &Statistics<T>,
    n: L,
    begins: bool,
    lane: &mut RowLanes<T>,
) {
    let (start, mut c) = (L::splat(initial(by)), 0);
    while c < TERM_CHUNK {
        let term = f.at(load(&x, c), load_statistics::<T, L>(s, c), n);
        let before = if begins { start } else { L::load(&lane[c..]) };
        combine_lanes(by, before, term).store(&mut lane[c..]);
        c += L::WIDTH;
    }
}

impl<T: SimdFloat, R: RowFormula<N>, const N: usize> LaneKernel for &mut StridedFoldTask<'_, T, R, N> {
    type T = T;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        each_statistic!(self.k, K => self.fold::<M, K>());
    }
}

/// A kernel: results of strided rows; without operands, of the terms that they are written over.
struct StridedResultsTask<'a, T, R, const N: usize> {
    r: R,
    b: Option<&'a RowBlock<'a, T>>,
    s: &'a Statistics<T>,
    n: T,
    y: &'a mut [RowLanes<T>],
}

impl<T: SimdFloat, R: RowFormula<N>, const N: usize> LaneKernel for &mut StridedResultsTask<'_, T, R, N> {
    type T = T;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        let n = M::splat(self.n);
        let Some(b) = self.b else {
            if const { keeps_terms::<R, N>() } {
                for y in &mut *self.y {
                    let mut c = 0;
                    while c < TERM_CHUNK {
                        let s = load_statistics(self.s, c);
                        self.r.out_of_term(M::load(&y[c..]), s, n).store(&mut y[c..]);
                        c += M::WIDTH;
                    }
                }
            }
            return;
        };
        // SAFETY: `strided_results` has counted the operands and their chunks; here and below.
        let x = unsafe { b.row::<N>(0) };
        for (i, y) in self.y.iter_mut().enumerate() {
            // SAFETY: as above.
            let x = unsafe { x.at::<TERM_CHUNK>(i) };
            strided_chunk(Each(self.r), x, self.s, n, y);
        }
    }
}

/// A kernel: a row that is added to the sums of its columns.
struct AddRowTask<'a, T, R, const N: usize> {
    r: R,
    k: usize,
    b: &'a RowBlock<'a, T>,
    s: &'a Statistics<T>,
    n: T,
    sums: &'a mut [T],
}

impl<T: SimdFloat, R: Columns<N>, const N: usize> AddRowTask<'_, T, R, N> {
    #[inline(always)]
    fn add<M: SimdLanes<T> + Lane, const K: usize>(&mut self) {
        let (s, n) = (splat::<T, M>(self.s, 0), M::splat(self.n));
        // SAFETY: `add_row` has counted the operands and their chunks; here and below.
        let x = unsafe { self.b.row::<N>(0) };
        for (number, sums) in self.sums.as_chunks_mut::<TERM_CHUNK>().0.iter_mut().enumerate() {
            // SAFETY: as above.
            let x = unsafe { x.at::<TERM_CHUNK>(number) };
            // A copy: the compiler does not see that operands and sums are apart.
            let (mut all, mut j) = (*sums, 0);
            while j < TERM_CHUNK {
                let term = self.r.column(K, load(&x, j), s, n);
                (M::load(&all[j..]) + term).store(&mut all[j..]);
                j += M::WIDTH;
            }
            *sums = all;
        }
    }
}

impl<T: SimdFloat, R: Columns<N>, const N: usize> LaneKernel for &mut AddRowTask<'_, T, R, N> {
    type T = T;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        match self.k {
            0 => self.add::<M, 0>(),
            1 if const { R::SUMS > 1 } => self.add::<M, 1>(),
            _ => unreachable!("{}: so many sums are not written out", R::NAME),
        }
    }
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
