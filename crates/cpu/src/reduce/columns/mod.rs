//! Column-wise (strided) reduction: 64 rows in SIMD lanes; element `i` of 64 rows is a chunk, and
//! so are their statistics and results.
//!
//! Rows whose elements are far apart in memory, as the channels of a pixel are, need no transpose
//! this way; short contiguous rows, of which a register would hold more than one, are transposed
//! first. Operands are copied to a block in the cache, so that kernels read one block whatever the
//! strides and dtypes, and may read it several times.

mod arg_fold;
mod fold;
pub(super) mod layout;
mod rowwise;
mod scan;
mod tree;

pub(crate) use arg_fold::arg_fold;
pub(crate) use fold::{fold, planned_fold};
pub(crate) use rowwise::rowwise;
pub(crate) use scan::scan;

use super::plan::column_layout;
use super::source::{Axis, ReduceElement, StagedView, offset};
use crate::layout::kernels::transpose_short_rows;
use crate::reduce::plan::thresholds::MAX_HELD_ELEMENTS;
use crate::runtime::memory::filled;
use crate::runtime::output::column_blocks::{BlockedMatrices, ColumnBlock, ColumnBlocks};
use crate::view::View;
use elinvar_core::{Dims, Element, HostData, HostVec, Layout, Result, Shape};
use elinvar_simd::LINE;
use elinvar_simd::isa::{Isa, IsaTargets, Kernel, dispatch};
use elinvar_simd::prefetch::{prefetch_l1, prefetch_lines};
use elinvar_simd::row_loop::{RowLanes, TERM_CHUNK};
use elinvar_simd::uninit::UninitSlice;
use layout::{ColumnLayout, OperandAxes, RowGrid};

impl ColumnLayout {
    /// An operand of these, to be read.
    ///
    /// # Errors
    /// `DTypeMismatch` if its elements are no such numbers.
    fn operand<'a, T: ReduceElement>(
        &self,
        what: &str,
        k: usize,
        x: &View<'a>,
    ) -> Result<ColumnOperand<'a, T>> {
        // Checks the type.
        StagedView::<T>::new(what, x)?;
        let OperandAxes { outer, step, inner } = self.operands[k].clone();
        Ok(ColumnOperand {
            data: x.buffer,
            own: T::slice(x.buffer),
            first: x.layout.offset(),
            outer,
            step,
            inner,
            prefetch_next: should_prefetch_next(self.grid.columns, self.grid.n),
        })
    }
}

impl RowGrid {
    /// The rows of views, of which the first `kept` axes are the rows, and how each view is read,
    /// if [`column_layout`] takes them.
    fn new<'a, T: ReduceElement>(
        what: &str,
        x: &[View<'a>],
        kept: usize,
        min_rows: usize,
    ) -> Result<Option<(RowGrid, Vec<ColumnOperand<'a, T>>)>> {
        let strides: Vec<&[isize]> = x.iter().map(|x| x.layout.strides()).collect();
        let Some(layout) = column_layout(x[0].layout.shape(), &strides, kept, min_rows) else {
            return Ok(None);
        };
        let operands = x.iter().enumerate().map(|(k, x)| layout.operand(what, k, x));
        let operands = operands.collect::<Result<_>>()?;
        Ok(Some((layout.grid, operands)))
    }
    /// A result with `width` numbers for each row, one after the other; or for each element, to lie
    /// as the rows do.
    fn column_blocks(&self, width: Option<usize>) -> BlockedMatrices {
        let (count, columns, n) = (self.matrices, self.columns, self.n);
        match width {
            None if self.upright => BlockedMatrices { count, rows: n, columns, width: TERM_CHUNK },
            _ => {
                let width = width.unwrap_or(n);
                BlockedMatrices { count, rows: 1, columns: columns * width, width: TERM_CHUNK * width }
            }
        }
    }
    /// How a result for each element lies, if not row by row.
    fn layout(&self) -> Result<Option<Layout>> {
        if !self.upright {
            return Ok(None);
        }
        let rank = self.shape.len();
        let order: Dims = (0..self.from).chain(self.kept..rank).chain(self.from..self.kept).collect();
        let mut back = Dims::from_elem(0, rank);
        order.iter().enumerate().for_each(|(i, &axis)| back[axis] = i);
        let sizes: Dims = order.iter().map(|&axis| self.shape[axis]).collect();
        Ok(Some(Layout::contiguous(Shape::new(&sizes)?).permute(&back)))
    }
    /// The rows of a stripe with so many numbers for each.
    fn group(&self, column_block: ColumnBlock, width: usize) -> RowGroup {
        let (column, some) = (column_block.column / width, column_block.width / width);
        // The last window of many begins earlier: so all are whole.
        let first = column.min(self.columns.saturating_sub(TERM_CHUNK));
        RowGroup {
            matrix: column_block.matrix,
            first,
            all: TERM_CHUNK.min(self.columns),
            skip: column - first,
            some,
        }
    }
    /// A group by number.
    fn numbered(&self, number: usize) -> RowGroup {
        let each = self.columns.div_ceil(TERM_CHUNK);
        let column = number % each * TERM_CHUNK;
        let width = TERM_CHUNK.min(self.columns - column);
        self.group(ColumnBlock { matrix: number / each, column, width }, 1)
    }
}

/// Is there a next group, and are rows so short that what it reads stays in a second-level cache
/// until then? (Of 6304 elements they are not: a weight's gradient of such rows took a tenth longer
/// with what comes next fetched.)
fn should_prefetch_next(columns: usize, n: usize) -> bool {
    columns > TERM_CHUNK && n <= MAX_HELD_ELEMENTS
}

/// Some rows that go side by side.
#[derive(Clone, Copy)]
struct RowGroup {
    matrix: usize,
    /// The first row that is read, and how many are.
    first: usize,
    all: usize,
    /// Of these so many are others' at first, and so many are this group's.
    skip: usize,
    some: usize,
}

impl RowGroup {
    /// What is this group's of a window.
    fn own<T>(self, chunk: &RowLanes<T>) -> &[T] {
        &chunk[self.skip..][..self.some]
    }
    /// Writes the next windows of a result for each element, the first `n` of these.
    fn write<T: Copy>(
        self,
        isa: Isa,
        grid: &RowGrid,
        y: &[RowLanes<T>],
        n: usize,
        column_blocks: &mut ColumnBlocks<'_, T>,
    ) {
        if !grid.upright {
            return column_blocks.row(|dst| self.transposed(isa, y, n, dst));
        }
        for y in &y[..n] {
            column_blocks.row(|dst| {
                if should_prefetch_next(grid.columns, grid.n) {
                    // Where the next group's results go.
                    prefetch_lines(dst.place().wrapping_add(TERM_CHUNK), TERM_CHUNK);
                }
                dst.copy(self.own(y));
            });
        }
    }
    /// Writes the first `n` windows row by row.
    fn transposed<T: Copy>(self, isa: Isa, y: &[RowLanes<T>], n: usize, dst: &mut UninitSlice<'_, T>) {
        let done = transpose_short_rows::from_lanes(isa, y, n, self.skip..self.skip + self.some, dst);
        for row in done..self.some {
            dst.extend(n, |i| y[i][self.skip + row]);
        }
    }
}

/// An operand, to be read in windows.
struct ColumnOperand<'a, T> {
    data: &'a HostData,
    /// The elements themselves, if they need no conversion.
    own: Option<&'a [T]>,
    first: usize,
    outer: Vec<Axis>,
    /// From a row to the next.
    step: isize,
    inner: Vec<Axis>,
    /// As [`should_prefetch_next`] says.
    prefetch_next: bool,
}

impl<T: ReduceElement> ColumnOperand<'_, T> {
    /// Is each row one element, repeated?
    fn repeats(&self) -> bool {
        self.inner.iter().all(|&(_, stride)| stride == 0)
    }
    /// Are windows read where they lie?
    fn is_in_place(&self) -> bool {
        self.own.is_some() && self.step == 1
    }
    /// Where elements of each row from number `start` on lie, from its first.
    fn places(&self, start: usize, places: &mut [isize]) {
        let Some((&(n, stride), outer)) = self.inner.split_last() else { return };
        let (mut row, mut at) = (start / n, start % n);
        let mut base = offset(outer, row);
        for place in places {
            if at == n {
                (row, at) = (row + 1, 0);
                base = offset(outer, row);
            }
            *place = base + at as isize * stride;
            at += 1;
        }
    }
    /// Where the first element of a group's first row lies.
    fn base(&self, group: RowGroup) -> isize {
        self.first as isize + offset(&self.outer, group.matrix) + group.first as isize * self.step
    }
    /// The elements of a group's rows from number `start` on.
    fn read(&self, isa: Isa, group: RowGroup, start: usize, into: &mut [RowLanes<T>]) {
        let base = self.base(group);
        let Some((&(n, stride), outer)) = self.inner.split_last() else { return };
        let (mut row, mut at, mut done) = (start / n, start % n, 0);
        while done < into.len() {
            let some = (n - at).min(into.len() - done);
            let place = (base + offset(outer, row) + at as isize * stride) as usize;
            self.some(isa, group.all, place, stride, &mut into[done..done + some]);
            (row, at, done) = (row + 1, 0, done + some);
        }
    }
    /// Elements of `width` rows, of each the one at `place` and those that follow by a stride.
    fn some(&self, isa: Isa, width: usize, place: usize, stride: isize, into: &mut [RowLanes<T>]) {
        if let Some(all) = self.own {
            if self.step == 0 {
                return dispatch(isa, RepeatedLanes { all, place, stride, into });
            }
            if self.step == 1 && width == TERM_CHUNK {
                return dispatch(
                    isa,
                    LanesInPlace { all, place, stride, prefetch_next: self.prefetch_next, into },
                );
            }
            if stride == 1 {
                let step = usize::try_from(self.step);
                let first = step
                    .map_or(0, |step| transpose_short_rows::to_lanes(isa, &all[place..], step, width, into));
                if first < width {
                    dispatch(isa, TransposedRows { all, place, step: self.step, first, width, into });
                }
                return;
            }
        }
        for (i, chunk) in into.iter_mut().enumerate() {
            let at = place.wrapping_add_signed(stride * i as isize);
            // A number that is converted, for all rows.
            if self.step == 0 {
                let mut one = [T::ZERO];
                T::load(isa, self.data, at, 1, &mut one);
                chunk.fill(one[0]);
            } else {
                T::load(isa, self.data, at, self.step, &mut chunk[..width]);
            }
        }
    }
}

/// Windows that lie in memory as they are.
struct LanesInPlace<'a, T> {
    all: &'a [T],
    place: usize,
    stride: isize,
    prefetch_next: bool,
    into: &'a mut [RowLanes<T>],
}

impl<T: Copy> Kernel for LanesInPlace<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        /// Windows that are fetched ahead. What is far apart the processor does not foresee.
        const PREFETCH_CHUNKS: isize = 8;
        let mut at = self.place;
        for chunk in self.into {
            let from_memory =
                self.all.as_ptr().wrapping_add(at).wrapping_offset(PREFETCH_CHUNKS * self.stride);
            for i in (0..size_of::<RowLanes<T>>()).step_by(LINE) {
                prefetch_l1(from_memory.wrapping_byte_add(i));
            }
            if self.prefetch_next {
                // The next group's window: rows may be so far apart that no more than a few of
                // their lines have room in the first level.
                prefetch_lines(self.all.as_ptr().wrapping_add(at + TERM_CHUNK), TERM_CHUNK);
            }
            chunk.copy_from_slice(&self.all[at..at + TERM_CHUNK]);
            at = at.wrapping_add_signed(self.stride);
        }
    }
}

/// Windows of copies: all rows have the same element, as all columns have a row's mean.
struct RepeatedLanes<'a, T> {
    all: &'a [T],
    place: usize,
    stride: isize,
    into: &'a mut [RowLanes<T>],
}

impl<T: Copy> Kernel for RepeatedLanes<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let mut at = self.place;
        for chunk in self.into {
            *chunk = [self.all[at]; TERM_CHUNK];
            at = at.wrapping_add_signed(self.stride);
        }
    }
}

/// Windows of rows whose elements lie one after the other, of those rows that are left: from the
/// `first` on.
struct TransposedRows<'a, T> {
    all: &'a [T],
    place: usize,
    step: isize,
    first: usize,
    width: usize,
    into: &'a mut [RowLanes<T>],
}

impl<T: Copy> Kernel for TransposedRows<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for row in self.first..self.width {
            let at = self.place.wrapping_add_signed(row as isize * self.step);
            let elements = &self.all[at..at + self.into.len()];
            for (chunk, &x) in self.into.iter_mut().zip(elements) {
                chunk[row] = x;
            }
        }
    }
}

/// Windows in memory that begins with a cache line.
struct RowLanesVec<T>(HostVec<T>);

impl<T: Element> RowLanesVec<T> {
    /// # Errors
    /// `OutOfMemory`.
    fn new(count: usize) -> Result<Self> {
        Ok(RowLanesVec(filled(if count > 0 { (count + 1) * TERM_CHUNK } else { 0 }, T::ZERO)?))
    }
    fn all(&self) -> &[RowLanes<T>] {
        self.0[self.before()..].as_chunks().0
    }
    fn all_mut(&mut self) -> &mut [RowLanes<T>] {
        let before = self.before();
        self.0[before..].as_chunks_mut().0
    }
    fn before(&self) -> usize {
        if self.0.is_empty() { 0 } else { self.0.as_ptr().align_offset(LINE).min(TERM_CHUNK) }
    }
}

/// Of numbers of 32 bits alone there is a copy for AVX-512, as of formulas.
pub(crate) const fn targets<T>() -> IsaTargets {
    if size_of::<T>() == size_of::<f32>() { IsaTargets::All } else { IsaTargets::UpToAvx2 }
}
