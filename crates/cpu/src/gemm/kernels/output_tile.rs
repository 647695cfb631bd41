//! The output tile of a GEMM: the part of C that one task writes, in memory that was not cleared.
//!
//! The result is cut into tiles here, so that they cover it and none overlaps another; each tile
//! records what has been written.
#![allow(unsafe_code, reason = "tiles of a matrix are not slices that can be split off")]

use super::blocks::{ColumnsB, MicroBlock, PanelsB, RowsA, TermKind};
use super::gemv::{Gemv, gemv};
use super::microkernel::{accumulate_in_place, multiply_block};
use super::pack_transposed::transpose_block_to;
use super::prefetch::OutputPrefetch;
use crate::elementwise::real::Real;
use crate::runtime::memory::with_capacity;
use elinvar_core::{HostVec, Result, host};
use elinvar_simd::LINE;
use elinvar_simd::isa::Isa;
use std::marker::PhantomData;
use std::ops::Range;

/// How a batch of matrices is cut into tiles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocking {
    pub(crate) batch: usize,
    pub(crate) m: usize,
    pub(crate) n: usize,
    /// Sizes of a tile.
    pub(crate) rows: usize,
    pub(crate) cols: usize,
}

/// A part of a matrix of the result, written by one thread at a time.
pub(crate) struct OutputTile<'a, T> {
    pub(crate) batch: usize,
    pub(crate) rows: Range<usize>,
    pub(crate) cols: Range<usize>,
    /// Its first element, and the distance of its rows.
    start: *mut T,
    step: usize,
    /// Columns that have been written, from the first on.
    done: usize,
    /// Rows that have been written whole, from the first on, if that is how they are written.
    whole: usize,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: a tile is the only one that reaches its elements, see `fill_tiles`; so it is to them what
// `&mut [T]` would be.
unsafe impl<T: Send> Send for OutputTile<'_, T> {}

/// A vector of a batch of matrices whose tiles `work` has written. They come batch by batch, column
/// of tiles by column, downwards.
///
/// # Errors
/// `OutOfMemory`, and those of `work`.
///
/// # Panics
/// If a tile was not written.
pub(crate) fn fill_tiles<T: Real>(
    blocking: &Blocking,
    work: impl FnOnce(&mut [OutputTile<'_, T>]) -> Result<()>,
) -> Result<HostVec<T>> {
    let Blocking { batch, m, n, rows, cols } = *blocking;
    let len = batch * m * n;
    let mut y = with_capacity::<T>(len)?;
    if len == 0 {
        return Ok(y);
    }
    let all = y.as_mut_ptr();
    let tile = |b: usize, i: usize, j: usize| OutputTile {
        batch: b,
        rows: i..m.min(i + rows),
        cols: j..n.min(j + cols),
        // SAFETY: it is called with i < m and j < n, so this is one of the `len` elements that
        // there is room for.
        start: unsafe { all.add((b * m + i) * n + j) },
        step: n,
        done: 0,
        whole: 0,
        life: PhantomData,
    };
    let work = |tiles: &mut [OutputTile<'_, T>]| -> Result<()> {
        work(tiles)?;
        assert!(tiles.iter().all(|t| t.done == t.cols.len()), "a tile of a product was left out");
        Ok(())
    };
    if batch == 1 && m <= rows && n <= cols {
        work(&mut [tile(0, 0, 0)])?;
    } else {
        let mut tiles = host::with_capacity(batch * m.div_ceil(rows) * n.div_ceil(cols))?;
        for b in 0..batch {
            for j in (0..n).step_by(cols) {
                tiles.extend((0..m).step_by(rows).map(|i| tile(b, i, j)));
            }
        }
        work(&mut tiles)?;
    }
    // SAFETY: the tiles cover all elements, and all have been written.
    unsafe { y.set_len(len) };
    Ok(y)
}

/// Distance of rows of sums that wait: whole lines, and one more, so that rows do not share the
/// same sets of a cache.
fn accumulator_pitch<T>(cols: usize) -> usize {
    let line = LINE / size_of::<T>();
    cols.next_multiple_of(line) + line
}

impl<T: Real> OutputTile<'_, T> {
    /// Adds a chunk of `k` terms; the first chunk is stored.
    ///
    /// # Panics
    /// If `lhs` or `rhs` is too short.
    pub(crate) fn add(&mut self, isa: Isa, lhs: RowsA<'_, T>, rhs: PanelsB<'_, T>, k: usize) {
        self.add_part(isa, lhs, (0, self.cols.len()), rhs, k);
    }
    /// As `add`, for `cols` columns from `at` on, counted from the tile's first. The parts of the
    /// first chunk come from the left to the right, without gaps, and cover the tile before the
    /// second chunk begins.
    ///
    /// # Panics
    /// As `add`, and if the columns are not the next ones of the first chunk, or not the tile's.
    pub(crate) fn add_part(
        &mut self,
        isa: Isa,
        lhs: RowsA<'_, T>,
        (at, cols): (usize, usize),
        rhs: PanelsB<'_, T>,
        k: usize,
    ) {
        let first = self.done < self.cols.len();
        assert!(at + cols <= self.cols.len() && (!first || at == self.done), "columns of a tile");
        // SAFETY: columns at..at + cols are the tile's; its rows and columns are in the result, and
        // `self` is borrowed exclusively. If it is not the first chunk, all of them have been
        // written by it.
        unsafe {
            let (c, rows, step) = (self.start.add(at), self.rows.len(), self.step);
            let before = accumulate_in_place(c, step, first);
            multiply_block(
                isa,
                MicroBlock { a: lhs, b: rhs, rows, cols, k, c, step, before, high: usize::MAX },
            );
        }
        if first {
            self.done = at + cols;
        }
    }
    /// Adds a chunk of `k` terms, one of several in a row: only the last one's sums are stored in
    /// the result, those of the others wait in `dst`. `is_first` and `is_last` are said of these
    /// chunks; the very first chunk of all is stored, not added.
    ///
    /// # Panics
    /// If `lhs` or `rhs` is too short, or `dst` for as many numbers as
    /// [`OutputTile::accumulator_len`] says.
    pub(crate) fn add_chunk_of_several(
        &mut self,
        isa: Isa,
        lhs: RowsA<'_, T>,
        rhs: PanelsB<'_, T>,
        k: usize,
        dst: &mut [T],
        (is_first, is_last): (bool, bool),
    ) {
        let (rows, cols, row_stride) =
            (self.rows.len(), self.cols.len(), accumulator_pitch::<T>(self.cols.len()));
        assert!(is_first && is_last || dst.len() >= rows * row_stride, "room for sums that wait");
        let was = (self.done == cols).then_some((self.start.cast_const(), self.step));
        let before = if is_first { was } else { Some((dst.as_ptr(), row_stride)) };
        let (c, step) = if is_last { (self.start, self.step) } else { (dst.as_mut_ptr(), row_stride) };
        // SAFETY: as in `add_part`; the room is borrowed exclusively, has as many rows of as many
        // numbers, and all of it has been written.
        unsafe {
            multiply_block(
                isa,
                MicroBlock { a: lhs, b: rhs, rows, cols, k, c, step, before, high: usize::MAX },
            )
        };
        if is_last {
            self.done = cols;
        }
    }
    /// How many numbers of room [`OutputTile::add_chunk_of_several`] wants.
    pub(crate) fn accumulator_len(&self) -> usize {
        self.rows.len() * accumulator_pitch::<T>(self.cols.len())
    }
    /// Has `f` write all of it, given where its first element is, the distance of its rows, and
    /// whether this is the first chunk: then it stores, and otherwise adds to what is there.
    ///
    /// # Safety
    /// `f` writes each of the tile's elements, and touches no others by this pointer.
    #[inline]
    pub(crate) unsafe fn write_whole(&mut self, f: impl FnOnce(*mut T, usize, bool)) {
        f(self.start, self.step, self.done < self.cols.len());
        self.done = self.cols.len();
    }
    /// Stores the sums of all `k` terms, from few rows and columns that are in memory as they are.
    ///
    /// # Panics
    /// If a factor is too short, or there are fewer than `LEAST` columns of pairs.
    pub(crate) fn gemv(&mut self, isa: Isa, kind: TermKind, a: RowsA<'_, T>, b: ColumnsB<'_, T>, k: usize) {
        let (rows, cols) = (self.rows.len(), self.cols.len());
        // SAFETY: the tile's rows and columns are in the result, and `self` is borrowed
        // exclusively.
        unsafe { gemv(isa, Gemv { a, b, rows, cols, k, c: self.start, step: self.step, kind }) };
        self.done = self.cols.len();
    }
    /// Stores the sums of all terms of `cols` columns from `at` on, the next ones: that of column c
    /// and row i is sums[c * step + i].
    ///
    /// # Panics
    /// If there are too few, or these are not the next columns.
    pub(crate) fn store_transposed(&mut self, isa: Isa, (at, cols): (usize, usize), sums: &[T], step: usize) {
        assert!(at == self.done && at + cols <= self.cols.len(), "columns of a tile");
        // SAFETY: columns at..at + cols are the tile's, whose rows are in the result, and `self` is
        // borrowed exclusively.
        unsafe {
            transpose_block_to(
                isa,
                sums,
                0,
                step as isize,
                self.rows.len(),
                cols,
                self.start.add(at),
                self.step,
            );
        }
        self.done = at + cols;
    }
    /// Stores the sums of all terms of `rows` rows from `at` on, the next ones: that of column c
    /// and row at + i is sums[c * step + i].
    ///
    /// # Panics
    /// If there are too few, or these are not the next rows.
    pub(crate) fn store_transposed_rows(
        &mut self,
        isa: Isa,
        (at, rows): (usize, usize),
        sums: &[T],
        step: usize,
    ) {
        assert!(at == self.whole && at + rows <= self.rows.len(), "rows of a tile");
        let cols = self.cols.len();
        // SAFETY: rows at..at + rows are the tile's, whose columns are in the result, and `self` is
        // borrowed exclusively.
        unsafe {
            transpose_block_to(
                isa,
                sums,
                0,
                step as isize,
                rows,
                cols,
                self.start.add(at * self.step),
                self.step,
            );
        }
        self.whole = at + rows;
        if self.whole == self.rows.len() {
            self.done = cols;
        }
    }
    /// Where [`OutputTile::store_transposed_rows`] will store `rows` rows from `at` on.
    pub(crate) fn written(&self, (at, rows): (usize, usize)) -> OutputPrefetch {
        OutputPrefetch::of(self.start.wrapping_add(at * self.step), self.step, rows, self.cols.len())
    }
    /// A tile of sums without terms.
    pub(crate) fn clear(&mut self) {
        for i in 0..self.rows.len() {
            for j in 0..self.cols.len() {
                // SAFETY: as in `add`.
                unsafe { self.start.add(i * self.step + j).write(T::ZERO) };
            }
        }
        self.done = self.cols.len();
    }
    /// All of its rows, if they are one after the other and are no longer than `most`.
    ///
    /// # Panics
    /// If they have not been written.
    pub(crate) fn contiguous_rows(&mut self, most: usize) -> Option<&mut [T]> {
        if self.step != self.cols.len() || self.step > most {
            return None;
        }
        assert!(self.done == self.cols.len(), "rows that are not there");
        // SAFETY: whole rows of the result that follow one another are in the tile and have been
        // written, and `self` is borrowed exclusively.
        Some(unsafe { std::slice::from_raw_parts_mut(self.start, self.rows.len() * self.step) })
    }
    /// A row of the tile, counted from its first.
    ///
    /// # Panics
    /// If there is no such row, or it has not been written.
    pub(crate) fn row(&mut self, i: usize) -> &mut [T] {
        assert!(self.done == self.cols.len() && i < self.rows.len(), "a row that is not there");
        // SAFETY: the row is in the tile and has been written, and `self` is borrowed
        // exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(i * self.step), self.cols.len()) }
    }
}
