//! A batch of products with its plan, and what each way of running it reads: rows of A, panels that
//! were just packed, chunks of terms.

use super::epilogue::{self, TileEpilogue};
use super::kernels::{NextOperands, OutputTile, PACKED_A_PITCH, PanelsB, RowsA, TermKind, nr};
use super::operand::{OperandA, OperandB};
use super::plan::{GemmPlan, ReadA};
use crate::CpuDevice;
use crate::elementwise::real::Real;
use elinvar_core::order::CHUNK;
use elinvar_simd::isa::Isa;
use std::ops::Range;

/// A batch of products, and what is run for it.
pub(super) struct PlannedGemm<'a, T> {
    pub(super) batch: usize,
    pub(super) m: usize,
    pub(super) k: usize,
    pub(super) n: usize,
    pub(super) lhs: &'a dyn OperandA<T>,
    pub(super) rhs: &'a dyn OperandB<T>,
    pub(super) epilogue: &'a dyn TileEpilogue<T>,
    pub(super) kind: TermKind,
    pub(super) plan: GemmPlan,
}

impl<T: Real> PlannedGemm<'_, T> {
    /// Panels of `k` terms that were just packed.
    pub(super) fn panels<'a>(&self, isa: Isa, data: &'a [T], k: usize) -> PanelsB<'a, T> {
        let step = nr::<T>(isa);
        PanelsB { data, step, across: step * k, kind: self.kind, after: NextOperands::NONE }
    }

    /// Rows of the left factor where they are.
    ///
    /// # Panics
    /// If they are not as they are read. No plan says that they are read there then.
    pub(super) fn a_in_place(&self, batch: usize, rows: &Range<usize>) -> RowsA<'_, T> {
        self.lhs.rows_in_place(batch, rows.clone()).expect("rows lie in memory")
    }

    /// Rows of the left factor: where they are, if the plan says so, or packed into `dst`.
    pub(super) fn a_block<'r>(
        &'r self,
        isa: Isa,
        batch: usize,
        rows: &Range<usize>,
        terms: &Range<usize>,
        dst: &'r mut [T],
    ) -> RowsA<'r, T> {
        if self.plan.a == ReadA::InPlace {
            let RowsA { data, step } = self.a_in_place(batch, rows);
            return RowsA { data: &data[terms.start..], step };
        }
        self.lhs.pack(isa, batch, rows.clone(), terms.clone(), dst);
        RowsA { data: dst, step: PACKED_A_PITCH }
    }

    /// What follows the sums of a tile.
    pub(super) fn run_epilogue(&self, d: &CpuDevice, tile: &mut OutputTile<'_, T>) {
        epilogue::apply_to_tile(d.isa(), self.epilogue, tile);
    }
}

/// Terms, chunk by chunk. They begin where a chunk begins.
pub(crate) fn k_chunks(terms: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    terms.clone().step_by(CHUNK).map(move |t| t..terms.end.min(t + CHUNK))
}
