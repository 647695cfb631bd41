//! Which path a fold, a scan or an index of an extreme takes: functions of a view's sizes and
//! strides and of a machine, and all thresholds.
//!
//! Rows are a view's last axes. Column-wise, 64 rows are side by side in registers; row-wise, each
//! row's elements do; and a long column-wise fold walks the tree of the canonical order for many
//! rows at once. None of them changes an order of terms.
//!
//! How it can be wrong: by another path than before, which no test of results sees.
//! `tests/plans/reduce.tsv` says which path each of several hundred problems takes.

mod display;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
pub(super) mod thresholds;

use super::columns::layout::{ColumnLayout, OperandAxes, RowGrid};
use crate::machine::Machine;
use crate::reduce::source::ReduceElement;
use crate::view::View;
use elinvar_core::Dims;
use elinvar_core::order::{BLOCK, LANES, SCAN_BLOCK, SCAN_GROUP};
use elinvar_simd::row_loop::TERM_CHUNK;
use thresholds::*;

/// Rows of a view, as sizes and strides.
#[derive(Clone, Copy)]
pub(super) struct ReduceProblem<'a> {
    pub(super) shape: &'a [usize],
    pub(super) strides: &'a [isize],
    /// The first axes, which are the rows.
    pub(super) kept: usize,
    /// Are elements stored in the type in which is computed?
    pub(super) is_native: bool,
}

impl<'a> ReduceProblem<'a> {
    /// Of a view that is computed in `T`.
    pub(super) fn of<T: ReduceElement>(x: &'a View<'_>, kept: usize) -> ReduceProblem<'a> {
        let is_native = T::slice(x.buffer).is_some();
        ReduceProblem { shape: x.layout.shape(), strides: x.layout.strides(), kept, is_native }
    }
    fn rows(&self) -> usize {
        self.shape[..self.kept].iter().product()
    }
    /// Elements of a row.
    fn n(&self) -> usize {
        self.shape[self.kept..].iter().product()
    }
    /// Are neighbours in a row neighbours in memory, which need no conversion?
    fn is_read_in_place(&self) -> bool {
        let last = self.shape.iter().zip(self.strides).rfind(|(n, _)| **n != 1);
        self.is_native && last.is_none_or(|(_, stride)| *stride == 1)
    }
    /// How rows are side by side, if there are so many.
    fn columns(&self, min_rows: usize) -> Option<ColumnLayout> {
        column_layout(self.shape, &[self.strides], self.kept, min_rows)
    }
}

/// Sizes without 1, each with its strides in all operands, of which neighbours are joined that are
/// as one in all of them; and the number of the last one's first axis.
fn join_axes(sizes: &[usize], strides: &[&[isize]]) -> (Vec<(usize, Vec<isize>)>, usize) {
    let (mut all, mut first): (Vec<(usize, Vec<isize>)>, _) = (Vec::new(), 0);
    for (axis, &n) in sizes.iter().enumerate().filter(|(_, n)| **n != 1) {
        let steps: Vec<isize> = strides.iter().map(|s| s[axis]).collect();
        match all.last_mut() {
            Some((size, above)) if above.iter().zip(&steps).all(|(a, s)| *a == s * n as isize) => {
                (*size, *above) = (*size * n, steps);
            }
            _ => {
                all.push((n, steps));
                first = axis;
            }
        }
    }
    (all, first)
}

/// Of operands of one shape, whose first `kept` axes are the rows, if these are side by side in
/// memory, or short and one after the other, and there are so many of them.
pub(super) fn column_layout(
    shape: &[usize],
    strides: &[&[isize]],
    kept: usize,
    min_rows: usize,
) -> Option<ColumnLayout> {
    let n: usize = shape[kept..].iter().product();
    // Most rows do not, and short ones should not wait for more than a look at them.
    let last = (0..kept).rev().find(|&axis| shape[axis] != 1)?;
    let may = |step: isize| step == 1 || n <= SHORT_ROW_MAX_ELEMENTS && step == n as isize;
    if shape.contains(&0) || !strides.iter().any(|strides| may(strides[last])) {
        return None;
    }
    let part = |axes: std::ops::Range<usize>| {
        let strides: Vec<&[isize]> = strides.iter().map(|s| &s[axes.clone()]).collect();
        join_axes(&shape[axes], &strides)
    };
    let (mut outer, from) = part(0..kept);
    let (inner, _) = part(kept..shape.len());
    let (columns, steps) = outer.pop()?;
    let (_, down) = inner.last()?;
    let both = || steps.iter().zip(down);
    let upright = both().any(|(column, row)| *column == 1 && !matches!(row, 0 | 1));
    let short = n <= SHORT_ROW_MAX_ELEMENTS && both().any(|(column, row)| *column == n as isize && *row == 1);
    if columns < min_rows || !(upright || short) {
        return None;
    }
    let operand = |k: usize| {
        let axes = |all: &[(usize, Vec<isize>)]| all.iter().map(|(n, s)| (*n, s[k])).collect();
        OperandAxes { outer: axes(&outer), step: steps[k], inner: axes(&inner) }
    };
    let operands = (0..strides.len()).map(operand).collect();
    let matrices = outer.iter().map(|o| o.0).product();
    let shape = Dims::from_slice(shape);
    Some(ColumnLayout { grid: RowGrid { shape, kept, from, matrices, columns, n, upright }, operands })
}

/// How the rows are folded.
pub(super) enum FoldPlan {
    /// Nothing, or of nothing.
    Empty,
    Columns(ColumnFoldPlan),
    Rows {
        path: RowFold,
        /// Do terms come from memory, and not from a block that has just been staged?
        from_memory: bool,
    },
}

/// A fold of rows side by side.
pub(super) struct ColumnFoldPlan {
    pub(super) layout: ColumnLayout,
    pub(super) path: ColumnFold,
    /// Are elements read in place? Or else a block of them is copied.
    pub(super) reads_in_place: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ColumnFold {
    /// Depth first through the tree; each thread has some of the lanes of all columns.
    TreeOfSharedLanes,
    /// The same; each thread has some of the columns.
    Tree { columns_per_task: usize },
    /// The same; threads share the blocks of long rows.
    TreeOfSharedBlocks,
    /// Lane by lane of 64 rows at a time, whose terms are no more than lanes.
    WholeRows,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum RowFold {
    /// Few long rows: threads share the blocks of each.
    SharedBlocks,
    /// Rows of one block, of which several are read at a time.
    Short { rows_per_read: usize, rows_per_task: usize },
    /// Rows of several blocks.
    Long { rows_per_task: usize },
}

/// The plan of a fold.
pub(super) fn fold(p: ReduceProblem<'_>, m: &Machine) -> FoldPlan {
    let (rows, n) = (p.rows(), p.n());
    if rows == 0 || n == 0 {
        return FoldPlan::Empty;
    }
    if let Some(plan) = column_fold(p, m) {
        return FoldPlan::Columns(plan);
    }
    let blocks = n.div_ceil(BLOCK);
    let rows_per_read = (BLOCK / n).max(1);
    let rows_per_task = rows_per_read * (FOLD_BLOCKS_PER_TASK * BLOCK / (rows_per_read * n)).max(1);
    let path = if blocks > 1 && rows < SHARED_BLOCKS_ROWS_PER_THREAD * m.threads {
        RowFold::SharedBlocks
    } else if blocks == 1 {
        RowFold::Short { rows_per_read, rows_per_task }
    } else {
        RowFold::Long { rows_per_task }
    };
    FoldPlan::Rows { path, from_memory: p.is_read_in_place() }
}

/// The plan of a fold of rows side by side, if they are taken so.
pub(super) fn column_fold(p: ReduceProblem<'_>, m: &Machine) -> Option<ColumnFoldPlan> {
    // Where no kernels are compiled, nor is this.
    if !m.has_kernels {
        return None;
    }
    let layout = p.columns(FOLD_MIN_ROWS)?;
    let (n, step) = (layout.grid.n, layout.operands[0].step);
    // Rows of more terms than lanes are not short, so they are side by side.
    let path =
        if n > LANES { tree(m, layout.grid.matrices, layout.grid.columns, n) } else { ColumnFold::WholeRows };
    Some(ColumnFoldPlan { reads_in_place: p.is_native && step == 1, layout, path })
}

fn tree(m: &Machine, matrices: usize, columns: usize, n: usize) -> ColumnFold {
    let (blocks, tasks) = (n.div_ceil(BLOCK), TREE_TASKS_PER_THREAD * m.threads);
    if matrices == 1
        && columns > TREE_FEW_COLUMNS
        && blocks * columns.div_ceil(TREE_SHARED_MAX_COLUMNS) < tasks
    {
        return ColumnFold::TreeOfSharedLanes;
    }
    if n > BLOCK {
        return ColumnFold::TreeOfSharedBlocks;
    }
    let some = (matrices * columns / tasks).next_multiple_of(TREE_MIN_COLUMNS);
    ColumnFold::Tree { columns_per_task: some.clamp(TREE_MIN_COLUMNS, TREE_MAX_COLUMNS) }
}

/// How a row-wise formula takes rows side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RowwiseColumns {
    /// Chunks of 64 rows, whose elements stay in a cache while they are read several times.
    Chunks,
    /// Of a formula with one fold, whose results are of rows alone: blocks of rows are folded, and
    /// threads share them.
    Blocks,
}

/// How a row-wise formula takes rows that may be side by side, if it takes them so. `reads_once`:
/// it has one fold, and its results are of rows alone.
pub(super) fn rowwise_columns(grid: &RowGrid, reads_once: bool, m: &Machine) -> Option<RowwiseColumns> {
    let (n, rows) = (grid.n, grid.matrices * grid.columns);
    if !reads_once {
        return (n <= ROWWISE_COLUMNS_MAX_ELEMENTS).then_some(RowwiseColumns::Chunks);
    }
    let too_few = n > MAX_HELD_ELEMENTS && rows < ROWWISE_CHUNKS_PER_THREAD * TERM_CHUNK * m.threads;
    Some(if n > BLOCK || too_few { RowwiseColumns::Blocks } else { RowwiseColumns::Chunks })
}

/// How the rows are scanned.
pub(super) enum ScanPlan {
    Empty,
    /// Rows side by side.
    Columns(ColumnLayout),
    Rows(RowScan),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum RowScan {
    /// Few long rows: threads share the blocks of each.
    SharedBlocks,
    /// `in_registers`: each is a register, where it needs no conversion.
    Rows { rows_per_read: usize, in_registers: bool },
}

/// The plan of a scan along the last axis.
pub(super) fn scan(p: ReduceProblem<'_>, m: &Machine) -> ScanPlan {
    let (len, n) = (p.shape.iter().product::<usize>(), p.shape.last().copied().unwrap_or(1));
    if len == 0 {
        return ScanPlan::Empty;
    }
    if !p.shape.is_empty()
        && let Some(layout) = p.columns(MIN_ROWS)
        // Short rows that need no conversion are a register each.
        && (layout.grid.upright || !p.is_native)
    {
        return ScanPlan::Columns(layout);
    }
    let is_long = n >= SHARED_SCAN_MIN_BLOCKS * SCAN_BLOCK;
    if is_long && len / n < SHARED_SCAN_ROWS_PER_THREAD * m.threads && m.threads > 1 {
        return ScanPlan::Rows(RowScan::SharedBlocks);
    }
    let rows_per_read = (SCAN_BLOCKS_PER_READ * SCAN_BLOCK / n).max(1);
    ScanPlan::Rows(RowScan::Rows { rows_per_read, in_registers: n <= SCAN_GROUP })
}

/// How indices of extremes are found.
pub(super) enum ArgFoldPlan {
    /// Rows side by side: the best so far and its number go along.
    Columns { layout: ColumnLayout, chunks_per_task: usize, reads_in_place: bool },
    /// The extreme of each block, then its place.
    Rows { rows_per_task: usize },
}

/// The plan of an index of an extreme.
pub(super) fn arg_fold(p: ReduceProblem<'_>, m: &Machine) -> ArgFoldPlan {
    // Numbers have 32 bits.
    match p.columns(ARG_FOLD_MIN_ROWS).filter(|layout| i32::try_from(layout.grid.n).is_ok()) {
        Some(layout) => {
            let most = layout.grid.columns / TERM_CHUNK / (ARG_FOLD_TASKS_PER_THREAD * m.threads);
            let reads_in_place = p.is_native && layout.operands[0].step == 1;
            ArgFoldPlan::Columns {
                chunks_per_task: most.clamp(1, MAX_CHUNKS_PER_TASK),
                layout,
                reads_in_place,
            }
        }
        None => ArgFoldPlan::Rows { rows_per_task: (ARG_FOLD_BLOCKS_PER_TASK * BLOCK / p.n().max(1)).max(1) },
    }
}

/// Samples of a group, of `samples` whose elements are `row_stride` apart in it: some for each
/// thread.
pub(super) fn ctc_samples_per_group(samples: usize, row_stride: usize, threads: usize) -> usize {
    samples.div_ceil(threads).min(CTC_MAX_GROUP_ELEMENTS / row_stride).max(1)
}
