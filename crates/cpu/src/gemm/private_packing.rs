//! GEMM loops in which every task packs its own A and B, or reads them in place: nothing is shared
//! between threads.

use super::kernels::{GEMV_MIN_COLUMNS, OutputTile, PACKED_A_PITCH, RowsA, mr, nr};
use super::{
    ColumnsB, GEMV_MAX_ROWS, Gemm, PANELS_PER_PACK, Real, TermKind, b_fits_l2, for_each_task, k_chunks,
};
use crate::CpuDevice;
use crate::runtime::scratch::scratch;
use elinvar_core::Result;
use elinvar_core::order::CHUNK;

impl<T: Real> Gemm<'_, T> {
    /// Each task packs both factors, or reads them where they lie.
    pub(super) fn private_packing(&self, d: &CpuDevice, tiles: &mut [OutputTile<'_, T>]) -> Result<()> {
        let (isa, w) = (d.isa(), nr::<T>(d.isa()));
        for_each_task(d, self.ns(), tiles, |tile| {
            let (b, rows, cols) = (tile.batch, tile.rows.clone(), tile.cols.clone());
            if isa.has_fma()
                && rows.len() <= GEMV_MAX_ROWS
                && (self.kind == TermKind::Elements || cols.len() >= GEMV_MIN_COLUMNS)
                && let Some(columns) = self.rhs.columns_in_place(b, cols.clone())
            {
                return self.gemv(d, tile, columns);
            }
            // What is used by few tiles, or stays in the second-level cache as it is, is not worth packing.
            let few = self.m <= 2 * mr::<T>(isa) || b_fits_l2::<T>(self.k, self.n);
            // Panels of pairs do not lie in memory: two terms of a column are no neighbours there.
            let whole = if few && self.kind == TermKind::Elements { cols.len() / w * w } else { 0 };
            if whole == cols.len() && self.both_in_place(d, tile) {
                return Ok(());
            }
            let together = (PANELS_PER_PACK * w).min(cols.len().next_multiple_of(w));
            scratch(rows.len() * PACKED_A_PITCH, |lhs| {
                scratch(self.k.min(CHUNK) * together, |rhs| {
                    for terms in k_chunks(0..self.k) {
                        let k = terms.len();
                        let lhs = self.a_block(isa, b, &rows, &terms, lhs);
                        let direct = cols.start..cols.start + whole;
                        let direct = (whole > 0)
                            .then(|| self.rhs.panels_in_place(isa, b, terms.clone(), direct))
                            .flatten();
                        let mut done = 0;
                        if let Some(direct) = direct {
                            tile.add_part(isa, lhs, (0, whole), direct, k);
                            done = whole;
                        }
                        while done < cols.len() {
                            let n = together.min(cols.len() - done);
                            let from = cols.start + done;
                            self.rhs.pack(isa, b, terms.clone(), from..from + n, rhs);
                            tile.add_part(isa, lhs, (done, n), self.panels(isa, rhs, k), k);
                            done += n;
                        }
                    }
                    self.run_epilogue(d, tile);
                })
            })?
        })
    }

    /// A tile of whole panels whose factors both are read where they lie; or nothing, if one of them is not. (64 products of 64 take 0.97 of
    /// the time without taking rooms for packing and putting them back.)
    fn both_in_place(&self, d: &CpuDevice, tile: &mut OutputTile<'_, T>) -> bool {
        let (isa, b, cols) = (d.isa(), tile.batch, tile.cols.clone());
        let Some(lines) = self.a_in_place(b, &tile.rows) else { return false };
        for terms in k_chunks(0..self.k) {
            let rhs = match self.rhs.panels_in_place(isa, b, terms.clone(), cols.clone()) {
                Some(rhs) => rhs,
                None if terms.start == 0 => return false,
                None => unreachable!("of all chunks, or of none"),
            };
            let lhs = RowsA { data: &lines.data[terms.start..], ..lines };
            tile.add_part(isa, lhs, (0, cols.len()), rhs, terms.len());
        }
        self.run_epilogue(d, tile);
        true
    }

    /// Few rows, and columns that are read where they lie.
    fn gemv(&self, d: &CpuDevice, tile: &mut OutputTile<'_, T>, columns: ColumnsB<'_, T>) -> Result<()> {
        let (isa, b, rows) = (d.isa(), tile.batch, tile.rows.clone());
        if let Some(lines) = self.lhs.rows_in_place(b, rows.clone()) {
            tile.gemv(isa, self.kind, lines, columns, self.k);
            self.run_epilogue(d, tile);
            return Ok(());
        }
        let (size, step) = (rows.len() * PACKED_A_PITCH, self.k.next_multiple_of(CHUNK) + 16);
        scratch(size, |chunk| {
            scratch(rows.len() * step, |lhs| {
                for terms in k_chunks(0..self.k) {
                    self.lhs.pack(isa, b, rows.clone(), terms.clone(), chunk);
                    for (to, from) in lhs.chunks_exact_mut(step).zip(chunk.chunks_exact(PACKED_A_PITCH)) {
                        to[terms.clone()].copy_from_slice(&from[..terms.len()]);
                    }
                }
                tile.gemv(isa, self.kind, RowsA { data: lhs, step }, columns, self.k);
                self.run_epilogue(d, tile);
            })
        })?
    }
}
