//! Output partition by strided rows: one thread writes every n-th row of a block of rows, in any
//! order.
//!
//! How it can be wrong: by a row that is written twice or never. Each part has a bit for each of
//! its rows.
#![allow(unsafe_code, reason = "rows that lie apart are not a slice that can be split off")]

use super::column_blocks::SharedSlots;
use crate::CpuDevice;
use crate::runtime::memory::with_capacity;
use crate::runtime::parallel::try_for_each_piece;
use crate::runtime::plan::STRIDED_MAX_ROWS_PER_PART;
use elinvar_core::{Element, HostVec, Result};
use elinvar_simd::uninit::UninitSlice;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// A matrix that is cut into combs: each block of `stride * STRIDED_MAX_ROWS_PER_PART` rows (the
/// last may have fewer) into so many, of which number `i` has row `i` of the block and each that
/// is a multiple of `stride` behind it.
#[derive(Clone, Copy)]
pub(crate) struct StridedPartition {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) stride: usize,
}

impl StridedPartition {
    /// Rows of a block.
    pub(crate) fn block(&self) -> usize {
        self.stride * STRIDED_MAX_ROWS_PER_PART
    }
    /// How many combs there are, with those of the last block that have no row.
    pub(crate) fn count(&self) -> usize {
        self.rows.div_ceil(self.block()) * self.stride
    }
}

/// The rows of one comb.
pub(crate) struct StridedRows<'a, T> {
    /// The first element of the matrix.
    matrix: *mut MaybeUninit<T>,
    partition: StridedPartition,
    /// Its first row, and the end of its block.
    first: usize,
    end: usize,
    /// Rows that were written, a bit for each.
    written: [u64; STRIDED_MAX_ROWS_PER_PART / 64],
    life: PhantomData<&'a mut [T]>,
}

/// Writes a row. Unlike a closure, `write` can be `#[inline(always)]`, and must be: in a function
/// of its own it would be compiled without the kernel's instruction set.
pub(crate) trait WriteRow<T> {
    /// Fills the room.
    fn write(self, dst: &mut UninitSlice<'_, T>);
}

impl<T: Copy> StridedRows<'_, T> {
    /// The first row.
    pub(crate) fn first(&self) -> usize {
        self.first
    }
    /// The end of the rows of its block.
    pub(crate) fn end(&self) -> usize {
        self.end
    }
    /// Where a row begins.
    #[inline(always)]
    pub(crate) fn place(&self, row: usize) -> *const T {
        self.matrix.cast_const().cast::<T>().wrapping_add(row * self.partition.columns)
    }
    /// Lets `f` fill a row.
    ///
    /// # Panics
    /// If it is none of the comb's, was written before, or is not filled.
    #[inline(always)]
    pub(crate) fn row(&mut self, row: usize, f: impl WriteRow<T>) {
        let StridedPartition { columns, stride, .. } = self.partition;
        assert!((self.first..self.end).contains(&row), "cpu: a row of another comb");
        let number = (row - self.first) / stride;
        assert_eq!(self.first + number * stride, row, "cpu: a row of another comb");
        let bit = 1 << (number % 64);
        let word = &mut self.written[number / 64];
        assert_eq!(*word & bit, 0, "cpu: a row was written before");
        // SAFETY: `fill_strided_rows` makes combs of a matrix that the memory has room for, and
        // this row is in it. No two combs have a row in common, and each is given to one call of
        // `f` there.
        let slots = unsafe { std::slice::from_raw_parts_mut(self.matrix.add(row * columns), columns) };
        let mut dst = UninitSlice::new(slots);
        f.write(&mut dst);
        dst.assert_full();
        *word |= bit;
    }
    /// Were all rows written?
    fn is_full(&self) -> bool {
        let rows = self.end.saturating_sub(self.first).div_ceil(self.partition.stride);
        self.written.iter().map(|word| word.count_ones() as usize).sum::<usize>() == rows
    }
}

/// A matrix, and what else comes of it. `f` is called for each comb, with as many elements of
/// `parts` as each has, and is to write all rows of the comb; `ns` is an estimate for one element
/// of the matrix.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
///
/// # Panics
/// If `parts` is not as long as all combs need.
pub(crate) fn fill_strided_rows<T: Element>(
    d: &CpuDevice,
    partition: StridedPartition,
    parts: &mut [T],
    ns: f64,
    f: &(dyn Fn(&mut StridedRows<'_, T>, &mut [T]) -> Result<()> + Sync),
) -> Result<HostVec<T>> {
    let StridedPartition { rows, columns, stride } = partition;
    let (count, len) = (partition.count(), rows * columns);
    let mut y = with_capacity::<T>(len)?;
    if len == 0 {
        return Ok(y);
    }
    let each = parts.len() / count;
    assert!(each > 0 && each * count == parts.len(), "cpu: a part for each comb");
    let shared = SharedSlots(y.spare_capacity_mut()[..len].as_mut_ptr());
    try_for_each_piece(d, parts, each, ns * (len / parts.len()).max(1) as f64, &|at, part| {
        let (block, number) = (at / each / stride, at / each % stride);
        let first = block * partition.block();
        let mut strided = StridedRows {
            matrix: shared.first(),
            partition,
            first: first + number,
            end: rows.min(first + partition.block()),
            written: [0; STRIDED_MAX_ROWS_PER_PART / 64],
            life: PhantomData,
        };
        f(&mut strided, part)?;
        assert!(strided.is_full(), "cpu: a row of a comb was left out");
        Ok(())
    })?;
    // SAFETY: the combs have all rows, and each was found full: that of a part that was left out is
    // an error.
    unsafe { y.set_len(len) };
    Ok(y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    /// Numbers from one on.
    struct Count(usize);

    impl WriteRow<i64> for Count {
        fn write(self, dst: &mut UninitSlice<'_, i64>) {
            let n = dst.remaining();
            dst.extend(n, |i| (self.0 + i) as i64);
        }
    }

    #[test]
    fn every_row_is_written_once_and_in_its_place() {
        for threads in [1, 2, 8] {
            let d = CpuDevice::new(Isa::best(), threads).unwrap();
            for (rows, columns, stride) in
                [(1, 1, 1), (7, 3, 16), (16, 2, 16), (300, 5, 1), (4095, 1, 16), (4097, 2, 16), (9000, 1, 16)]
            {
                let partition = StridedPartition { rows, columns, stride };
                let mut parts = vec![0; 2 * partition.count()];
                // Enough time that threads share it.
                let y = fill_strided_rows(&d, partition, &mut parts, 1e6, &|strided, part| {
                    // From the last to the first.
                    let mine = (strided.first()..strided.end()).step_by(stride);
                    for row in mine.rev() {
                        strided.row(row, Count(row * columns));
                        part[1] += 1;
                    }
                    Ok(())
                })
                .unwrap();
                assert!(y.iter().copied().eq(0..(rows * columns) as i64), "{rows} {columns} {stride}");
                assert_eq!(parts.iter().sum::<i64>(), rows as i64);
            }
        }
    }

    #[test]
    #[should_panic(expected = "left out")]
    fn a_row_that_is_left_out_is_noticed() {
        let d = CpuDevice::new(Isa::best(), 1).unwrap();
        let partition = StridedPartition { rows: 3, columns: 2, stride: 2 };
        let _ = fill_strided_rows::<i64>(&d, partition, &mut [0; 2], 1.0, &|strided, _| {
            strided.row(strided.first(), Count(0));
            Ok(())
        });
    }

    #[test]
    #[should_panic(expected = "written before")]
    fn a_row_is_not_written_twice() {
        let d = CpuDevice::new(Isa::best(), 1).unwrap();
        let partition = StridedPartition { rows: 2, columns: 2, stride: 2 };
        let _ = fill_strided_rows::<i64>(&d, partition, &mut [0; 2], 1.0, &|strided, _| {
            strided.row(strided.first(), Count(0));
            strided.row(strided.first(), Count(0));
            Ok(())
        });
    }
}
