//! The loops of a GEMM around the microkernel: packing plan (who packs A and B), blocking (`mc`,
//! `nc`), and threads over tiles.
//!
//! A contraction, and each kind of convolution, is a batch of products `y[m, n] = sum over k of
//! a[m, k] * b[k, n]` whose factors are packed by [`OperandA`] and [`OperandB`]. The order of the
//! terms (`elinvar_core::order::contract`) is also the shape of the loops: a chunk of 512 terms is
//! packed, a tile of the result chains it in registers from 0, and adds it to the result; the first
//! chunk is stored. What runs side by side are elements of the result, so no block size and no
//! number of threads changes a bit.
//!
//! How it can be wrong: by a result element that no tile, or two tasks, write. The tests have sizes
//! around every block.

use super::epilogue::TileEpilogue;
use super::kernels::{
    Blocking, ColumnsB, NextOperands, OutputTile, PACKED_A_PITCH, PanelsB, RowsA, TermKind, fill_tiles, nr,
};
use super::operand::{OperandA, OperandB};
use super::plan::thresholds::PANELS_PER_SHARED_PACK;
use super::plan::{
    self, AccessA, AccessB, ColumnAccess, GemmProblem, PackPlan, ReadA, Schedule, TAPS_PER_ADDRESS,
};
use super::planned::{PlannedGemm, k_chunks};
use super::small_m;
use crate::CpuDevice;
use crate::elementwise::real::{Real, StoredElements};
use crate::machine::Machine;
use crate::runtime::parallel::{for_each_task, try_drain_tasks};
use crate::runtime::scratch::scratch;
use elinvar_core::explain::explain;
use elinvar_core::order::CHUNK;
use elinvar_core::{HostVec, Result};
use elinvar_simd::isa::Isa;
use std::ops::Range;

/// A batch of products, and who packs what.
pub(crate) struct Gemm<'a, T> {
    pub(crate) batch: usize,
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
    pub(crate) lhs: &'a dyn OperandA<T>,
    pub(crate) rhs: &'a dyn OperandB<T>,
    pub(crate) epilogue: &'a dyn TileEpilogue<T>,
    pub(crate) pack_plan: PackPlan,
    /// What the factors pack.
    pub(crate) kind: TermKind,
}

/// y[batch, m, n]
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn run_gemm<T: Real>(d: &CpuDevice, gemm: &Gemm<'_, T>) -> Result<HostVec<T>> {
    let &Gemm { batch, m, k, n, lhs, rhs, epilogue, kind, .. } = gemm;
    let machine = Machine::of(d);
    let plan = plan::plan_gemm(&gemm.problem(d.isa()), Some(gemm.pack_plan), &machine);
    explain(|| format!("gemm {batch}x{m}x{k}x{n} {} on {machine}: {plan}: {}", T::DTYPE, plan.why));
    run_planned(d, &PlannedGemm { batch, m, k, n, lhs, rhs, epilogue, kind, plan })
}

/// A batch of products, as its plan says.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn run_planned<T: Real>(d: &CpuDevice, gemm: &PlannedGemm<'_, T>) -> Result<HostVec<T>> {
    fill_tiles(&gemm.plan.blocking, |tiles| match gemm.plan.schedule {
        Schedule::NoTerms => {
            tiles.iter_mut().for_each(|tile| {
                tile.clear();
                gemm.run_epilogue(d, tile);
            });
            Ok(())
        }
        Schedule::SmallM(plan) => {
            if const { small_m::has_small_m::<T>() } {
                gemm.run_small_m(d, &plan, tiles)
            } else {
                unreachable!("f64 has no kernels for few rows")
            }
        }
        Schedule::PrivatePacking(plan) => gemm.private_packing(d, &plan, tiles),
        Schedule::SharedA { windows } => gemm.shared_a(d, windows, tiles),
        Schedule::SharedB { nc, kc } => gemm.shared_b(d, nc, kc, tiles),
        Schedule::PerProduct => gemm.per_product(d, tiles),
        Schedule::Prepacked { in_turn } => gemm.prepacked_b(d, in_turn, tiles),
    })
}

impl<T: Real> Gemm<'_, T> {
    /// What a plan has to know. Operands of products without results are not asked.
    fn problem(&self, isa: Isa) -> GemmProblem {
        let &Gemm { batch, m, k, n, kind, .. } = self;
        let bytes = size_of::<T>();
        let mut a = AccessA { rows: None, taps: false };
        let mut b = AccessB { columns: ColumnAccess::Packed, panels: false, windows: None };
        if [batch, m, k, n].iter().all(|&size| size > 0) {
            a.rows = self.lhs.rows_in_place(0, 0..m).map(|rows| rows.step);
            a.taps = self.lhs.has_taps();
            b.columns = match self.rhs.columns_in_place(0, 0..n) {
                None => ColumnAccess::Packed,
                Some(ColumnsB { data: StoredElements::Native(_), step: 0.., .. }) => ColumnAccess::InPlace,
                Some(_) => ColumnAccess::Converted,
            };
            b.panels = self.rhs.panels_in_place(isa, 0, 0..k.min(CHUNK), 0..n).is_some();
            b.windows = self.rhs.windows();
        }
        GemmProblem { batch, m, k, n, bytes, kind, a, b }
    }
}

impl<T: Real> PlannedGemm<'_, T> {
    /// What a task multiplies after some of the terms `all` of some rows: the next of these terms,
    /// or the first of the rows below.
    fn next(
        &self,
        rows: &Range<usize>,
        terms: &Range<usize>,
        all: &Range<usize>,
    ) -> Option<(Range<usize>, Range<usize>)> {
        let below = rows.end..self.m.min(rows.end + rows.len());
        match k_chunks(terms.end..all.end).next() {
            Some(terms) => Some((rows.clone(), terms)),
            None if below.is_empty() => None,
            None => k_chunks(all.clone()).next().map(|terms| (below, terms)),
        }
    }

    /// These rows and terms, with their panel, as what comes next; the rows if they are in memory.
    fn next_operands<'r>(
        &'r self,
        batch: usize,
        (rows, terms): (Range<usize>, Range<usize>),
        panel: &'r [T],
    ) -> NextOperands<'r, T> {
        let panel = NextOperands { panel, ..NextOperands::NONE };
        if !self.plan.prefetches_a {
            return panel;
        }
        let RowsA { data, step } = self.a_in_place(batch, &rows);
        let lines = RowsA { data: &data[terms.start..], step };
        NextOperands { lines, rows: rows.len(), k: terms.len(), ..panel }
    }

    /// Each task packs rows of the left factor; the right one is packed.
    fn prepacked_b(&self, d: &CpuDevice, in_turn: bool, tiles: &mut [OutputTile<'_, T>]) -> Result<()> {
        let isa = d.isa();
        let one = |tile: &mut OutputTile<'_, T>| {
            let (b, rows, cols) = (tile.batch, tile.rows.clone(), tile.cols.clone());
            scratch(rows.len() * PACKED_A_PITCH, |lhs| {
                for terms in k_chunks(0..self.k) {
                    let lhs = self.a_block(isa, b, &rows, &terms, lhs);
                    let prepacked =
                        |terms, cols| self.rhs.prepacked_panels(terms, cols).expect("it is packed");
                    let mut rhs = prepacked(terms.clone(), cols.clone());
                    // What the thread multiplies then: these columns' next terms, or the columns
                    // behind them.
                    if let Some(terms) = k_chunks(terms.end..self.k).next() {
                        rhs.after.panel = prepacked(terms, cols.clone()).data;
                    } else if rows.len() == self.m && cols.end < self.n {
                        rhs.after.panel = prepacked(0..self.k.min(CHUNK), cols.end..self.n).data;
                    }
                    tile.add(isa, lhs, rhs, terms.len());
                }
                self.run_epilogue(d, tile);
            })
        };
        if !in_turn {
            return for_each_task(d, self.plan.ns, tiles, one);
        }
        try_drain_tasks(d, tiles, self.plan.ns, &|next| {
            while let Some(tile) = next() {
                one(tile)?;
            }
            Ok(())
        })
    }

    /// The left factor is packed whole; each task packs columns of the right one.
    fn shared_a(&self, d: &CpuDevice, windows: bool, tiles: &mut [OutputTile<'_, T>]) -> Result<()> {
        let (isa, w) = (d.isa(), nr::<T>(d.isa()));
        let distinct = self.lhs.distinct_batches().min(self.batch);
        let (count, size) = (self.k.div_ceil(CHUNK), self.m * PACKED_A_PITCH);
        scratch(distinct * count * size, |lhs| {
            let mut parts: Vec<_> = lhs.chunks_exact_mut(size).enumerate().collect();
            for_each_task(d, self.plan.ns, &mut parts, |(i, lhs)| {
                let t = *i % count * CHUNK;
                self.lhs.pack(isa, *i / count, 0..self.m, t..self.k.min(t + CHUNK), lhs);
                Ok(())
            })?;
            let lhs = &*lhs;
            for_each_task(d, self.plan.ns, tiles, |tile| {
                let (b, cols) = (tile.batch, tile.cols.clone());
                let lhs = &lhs[b % distinct * count * size..];
                if windows {
                    self.rhs.add_windows(isa, tile, self.kind, lhs);
                    self.run_epilogue(d, tile);
                    return Ok(());
                }
                scratch(self.k.min(CHUNK) * cols.len().next_multiple_of(w), |rhs| {
                    for (i, terms) in k_chunks(0..self.k).enumerate() {
                        self.rhs.pack(isa, b, terms.clone(), cols.clone(), rhs);
                        let lhs = RowsA {
                            data: &lhs[i * size + tile.rows.start * PACKED_A_PITCH..],
                            step: PACKED_A_PITCH,
                        };
                        tile.add(isa, lhs, self.panels(isa, rhs, terms.len()), terms.len());
                    }
                    self.run_epilogue(d, tile);
                })
            })
        })?
    }

    /// A block of `nc` columns and `kc` terms of the right factor after the other is packed by all
    /// threads; each task packs rows of the left one.
    fn shared_b(&self, d: &CpuDevice, nc: usize, kc: usize, tiles: &mut [OutputTile<'_, T>]) -> Result<()> {
        let Blocking { rows, cols, .. } = self.plan.blocking;
        let down = self.m.div_ceil(rows);
        scratch(kc.min(self.k) * nc, |rhs| {
            for product in tiles.chunks_mut(down * self.n.div_ceil(cols)) {
                for phase in product.chunks_mut(nc / cols * down) {
                    for from in (0..self.k).step_by(kc) {
                        self.one_phase(d, self.plan.ns, phase, from..self.k.min(from + kc), rhs)?;
                    }
                }
            }
            Ok(())
        })?
    }

    /// Each thread makes products: what one packed, no other reads.
    fn per_product(&self, d: &CpuDevice, tiles: &mut [OutputTile<'_, T>]) -> Result<()> {
        let Blocking { rows, cols, .. } = self.plan.blocking;
        let (down, across) = (self.m.div_ceil(rows), self.n.div_ceil(cols));
        let mut products: Vec<_> = tiles.chunks_mut(down * across).collect();
        for_each_task(d, self.plan.ns, &mut products, |product| {
            scratch(self.k * self.n.next_multiple_of(cols), |rhs| {
                self.one_phase(d, 0.0, product, 0..self.k, rhs)
            })?
        })
    }

    /// Some terms of some columns of tiles, `ns` nanoseconds of one thread.
    fn one_phase(
        &self,
        d: &CpuDevice,
        ns: f64,
        tiles: &mut [OutputTile<'_, T>],
        all: Range<usize>,
        rhs: &mut [T],
    ) -> Result<()> {
        let (isa, w) = (d.isa(), nr::<T>(d.isa()));
        let (b, across) = (tiles[0].batch, tiles[0].cols.start..tiles[tiles.len() - 1].cols.end);
        let padded = across.len().next_multiple_of(w);
        let rhs = &mut rhs[..all.len() * padded];
        // Chunk after chunk, panel after panel. A thread takes a few panels of a chunk, and begins
        // with what precedes it: columns that it also begins to multiply. So parts are collected
        // by tiles' columns. (A sort of them was 17 KB.)
        let wide = tiles[0].cols.len();
        let mut parts: Vec<_> = (0..across.len().div_ceil(wide)).map(|_| Vec::new()).collect();
        let mut rest = &mut *rhs;
        for terms in k_chunks(all.clone()) {
            for j in across.clone().step_by(PANELS_PER_SHARED_PACK * w) {
                let cols = j..across.end.min(j + PANELS_PER_SHARED_PACK * w);
                let (part, after) = rest.split_at_mut(terms.len() * cols.len().next_multiple_of(w));
                parts[(j - across.start) / wide].push((terms.clone(), cols, part));
                rest = after;
            }
        }
        let mut parts: Vec<_> = parts.into_iter().flatten().collect();
        for_each_task(d, ns, &mut parts, |(terms, cols, part)| {
            self.rhs.pack(isa, b, terms.clone(), cols.clone(), part);
            Ok(())
        })?;
        let rhs = &*rhs;
        for_each_task(d, ns, tiles, |tile| {
            let rows = tile.rows.clone();
            let cols = tile.cols.start - across.start;
            let data = |terms: &Range<usize>| {
                let before = (terms.start - all.start) * padded;
                &rhs[before + cols * terms.len()..]
            };
            let panels = |terms: &Range<usize>| {
                let next = self.next(&rows, terms, &all);
                let after = next.map_or(NextOperands::NONE, |next| {
                    let panel = data(&next.1);
                    self.next_operands(b, next, panel)
                });
                PanelsB { after, ..self.panels(isa, data(terms), terms.len()) }
            };
            let threes = [rows.start, rows.end].iter().all(|row| row.is_multiple_of(TAPS_PER_ADDRESS));
            if self.plan.a == ReadA::Taps && threes {
                for terms in k_chunks(all.clone()) {
                    let panels = panels(&terms);
                    self.lhs.add_taps(isa, tile, terms, panels);
                }
            } else {
                // What a chunk adds to waits in the task's own second-level cache: rows of the
                // result are often a power of two apart, and share its sets.
                let several = all.len() > CHUNK;
                let dst = if several { tile.accumulator_len() } else { 0 };
                scratch(rows.len() * PACKED_A_PITCH, |lhs| {
                    scratch(dst, |dst| {
                        for terms in k_chunks(all.clone()) {
                            let ends = (terms.start == all.start, terms.end == all.end);
                            let lhs = self.a_block(isa, b, &rows, &terms, lhs);
                            let rhs = panels(&terms);
                            tile.add_chunk_of_several(isa, lhs, rhs, terms.len(), dst, ends);
                        }
                    })
                })??;
            }
            if all.end == self.k {
                self.run_epilogue(d, tile);
            }
            Ok(())
        })
    }
}
