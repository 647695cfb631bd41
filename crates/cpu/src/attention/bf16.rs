//! Attention of bf16 on processors that multiply pairs of them: `Precision::Fast`.
//!
//! Two terms become a pair in the bits of an f32, and from there on a pair is a term, as in
//! [`crate::gemm`]: of a score the elements `i` and `i + d / 2` of query and key, of a result the
//! keys `j` and `j + 32` of a block, of a gradient by keys or values the queries `i` and `i + 32`
//! of a tile. So contiguous halves are paired, and no element moves relative to its neighbours.
//! Weights and the gradients of scores are rounded to bf16; all else is as in the exact path.
//!
//! How it can be wrong: at a term without a partner, of an odd count or a last block. It is paired
//! with +0 on both sides.

use super::rows::{HeadRows, PaddedRows, TILE};
use super::tile_kernel::{self, StridedMatrix};
use crate::CpuDevice;
use crate::elementwise::convert::nearest_bf16;
use crate::gemm::{NextOperands, PanelsB, RowsA, Units, bf16_pair, multiply_block_into, nr, transpose_block};
use crate::reduce::float::Float;
use crate::runtime::memory::{PooledVec, filled};
use crate::runtime::output::parallel_fill::fill_pieces;
use elinvar_core::order::CHUNK;
use elinvar_core::{HostVec, Result};
use elinvar_simd::isa::{Isa, IsaTargets, Kernel, dispatch};

/// Pairs of a block of keys.
const PAIRS_PER_BLOCK: usize = TILE / 2;

/// [`tile_kernel::tile_product`], by whatever registers multiply what there is. AMX
/// adds up to 512 pairs in an order of its own before they meet `c`; it loads rows of `a`, and as
/// many columns of `b` as a panel has.
///
/// # Panics
/// As there, and if a row of `b` is shorter than whole panels.
pub(super) fn tile_product<C: Float>(
    isa: Isa,
    units: Units,
    [m, n, k]: [usize; 3],
    a: StridedMatrix<'_, C>,
    (b, b_row): (&[C], usize),
    (c, c_row): (&mut [C], usize),
    fresh: bool,
) {
    let kind = units.terms();
    if const { !C::WIDENS_F16 } || units != Units::Amx {
        return tile_kernel::tile_product(isa, kind, [m, n, k], a, (b, b_row), (c, c_row), fresh);
    }
    assert!(a.column == 1, "rows are loaded");
    let left = RowsA { data: a.data, step: a.row };
    let right = PanelsB { data: b, step: b_row, across: nr::<C>(isa), kind, after: NextOperands::NONE };
    multiply_block_into(isa, left, right, (m, n, k), (c, c_row), fresh);
}

/// The contraction of a and b in the canonical order: chunks of [`CHUNK`] terms. `spare` is as
/// large as `c`.
pub(super) fn contract<C: Float>(
    isa: Isa,
    units: Units,
    [m, n, k]: [usize; 3],
    a: StridedMatrix<'_, C>,
    b: (&[C], usize),
    (c, c_row): (&mut [C], usize),
    spare: &mut [C],
) {
    tile_product(isa, units, [m, n, k.min(CHUNK)], a, b, (&mut *c, c_row), true);
    for p in (CHUNK..k).step_by(CHUNK) {
        let a = StridedMatrix { data: &a.data[p * a.column..], ..a };
        let b = (&b.0[p * b.1..], b.1);
        tile_product(isa, units, [m, n, CHUNK.min(k - p)], a, b, (&mut *spare, c_row), true);
        for (c, &s) in c[..m * c_row].iter_mut().zip(&*spare) {
            *c = *c + s;
        }
    }
}

/// Pairs of numbers that are bf16. Where the second ones end, the first ones' partner is 0.
struct PairExact<'a, C> {
    first: &'a [C],
    second: &'a [C],
    to: &'a mut [C],
}

impl<C: Float> Kernel for PairExact<'_, C> {
    type Out = ();
    const TARGETS: IsaTargets = IsaTargets::Avx512Bf16;
    #[inline(always)]
    fn run(self) {
        let PairExact { first, second, to } = self;
        let (both, alone) = to[..first.len()].split_at_mut(second.len());
        for ((to, &first), &second) in both.iter_mut().zip(first).zip(second) {
            *to = bf16_pair(first, second);
        }
        for (to, &first) in alone.iter_mut().zip(&first[second.len()..]) {
            *to = bf16_pair(first, C::POSITIVE_ZERO);
        }
    }
}

/// Pairs of numbers that are rounded.
#[inline(always)]
fn rounded<C: Float>(first: &[C], second: &[C], to: &mut [C]) {
    for ((to, &first), &second) in to.iter_mut().zip(first).zip(second) {
        *to = bf16_pair(nearest_bf16(first), nearest_bf16(second));
    }
}

/// Numbers of queries and [`TILE`] keys as pairs of keys: a row of [`PAIRS_PER_BLOCK`] for each
/// query.
struct PairKeys<'a, C> {
    tile: &'a [[C; TILE]],
    to: &'a mut [C],
}

impl<C: Float> Kernel for PairKeys<'_, C> {
    type Out = ();
    const TARGETS: IsaTargets = IsaTargets::Avx512Bf16;
    #[inline(always)]
    fn run(self) {
        for (p, to) in self.tile.iter().zip(self.to.as_chunks_mut::<PAIRS_PER_BLOCK>().0) {
            let (first, second) = p.split_at(PAIRS_PER_BLOCK);
            rounded(first, second, to);
        }
    }
}

/// The same numbers as pairs of queries: a row of [`TILE`] for each of those.
struct PairQueries<'a, C> {
    tile: &'a [[C; TILE]],
    to: &'a mut [C],
}

impl<C: Float> Kernel for PairQueries<'_, C> {
    type Out = ();
    const TARGETS: IsaTargets = IsaTargets::Avx512Bf16;
    #[inline(always)]
    fn run(self) {
        let (first, second) = self.tile.split_at(self.tile.len().min(PAIRS_PER_BLOCK));
        let none = [C::POSITIVE_ZERO; TILE];
        for (i, (first, to)) in first.iter().zip(self.to.as_chunks_mut::<TILE>().0).enumerate() {
            rounded(first, second.get(i).unwrap_or(&none), to);
        }
    }
}

/// Rows of `n` numbers, `row_stride`, as rows of pairs one after the other.
fn rows<C: Float>(isa: Isa, (x, row_stride): (&[C], usize), count: usize, n: usize) -> Result<HostVec<C>> {
    let half = n.div_ceil(2);
    let mut pairs = filled(count * half, C::POSITIVE_ZERO)?;
    for (i, to) in pairs.chunks_exact_mut(half).enumerate() {
        let (first, second) = x[i * row_stride..][..n].split_at(half);
        dispatch(isa, PairExact { first, second, to });
    }
    Ok(pairs)
}

/// Rows of what is multiplied: where they are, or in memory of their own; and how far apart they
/// are.
pub(super) enum PairedRows<'a, C> {
    InPlace(&'a [C], usize),
    Paired(HostVec<C>, usize),
}

impl<'a, C: Float> PairedRows<'a, C> {
    /// `count` rows of `n` numbers, so far apart.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn new(
        units: Units,
        isa: Isa,
        (x, row_stride): (&'a [C], usize),
        count: usize,
        n: usize,
    ) -> Result<Self> {
        Ok(match units {
            Units::Fma => PairedRows::InPlace(x, row_stride),
            Units::Bf16Pairs | Units::Amx => {
                PairedRows::Paired(rows(isa, (x, row_stride), count, n)?, units.terms().terms(n))
            }
        })
    }
    pub(super) fn strided(&self) -> StridedMatrix<'_, C> {
        let (data, row) = match self {
            PairedRows::InPlace(data, row) => (*data, *row),
            PairedRows::Paired(data, row) => (&data[..], *row),
        };
        StridedMatrix { data, row, column: 1 }
    }
}

/// Room for a tile of pairs, if pairs are multiplied.
pub(super) struct PairScratch<C> {
    units: Units,
    dst: HostVec<C>,
    /// For a tile that was turned as well, where rows are loaded.
    rows: HostVec<C>,
}

impl<C: Float> PairScratch<C> {
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn new(units: Units) -> Result<Self> {
        let len = if units == Units::Fma { 0 } else { TILE * PAIRS_PER_BLOCK };
        let rows = filled(if units == Units::Amx { len } else { 0 }, C::POSITIVE_ZERO)?;
        Ok(PairScratch { units, dst: filled(len, C::POSITIVE_ZERO)?, rows })
    }
    /// A tile of queries and keys as a factor whose terms are the first `count` keys, and how many
    /// terms these are.
    pub(super) fn of_keys<'b>(
        &'b mut self,
        isa: Isa,
        tile: &'b [[C; TILE]],
        count: usize,
    ) -> (StridedMatrix<'b, C>, usize) {
        match self.units {
            Units::Fma => (StridedMatrix { data: tile.as_flattened(), row: TILE, column: 1 }, count),
            Units::Bf16Pairs | Units::Amx => {
                dispatch(isa, PairKeys { tile, to: &mut self.dst });
                (
                    StridedMatrix { data: &self.dst, row: PAIRS_PER_BLOCK, column: 1 },
                    count.min(PAIRS_PER_BLOCK),
                )
            }
        }
    }
    /// The same tile, turned: a factor whose terms are the queries.
    pub(super) fn of_queries<'b>(
        &'b mut self,
        isa: Isa,
        tile: &'b [[C; TILE]],
    ) -> (StridedMatrix<'b, C>, usize) {
        match self.units {
            Units::Fma => (StridedMatrix { data: tile.as_flattened(), row: 1, column: TILE }, tile.len()),
            Units::Bf16Pairs | Units::Amx => {
                dispatch(isa, PairQueries { tile, to: &mut self.dst });
                let terms = tile.len().min(PAIRS_PER_BLOCK);
                if self.rows.is_empty() {
                    return (StridedMatrix { data: &self.dst, row: 1, column: TILE }, terms);
                }
                transpose_block(
                    isa,
                    &self.dst,
                    0,
                    TILE as isize,
                    TILE,
                    terms,
                    &mut self.rows,
                    PAIRS_PER_BLOCK,
                );
                (StridedMatrix { data: &self.rows, row: PAIRS_PER_BLOCK, column: 1 }, terms)
            }
        }
    }
}

/// Blocks of keys, turned: [heads, blocks, n / 2, TILE] from [heads, rows, n]; rows that do not
/// exist are zeros.
pub(super) fn transposed_keys<C: Float>(
    d: &CpuDevice,
    x: &HeadRows<'_, C>,
    heads: usize,
) -> Result<PooledVec<C>> {
    let (all, n) = (x.rows, x.n);
    let (blocks, half) = (all.div_ceil(TILE), n.div_ceil(2));
    let y = fill_pieces(d, heads * blocks * half * TILE, half * TILE, 0.3, &|start, dst| {
        let (head, block) = (start / (half * TILE) / blocks, start / (half * TILE) % blocks);
        let count = TILE.min(all - block * TILE);
        let mut buffer = HostVec::new();
        let keys = rows(d.isa(), x.rows(head * all + block * TILE, count, &mut buffer)?, count, n)?;
        transpose_block(
            d.isa(),
            &keys,
            0,
            half as isize,
            half,
            count,
            dst.zeroed(half * TILE, C::POSITIVE_ZERO),
            TILE,
        );
        Ok(())
    })?;
    Ok(PooledVec::of(y))
}

/// Rows as the terms of products: blocks of them, as rows of pairs.
pub(super) struct PairedBlocks<C: Float> {
    /// [heads, blocks, PAIRS, wide]; rows that do not exist, and what fills up the last panel, are
    /// zeros.
    pairs: PooledVec<C>,
    /// Blocks of a head.
    blocks: usize,
    wide: usize,
}

impl<C: Float> PairedBlocks<C> {
    /// Of rows in whole vectors, `wide` numbers each, of which a head has `all`.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn new(
        d: &CpuDevice,
        units: Units,
        x: &PaddedRows<'_, C>,
        [heads, all, wide]: [usize; 3],
    ) -> Result<Self> {
        let (blocks, own) = (all.div_ceil(TILE), wide);
        let wide = if units == Units::Amx { wide.next_multiple_of(nr::<C>(d.isa())) } else { wide };
        let pairs = fill_pieces(
            d,
            heads * blocks * PAIRS_PER_BLOCK * wide,
            PAIRS_PER_BLOCK * wide,
            0.5,
            &|start, dst| {
                let (head, block) =
                    (start / (PAIRS_PER_BLOCK * wide) / blocks, start / (PAIRS_PER_BLOCK * wide) % blocks);
                let count = TILE.min(all - block * TILE);
                let (x, row_stride) = x.from(head * all + block * TILE);
                let y = dst.zeroed(PAIRS_PER_BLOCK * wide, C::POSITIVE_ZERO);
                for (j, to) in y.chunks_exact_mut(wide).enumerate().take(count) {
                    let row = |j: usize| if j < count { &x[j * row_stride..][..own] } else { &[] };
                    dispatch(d.isa(), PairExact { first: row(j), second: row(j + PAIRS_PER_BLOCK), to });
                }
                Ok(())
            },
        )?;
        Ok(PairedBlocks { pairs: PooledVec::of(pairs), blocks, wide })
    }
    /// The terms from row `first` of a head on, with which a block begins, and how far apart they
    /// are.
    pub(super) fn block(&self, head: usize, first: usize) -> (&[C], usize) {
        let block = head * self.blocks + first / TILE;
        (&self.pairs[block * PAIRS_PER_BLOCK * self.wide..], self.wide)
    }
}
