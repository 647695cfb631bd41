//! Operand staging for elementwise work: from any dtype and strides to contiguous blocks of the
//! compute type, and back.

use super::convert;
use super::plan::{CALL_MIN_ELEMENTS, MAX_BLOCK_ELEMENTS};
use crate::layout::strided_iter::{StridedIter, gather_runs};
use crate::runtime::memory::with_capacity;
use crate::runtime::output::parallel_fill::{CostHint, FillFrom, parallel_fill, parallel_fill_hinted};
use crate::view::misuse_error;
use crate::{CpuDevice, Isa};
use elinvar_core::{DType, Element, HostData, HostVec, Layout, Result, bf16, f16};
use elinvar_simd::prefetch::prefetch_lines;
use elinvar_simd::uninit::{BLOCK_ELEMENTS, CacheBlock, UninitSlice};
use elinvar_simd::vector_loop::{OperandSlice, RowsShape, Splat, VECTOR_CHUNK};

/// A type in which is computed: f32, f64, the integers and bool.
pub(crate) trait ComputeElement: Element {
    /// Writes elements number `start` to `start + n` of memory of another type (n at most
    /// [`MAX_BLOCK_ELEMENTS`]): 16-bit floats exactly, bool as 0 or 1.
    fn load(
        isa: Isa,
        data: &HostData,
        walk: &StridedIter,
        start: usize,
        n: usize,
        dst: &mut UninitSlice<'_, Self>,
    );
    /// Does [`ComputeElement::load`] know the type?
    fn loads(dtype: DType) -> bool;
    /// Results through `make`, stored as `to`.
    fn stored(
        d: &CpuDevice,
        len: usize,
        work: CostHint,
        to: DType,
        make: &FillFrom<'_, Self>,
    ) -> Result<HostData>;
}

/// Results that are made as `T` and stored as `S`, in blocks.
fn narrow<T: ComputeElement, S: Element>(
    d: &CpuDevice,
    len: usize,
    make: &FillFrom<'_, T>,
    store: impl Fn(Isa, &[T], &mut UninitSlice<'_, S>) + Sync,
) -> Result<HostData> {
    let v = parallel_fill(d, len, 1, &|mut start, dst: &mut UninitSlice<'_, S>| {
        let mut block = CacheBlock::<T, MAX_BLOCK_ELEMENTS>::with_any_capacity();
        while dst.remaining() > 0 {
            let n = dst.remaining().min(MAX_BLOCK_ELEMENTS);
            let mut made = Ok(());
            let results = block.fill(n, |dst| made = make(start, dst));
            made?;
            store(d.isa(), results, dst);
            start += n;
        }
        Ok(())
    })?;
    Ok(S::wrap(v))
}

impl ComputeElement for f32 {
    fn load(
        isa: Isa,
        data: &HostData,
        walk: &StridedIter,
        start: usize,
        n: usize,
        dst: &mut UninitSlice<'_, f32>,
    ) {
        match data {
            HostData::F16(v) => some(v, walk, start, n, |x| convert::from_f16(isa, x, dst)),
            HostData::BF16(v) => some(v, walk, start, n, |x| convert::from_bf16(isa, x, dst)),
            other => flags(isa, other, walk, start, n, dst),
        }
    }
    fn loads(dtype: DType) -> bool {
        dtype.is_half() || dtype == DType::Bool
    }
    fn stored(
        d: &CpuDevice,
        len: usize,
        work: CostHint,
        to: DType,
        make: &FillFrom<'_, f32>,
    ) -> Result<HostData> {
        match to {
            DType::F32 => Ok(HostData::F32(parallel_fill_hinted(d, len, 1, work, make)?)),
            DType::F16 => {
                narrow(d, len, make, |isa, x, dst: &mut UninitSlice<'_, f16>| convert::to_f16(isa, x, dst))
            }
            DType::BF16 => {
                narrow(d, len, make, |isa, x, dst: &mut UninitSlice<'_, bf16>| convert::to_bf16(isa, x, dst))
            }
            DType::Bool => narrow(d, len, make, convert::simple::<f32, bool>),
            DType::F64 | DType::I64 | DType::I32 | DType::U8 => Err(misuse_error("storing f32", to)),
        }
    }
}

/// Calls `f` on the elements number `start` to `start + n`, where they lie, or gathered in a block.
/// (Which is made only then: the compiler clears it, and that was a fifth of adding a million f16.)
fn some<T: Element>(v: &[T], walk: &StridedIter, start: usize, n: usize, f: impl FnOnce(&[T])) {
    match walk.contiguous_run(start, n) {
        Some(at) => f(&v[at..at + n]),
        None => f(CacheBlock::<T, MAX_BLOCK_ELEMENTS>::with_any_capacity()
            .fill(n, |dst| gather_runs(v, walk, start, n, dst))),
    }
}

/// bool as 0 or 1.
fn flags<T: ComputeElement + convert::DirectlyConverted>(
    isa: Isa,
    data: &HostData,
    walk: &StridedIter,
    start: usize,
    n: usize,
    dst: &mut UninitSlice<'_, T>,
) {
    let v = bool::slice(data).expect("the types of operands were looked at");
    some(v, walk, start, n, |x| convert::simple(isa, x, dst));
}

macro_rules! number {
    ($($t:ty),*) => {$(
        impl ComputeElement for $t {
            fn load(isa: Isa, data: &HostData, walk: &StridedIter, start: usize, n: usize, dst: &mut UninitSlice<'_, $t>) {
                flags(isa, data, walk, start, n, dst);
            }
            fn loads(dtype: DType) -> bool {
                dtype == DType::Bool
            }
            fn stored(d: &CpuDevice, len: usize, work: CostHint, to: DType, make: &FillFrom<'_, $t>) -> Result<HostData> {
                match to {
                    t if t == <$t>::DTYPE => Ok(<$t>::wrap(parallel_fill_hinted(d, len, 1, work, make)?)),
                    DType::Bool => narrow(d, len, make, convert::simple::<$t, bool>),
                    _ => Err(misuse_error("storing a number of another type", to)),
                }
            }
        }
    )*};
}
number!(f64, i64, i32, u8, bool);

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
            return Ok(Operand::One(Box::new(Splat([one[0]; VECTOR_CHUNK]))));
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
                block.copies(row, elinvar_simd::vector_loop::copies(n), || x[walk.position(start)]);
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
    /// Has what lies from number `start` on fetched, of elements that formulas read where they lie.
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
