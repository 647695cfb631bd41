//! Small-M GEMM with swapped operands: few rows times a B whose terms are contiguous, as in a
//! linear layer's `x * w^T`.
//!
//! The product is computed on its side: columns are what a tile takes number by number, and rows
//! are beside one another in its registers. So w is read in place, and x, which is small, is
//! what is packed. Panels of w would have to be turned on their way, which is not paid back by so
//! few rows. Factors commute, so every chain is the same.

use super::kernels::{
    COLUMN_GROUP, ColumnsB, NextOperands, OutputTile, PACKED_A_PITCH, PanelsB, RowsA, SmallM,
    multiply_block_into, nr, panel_columns, small_m, transpose_block,
};
use super::plan::SmallMPlan;
use super::plan::thresholds::SMALL_M_TRANSPOSE_TERMS;
use super::planned::{PlannedGemm, k_chunks};
use crate::CpuDevice;
use crate::elementwise::real::{Real, StoredElements};
use crate::runtime::parallel::try_drain_tasks;
use crate::runtime::scratch::scratch;
use elinvar_core::Result;
use std::ops::Range;

/// Are there kernels for it? Of f64 there are not: they were a fiftieth of a small program, for
/// what networks do not do.
pub(super) const fn has_small_m<T>() -> bool {
    size_of::<T>() <= size_of::<f32>()
}

impl<T: Real> PlannedGemm<'_, T> {
    /// Columns that are in memory as they are computed, one after the other.
    fn own_columns(&self, batch: usize, cols: Range<usize>) -> Option<RowsA<'_, T>> {
        let ColumnsB { data, at, step } = self.rhs.columns_in_place(batch, cols)?;
        match data {
            StoredElements::Native(data) if step >= 0 => {
                Some(RowsA { data: data.get(at as usize..)?, step: step as usize })
            }
            StoredElements::Native(_) | StoredElements::F16(_) | StoredElements::BF16(_) => None,
        }
    }

    /// Each thread packs the rows for itself: to get at those that another has packed takes longer.
    pub(super) fn run_small_m(
        &self,
        d: &CpuDevice,
        plan: &SmallMPlan,
        tiles: &mut [OutputTile<'_, T>],
    ) -> Result<()> {
        let (isa, &SmallMPlan { few, kc, accumulators }) = (d.isa(), plan);
        let w = if few { panel_columns::<T>(isa, self.m) } else { nr::<T>(isa) };
        let padded = tiles[0].rows.len().next_multiple_of(w);
        try_drain_tasks(d, tiles, self.plan.ns, &|next| {
            scratch(kc * padded, |x| {
                scratch(accumulators * padded, |sums| {
                    let mut packed = None;
                    while let Some(tile) = next() {
                        for from in (0..self.k).step_by(kc) {
                            let terms = from..self.k.min(from + kc);
                            let these = (tile.batch, tile.rows.clone(), terms.clone());
                            if packed.as_ref() != Some(&these) {
                                self.pack_a_transposed(d, &these, x, w)?;
                                packed = Some(these);
                            }
                            if few {
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

    /// Some terms of a tile's columns, of packed rows. If they are not all, sums has room for all
    /// columns.
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

    /// Rows of a product, and some of their terms, as panels of `w` columns: chunk after chunk,
    /// panel after panel, the last one of each filled up with zeros.
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
                    for (i, panel) in panel.chunks_mut(SMALL_M_TRANSPOSE_TERMS * w).enumerate() {
                        let (from, k) = (terms.start + i * SMALL_M_TRANSPOSE_TERMS, panel.len() / w);
                        self.lhs.pack(isa, *batch, rows.clone(), from..from + k, dst);
                        transpose_block(isa, dst, 0, PACKED_A_PITCH as isize, k, rows.len(), panel, w);
                    }
                }
            }
        })
    }
}
