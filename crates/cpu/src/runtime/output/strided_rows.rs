//! Results whose rows are written by several threads, of which each has rows equally far apart, and writes them in an order of its own.
#![allow(unsafe_code, reason = "rows that lie apart are not a slice that can be split off")]

use super::column_blocks::Shared;
use super::uninit::Room;
use crate::CpuDevice;
use crate::runtime::memory::with_capacity;
use crate::runtime::parallel::try_pieces;
use elinvar_core::{Element, HostVec, Result};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Rows that a comb may have.
const MOST: usize = 256;

/// A matrix that is cut into combs: each block of `combs * MOST` rows (the last may have fewer) into so many, of which number `i` has row `i`
/// of the block and each that lies a multiple of `combs` behind it.
#[derive(Clone, Copy)]
pub(crate) struct Combed {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) combs: usize,
}

impl Combed {
    /// Rows of a block.
    pub(crate) fn block(&self) -> usize {
        self.combs * MOST
    }
    /// How many combs there are, with those of the last block that have no row.
    pub(crate) fn count(&self) -> usize {
        self.rows.div_ceil(self.block()) * self.combs
    }
}

/// The rows of one comb.
pub(crate) struct Comb<'a, T> {
    /// The first element of the matrix.
    matrix: *mut MaybeUninit<T>,
    combed: Combed,
    /// Its first row, and the end of its block.
    first: usize,
    end: usize,
    /// Rows that were written, a bit for each.
    written: [u64; MOST / 64],
    life: PhantomData<&'a mut [T]>,
}

/// Writes a row. Unlike a closure, `write` can be `#[inline(always)]`, and must be: in a function of its own it would be compiled without the
/// kernel's instruction set.
pub(crate) trait WriteRow<T> {
    /// Fills the room.
    fn write(self, room: &mut Room<'_, T>);
}

impl<T: Copy> Comb<'_, T> {
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
        self.matrix.cast_const().cast::<T>().wrapping_add(row * self.combed.columns)
    }
    /// Lets `f` fill a row.
    ///
    /// # Panics
    /// If it is none of the comb's, was written before, or is not filled.
    #[inline(always)]
    pub(crate) fn row(&mut self, row: usize, f: impl WriteRow<T>) {
        let Combed { columns, combs, .. } = self.combed;
        assert!((self.first..self.end).contains(&row), "cpu: a row of another comb");
        let number = (row - self.first) / combs;
        assert_eq!(self.first + number * combs, row, "cpu: a row of another comb");
        let bit = 1 << (number % 64);
        let word = &mut self.written[number / 64];
        assert_eq!(*word & bit, 0, "cpu: a row was written before");
        // SAFETY: `fresh_combs` makes combs of a matrix that the memory has room for, and this row lies in it. No two combs have a row in
        // common, and each is given to one call of `f` there.
        let slots = unsafe { std::slice::from_raw_parts_mut(self.matrix.add(row * columns), columns) };
        let mut room = Room::new(slots);
        f.write(&mut room);
        room.assert_full();
        *word |= bit;
    }
    /// Were all rows written?
    fn is_full(&self) -> bool {
        let rows = self.end.saturating_sub(self.first).div_ceil(self.combed.combs);
        self.written.iter().map(|word| word.count_ones() as usize).sum::<usize>() == rows
    }
}

/// A matrix, and what else comes of it. `f` is called for each comb, with as many elements of `parts` as each has, and is to write all rows of
/// the comb; `ns` is an estimate for one element of the matrix.
///
/// # Errors
/// `OutOfMemory`; those of `f`.
///
/// # Panics
/// If `parts` is not as long as all combs need.
pub(crate) fn fresh_combs<T: Element>(
    d: &CpuDevice,
    combed: Combed,
    parts: &mut [T],
    ns: f64,
    f: &(dyn Fn(&mut Comb<'_, T>, &mut [T]) -> Result<()> + Sync),
) -> Result<HostVec<T>> {
    let Combed { rows, columns, combs } = combed;
    let (count, len) = (combed.count(), rows * columns);
    let mut y = with_capacity::<T>(len)?;
    if len == 0 {
        return Ok(y);
    }
    let each = parts.len() / count;
    assert!(each > 0 && each * count == parts.len(), "cpu: a part for each comb");
    let shared = Shared(y.spare_capacity_mut()[..len].as_mut_ptr());
    try_pieces(d, parts, each, ns * (len / parts.len()).max(1) as f64, &|at, part| {
        let (block, number) = (at / each / combs, at / each % combs);
        let first = block * combed.block();
        let mut comb = Comb {
            matrix: shared.first(),
            combed,
            first: first + number,
            end: rows.min(first + combed.block()),
            written: [0; MOST / 64],
            life: PhantomData,
        };
        f(&mut comb, part)?;
        assert!(comb.is_full(), "cpu: a row of a comb was left out");
        Ok(())
    })?;
    // SAFETY: the combs have all rows, and each was found full: that of a part that was left out is an error.
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
        fn write(self, room: &mut Room<'_, i64>) {
            let n = room.left();
            room.extend(n, |i| (self.0 + i) as i64);
        }
    }

    #[test]
    fn every_row_is_written_once_and_in_its_place() {
        for threads in [1, 2, 8] {
            let d = CpuDevice::new(Isa::best(), threads).unwrap();
            for (rows, columns, combs) in
                [(1, 1, 1), (7, 3, 16), (16, 2, 16), (300, 5, 1), (4095, 1, 16), (4097, 2, 16), (9000, 1, 16)]
            {
                let combed = Combed { rows, columns, combs };
                let mut parts = vec![0; 2 * combed.count()];
                // Enough time that threads share it.
                let y = fresh_combs(&d, combed, &mut parts, 1e6, &|comb, part| {
                    // From the last to the first.
                    let mine = (comb.first()..comb.end()).step_by(combs);
                    for row in mine.rev() {
                        comb.row(row, Count(row * columns));
                        part[1] += 1;
                    }
                    Ok(())
                })
                .unwrap();
                assert!(y.iter().copied().eq(0..(rows * columns) as i64), "{rows} {columns} {combs}");
                assert_eq!(parts.iter().sum::<i64>(), rows as i64);
            }
        }
    }

    #[test]
    #[should_panic(expected = "left out")]
    fn a_row_that_is_left_out_is_noticed() {
        let d = CpuDevice::new(Isa::best(), 1).unwrap();
        let combed = Combed { rows: 3, columns: 2, combs: 2 };
        let _ = fresh_combs::<i64>(&d, combed, &mut [0; 2], 1.0, &|comb, _| {
            comb.row(comb.first(), Count(0));
            Ok(())
        });
    }

    #[test]
    #[should_panic(expected = "written before")]
    fn a_row_is_not_written_twice() {
        let d = CpuDevice::new(Isa::best(), 1).unwrap();
        let combed = Combed { rows: 2, columns: 2, combs: 2 };
        let _ = fresh_combs::<i64>(&d, combed, &mut [0; 2], 1.0, &|comb, _| {
            comb.row(comb.first(), Count(0));
            comb.row(comb.first(), Count(0));
            Ok(())
        });
    }
}
