//! Row-wise formulas (softmax, norms) over strided rows, column-wise: one row per lane.

use super::layout::RowGrid;
use super::{ColumnOperand, RowGroup, RowLanes, RowLanesVec};
use crate::CpuDevice;
use crate::machine::Machine;
use crate::reduce::float::Float;
use crate::reduce::plan::thresholds::{
    FOLD_NS_PER_ELEMENT, HELD_ELEMENTS_OF_LONG_ROWS, MAX_HELD_ELEMENTS, MIN_ROWS, SHORT_ROW_MAX_ELEMENTS,
};
use crate::reduce::plan::{self, RowwiseColumns};
use crate::runtime::memory::filled;
use crate::runtime::output::column_blocks::{ColumnBlocks, fill_column_blocks};
use crate::runtime::parallel::try_for_each_piece;
use crate::view::View;
use elinvar_core::explain::explain;
use elinvar_core::order::{BLOCK, LANES};
use elinvar_core::{HostVec, Result};
use elinvar_ops::backend::{Fold, Placed};
use elinvar_ops::lane::Lane;
use elinvar_ops::rows::{RowObject, RowOut, STATS};
use elinvar_simd::dispatch::{LaneKernel, ReduceLanes, SimdLanes, run_lanes};
use elinvar_simd::isa::Isa;
use elinvar_simd::row_loop::{MAX_ROW_OPERANDS, RowBlock, RowLoops, Statistics, TERM_CHUNK, combine_lanes};

/// The results of a formula, if the rows, which are the first `kept` axes, are better taken side by
/// side.
pub(crate) fn rowwise<C: Float>(
    d: &CpuDevice,
    f: &dyn RowObject,
    x: &[View<'_>],
    kept: usize,
) -> Result<Option<Placed<HostVec<C>>>> {
    let Some((grid, x)) = RowGrid::new::<C>(f.name(), x, kept, MIN_ROWS)? else { return Ok(None) };
    let (folds, out) = (f.folds(), f.out());
    let reads_once = folds.len() == 1 && out == RowOut::Once;
    let Some(path) = plan::rowwise_columns(&grid, reads_once, &Machine::of(d)) else { return Ok(None) };
    explain(|| {
        format!("{} of {} x {} rows of {} -> {path:?}", f.name(), grid.matrices, grid.columns, grid.n)
    });
    let work = ColumnWork {
        isa: d.isa(),
        f: C::loops(f),
        folds,
        out,
        keeps_terms: f.keeps_terms(),
        x: &x,
        grid: &grid,
        n: C::lit(grid.n as f64),
    };
    if path == RowwiseColumns::Blocks {
        return Ok(Some(work.by_blocks(d)?.into()));
    }
    let ns = (folds.len() + 1) as f64 * FOLD_NS_PER_ELEMENT;
    let width = (out != RowOut::Each).then(|| out.width(grid.n, folds.len()));
    let ns = ns * grid.n as f64 / width.unwrap_or(grid.n) as f64;
    let buffer = fill_column_blocks(d, grid.column_blocks(width), ns, &|column_blocks| {
        let mut scratch = work.scratch()?;
        while let Some(column_block) = column_blocks.next() {
            let width = if grid.upright && width.is_none() { 1 } else { width.unwrap_or(grid.n) };
            work.group(grid.group(column_block, width), column_blocks, &mut scratch)?;
        }
        Ok(())
    })?;
    Ok(Some(Placed { buffer, layout: if width.is_none() { grid.layout()? } else { None } }))
}

/// A formula and its operands.
struct ColumnWork<'a, C> {
    isa: Isa,
    f: &'a dyn RowLoops<C>,
    /// What the formula says of itself.
    folds: &'static [Fold],
    out: RowOut,
    keeps_terms: bool,
    x: &'a [ColumnOperand<'a, C>],
    grid: &'a RowGrid,
    n: C,
}

/// Buffers of a thread.
struct ColumnScratch<C> {
    x: Vec<RowLanesVec<C>>,
    lanes: RowLanesVec<C>,
    /// Terms that are kept, and then results.
    y: RowLanesVec<C>,
    /// The folds of blocks.
    blocks: RowLanesVec<C>,
    s: Statistics<C>,
}

impl<C: Float> ColumnWork<'_, C> {
    /// # Errors
    /// `OutOfMemory`.
    fn scratch(&self) -> Result<ColumnScratch<C>> {
        let (n, held) = (self.grid.n, self.held());
        Ok(ColumnScratch {
            x: self.x.iter().map(|_| RowLanesVec::new(held)).collect::<Result<_>>()?,
            lanes: RowLanesVec::new(n.min(LANES))?,
            y: RowLanesVec::new(if self.out == RowOut::Each {
                held.next_multiple_of(SHORT_ROW_MAX_ELEMENTS)
            } else {
                STATS
            })?,
            blocks: RowLanesVec::new(n.div_ceil(BLOCK))?,
            s: [[C::POSITIVE_ZERO; TERM_CHUNK]; STATS],
        })
    }
    /// Elements that are held at once.
    fn held(&self) -> usize {
        if self.grid.n <= MAX_HELD_ELEMENTS { self.grid.n } else { HELD_ELEMENTS_OF_LONG_ROWS }
    }
    /// Copies elements of all operands.
    fn load(&self, group: RowGroup, start: usize, count: usize, scratch: &mut ColumnScratch<C>) {
        for (x, into) in self.x.iter().zip(&mut scratch.x) {
            // An element that is repeated is needed once.
            let count = if x.repeats() { 1 } else { count };
            x.read(self.isa, group, start, &mut into.all_mut()[..count]);
        }
    }
    /// The operands, as the formula's loops read them.
    fn block<'b>(&self, count: usize, x: &'b [RowLanesVec<C>]) -> RowBlock<'b, C> {
        let mut all: [(&[RowLanes<C>], bool); MAX_ROW_OPERANDS] = [(&[], false); MAX_ROW_OPERANDS];
        for ((into, x), operand) in all.iter_mut().zip(x).zip(self.x) {
            let repeats = operand.repeats();
            *into = (&x.all()[..if repeats { 1 } else { count }], repeats);
        }
        RowBlock::strided(&all[..x.len()], count)
    }
    /// The fold of a block, window by window, as the first of the lanes.
    fn fold(&self, k: usize, group: RowGroup, block: usize, scratch: &mut ColumnScratch<C>) {
        let (start, held) = (block * BLOCK, self.held());
        let len = BLOCK.min(self.grid.n - start);
        for at in (0..len).step_by(held) {
            let count = held.min(len - at);
            if self.grid.n > MAX_HELD_ELEMENTS {
                self.load(group, start + at, count, scratch);
            }
            let ColumnScratch { x, lanes, y, s, .. } = scratch;
            let (lanes, terms) = (lanes.all_mut(), y.all_mut());
            self.f.strided_fold(self.isa, k, &self.block(count, x), s, self.n, at, lanes, terms);
        }
        run_lanes(
            self.isa,
            HalveLanes { f: self.folds[k], n: len.min(LANES), lanes: scratch.lanes.all_mut() },
        );
    }
    /// All statistics of a group, whose operands are held if they are short.
    fn statistics(&self, group: RowGroup, scratch: &mut ColumnScratch<C>) {
        if self.grid.n <= MAX_HELD_ELEMENTS {
            self.load(group, 0, self.grid.n, scratch);
        }
        let blocks = self.grid.n.div_ceil(BLOCK);
        for k in 0..self.folds.len() {
            for b in 0..blocks {
                self.fold(k, group, b, scratch);
                scratch.blocks.all_mut()[b] = scratch.lanes.all()[0];
            }
            join_block_lanes(self.isa, self.folds[k], &mut scratch.blocks.all_mut()[..blocks]);
            self.finish(k, scratch);
        }
    }
    /// Statistic `k` from the first of the blocks' folds.
    fn finish(&self, k: usize, scratch: &mut ColumnScratch<C>) {
        let ColumnScratch { blocks, s, .. } = scratch;
        self.f.finish(self.isa, k, TERM_CHUNK, &blocks.all()[0], s, self.n);
    }
    /// Whatever comes of a group.
    fn group(
        &self,
        group: RowGroup,
        column_blocks: &mut ColumnBlocks<'_, C>,
        scratch: &mut ColumnScratch<C>,
    ) -> Result<()> {
        let n = self.grid.n;
        self.statistics(group, scratch);
        match self.out {
            RowOut::Statistics => {
                column_blocks.row(|dst| group.transposed(self.isa, &scratch.s, self.folds.len(), dst));
            }
            RowOut::Once => {
                let ColumnScratch { y, s, .. } = scratch;
                self.f.once(self.isa, TERM_CHUNK, s, self.n, &mut y.all_mut()[0]);
                column_blocks.row(|dst| dst.copy(group.own(&y.all()[0])));
            }
            RowOut::Each => {
                let held = self.held();
                for start in (0..n).step_by(held) {
                    let count = held.min(n - start);
                    if n > MAX_HELD_ELEMENTS {
                        self.load(group, start, count, scratch);
                    }
                    let ColumnScratch { x, y, s, .. } = scratch;
                    let y = &mut y.all_mut()[..count];
                    if self.keeps_terms && n <= MAX_HELD_ELEMENTS {
                        self.f.strided_results_of_terms(self.isa, s, self.n, y);
                    } else {
                        self.f.strided_results(self.isa, &self.block(count, x), s, self.n, y);
                    }
                    group.write(self.isa, self.grid, scratch.y.all(), count, column_blocks);
                }
            }
        }
        Ok(())
    }
    /// One value for each row, from one statistic: threads share the blocks of long ones.
    fn by_blocks(&self, d: &CpuDevice) -> Result<HostVec<C>> {
        let grid = self.grid;
        let (groups, blocks) = (grid.matrices * grid.columns.div_ceil(TERM_CHUNK), grid.n.div_ceil(BLOCK));
        let mut all = filled(groups * blocks * TERM_CHUNK, C::POSITIVE_ZERO)?;
        try_for_each_piece(
            d,
            &mut all,
            TERM_CHUNK,
            BLOCK.min(grid.n) as f64 * FOLD_NS_PER_ELEMENT,
            &|at, part| {
                let mut scratch = self.scratch()?;
                let number = at / TERM_CHUNK;
                self.fold(0, grid.numbered(number / blocks), number % blocks, &mut scratch);
                part.copy_from_slice(&scratch.lanes.all()[0]);
                Ok(())
            },
        )?;
        let mut y = crate::runtime::memory::with_capacity(grid.matrices * grid.columns)?;
        let mut scratch = self.scratch()?;
        for (number, folded) in all.chunks_exact(blocks * TERM_CHUNK).enumerate() {
            scratch.blocks.all_mut()[..blocks].copy_from_slice(folded.as_chunks().0);
            join_block_lanes(self.isa, self.folds[0], &mut scratch.blocks.all_mut()[..blocks]);
            self.finish(0, &mut scratch);
            let ColumnScratch { y: once, s, .. } = &mut scratch;
            self.f.once(self.isa, TERM_CHUNK, s, self.n, &mut once.all_mut()[0]);
            y.extend_from_slice(grid.numbered(number).own(&once.all()[0]));
        }
        Ok(y)
    }
}

/// The lanes of folds of a block's `n` terms, joined in the first one, window by window.
struct HalveLanes<'a, C> {
    f: Fold,
    n: usize,
    lanes: &'a mut [RowLanes<C>],
}

impl<C: Float> LaneKernel for HalveLanes<'_, C> {
    type T = C;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<M: ReduceLanes<C>, S: SimdLanes<C> + Lane>(self) {
        let mut half = LANES / 2;
        while half > 0 {
            // Lanes that never had a term take no part.
            let (left, right) = self.lanes.split_at_mut(half.min(self.lanes.len()));
            for (a, b) in left.iter_mut().zip(&right[..half.min(self.n.saturating_sub(half))]) {
                join::<C, M>(self.f, a, b);
            }
            half /= 2;
        }
    }
}

/// A window with the one to its right.
#[inline(always)]
fn join<C: Float, M: ReduceLanes<C>>(f: Fold, a: &mut RowLanes<C>, b: &RowLanes<C>) {
    let mut c = 0;
    while c < TERM_CHUNK {
        combine_lanes(f, M::load(&a[c..]), M::load(&b[c..])).store(&mut a[c..]);
        c += M::WIDTH;
    }
}

/// Folds of blocks, joined pairwise in the order of the blocks, in the first of them.
fn join_block_lanes<C: Float>(isa: Isa, f: Fold, blocks: &mut [RowLanes<C>]) {
    /// Two of them.
    struct CombineLanes<'a, C>(Fold, &'a mut RowLanes<C>, &'a RowLanes<C>);
    impl<C: Float> LaneKernel for CombineLanes<'_, C> {
        type T = C;
        const AVX512_F64: bool = false;
        #[inline(always)]
        fn run<M: ReduceLanes<C>, S: SimdLanes<C> + Lane>(self) {
            join::<C, M>(self.0, self.1, self.2);
        }
    }
    if blocks.len() > 1 {
        let (left, right) = blocks.split_at_mut(blocks.len().next_power_of_two() / 2);
        join_block_lanes(isa, f, left);
        join_block_lanes(isa, f, right);
        run_lanes(isa, CombineLanes(f, &mut left[0], &right[0]));
    }
}
