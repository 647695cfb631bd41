//! Products whose factors no tasks share: each packs what it multiplies, or reads it
//! where it is.

use super::kernels::{ColumnsB, OutputTile, PACKED_A_PITCH, RowsA, nr};
use super::plan::thresholds::PANELS_PER_PACK;
use super::plan::{PrivatePackingPlan, TilePath};
use super::planned::{PlannedGemm, k_chunks};
use crate::CpuDevice;
use crate::elementwise::real::Real;
use crate::runtime::parallel::for_each_task;
use crate::runtime::scratch::scratch;
use elinvar_core::Result;
use elinvar_core::order::CHUNK;

impl<T: Real> PlannedGemm<'_, T> {
    /// Each task packs both factors, or reads them where they are.
    pub(super) fn private_packing(
        &self,
        d: &CpuDevice,
        plan: &PrivatePackingPlan,
        tiles: &mut [OutputTile<'_, T>],
    ) -> Result<()> {
        let (isa, w) = (d.isa(), nr::<T>(d.isa()));
        for_each_task(d, self.plan.ns, tiles, |tile| {
            let (b, rows, cols) = (tile.batch, tile.rows.clone(), tile.cols.clone());
            let whole = match plan.tile(rows.len(), cols.len()) {
                TilePath::Gemv { pack_a } => return self.gemv(d, pack_a, tile),
                TilePath::InPlace => {
                    self.both_in_place(d, tile);
                    return Ok(());
                }
                TilePath::Pack { direct, .. } => direct,
            };
            let together = (PANELS_PER_PACK * w).min(cols.len().next_multiple_of(w));
            scratch(rows.len() * PACKED_A_PITCH, |lhs| {
                scratch(self.k.min(CHUNK) * together, |rhs| {
                    for terms in k_chunks(0..self.k) {
                        let k = terms.len();
                        let lhs = self.a_block(isa, b, &rows, &terms, lhs);
                        let direct = cols.start..cols.start + whole;
                        let mut done = 0;
                        if whole > 0 {
                            let panels = self.rhs.panels_in_place(isa, b, terms.clone(), direct);
                            tile.add_part(isa, lhs, (0, whole), panels.expect("panels lie in memory"), k);
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

    /// A tile of whole panels whose factors both are read in place: without taking scratch
    /// memory for packing and putting it back.
    fn both_in_place(&self, d: &CpuDevice, tile: &mut OutputTile<'_, T>) {
        let (isa, b, cols) = (d.isa(), tile.batch, tile.cols.clone());
        let lines = self.a_in_place(b, &tile.rows);
        for terms in k_chunks(0..self.k) {
            let rhs = self.rhs.panels_in_place(isa, b, terms.clone(), cols.clone());
            let lhs = RowsA { data: &lines.data[terms.start..], ..lines };
            tile.add_part(isa, lhs, (0, cols.len()), rhs.expect("panels lie in memory"), terms.len());
        }
        self.run_epilogue(d, tile);
    }

    /// Few rows, and columns that are read in place.
    fn gemv(&self, d: &CpuDevice, pack_a: bool, tile: &mut OutputTile<'_, T>) -> Result<()> {
        let (isa, b, rows) = (d.isa(), tile.batch, tile.rows.clone());
        let columns: ColumnsB<'_, T> =
            self.rhs.columns_in_place(b, tile.cols.clone()).expect("columns lie in memory");
        if !pack_a {
            tile.gemv(isa, self.kind, self.a_in_place(b, &rows), columns, self.k);
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
