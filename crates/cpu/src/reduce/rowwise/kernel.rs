//! The row-wise kernel: statistics and results of some rows, or of a part of one; compiled for each
//! formula, instruction set and float type.
//!
//! Terms are folded in registers where the instruction set has lanes for that; otherwise they are
//! written to a block and folded there. Operands may be followed by anything up to a whole chunk,
//! so that no loop has a scalar tail.

use super::in_register::{LaneSums, PartialFold, RegisterFold};
use super::term_loop::{
    self, AnyPrefetch, PREFETCH_DISTANCE_BYTES, PrefetchL1, PrefetchL2, PrefetchPolicy, TERM_CHUNK,
    TermSource,
};
use crate::reduce::float::Float;
use elinvar_ops::lane::Lane;
use elinvar_ops::rows::{RowFormula, RowOut, STATS};
use elinvar_simd::dispatch::{LaneKernel, ReduceLanes, SimdLanes};
use elinvar_simd::isa::Isa;
use elinvar_simd::scalar_lane::ScalarLane;
use elinvar_simd::uninit::UninitSlice;

/// What the kernel is to do with some rows, or with a part of one.
pub(crate) struct RowwiseTask<'a, 'r, C, R, const N: usize> {
    pub(crate) r: &'a R,
    /// Elements of a whole row.
    pub(crate) n: C,
    /// Elements here of a row.
    pub(crate) len: usize,
    pub(crate) rows: usize,
    /// The operands, and how far a row is from the one before. One that has but a window has it wherever it is read.
    pub(crate) x: [&'a [C]; N],
    pub(crate) step: [usize; N],
    /// Statistics that are there.
    pub(crate) s: [C; STATS],
    /// Statistics whose terms are wanted.
    pub(crate) folds: std::ops::Range<usize>,
    /// Are these whole rows, whose terms are to be folded, too?
    pub(crate) whole: bool,
    /// Room for terms.
    pub(crate) terms: &'a mut [C],
    /// Room for, or with, the terms that are kept; if empty, they are terms as others.
    pub(crate) kept: &'a mut [C],
    /// If the terms are to be summed and not written, the sums, and are these their last ones? Where [`folds_in_registers`] says that it can be done.
    ///
    /// [`folds_in_registers`]: elinvar_simd::dispatch::folds_in_registers
    pub(crate) sums: Option<(&'a mut LaneSums<C>, bool)>,
    /// Where the same elements of the next row lie, if they had better be fetched.
    pub(crate) next: Option<*const C>,
    /// Room for results, if they are wanted.
    pub(crate) y: Option<&'a mut UninitSlice<'r, C>>,
    pub(crate) isa: Isa,
}

impl<C: Float, R: RowFormula<N>, const N: usize> RowwiseTask<'_, '_, C, R, N> {
    /// Whole short rows of two statistics, of which the first is plain, and the terms of the second are kept. Each step of a
    /// row waits for the one before, most of all a fold for the last of its terms; as that is not little beside a short row,
    /// the steps of several rows fill the gaps.
    #[inline(always)]
    fn interleaved<L: SimdLanes<C> + Lane, S: SimdLanes<C> + Lane>(self) {
        let RowwiseTask { x, step, kept, y, .. } = self;
        let Some(y) = y else { return };
        let (r, n, len) = (*self.r, self.n, self.len);
        let (padded, side) = (len.next_multiple_of(TERM_CHUNK), interleaved_rows(len));
        for first in (0..self.rows).step_by(side) {
            let rows = first..self.rows.min(first + side);
            let mut all = [self.s; MAX_INTERLEAVED_ROWS];
            for (s, row) in all.iter_mut().zip(rows.clone()) {
                let x = &x[0][row * step[0]..];
                let folded = C::block(self.isa, R::FOLDS[0], &x[..len]);
                s[0] = r.finish(0, ScalarLane(folded), s.map(ScalarLane), ScalarLane(n)).0;
            }
            for ((s, terms), row) in all.iter().zip(kept.chunks_exact_mut(padded)).zip(rows.clone()) {
                let x = chunks(&x, &step, row, padded);
                let x = StatisticTerms::<C, R, false, N, 1> { r, x, s: *s, n };
                term_loop::write_terms::<_, L>(x, terms, PrefetchL1::<C, 0>([]));
            }
            for (s, terms) in all.iter_mut().zip(kept.chunks_exact(padded)).take(rows.len()) {
                let folded = C::block(self.isa, R::FOLDS[1], &terms[..len]);
                s[1] = r.finish(1, ScalarLane(folded), s.map(ScalarLane), ScalarLane(n)).0;
            }
            for (s, terms) in all.iter().zip(kept.chunks_exact(padded)).take(rows.len()) {
                term_loop::write_results::<_, L, S>(
                    ResultsOfKeptTerms { r, terms: terms.as_chunks().0, s: *s, n },
                    len,
                    y,
                );
            }
        }
    }
}

/// Whole rows, some of them side by side, whose terms are folded while they are in registers. (Functions, because closures
/// would not be inlined.)
impl<C: Float, R: RowFormula<N>, const N: usize> RowwiseTask<'_, '_, C, R, N> {
    #[inline(always)]
    fn fold_in_registers<M: ReduceLanes<C>, S: SimdLanes<C> + Lane>(mut self) {
        let side = match const { keeps_terms::<R, N>() } {
            true => interleaved_rows(self.len),
            false => (INTERLEAVED_MAX_ELEMENTS / self.len.max(TERM_CHUNK)).clamp(1, MAX_INTERLEAVED_ROWS),
        };
        let mut nearly = [PartialFold::<C, M>::empty(); MAX_INTERLEAVED_ROWS];
        let mut first = 0;
        while first < self.rows {
            let mut all = [self.s; MAX_INTERLEAVED_ROWS];
            let all = &mut all[..side.min(self.rows - first)];
            self.statistic::<M, 0>(first, all, &mut nearly);
            self.statistic::<M, 1>(first, all, &mut nearly);
            self.statistic::<M, 2>(first, all, &mut nearly);
            self.statistic::<M, 3>(first, all, &mut nearly);
            for (i, s) in all.iter().enumerate() {
                self.result::<M, S, true>(first + i, *s, i);
            }
            first += side;
        }
    }
    /// Statistic `K` of rows from `first` on, if there is such a one.
    #[inline(always)]
    fn statistic<M: ReduceLanes<C>, const K: usize>(
        &mut self,
        first: usize,
        all: &mut [[C; STATS]],
        nearly: &mut [PartialFold<C, M>; MAX_INTERLEAVED_ROWS],
    ) {
        if K >= R::FOLDS.len() {
            return;
        }
        let (r, n, len) = (*self.r, self.n, self.len);
        let (padded, rows, f) = (len.next_multiple_of(TERM_CHUNK), all.len(), R::FOLDS[K]);
        for (i, (nearly, s)) in nearly.iter_mut().zip(all.iter()).enumerate() {
            let row = chunks(&self.x, &self.step, first + i, padded);
            let x = StatisticTerms::<C, R, true, N, K> { r, x: row, s: *s, n };
            // What is fetched meanwhile: an operand's elements so far ahead, and the lines of the results, which are written next.
            let places = |from_memory: usize| {
                let x = row[0].all.as_ptr().cast::<C>();
                let y = self.y.as_ref().map_or(x, |y| y.place().wrapping_add(i * len));
                [x.wrapping_add(from_memory), y]
            };
            let last = const { matches!(R::OUT, RowOut::Each) && K + 1 == R::FOLDS.len() };
            *nearly = if const { keeps_terms::<R, N>() } && last {
                // While exponentials are computed, memory has nothing to do: it fetches what comes next.
                let prefetch = PrefetchL1(places(const { PREFETCH_DISTANCE_BYTES / size_of::<C>() }));
                let kept = &mut self.kept[i * padded..];
                RegisterFold::<_, _, _, true> { f, x, n: len, kept, prefetch }.fold()
            } else if const { K > 0 } && last && rows * len <= INTERLEAVED_MAX_ELEMENTS {
                // Nor has it while rows are read again, from the first-level cache: it fetches the next ones.
                let prefetch = PrefetchL1(places(rows * len));
                RegisterFold::<_, _, _, false> { f, x, n: len, kept: &mut [], prefetch }.fold()
            } else {
                let prefetch = PrefetchL1::<C, 0>([]);
                RegisterFold::<_, _, _, false> { f, x, n: len, kept: &mut [], prefetch }.fold()
            };
        }
        for (s, nearly) in all.iter_mut().zip(nearly) {
            s[K] = r.finish(K, ScalarLane(nearly.folded(f)), s.map(ScalarLane), ScalarLane(n)).0;
        }
    }
    /// What comes out of a row, whose kept terms are number `place`.
    #[inline(always)]
    fn result<M: SimdLanes<C> + Lane, S: SimdLanes<C> + Lane, const ALL: bool>(
        &mut self,
        row: usize,
        s: [C; STATS],
        place: usize,
    ) {
        let (r, n, len) = (*self.r, self.n, self.len);
        let padded = len.next_multiple_of(TERM_CHUNK);
        let Some(y) = &mut self.y else { return };
        if R::OUT == RowOut::Once {
            y.copy(&[r.out([ScalarLane(C::lit(f64::NAN)); N], s.map(ScalarLane), ScalarLane(n)).0]);
        } else if R::OUT == RowOut::Statistics {
            y.copy(&s[..R::FOLDS.len()]);
        } else if keeps_terms::<R, N>() {
            let terms = self.kept[place * padded..][..padded].as_chunks().0;
            term_loop::write_results::<_, M, S>(ResultsOfKeptTerms { r, terms, s, n }, len, y);
        } else {
            let x = chunks::<_, ALL, N>(&self.x, &self.step, row, padded);
            term_loop::write_results::<_, M, S>(ResultTerms { r, x, s, n }, len, y);
        }
    }
}

/// A part of a long row, whose terms are summed while they are in registers.
impl<C: Float, R: RowFormula<N>, const N: usize> RowwiseTask<'_, '_, C, R, N> {
    #[inline(always)]
    fn part_of_sums<M: ReduceLanes<C>>(self) {
        let k = self.folds.start;
        match self.next {
            Some(place) => self.add_to_sums::<M>(k, PrefetchL2(place)),
            None => self.add_to_sums::<M>(k, PrefetchL1::<C, 0>([])),
        }
    }
    #[inline(always)]
    fn add_to_sums<M: ReduceLanes<C>>(self, k: usize, prefetch: impl PrefetchPolicy) {
        let (r, n, len, s) = (*self.r, self.n, self.len, self.s);
        let x = chunks::<_, false, N>(&self.x, &self.step, 0, len.next_multiple_of(TERM_CHUNK));
        let Some((sums, last)) = self.sums else { return };
        macro_rules! add {
            ($($k:literal)*) => {
                match k {
                    $($k if $k < R::FOLDS.len() && !(R::PLAIN && $k == 0) => {
                        let (f, x) = (R::FOLDS[$k], StatisticTerms::<C, R, false, N, $k> { r, x, s, n });
                        RegisterFold::<_, _, _, false> { f, x, n: len, kept: &mut [], prefetch }.add_to::<M>(sums, last);
                    })*
                    _ => unreachable!("a formula has no more statistics than it says"),
                }
            };
        }
        add!(0 1 2 3)
    }
}

/// A row of an operand, in windows; `ALL`: of which none stands for others.
#[derive(Clone, Copy)]
pub(crate) struct RowOperand<'a, C, const ALL: bool> {
    all: &'a [[C; TERM_CHUNK]],
    /// From a window to the next: 1, or 0 if all are the same.
    next: usize,
}

impl<'a, C, const ALL: bool> RowOperand<'a, C, ALL> {
    #[inline(always)]
    fn cut(self, chunks: usize) -> Self {
        if ALL { RowOperand { all: &self.all[..chunks], ..self } } else { self }
    }
    #[inline(always)]
    pub(crate) fn chunk(&self, number: usize) -> &'a [C; TERM_CHUNK] {
        &self.all[if ALL { number } else { number * self.next }]
    }
}

/// A row of each operand, `padded` elements.
#[inline(always)]
pub(crate) fn chunks<'a, C, const ALL: bool, const N: usize>(
    all: &[&'a [C]; N],
    step: &[usize; N],
    row: usize,
    padded: usize,
) -> [RowOperand<'a, C, ALL>; N] {
    let mut x = [const { RowOperand { all: &[], next: 1 } }; N];
    for ((x, all), step) in x.iter_mut().zip(all).zip(step) {
        let one = !ALL && all.len() == TERM_CHUNK && padded > TERM_CHUNK;
        let all = if one { all } else { &all[row * step..][..padded] };
        *x = RowOperand { all: all.as_chunks().0, next: usize::from(!one) };
    }
    x
}

/// Short rows that go side by side, at most.
const MAX_INTERLEAVED_ROWS: usize = 8;

/// Is it a formula whose short rows do?
const fn is_interleaved<R: RowFormula<N>, const N: usize>() -> bool {
    R::PLAIN && keeps_terms::<R, N>() && R::FOLDS.len() == 2
}

/// Elements of rows whose terms are not kept, 8 KiB of f32: they stay in the first-level cache beside the next ones and the results of
/// both.
const INTERLEAVED_MAX_ELEMENTS: usize = 2048;

/// How many rows of `n` elements whose terms are kept go side by side.
pub(crate) fn interleaved_rows(n: usize) -> usize {
    /// Elements of their terms, 4 KiB of f32: they are read twice more.
    const ALL: usize = 1024;
    (ALL / n.next_multiple_of(TERM_CHUNK).max(TERM_CHUNK)).clamp(1, MAX_INTERLEAVED_ROWS)
}

impl<C: Float, R: RowFormula<N>, const N: usize> LaneKernel for RowwiseTask<'_, '_, C, R, N> {
    type T = C;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<L: SimdLanes<C> + Lane, M: ReduceLanes<C>, S: SimdLanes<C> + Lane>(self) {
        if const { M::WIDTH == TERM_CHUNK } && self.whole {
            return self.fold_in_registers::<M, S>();
        }
        if const { M::WIDTH == TERM_CHUNK } && self.sums.is_some() {
            return self.part_of_sums::<M>();
        }
        if const { is_interleaved::<R, N>() } && self.whole && interleaved_rows(self.len) > 1 {
            return self.interleaved::<M, S>();
        }
        self.one_by_one::<M, S>();
    }
}

/// Rows one by one, or a part of one, whose terms are written to a block and folded there.
impl<C: Float, R: RowFormula<N>, const N: usize> RowwiseTask<'_, '_, C, R, N> {
    #[inline(always)]
    fn one_by_one<M: SimdLanes<C> + Lane, S: SimdLanes<C> + Lane>(mut self) {
        let (r, n, len) = (*self.r, self.n, self.len);
        let folds = R::FOLDS.len();
        let padded = len.next_multiple_of(TERM_CHUNK);
        for row in 0..self.rows {
            let x = chunks::<_, false, N>(&self.x, &self.step, row, padded);
            let mut s = self.s;
            let mut k = self.folds.start;
            while k < self.folds.end {
                if R::PLAIN && k == 0 && self.whole {
                    let folded = C::block(self.isa, R::FOLDS[k], &x[0].all.as_flattened()[..len]);
                    s[k] = r.finish(k, ScalarLane(folded), s.map(ScalarLane), ScalarLane(n)).0;
                    k += 1;
                    continue;
                }
                let stays = keeps_terms::<R, N>() && k + 1 == folds && !self.kept.is_empty();
                let all = if stays { &mut self.kept[..padded] } else { &mut self.terms[..padded] };
                // While exponentials are computed, memory has nothing to do: it fetches what comes next.
                let prefetch = match (&self.y, self.next) {
                    (Some(y), _) if const { is_interleaved::<R, N>() } && self.whole && stays => {
                        AnyPrefetch::L1(PrefetchL1([
                            x[0].all.as_ptr().cast::<C>().wrapping_byte_add(PREFETCH_DISTANCE_BYTES),
                            y.place(),
                        ]))
                    }
                    (_, Some(place)) => AnyPrefetch::L2(PrefetchL2(place)),
                    _ => AnyPrefetch::Nothing,
                };
                match k {
                    0 if folds > 0 => term_loop::write_terms_prefetching::<_, M>(
                        StatisticTerms::<C, R, false, N, 0> { r, x, s, n },
                        all,
                        prefetch,
                    ),
                    1 if folds > 1 => term_loop::write_terms_prefetching::<_, M>(
                        StatisticTerms::<C, R, false, N, 1> { r, x, s, n },
                        all,
                        prefetch,
                    ),
                    2 if folds > 2 => term_loop::write_terms_prefetching::<_, M>(
                        StatisticTerms::<C, R, false, N, 2> { r, x, s, n },
                        all,
                        prefetch,
                    ),
                    3 if folds > 3 => term_loop::write_terms_prefetching::<_, M>(
                        StatisticTerms::<C, R, false, N, 3> { r, x, s, n },
                        all,
                        prefetch,
                    ),
                    _ => unreachable!("a formula has no more statistics than it says"),
                }
                if self.whole {
                    let folded = C::block(self.isa, R::FOLDS[k], &all[..len]);
                    s[k] = r.finish(k, ScalarLane(folded), s.map(ScalarLane), ScalarLane(n)).0;
                }
                k += 1;
            }
            if self.whole {
                self.result::<M, S, true>(row, s, 0);
            } else {
                self.result::<M, S, false>(row, s, 0);
            }
        }
    }
}

/// Does the formula make its results from the last statistic's terms?
pub(crate) const fn keeps_terms<R: RowFormula<N>, const N: usize>() -> bool {
    R::KEEPS && matches!(R::OUT, RowOut::Each) && !R::FOLDS.is_empty()
}

/// Elements `j` and after of each operand.
#[inline(always)]
pub(crate) fn load_operands<C: Float, L: SimdLanes<C>, const N: usize>(
    w: &[&[C; TERM_CHUNK]; N],
    j: usize,
) -> [L; N] {
    let mut all = [L::splat(C::POSITIVE_ZERO); N];
    for (a, w) in all.iter_mut().zip(w) {
        *a = L::load(&w[j..]);
    }
    all
}

/// Copies of each statistic.
#[inline(always)]
pub(crate) fn splat_statistics<C: Float, L: SimdLanes<C>>(s: &[C; STATS]) -> [L; STATS] {
    let mut all = [L::splat(C::POSITIVE_ZERO); STATS];
    for (a, s) in all.iter_mut().zip(s) {
        *a = L::splat(*s);
    }
    all
}

/// Terms of statistic `K`.
#[derive(Clone, Copy)]
pub(crate) struct StatisticTerms<'a, C, R, const ALL: bool, const N: usize, const K: usize> {
    pub(crate) r: R,
    pub(crate) x: [RowOperand<'a, C, ALL>; N],
    pub(crate) s: [C; STATS],
    pub(crate) n: C,
}

impl<'a, C: Float, R: RowFormula<N>, const ALL: bool, const N: usize, const K: usize> TermSource<C>
    for StatisticTerms<'a, C, R, ALL, N, K>
{
    type Chunk = [&'a [C; TERM_CHUNK]; N];
    #[inline(always)]
    fn cut(self, chunks: usize) -> Self {
        StatisticTerms { x: self.x.map(|x| x.cut(chunks)), ..self }
    }
    #[inline(always)]
    fn chunk(&self, number: usize) -> Self::Chunk {
        self.x.map(|x| x.chunk(number))
    }
    #[inline(always)]
    fn at<L: SimdLanes<C> + Lane>(&self, w: &Self::Chunk, j: usize) -> L {
        self.r.term(K, load_operands(w, j), splat_statistics(&self.s), L::splat(self.n))
    }
}

/// Results.
#[derive(Clone, Copy)]
pub(crate) struct ResultTerms<'a, C, R, const ALL: bool, const N: usize> {
    pub(crate) r: R,
    pub(crate) x: [RowOperand<'a, C, ALL>; N],
    pub(crate) s: [C; STATS],
    pub(crate) n: C,
}

impl<'a, C: Float, R: RowFormula<N>, const ALL: bool, const N: usize> TermSource<C>
    for ResultTerms<'a, C, R, ALL, N>
{
    type Chunk = [&'a [C; TERM_CHUNK]; N];
    #[inline(always)]
    fn cut(self, chunks: usize) -> Self {
        ResultTerms { x: self.x.map(|x| x.cut(chunks)), ..self }
    }
    #[inline(always)]
    fn chunk(&self, number: usize) -> Self::Chunk {
        self.x.map(|x| x.chunk(number))
    }
    #[inline(always)]
    fn at<L: SimdLanes<C> + Lane>(&self, w: &Self::Chunk, j: usize) -> L {
        self.r.out(load_operands(w, j), splat_statistics(&self.s), L::splat(self.n))
    }
}

/// Results of terms that were kept.
#[derive(Clone, Copy)]
struct ResultsOfKeptTerms<'a, C, R, const N: usize> {
    r: R,
    terms: &'a [[C; TERM_CHUNK]],
    s: [C; STATS],
    n: C,
}

impl<'a, C: Float, R: RowFormula<N>, const N: usize> TermSource<C> for ResultsOfKeptTerms<'a, C, R, N> {
    type Chunk = &'a [C; TERM_CHUNK];
    #[inline(always)]
    fn cut(self, chunks: usize) -> Self {
        ResultsOfKeptTerms { terms: &self.terms[..chunks], ..self }
    }
    #[inline(always)]
    fn chunk(&self, number: usize) -> Self::Chunk {
        &self.terms[number]
    }
    #[inline(always)]
    fn at<L: SimdLanes<C> + Lane>(&self, w: &Self::Chunk, j: usize) -> L {
        self.r.out_of_term(L::load(&w[j..]), splat_statistics(&self.s), L::splat(self.n))
    }
}
