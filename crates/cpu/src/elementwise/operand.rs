//! Operand staging for elementwise work: from any dtype and strides to contiguous blocks of the
//! compute type, and back.

use super::convert::ComputeElement;
use super::plan::{CALL_MIN_ELEMENTS, MAX_BLOCK_ELEMENTS};
use crate::Isa;
use crate::layout::strided_iter::{StridedIter, gather_runs};
use crate::runtime::memory::with_capacity;
use crate::view::misuse_error;
use elinvar_core::{HostData, HostVec, Layout, Result};
use elinvar_simd::prefetch::prefetch_lines;
use elinvar_simd::uninit::{BLOCK_ELEMENTS, CacheBlock, UninitSlice};
use elinvar_simd::vector_loop::{BLOCK, OperandSlice, RowsShape, Splat};

/// How an operand gets to the formula.
pub(crate) enum Operand<'a, T> {
    /// It lies there as the formula reads it.
    Slice(&'a [T]),
    /// One element for all: a window of copies.
    One(Box<Splat<T>>),
    /// A short row that is repeated, such as a bias: so often that a block from any element of it
    /// on lies there; and its length.
    Row(HostVec<T>, usize),
    /// In long rows, each in one piece or one number.
    StridedRows(&'a [T], StridedIter),
    /// Through blocks.
    Blocks(&'a HostData, StridedIter),
    /// Through blocks that this fills, from an element on.
    Made(Box<FillOperand<'a, T>>),
}

/// Fills a room with the elements from a number on.
pub(crate) type FillOperand<'a, T> = dyn Fn(usize, &mut UninitSlice<'_, T>) + Send + Sync + 'a;

impl<'a, T: ComputeElement> Operand<'a, T> {
    pub(crate) fn new(buffer: &'a HostData, layout: &Layout, len: usize) -> Result<Self> {
        let dtype = buffer.dtype();
        match T::slice(buffer) {
            Some(_) if len == 0 => return Ok(Operand::Slice(&[])),
            Some(x) if layout.is_contiguous() => {
                return Ok(Operand::Slice(&x[layout.offset()..layout.offset() + len]));
            }
            None if !T::loads(dtype) => return Err(misuse_error("an operand of another type", dtype)),
            _ => {}
        }
        let walk = StridedIter::new(layout);
        if walk.is_one() && len > 0 {
            let mut one = CacheBlock::<T, 1>::with_any_capacity();
            let one = one.fill(1, |dst| match T::slice(buffer) {
                Some(x) => gather_runs(x, &walk, 0, 1, dst),
                None => T::load(Isa::best(), buffer, &walk, 0, 1, dst),
            });
            return Ok(Operand::One(Box::new(Splat([one[0]; BLOCK]))));
        }
        let (row, step) = walk.inner();
        let Some(x) = T::slice(buffer) else { return Ok(Operand::Blocks(buffer, walk)) };
        if row >= CALL_MIN_ELEMENTS && matches!(step, 0 | 1) {
            return Ok(Operand::StridedRows(x, walk));
        }
        if walk.repeats_a_row() && row < CALL_MIN_ELEMENTS && len >= 8 * MAX_BLOCK_ELEMENTS {
            let mut all = with_capacity(row + MAX_BLOCK_ELEMENTS)?;
            let mut block = CacheBlock::new();
            all.extend_from_slice(block.fill(row, |dst| gather_runs(x, &walk, 0, row, dst)));
            for i in 0..MAX_BLOCK_ELEMENTS {
                all.push(all[i]);
            }
            return Ok(Operand::Row(all, row));
        }
        Ok(Operand::Blocks(buffer, walk))
    }
    /// Are its elements written to a block before a formula reads them?
    pub(crate) fn needs_block(&self) -> bool {
        match self {
            Operand::Slice(_) | Operand::One(_) | Operand::Row(..) => false,
            // One number of a row is.
            Operand::StridedRows(..) | Operand::Blocks(..) | Operand::Made(_) => true,
        }
    }
    /// How many elements from `start` on a formula can be called on, at most.
    fn stretch(&self, start: usize, block: usize) -> usize {
        match self {
            Operand::Slice(_) | Operand::One(_) => usize::MAX,
            Operand::Row(..) => MAX_BLOCK_ELEMENTS,
            Operand::StridedRows(_, walk) => {
                let (row, _) = walk.inner();
                row - start % row
            }
            Operand::Blocks(..) | Operand::Made(_) => block,
        }
    }
    /// Whole rows from `start` on that a formula can be called on at once, of `len` elements: at
    /// most so many.
    fn rows_from(&self, start: usize, len: usize) -> usize {
        match self {
            Operand::Slice(_) | Operand::One(_) => usize::MAX,
            Operand::Row(..) | Operand::Blocks(..) | Operand::Made(_) => 0,
            Operand::StridedRows(_, walk) => match walk.row_step() {
                Some((rows, _)) if walk.inner().0 == len => rows - start / len % rows,
                _ => 0,
            },
        }
    }
    /// What a formula reads of [`rows`] from `start` on.
    pub(crate) fn piece_of_rows<'b>(&'b self, start: usize, rows: RowsShape) -> OperandSlice<'b, T> {
        match self {
            Operand::One(copies) => OperandSlice::number_of(&copies.0, rows),
            Operand::Slice(x) => OperandSlice::rows(&x[start..], rows, rows.len),
            Operand::StridedRows(x, walk) => {
                let ((_, step), at) = (walk.inner(), walk.position(start));
                let (_, next) = walk.row_step().expect("it has such rows");
                if step == 1 {
                    OperandSlice::rows(&x[at..], rows, next)
                } else {
                    OperandSlice::numbers(&x[at..], rows, next)
                }
            }
            Operand::Row(..) | Operand::Blocks(..) | Operand::Made(_) => unreachable!("it has no such rows"),
        }
    }
    /// Writes to its own block what [`Operand::piece`] finds there of the elements number `start`
    /// to `start + n`, of [`common_run`].
    #[inline]
    pub(crate) fn prepare<const CAPACITY: usize>(
        &self,
        isa: Isa,
        block: &mut CacheBlock<T, CAPACITY>,
        start: usize,
        n: usize,
    ) {
        match self {
            Operand::StridedRows(x, walk) if walk.inner().1 == 0 => {
                let row = start / walk.inner().0;
                block.copies(row, BLOCK, || x[walk.position(start)]);
            }
            Operand::Blocks(..) | Operand::Made(_) => _ = self.part(isa, block, start, n),
            Operand::Slice(_) | Operand::One(_) | Operand::Row(..) | Operand::StridedRows(..) => {}
        }
    }
    /// The elements number `start` to `start + n`, of [`common_run`]; `block` is this operand's
    /// own, [prepared](Operand::prepare) for them, if it [needs](Operand::needs_block) one.
    /// Inlined, as a piece that is handed on in memory is read as other words than it was written,
    /// and that waits until all results before it have left for the cache.
    #[inline(always)]
    pub(crate) fn piece<'b, const CAPACITY: usize>(
        &'b self,
        block: Option<&'b CacheBlock<T, CAPACITY>>,
        start: usize,
        n: usize,
    ) -> OperandSlice<'b, T> {
        let held = || block.expect("it was said that it needs a block").written();
        match self {
            Operand::One(copies) => OperandSlice::number(&copies.0),
            Operand::StridedRows(_, walk) if walk.inner().1 == 0 => OperandSlice::number(held()),
            Operand::Slice(_)
            | Operand::Row(..)
            | Operand::StridedRows(..)
            | Operand::Blocks(..)
            | Operand::Made(_) => OperandSlice::of(self.in_place(start, n).unwrap_or_else(|| &held()[..n])),
        }
    }
    /// Prefetches the elements from number `start` on, of elements that formulas read where they
    /// lie.
    pub(crate) fn fetch(&self, start: usize, n: usize) {
        if let Operand::Slice(x) = self {
            prefetch_lines(x.as_ptr().wrapping_add(start), n);
        }
    }
    /// The elements number `start` to `start + n`, if they lie somewhere.
    #[inline]
    fn in_place(&self, start: usize, n: usize) -> Option<&[T]> {
        match self {
            Operand::Slice(x) => Some(&x[start..start + n]),
            Operand::Row(all, row) => Some(&all[start % row..][..n]),
            Operand::StridedRows(x, walk) => walk.contiguous_run(start, n).map(|at| &x[at..at + n]),
            Operand::Blocks(data, walk) => {
                T::slice(data).zip(walk.contiguous_run(start, n)).map(|(x, at)| &x[at..at + n])
            }
            Operand::One(_) | Operand::Made(_) => None,
        }
    }
    /// The elements number `start` to `start + n`, whatever they are; `block` is this operand's
    /// own.
    pub(crate) fn part<'b, const CAPACITY: usize>(
        &'b self,
        isa: Isa,
        block: &'b mut CacheBlock<T, CAPACITY>,
        start: usize,
        n: usize,
    ) -> &'b [T] {
        debug_assert!(CAPACITY <= MAX_BLOCK_ELEMENTS);
        if let Some(x) = self.in_place(start, n) {
            return x;
        }
        match self {
            Operand::One(_) if block.written().len() >= n => &block.written()[..n],
            Operand::One(copies) => block.fill(n, |dst| dst.extend(n, |_| copies.0[0])),
            Operand::StridedRows(x, walk) => block.fill(n, |dst| gather_runs(x, walk, start, n, dst)),
            Operand::Made(fill) => block.fill(n, |dst| fill(start, dst)),
            Operand::Blocks(data, walk) => block.fill(n, |dst| match T::slice(data) {
                Some(x) => gather_runs(x, walk, start, n, dst),
                None => {
                    for at in (0..n).step_by(BLOCK_ELEMENTS) {
                        T::load(isa, data, walk, start + at, BLOCK_ELEMENTS.min(n - at), dst);
                    }
                }
            }),
            Operand::Slice(_) | Operand::Row(..) => unreachable!("these lie"),
        }
    }
}

/// How many elements from `start` on a formula is called on at once, at most `most`, with blocks of
/// `block` elements.
pub(crate) fn common_run<T: ComputeElement>(
    operands: &[Operand<'_, T>],
    start: usize,
    most: usize,
    block: usize,
) -> usize {
    operands.iter().fold(most, |n, x| n.min(x.stretch(start, block)))
}

/// The rows from `start` on that a formula is called on at once, if there are several: one call for
/// each would take longer than what is done with a thousand numbers.
pub(crate) fn rows<T: ComputeElement>(
    operands: &[Operand<'_, T>],
    start: usize,
    most: usize,
) -> Option<RowsShape> {
    let len = operands.iter().find_map(|x| match x {
        Operand::StridedRows(_, walk) => Some(walk.inner().0),
        Operand::Slice(_) | Operand::One(_) | Operand::Row(..) | Operand::Blocks(..) | Operand::Made(_) => {
            None
        }
    })?;
    if !start.is_multiple_of(len) {
        return None;
    }
    let count = operands.iter().fold(most / len, |n, x| n.min(x.rows_from(start, len)));
    (count > 1).then_some(RowsShape { len, count })
}
