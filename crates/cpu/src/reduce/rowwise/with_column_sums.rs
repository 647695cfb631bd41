//! Fused norm backward: a row-wise formula whose elements are also summed over the rows, in one
//! pass (dx with dweight and dbias).
//!
//! As separate ops they would read x and g three times each from memory. Here a row is added to the
//! column sums while it is in L1.
//!
//! How it can be wrong: by the order. Row `i` of a block is a term of lane `i % 128` of the fold
//! over rows, and lanes are halved. So a thread takes every 16th row of a block: eight lanes, a
//! subtree of the halving tree, walked depth first, lane by lane, with as few partial sums at a
//! time as fit a cache. The last four halvings join the 16 subtrees. Lanes without a row hold +0,
//! which changes nothing.

use super::in_register::RegisterFold;
use super::kernel::{ResultTerms, RowOperand, StatisticTerms, chunks, load_operands, splat_statistics};
use super::term_loop::{self, PrefetchL1, TERM_CHUNK};
use crate::CpuDevice;
use crate::reduce::float::{Float, each_float};
use crate::reduce::source::StagedView;
use crate::runtime::memory::filled;
use crate::runtime::output::strided_rows::{StridedPartition, StridedRows, WriteRow, fill_strided_rows};
use crate::view::View;
use elinvar_core::order::{BLOCK, LANES};
use elinvar_core::{DType, HostData, HostVec, Result};
use elinvar_ops::lane::Lane;
use elinvar_ops::rows::{Columns, STATS};
use elinvar_simd::dispatch::{LaneKernel, ReduceLanes, SimdLanes, run_lanes};
use elinvar_simd::isa::Isa;
use elinvar_simd::scalar_lane::ScalarLane;
use elinvar_simd::uninit::UninitSlice;
use std::marker::PhantomData;

/// Combs of a block.
const ROW_STRIDE: usize = 16;
/// Rows, at least: with fewer, most of a comb's lanes have none.
const MIN_ROWS: usize = LANES;
/// Elements of a row: at least a window, and no more than are folded at once.
const ROW_ELEMENTS: std::ops::RangeInclusive<usize> = TERM_CHUNK..=BLOCK;
/// Nanoseconds for an element.
const NS_PER_ELEMENT: f64 = 0.5;

/// The values, and the first `sums` sums; or nothing, if rows do not lie one after the other, or are few, or very short or long.
pub(crate) fn rows_and_columns<R: Columns<N>, const N: usize>(
    d: &CpuDevice,
    r: &R,
    x: &[View<'_>; N],
    kept: usize,
    dtype: DType,
    sums: usize,
) -> Result<Option<(HostData, Vec<HostData>)>> {
    each_float!(R::NAME, dtype, C => compute::<C, R, N>(d, r, x, kept, sums))
}

fn compute<C: Float, R: Columns<N>, const N: usize>(
    d: &CpuDevice,
    r: &R,
    x: &[View<'_>; N],
    kept: usize,
    sums: usize,
) -> Result<Option<(HostData, Vec<HostData>)>> {
    assert!(sums <= R::SUMS && const { R::SUMS <= 2 }, "{}: so many sums are not written out", R::NAME);
    let dims = x[0].layout.shape().dims();
    let (rows, n): (usize, usize) = (dims[..kept].iter().product(), dims[kept..].iter().product());
    if rows < MIN_ROWS || !ROW_ELEMENTS.contains(&n) {
        return Ok(None);
    }
    let padded = n.next_multiple_of(TERM_CHUNK);
    let mut copies = [const { HostVec::new() }; N];
    let (mut all, mut step): ([&[C]; N], _) = ([&[]; N], [n; N]);
    for (((x, step), view), copy) in all.iter_mut().zip(&mut step).zip(x).zip(&mut copies) {
        let stage = StagedView::<C>::new(R::NAME, view)?;
        let one = stage.is_one_row(n);
        let len = if one { n } else { rows * n };
        let Some(in_place) = stage.padded(0, len, len) else { return Ok(None) };
        (*x, *step) = (in_place, if one { 0 } else { n });
        if one && padded > n {
            // Windows of it are read for each row.
            *copy = filled(padded, C::POSITIVE_ZERO)?;
            copy[..n].copy_from_slice(in_place);
            *x = copy;
        }
    }
    let width = sums * padded;
    let partition = StridedPartition { rows, columns: n, stride: ROW_STRIDE };
    debug_assert_eq!(partition.block(), BLOCK, "combs of the fold's blocks");
    let mut parts = filled(partition.count() * width, C::POSITIVE_ZERO)?;
    let work = ColumnSumWork { isa: d.isa(), r, x: all, step, n, width };
    let y = fill_strided_rows(d, partition, &mut parts, NS_PER_ELEMENT, &|strided, part| {
        let mut scratch = ColumnSumScratch::new(n, width)?;
        let mut stack = std::mem::take(&mut scratch.stack);
        // Whoever has this comb probably has the next.
        work.lanes(strided, 0, 1, strided.first() + 1, part, &mut stack, &mut scratch);
        Ok(())
    })?;
    for block in parts.chunks_exact_mut(ROW_STRIDE * width) {
        let mut half = ROW_STRIDE / 2;
        while half > 0 {
            let (left, right) = block.split_at_mut(half * width);
            run_lanes(d.isa(), AddPartialSums { left, right: &right[..half * width] });
            half /= 2;
        }
    }
    join_block_sums(d.isa(), &mut parts, rows.div_ceil(BLOCK), ROW_STRIDE * width, width);
    let sums = parts[..width].chunks_exact(width / sums.max(1));
    let sums = sums.map(|sum| {
        let mut y = crate::runtime::memory::with_capacity(n)?;
        y.extend_from_slice(&sum[..n]);
        Ok(C::wrap(y))
    });
    Ok(Some((C::wrap(y), sums.collect::<Result<_>>()?)))
}

/// Sums of blocks, each the first `width` numbers of `row_stride`, joined pairwise in the order of the blocks, in the first.
fn join_block_sums<C: Float>(isa: Isa, parts: &mut [C], blocks: usize, row_stride: usize, width: usize) {
    if blocks > 1 {
        let half = blocks.next_power_of_two() / 2;
        let (left, right) = parts.split_at_mut(half * row_stride);
        join_block_sums(isa, left, half, row_stride, width);
        join_block_sums(isa, right, blocks - half, row_stride, width);
        run_lanes(isa, AddPartialSums { left: &mut left[..width], right: &right[..width] });
    }
}

/// Buffers of a thread.
struct ColumnSumScratch<C, const N: usize> {
    /// Room for the sums of lanes that wait.
    stack: HostVec<C>,
    /// Room for terms on their way to a fold.
    terms: HostVec<C>,
    /// An operand's last row, if a window of it would reach behind the operand.
    last: [HostVec<C>; N],
}

impl<C: Float, const N: usize> ColumnSumScratch<C, N> {
    fn new(n: usize, width: usize) -> Result<Self> {
        let waiting = (LANES / ROW_STRIDE).ilog2() as usize;
        let padded = n.next_multiple_of(TERM_CHUNK);
        let mut last = [const { HostVec::new() }; N];
        for last in &mut last {
            *last = filled(if padded > n { padded } else { 0 }, C::POSITIVE_ZERO)?;
        }
        Ok(ColumnSumScratch {
            stack: filled(waiting * width, C::POSITIVE_ZERO)?,
            terms: filled(padded, C::POSITIVE_ZERO)?,
            last,
        })
    }
}

/// A formula and its operands.
struct ColumnSumWork<'a, C, R, const N: usize> {
    isa: Isa,
    r: &'a R,
    x: [&'a [C]; N],
    /// From a row of an operand to the next.
    step: [usize; N],
    /// Elements of a row, and of all sums of a row's elements.
    n: usize,
    width: usize,
}

impl<C: Float, R: Columns<N>, const N: usize> ColumnSumWork<'_, C, R, N> {
    /// The sums of the comb's lanes `lane`, `lane + step`, ...; `then` is the first row that is read behind theirs.
    fn lanes(
        &self,
        strided: &mut StridedRows<'_, C>,
        lane: usize,
        step: usize,
        then: usize,
        sums: &mut [C],
        stack: &mut [C],
        scratch: &mut ColumnSumScratch<C, N>,
    ) {
        let row = |lane: usize| strided.first() + lane * ROW_STRIDE;
        if step == LANES / ROW_STRIDE {
            let first = row(lane);
            let ColumnSumScratch { terms, last, .. } = scratch;
            return run_lanes(self.isa, LaneRows { work: self, strided, first, then, sums, terms, last });
        }
        let second = row(lane + step);
        if second >= strided.end() {
            // A lane without a row takes no part.
            return self.lanes(strided, lane, 2 * step, then, sums, stack, scratch);
        }
        self.lanes(strided, lane, 2 * step, second, sums, stack, scratch);
        let (right, stack) = stack.split_at_mut(self.width);
        self.lanes(strided, lane + step, 2 * step, then, right, stack, scratch);
        run_lanes(self.isa, AddPartialSums { left: sums, right });
    }
}

/// A kernel: the rows of one lane, from the first on, their values, and the sums of their columns.
struct LaneRows<'a, 'w, 'y, C, R, const N: usize> {
    work: &'a ColumnSumWork<'w, C, R, N>,
    strided: &'a mut StridedRows<'y, C>,
    first: usize,
    then: usize,
    sums: &'a mut [C],
    terms: &'a mut [C],
    last: &'a mut [HostVec<C>; N],
}

impl<C: Float, R: Columns<N>, const N: usize> LaneKernel for LaneRows<'_, '_, '_, C, R, N> {
    type T = C;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<L: SimdLanes<C> + Lane, M: ReduceLanes<C>, S: SimdLanes<C> + Lane>(mut self) {
        self.sums.fill(C::POSITIVE_ZERO);
        let (mut row, end) = (self.first, self.strided.end());
        while row < end {
            let next = if row + LANES < end { row + LANES } else { self.then };
            self.of_row::<M, S>(row, next);
            row += LANES;
        }
    }
}

/// (Functions, because closures would not be inlined.)
impl<C: Float, R: Columns<N>, const N: usize> LaneRows<'_, '_, '_, C, R, N> {
    #[inline(always)]
    fn of_row<M: ReduceLanes<C>, S: SimdLanes<C> + Lane>(&mut self, row: usize, next: usize) {
        let ColumnSumWork { r, x: all, step, n: len, .. } = *self.work;
        let padded = len.next_multiple_of(TERM_CHUNK);
        let mut x: [&[C]; N] = [&[]; N];
        for (((x, all), step), last) in x.iter_mut().zip(all).zip(step).zip(&mut *self.last) {
            *x = match all.get(row * step..row * step + padded) {
                Some(x) => x,
                None => {
                    last[..len].copy_from_slice(&all[row * step..][..len]);
                    last
                }
            };
        }
        let x = chunks::<C, true, N>(&x, &[0; N], 0, padded);
        let (mut s, n) = ([C::POSITIVE_ZERO; STATS], C::lit(len as f64));
        // What is fetched meanwhile: where the results go, and the next row of two operands.
        let of = |k: usize| all[k].as_ptr().wrapping_add(next * step[k]);
        let places = [self.strided.place(row), of(0), of(1.min(N - 1))];
        let terms = &mut *self.terms;
        let isa = self.work.isa;
        s[0] = statistic::<C, M, R, N, 0>(isa, *r, x, s, (len, n), terms, places);
        s[1] = statistic::<C, M, R, N, 1>(isa, *r, x, s, (len, n), terms, places);
        s[2] = statistic::<C, M, R, N, 2>(isa, *r, x, s, (len, n), terms, places);
        s[3] = statistic::<C, M, R, N, 3>(isa, *r, x, s, (len, n), terms, places);
        self.strided
            .row(row, RowValues { x: ResultTerms { r: *r, x, s, n }, len, life: PhantomData::<(M, S)> });
        let (first, second) = self.sums.split_at_mut(padded.min(self.sums.len()));
        add::<C, M, R, N, 0>(*r, x, &s, n, first);
        if const { R::SUMS > 1 } {
            add::<C, M, R, N, 1>(*r, x, &s, n, second);
        }
    }
}

/// A row's values.
struct RowValues<X, W> {
    x: X,
    len: usize,
    life: PhantomData<W>,
}

impl<C: Float, R: Columns<N>, M: SimdLanes<C> + Lane, S: SimdLanes<C> + Lane, const N: usize> WriteRow<C>
    for RowValues<ResultTerms<'_, C, R, true, N>, (M, S)>
{
    #[inline(always)]
    fn write(self, dst: &mut UninitSlice<'_, C>) {
        term_loop::write_results::<C, M, S>(self.x, self.len, dst);
    }
}

/// Statistic `K` of a row, if there is such a one.
#[inline(always)]
fn statistic<C: Float, M: ReduceLanes<C>, R: Columns<N>, const N: usize, const K: usize>(
    isa: Isa,
    r: R,
    x: [RowOperand<'_, C, true>; N],
    s: [C; STATS],
    (len, n): (usize, C),
    terms: &mut [C],
    places: [*const C; 3],
) -> C {
    if K >= R::FOLDS.len() {
        return C::POSITIVE_ZERO;
    }
    let f = R::FOLDS[K];
    let x = StatisticTerms::<C, R, true, N, K> { r, x, s, n };
    // With few statistics memory has less time: then the operands.
    let place = places.get(K + places.len().saturating_sub(R::FOLDS.len()));
    let folded = if const { M::WIDTH == TERM_CHUNK } {
        match place {
            Some(&place) => {
                RegisterFold::<_, _, _, false> { f, x, n: len, kept: &mut [], prefetch: PrefetchL1([place]) }
                    .fold::<M>()
            }
            None => {
                let prefetch = PrefetchL1::<C, 0>([]);
                RegisterFold::<_, _, _, false> { f, x, n: len, kept: &mut [], prefetch }.fold::<M>()
            }
        }
        .folded(f)
    } else {
        match place {
            Some(&place) => term_loop::write_terms::<C, M>(x, terms, PrefetchL1([place])),
            None => term_loop::write_terms::<C, M>(x, terms, PrefetchL1::<C, 0>([])),
        }
        C::block(isa, f, &terms[..len])
    };
    r.finish(K, ScalarLane(folded), s.map(ScalarLane), ScalarLane(n)).0
}

/// Adds a row to sum `K` of its columns.
#[inline(always)]
fn add<C: Float, M: SimdLanes<C> + Lane, R: Columns<N>, const N: usize, const K: usize>(
    r: R,
    x: [RowOperand<'_, C, true>; N],
    s: &[C; STATS],
    n: C,
    sums: &mut [C],
) {
    for (number, sums) in sums.as_chunks_mut::<TERM_CHUNK>().0.iter_mut().enumerate() {
        let w = x.map(|x| x.chunk(number));
        // A copy: the compiler does not see that operands and sums are apart.
        let (mut all, mut j) = (*sums, 0);
        while j < TERM_CHUNK {
            let term = r.column(K, load_operands(&w, j), splat_statistics(s), M::splat(n));
            (M::load(&all[j..]) + term).store(&mut all[j..]);
            j += M::WIDTH;
        }
        *sums = all;
    }
}

/// The right half of a tree joins the left: whole windows.
struct AddPartialSums<'a, C> {
    left: &'a mut [C],
    right: &'a [C],
}

impl<C: Float> LaneKernel for AddPartialSums<'_, C> {
    type T = C;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<L: SimdLanes<C> + Lane, M: ReduceLanes<C>, S: SimdLanes<C> + Lane>(self) {
        let right = self.right.as_chunks::<TERM_CHUNK>().0;
        for (left, right) in self.left.as_chunks_mut::<TERM_CHUNK>().0.iter_mut().zip(right) {
            let (mut all, mut j) = (*left, 0);
            while j < TERM_CHUNK {
                (M::load(&all[j..]) + M::load(&right[j..])).store(&mut all[j..]);
                j += M::WIDTH;
            }
            *left = all;
        }
    }
}
