//! Output partition by column blocks: one thread writes a range of columns of every row of a
//! matrix.
//!
//! How it can be wrong: by two threads on one element, or a row that is left out. Blocks are
//! numbered and each number is given to one thread; rows of a block are counted.
#![allow(unsafe_code, reason = "columns of a matrix are not slices that can be split off")]

use crate::CpuDevice;
use crate::runtime::memory::with_capacity;
use crate::runtime::parallel::try_for_each_piece;
use crate::runtime::plan::COLUMN_BLOCKS_MIN_PART_ELEMENTS;
use elinvar_core::{Element, HostVec, Result};
use elinvar_simd::uninit::UninitSlice;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Some stripes, one after the other.
pub(crate) struct ColumnBlocks<'a, T> {
    /// The first element of the first matrix.
    first: *mut MaybeUninit<T>,
    matrices: BlockedMatrices,
    /// The numbers of those that are still to come.
    rest: Range<usize>,
    now: ColumnBlock,
    /// Rows of the present one that are still to be written.
    left: usize,
    /// Are its rows written from the last to the first?
    bottom_up: bool,
    life: PhantomData<&'a mut [T]>,
}

/// Matrices of one size, one after the other in memory, and how many columns a stripe has.
#[derive(Clone, Copy)]
pub(crate) struct BlockedMatrices {
    pub(crate) count: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) width: usize,
}

/// Some columns of a matrix.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ColumnBlock {
    pub(crate) matrix: usize,
    /// The first column.
    pub(crate) column: usize,
    /// So many columns.
    pub(crate) width: usize,
}

impl<T: Copy> ColumnBlocks<'_, T> {
    /// The next stripe.
    ///
    /// # Panics
    /// If rows of the one before were not written.
    pub(crate) fn next(&mut self) -> Option<ColumnBlock> {
        assert_eq!(self.left, 0, "cpu: a row of a stripe was left out");
        let number = self.rest.next()?;
        let BlockedMatrices { rows, columns, width, .. } = self.matrices;
        let each = columns.div_ceil(width);
        let column = number % each * width;
        self.now = ColumnBlock { matrix: number / each, column, width: width.min(columns - column) };
        self.left = rows;
        self.bottom_up = false;
        Some(self.now)
    }
    /// The next stripe, the last row of which is written first.
    ///
    /// # Panics
    /// As [`ColumnBlocks::next`].
    pub(crate) fn next_bottom_up(&mut self) -> Option<ColumnBlock> {
        let next = self.next();
        self.bottom_up = true;
        next
    }
    /// Lets `f` fill the next row of the present stripe.
    ///
    /// # Panics
    /// If there is none, or it is not filled.
    #[inline]
    pub(crate) fn row(&mut self, f: impl FnOnce(&mut UninitSlice<'_, T>)) {
        let BlockedMatrices { rows, columns, .. } = self.matrices;
        let ColumnBlock { matrix, column, width } = self.now;
        assert!(self.left > 0, "cpu: a stripe has no more rows");
        let row = if self.bottom_up { self.left - 1 } else { rows - self.left };
        let at = (matrix * rows + row) * columns + column;
        // SAFETY: `next` gives stripes that are within the matrices, which the memory has room for,
        // and this row is one of theirs, each of which comes once, as a stripe is written in one
        // direction;
        // no two stripes have an element in common, and each number is given to one `ColumnBlocks`,
        // see `fill_column_blocks`.
        let slots = unsafe { std::slice::from_raw_parts_mut(self.first.add(at), width) };
        let mut dst = UninitSlice::new(slots);
        f(&mut dst);
        dst.assert_full();
        self.left -= 1;
    }
}

/// Memory that several threads write, each its own part.
pub(crate) struct SharedSlots<T>(pub(crate) *mut MaybeUninit<T>);

// SAFETY: those who have it reach stripes, or combs, of their own alone.
unsafe impl<T: Send> Sync for SharedSlots<T> {}

impl<T> SharedSlots<T> {
    pub(crate) fn first(&self) -> *mut MaybeUninit<T> {
        self.0
    }
}

/// A vector of matrices. `f` is to write all rows of all stripes that it is given, and is called
/// for several parts; `ns` is an estimate for one element.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
pub(crate) fn fill_column_blocks<T: Element>(
    d: &CpuDevice,
    matrices: BlockedMatrices,
    ns: f64,
    f: &(dyn Fn(&mut ColumnBlocks<'_, T>) -> Result<()> + Sync),
) -> Result<HostVec<T>> {
    let BlockedMatrices { count, rows, columns, width } = matrices;
    let len = count * rows * columns;
    let mut y = with_capacity::<T>(len)?;
    if len == 0 {
        return Ok(y);
    }
    let all = count * columns.div_ceil(width);
    let each = rows * width.min(columns);
    let part = (all / (8 * d.threads())).min(COLUMN_BLOCKS_MIN_PART_ELEMENTS.div_ceil(each)).max(1);
    let shared = SharedSlots(y.spare_capacity_mut()[..len].as_mut_ptr());
    try_for_each_piece(d, &mut vec![(); all], part, ns * each as f64, &|first, part| {
        let rest = first..first + part.len();
        let mut column_blocks = ColumnBlocks {
            first: shared.first(),
            matrices,
            rest,
            now: ColumnBlock::default(),
            left: 0,
            bottom_up: false,
            life: PhantomData,
        };
        f(&mut column_blocks)?;
        assert!(
            column_blocks.rest.is_empty() && column_blocks.left == 0,
            "cpu: a stripe of a result was left out"
        );
        Ok(())
    })?;
    // SAFETY: the stripes cover all elements, and each was written: that of a part that was left
    // out is an error.
    unsafe { y.set_len(len) };
    Ok(y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn every_element_is_written_once_and_in_its_place() {
        for threads in [1, 2, 8] {
            let d = CpuDevice::new(Isa::best(), threads).unwrap();
            for (count, rows, columns, width) in [
                (1, 1, 1, 1),
                (3, 5, 7, 3),
                (2, 1, 64, 64),
                (1, 300, 1000, 64),
                (40, 20, 33, 64),
                (2, 0, 3, 1),
            ] {
                let matrices = BlockedMatrices { count, rows, columns, width };
                // Enough time that threads share it. Every second stripe is written upwards.
                let y = fill_column_blocks(&d, matrices, 1e6, &|column_blocks| {
                    let mut up = false;
                    while let Some(s) = if up { column_blocks.next_bottom_up() } else { column_blocks.next() }
                    {
                        for row in 0..rows {
                            let row = if up { rows - 1 - row } else { row };
                            let first = (s.matrix * rows + row) * columns + s.column;
                            column_blocks.row(|dst| dst.extend(s.width, |i| (first + i) as i64));
                        }
                        up = !up;
                    }
                    Ok(())
                })
                .unwrap();
                assert!(y.iter().copied().eq(0..(count * rows * columns) as i64), "{count} {rows} {columns}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "left out")]
    fn a_row_that_is_left_out_is_noticed() {
        let d = CpuDevice::new(Isa::best(), 1).unwrap();
        let matrices = BlockedMatrices { count: 1, rows: 2, columns: 3, width: 3 };
        let _ = fill_column_blocks::<u8>(&d, matrices, 1.0, &|column_blocks| {
            while column_blocks.next().is_some() {
                column_blocks.row(|dst| dst.copy(&[1, 2, 3]));
            }
            Ok(())
        });
    }
}
