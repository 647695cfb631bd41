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

use super::no_statistics;
use crate::CpuDevice;
use crate::reduce::float::{Float, each_float};
use crate::reduce::source::StagedView;
use crate::runtime::memory::filled;
use crate::runtime::output::strided_rows::{StridedPartition, StridedRows, WriteRow, fill_strided_rows};
use crate::view::View;
use elinvar_core::order::{BLOCK, LANES};
use elinvar_core::{DType, HostData, HostVec, Result};
use elinvar_ops::backend::Fold;
use elinvar_ops::lane::Lane;
use elinvar_ops::rows::{ColumnsObject, STATS};
use elinvar_simd::dispatch::{LaneKernel, ReduceLanes, SimdLanes, folds_in_registers, run_lanes};
use elinvar_simd::isa::Isa;
use elinvar_simd::row_loop::{
    ColumnLoops, GroupOut, MAX_GROUP_ROWS, MAX_ROW_OPERANDS, Prefetch, RowBlock, RowLoops, RowSlice,
    Statistics, TERM_CHUNK, TermsOut,
};
use elinvar_simd::uninit::UninitSlice;

/// Combs of a block.
const ROW_STRIDE: usize = 16;
/// Rows, at least: with fewer, most of a comb's lanes have none.
const MIN_ROWS: usize = LANES;
/// Elements of a row: at least a window, and no more than are folded at once.
const ROW_ELEMENTS: std::ops::RangeInclusive<usize> = TERM_CHUNK..=BLOCK;
/// Nanoseconds for an element.
const NS_PER_ELEMENT: f64 = 0.5;

/// The values, and the first `sums` sums; or nothing, if rows are not one after the other, or
/// are few, or very short or long.
pub(crate) fn rows_and_columns(
    d: &CpuDevice,
    f: &dyn ColumnsObject,
    x: &[View<'_>],
    kept: usize,
    dtype: DType,
    sums: usize,
) -> Result<Option<(HostData, Vec<HostData>)>> {
    each_float!(f.rows().name(), dtype, C => compute::<C>(d, f, x, kept, sums))
}

fn compute<C: Float>(
    d: &CpuDevice,
    f: &dyn ColumnsObject,
    x: &[View<'_>],
    kept: usize,
    sums: usize,
) -> Result<Option<(HostData, Vec<HostData>)>> {
    let name = f.rows().name();
    assert!(sums <= f.sums(), "{name}: it has not so many sums");
    let dims = x[0].layout.shape().dims();
    let (rows, n): (usize, usize) = (dims[..kept].iter().product(), dims[kept..].iter().product());
    if rows < MIN_ROWS || !ROW_ELEMENTS.contains(&n) {
        return Ok(None);
    }
    let padded = n.next_multiple_of(TERM_CHUNK);
    let mut copies = [const { HostVec::new() }; MAX_ROW_OPERANDS];
    let mut all = [RowSlice::EMPTY; MAX_ROW_OPERANDS];
    for ((x, view), copy) in all.iter_mut().zip(x).zip(&mut copies) {
        let stage = StagedView::<C>::new(name, view)?;
        let one = stage.is_one_row(n);
        let len = if one { n } else { rows * n };
        let Some(in_place) = stage.padded(0, len, len) else { return Ok(None) };
        (x.data, x.step) = (in_place, if one { 0 } else { n });
        if one && padded > n {
            // Windows of it are read for each row.
            *copy = filled(padded, C::POSITIVE_ZERO)?;
            copy[..n].copy_from_slice(in_place);
            x.data = copy;
        }
    }
    let width = sums * padded;
    let partition = StridedPartition { rows, columns: n, stride: ROW_STRIDE };
    debug_assert_eq!(partition.block(), BLOCK, "combs of the fold's blocks");
    let mut parts = filled(partition.count() * width, C::POSITIVE_ZERO)?;
    let work = ColumnSumWork {
        isa: d.isa(),
        f: C::loops(f.rows()),
        sums: C::column_loops(f),
        folds: f.rows().folds(),
        x: &all[..x.len()],
        n,
        width,
    };
    let y = fill_strided_rows(d, partition, &mut parts, NS_PER_ELEMENT, &|strided, part| {
        let mut scratch = ColumnSumScratch::new(n, width)?;
        let mut stack = std::mem::take(&mut scratch.stack);
        // A task that takes these strided rows probably takes the next ones.
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

/// Sums of blocks, each the first `width` numbers of `row_stride`, joined pairwise in the order of
/// the blocks, in the first.
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
struct ColumnSumScratch<C> {
    /// Room for the sums of lanes that wait.
    stack: HostVec<C>,
    /// Room for terms on their way to a fold.
    terms: HostVec<C>,
    /// An operand's last row, if a chunk of it would reach behind the operand.
    last: [HostVec<C>; MAX_ROW_OPERANDS],
}

impl<C: Float> ColumnSumScratch<C> {
    fn new(n: usize, width: usize) -> Result<Self> {
        let waiting = (LANES / ROW_STRIDE).ilog2() as usize;
        let padded = n.next_multiple_of(TERM_CHUNK);
        let mut last = [const { HostVec::new() }; MAX_ROW_OPERANDS];
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
struct ColumnSumWork<'a, C> {
    isa: Isa,
    f: &'a dyn RowLoops<C>,
    sums: &'a dyn ColumnLoops<C>,
    folds: &'static [Fold],
    x: &'a [RowSlice<'a, C>],
    /// Elements of a row, and of all sums of a row's elements.
    n: usize,
    width: usize,
}

impl<C: Float> ColumnSumWork<'_, C> {
    /// The sums of the comb's lanes `lane`, `lane + step`, ...; `then` is the first row that is
    /// read behind theirs.
    fn lanes(
        &self,
        strided: &mut StridedRows<'_, C>,
        lane: usize,
        step: usize,
        then: usize,
        sums: &mut [C],
        stack: &mut [C],
        scratch: &mut ColumnSumScratch<C>,
    ) {
        let row = |lane: usize| strided.first() + lane * ROW_STRIDE;
        if step == LANES / ROW_STRIDE {
            let first = row(lane);
            return self.of_lane(strided, first, then, sums, scratch);
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
    /// The rows of one lane, from the first on, their values, and the sums of their columns.
    fn of_lane(
        &self,
        strided: &mut StridedRows<'_, C>,
        first: usize,
        then: usize,
        sums: &mut [C],
        scratch: &mut ColumnSumScratch<C>,
    ) {
        sums.fill(C::POSITIVE_ZERO);
        let (mut row, end) = (first, strided.end());
        let mut s = no_statistics();
        while row < end {
            let next = if row + LANES < end { row + LANES } else { then };
            self.of_row(strided, row, next, sums, &mut s, scratch);
            row += LANES;
        }
    }
    fn of_row(
        &self,
        strided: &mut StridedRows<'_, C>,
        row: usize,
        next: usize,
        sums: &mut [C],
        s: &mut Statistics<C>,
        scratch: &mut ColumnSumScratch<C>,
    ) {
        let (len, operands) = (self.n, self.x.len());
        let padded = len.next_multiple_of(TERM_CHUNK);
        let mut x = [RowSlice::EMPTY; MAX_ROW_OPERANDS];
        for ((x, all), last) in x.iter_mut().zip(self.x).zip(&mut scratch.last) {
            x.data = match all.data.get(row * all.step..row * all.step + padded) {
                Some(x) => x,
                None => {
                    last[..len].copy_from_slice(&all.data[row * all.step..][..len]);
                    last
                }
            };
        }
        let (b, n) = (RowBlock::new(&x[..operands], 1, len), C::lit(len as f64));
        // What is fetched meanwhile: where the results go, and the next row of two operands.
        let of = |k: usize| self.x[k].data.as_ptr().wrapping_add(next * self.x[k].step);
        let places = [strided.place(row), of(0), of(1.min(operands - 1))];
        s.iter_mut().for_each(|s| s[0] = C::POSITIVE_ZERO);
        // With few statistics memory has less time: then the operands.
        let mut prefetch = [Prefetch::Nothing; STATS];
        for (prefetch, &place) in prefetch[..self.folds.len()].iter_mut().rev().zip(places.iter().rev()) {
            *prefetch = Prefetch::One(place, 0);
        }
        if folds_in_registers::<C>(self.isa) {
            let mut once = [C::POSITIVE_ZERO; MAX_GROUP_ROWS];
            let mut out = GroupOut { terms: &mut [], step: 0, prefetch: &prefetch, once: &mut once };
            self.f.statistics(self.isa, &b, s, n, &mut out);
        } else {
            for (k, &fold) in self.folds.iter().enumerate() {
                let terms = &mut *scratch.terms;
                self.f.terms(self.isa, k, &b, s, n, TermsOut::written(&mut *terms, 0, prefetch[k]));
                let mut folded = [C::POSITIVE_ZERO; TERM_CHUNK];
                folded[0] = C::block(self.isa, fold, &terms[..len]);
                self.f.finish(self.isa, k, 1, &folded, s, n);
            }
        }
        strided.row(row, RowValues { work: self, b: &b, s, n });
        for (k, sums) in sums.chunks_exact_mut(padded).enumerate() {
            self.sums.add_row(self.isa, k, &b, s, n, sums);
        }
    }
}

/// A row's values.
struct RowValues<'a, C> {
    work: &'a ColumnSumWork<'a, C>,
    b: &'a RowBlock<'a, C>,
    s: &'a Statistics<C>,
    n: C,
}

impl<C: Float> WriteRow<C> for RowValues<'_, C> {
    fn write(self, dst: &mut UninitSlice<'_, C>) {
        self.work.f.results(self.work.isa, self.b, self.s, self.n, dst);
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
    fn run<M: ReduceLanes<C>, S: SimdLanes<C> + Lane>(self) {
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
