//! Small-M GEMM with swapped operands: few rows times a B whose terms are contiguous, as in a
//! linear layer's `x * w^T`.
//!
//! The product is computed transposed: a tile broadcasts the elements of w, and rows of x are the
//! lanes of its registers. So w is read in place and only x, which is small, is packed. Packing w
//! would need a transpose that so few rows do not pay for. Multiplication commutes, so every fma
//! chain is the same.

use super::kernels::{
    COLUMN_GROUP, NextOperands, OutputTile, PACKED_A_PITCH, PREFETCH_ROWS, PanelsB, RowsA, SmallM,
    multiply_block_into, nr, panel_columns, small_m, transpose_block,
};
use super::{
    Blocking, ColumnsB, FINE_TASKS_PER_THREAD, Gemm, PackPlan, Real, StoredElements, TermKind,
    balanced_piece, even_piece, k_chunks,
};
use crate::CpuDevice;
use crate::runtime::parallel::try_drain_tasks;
use crate::runtime::scratch::scratch;
use elinvar_core::Result;
use elinvar_core::order::CHUNK;
use std::ops::{Range, RangeInclusive};

/// Rows of which columns that lie in memory are better read number by number. Of one thread, 32 rows, 1024 columns and as many terms took
/// 597 microseconds, and packed 712.
pub(super) const SMALL_M_ROWS: RangeInclusive<usize> = 8..=192;
/// Fewer columns do not fill registers, which counts where they have so many terms.
const NARROW_MAX_COLUMNS: usize = 48;
const NARROW_MIN_TERMS: usize = 256;
/// Are there kernels for it? Of f64 there are not: they were a fiftieth of a small program, for what networks do not do.
pub(super) const fn has_small_m<T>() -> bool {
    size_of::<T>() <= size_of::<f32>()
}
/// Terms of a panel's rows that are turned at once: 16 KiB of f32, which are in the first-level cache when they are.
const TRANSPOSE_TERMS: usize = 128;
/// Bytes of rows that are packed at once: half of a core's second-level cache. All 9216 terms of 64 rows, a layer after convolutions, came
/// from the third-level cache for each few columns; with 128 of these it took 1.03 milliseconds, and takes 0.6 so.
const PACKED_ROWS_MAX_BYTES: usize = 512 << 10;

impl<T: Real> Gemm<'_, T> {
    /// Are there so many rows that columns in memory are better read number by number, if they lie so? Rows and results are turned then, which
    /// are to be less than the columns: 96 products of 128 x 128 of 64 terms took 880 microseconds so, and take 690 with columns packed; one took
    /// 10.9, and takes 8.4. Or columns are so few that registers of them are not full, of many terms: 16 rows by 10 columns of 1024 terms take 8.2
    /// so, and packed 12.7.
    pub(super) fn is_small_m(&self) -> bool {
        has_small_m::<T>()
            && self.pack_plan == PackPlan::PerTask
            && self.kind == TermKind::Elements
            && SMALL_M_ROWS.contains(&self.m)
            && self.k > 0
            && (self.m * (self.k + self.n) < self.k * self.n
                || self.n < NARROW_MAX_COLUMNS && self.k >= NARROW_MIN_TERMS)
            && self.own_columns(0, 0..self.n).is_some()
    }

    /// Columns that lie in memory as they are computed, one after the other.
    pub(super) fn own_columns(&self, batch: usize, cols: Range<usize>) -> Option<RowsA<'_, T>> {
        let ColumnsB { data, at, step } = self.rhs.columns_in_place(batch, cols)?;
        match data {
            StoredElements::Native(data) if step >= 0 => {
                Some(RowsA { data: data.get(at as usize..)?, step: step as usize })
            }
            StoredElements::Native(_) | StoredElements::F16(_) | StoredElements::BF16(_) => None,
        }
    }

    /// Are there so few rows that they have a kernel of their own?
    fn is_few(&self, d: &CpuDevice) -> bool {
        d.isa().has_fma()
            && PREFETCH_ROWS.contains(&self.m)
            && self.k * self.m <= PACKED_ROWS_MAX_BYTES / size_of::<T>()
    }

    /// Terms of all rows that are packed at once.
    fn terms_per_block(&self, d: &CpuDevice) -> usize {
        let padded = self.m.next_multiple_of(nr::<T>(d.isa()));
        ((PACKED_ROWS_MAX_BYTES / size_of::<T>() / padded / CHUNK).max(1) * CHUNK).min(self.k)
    }

    /// Tiles of all rows and some columns, or, of columns that are too few, of all columns and some rows.
    pub(super) fn small_m_blocking(&self, d: &CpuDevice) -> Blocking {
        let (w, threads) = (nr::<T>(d.isa()), self.threads(d));
        let (mut rows, mut cols) = (self.m, self.n);
        let is_few = self.is_few(d);
        if threads > 1 && self.n < w * threads && self.m >= 2 * w && !is_few {
            rows = even_piece(self.m, self.m, w, threads);
        } else if threads > 1 {
            // With all terms a thread packs rows once for all of its tiles.
            let tiles = if is_few || self.terms_per_block(d) == self.k {
                FINE_TASKS_PER_THREAD * threads
            } else {
                threads
            };
            cols = balanced_piece(self.n, self.n.div_ceil(tiles).next_multiple_of(w), w, threads);
        }
        Blocking { batch: self.batch, m: self.m, n: self.n, rows, cols }
    }

    /// Each thread packs the rows for itself: half of them packed by another, and what takes to get at these, took 2 to 15 % longer.
    pub(super) fn run_small_m(&self, d: &CpuDevice, tiles: &mut [OutputTile<'_, T>]) -> Result<()> {
        let (isa, is_few) = (d.isa(), self.is_few(d));
        let (deep, w) = if is_few {
            (self.k, panel_columns::<T>(isa, self.m))
        } else {
            (self.terms_per_block(d), nr::<T>(isa))
        };
        let padded = tiles[0].rows.len().next_multiple_of(w);
        // If there are more terms, the sums of all columns wait for them.
        let accumulators = if deep < self.k { tiles[0].cols.len() } else { COLUMN_GROUP };
        try_drain_tasks(d, tiles, self.ns(), &|next| {
            scratch(deep * padded, |x| {
                scratch(accumulators * padded, |sums| {
                    let mut packed = None;
                    while let Some(tile) = next() {
                        for from in (0..self.k).step_by(deep) {
                            let terms = from..self.k.min(from + deep);
                            let these = (tile.batch, tile.rows.clone(), terms.clone());
                            if packed.as_ref() != Some(&these) {
                                self.pack_a_transposed(d, &these, x, w)?;
                                packed = Some(these);
                            }
                            if is_few {
                                self.few_rows(d, tile, x, sums, w);
                            } else {
                                self.columns_in_place(d, tile, &terms, x, sums);
                            }
                        }
                        self.run_epilogue(d, tile);
                    }
                    Ok(())
                })
            })??
        })
    }

    /// Some terms of a tile's columns, of packed rows. If they are not all, sums has room for all columns.
    fn columns_in_place(
        &self,
        d: &CpuDevice,
        tile: &mut OutputTile<'_, T>,
        terms: &Range<usize>,
        x: &[T],
        sums: &mut [T],
    ) {
        let (isa, w) = (d.isa(), nr::<T>(d.isa()));
        let (padded, rows) = (tile.rows.len().next_multiple_of(w), tile.rows.len().next_multiple_of(w / 2));
        let columns = self.own_columns(tile.batch, tile.cols.clone()).expect("columns lie in memory");
        for j in (0..tile.cols.len()).step_by(COLUMN_GROUP) {
            let n = COLUMN_GROUP.min(tile.cols.len() - j);
            let at = if terms.len() < self.k { j * padded } else { 0 };
            let sums = &mut sums[at..][..n * padded];
            for some in k_chunks(terms.clone()) {
                let k = some.len();
                let lines = RowsA { data: &columns.data[j * columns.step + some.start..], ..columns };
                let data = &x[(some.start - terms.start) * padded..][..k * padded];
                let panels =
                    PanelsB { data, step: w, across: w * k, kind: self.kind, after: NextOperands::NONE };
                multiply_block_into(isa, lines, panels, (n, rows, k), (sums, padded), some.start == 0);
            }
            if terms.end == self.k {
                tile.store_transposed(isa, (j, n), sums, padded);
            }
        }
    }

    /// All terms of a tile's columns, of few rows, packed as panels of `w`.
    fn few_rows(&self, d: &CpuDevice, tile: &mut OutputTile<'_, T>, x: &[T], sums: &mut [T], w: usize) {
        let (isa, k, rows, cols) = (d.isa(), self.k, self.m, tile.cols.len());
        let padded = rows.next_multiple_of(w);
        let RowsA { data, step } =
            self.own_columns(tile.batch, tile.cols.clone()).expect("columns lie in memory");
        for j in (0..cols).step_by(COLUMN_GROUP) {
            let (at, cols, step) = ((j * step) as isize, COLUMN_GROUP.min(cols - j), step as isize);
            small_m(isa, SmallM { data, at, step, cols, k, x, rows, padded, sums });
            tile.store_transposed(isa, (j, cols), sums, padded);
        }
    }

    /// Rows of a product, and some of their terms, as panels of `w` columns: chunk after chunk, panel after panel, the last one of each filled up
    /// with zeros.
    fn pack_a_transposed(
        &self,
        d: &CpuDevice,
        (batch, rows, terms): &(usize, Range<usize>, Range<usize>),
        x: &mut [T],
        w: usize,
    ) -> Result<()> {
        let isa = d.isa();
        scratch(w * PACKED_A_PITCH, |dst| {
            let mut rest = x;
            for terms in k_chunks(terms.clone()) {
                for first in rows.clone().step_by(w) {
                    let rows = first..rows.end.min(first + w);
                    let panel = rest.split_off_mut(..terms.len() * w).expect("room for all panels");
                    if rows.len() < w {
                        panel.fill(T::ZERO);
                    }
                    for (i, panel) in panel.chunks_mut(TRANSPOSE_TERMS * w).enumerate() {
                        let (from, k) = (terms.start + i * TRANSPOSE_TERMS, panel.len() / w);
                        self.lhs.pack(isa, *batch, rows.clone(), from..from + k, dst);
                        transpose_block(isa, dst, 0, PACKED_A_PITCH as isize, k, rows.len(), panel, w);
                    }
                }
            }
        })
    }
}
