//! Keys and values as the terms of products: blocks of numbers, or of pairs of bf16.

use super::bf16::PairedBlocks;
use super::rows::{HeadRows, PaddedRows, TILE};
use super::tile_kernel::COLUMN_MULTIPLE;
use crate::CpuDevice;
use crate::gemm::{Units, transpose_block};
use crate::reduce::float::Float;
use crate::runtime::memory::PooledVec;
use crate::runtime::output::parallel_fill::fill_pieces;
use elinvar_core::{HostVec, Result};

/// Rows that are the terms of products, as what is multiplied.
pub(super) enum TermBlocks<'a, C: Float> {
    /// Where they are read anyway, and how many rows a head has.
    Numbers(PaddedRows<'a, C>, usize),
    Pairs(PairedBlocks<C>),
}

impl<'a, C: Float> TermBlocks<'a, C> {
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn new(
        d: &CpuDevice,
        units: Units,
        x: HeadRows<'a, C>,
        heads: usize,
        copy: bool,
    ) -> Result<Self> {
        let (rows, wide) = (x.rows, x.n.next_multiple_of(COLUMN_MULTIPLE));
        let numbers = PaddedRows::new(d, x, heads, copy)?;
        Ok(match units {
            Units::Fma => TermBlocks::Numbers(numbers, rows),
            Units::Bf16Pairs | Units::Amx => {
                TermBlocks::Pairs(PairedBlocks::new(d, units, &numbers, [heads, rows, wide])?)
            }
        })
    }
    /// The terms from row `first` of a head on, with which a block begins, and how far apart they
    /// are.
    pub(super) fn block(&self, head: usize, first: usize) -> (&[C], usize) {
        match self {
            TermBlocks::Numbers(numbers, rows) => numbers.from(head * rows + first),
            TermBlocks::Pairs(pairs) => pairs.block(head, first),
        }
    }
}

/// Blocks of keys, turned: [heads, blocks, n, TILE] from [heads, rows, n]; rows that do not exist
/// are zeros.
pub(super) fn transposed_keys<C: Float>(
    d: &CpuDevice,
    x: &HeadRows<'_, C>,
    heads: usize,
) -> Result<PooledVec<C>> {
    let (rows, n) = (x.rows, x.n);
    let blocks = rows.div_ceil(TILE);
    let y = fill_pieces(d, heads * blocks * n * TILE, n * TILE, 0.3, &|start, dst| {
        let (head, block) = (start / (n * TILE) / blocks, start / (n * TILE) % blocks);
        let (first, count) = (head * rows + block * TILE, TILE.min(rows - block * TILE));
        let mut buffer = HostVec::new();
        let (x, row_stride) = x.rows(first, count, &mut buffer)?;
        transpose_block(
            d.isa(),
            x,
            0,
            row_stride as isize,
            n,
            count,
            dst.zeroed(n * TILE, C::POSITIVE_ZERO),
            TILE,
        );
        Ok(())
    })?;
    Ok(PooledVec::of(y))
}
