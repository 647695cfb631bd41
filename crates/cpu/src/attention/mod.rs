//! Attention and its gradient, FlashAttention style: tiles of 64 queries against blocks of 64 keys,
//! with online softmax.
//!
//! The definition (numerics, "Attention") visits the keys in blocks of 64, so a tile of scores is
//! all that is ever in memory. Products of tiles are fma chains in registers ([`tile_kernel`]);
//! between them, every step of the definition is a vector loop over a row of 64 scores.

mod backward;
mod bf16;
mod few_queries;
mod forward;
mod plan;
mod scores;
mod tile_kernel;

pub(crate) use backward::{GradInputs, attention_grad};
pub(crate) use forward::attention;

use crate::CpuDevice;
use crate::gemm::{Real, Units, transpose_block};
use crate::reduce::float::Float;
use crate::reduce::source::StagedView;
use crate::runtime::memory::{PooledVec, filled};
use crate::runtime::output::parallel_fill::fill_pieces;
use crate::view::View;
use bf16::PairedBlocks;
use elinvar_core::order::ATTENTION_BLOCK;
use elinvar_core::{HostVec, Result};
use elinvar_ops::backend::Attention;
use elinvar_simd::isa::Isa;
use tile_kernel::{COLUMN_MULTIPLE, TileElement};

/// Keys of a block, and queries of a tile: all queries of a tile visit the same keys.
pub(crate) const TILE: usize = ATTENTION_BLOCK;

/// f32 or f64, with all that attention needs.
pub(crate) trait AttentionFloat: Float + TileElement + Real {}
impl AttentionFloat for f32 {}
impl AttentionFloat for f64 {}

/// Sizes: batch, query heads, key heads, queries, keys, numbers in a query and key, numbers in a
/// value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionSizes {
    b: usize,
    h: usize,
    j: usize,
    l: usize,
    s: usize,
    d: usize,
    v: usize,
}

impl AttentionSizes {
    fn new(q: &View<'_>, k: &View<'_>, v: &View<'_>) -> Self {
        let (q, k) = (q.shape(), k.shape());
        AttentionSizes { b: q[0], h: q[1], j: k[1], l: q[2], s: k[2], d: q[3], v: v.shape()[3] }
    }
    /// Is there nothing to multiply?
    fn empty(&self) -> bool {
        [self.b, self.h, self.j, self.l, self.s, self.d, self.v].contains(&0)
    }
    /// Query heads per key head.
    fn group(&self) -> usize {
        self.h / self.j
    }
    /// Numbers in a row of queries and keys, in whole vectors.
    fn wide_d(&self) -> usize {
        self.d.next_multiple_of(COLUMN_MULTIPLE)
    }
    /// Numbers in a row of values, in whole vectors.
    fn wide_v(&self) -> usize {
        self.v.next_multiple_of(COLUMN_MULTIPLE)
    }
    /// How many keys the queries of the tile from `i` on visit.
    fn visited(&self, a: &Attention, i: usize) -> usize {
        if a.causal { self.s.min((i / TILE + 1) * TILE) } else { self.s }
    }
}

/// Copies rows of `n` numbers into rows of `wide`; what is between stays.
fn widen<C: Copy>(x: &[C], n: usize, wide: usize, y: &mut [C]) {
    for (x, y) in x.chunks_exact(n).zip(y.chunks_exact_mut(wide)) {
        y[..n].copy_from_slice(x);
    }
}

/// Heads of rows of numbers, counted through the batch.
struct HeadRows<'a, C> {
    x: StagedView<'a, C>,
    /// Rows of a head.
    rows: usize,
    /// Numbers of a row.
    n: usize,
    /// Are rows read where they lie?
    in_place: bool,
    isa: Isa,
}

impl<'a, C: AttentionFloat> HeadRows<'a, C> {
    /// # Errors
    /// As for [`StagedView::new`].
    fn new(isa: Isa, what: &str, x: &View<'a>) -> Result<Self> {
        let (rows, n) = (x.shape()[2], x.shape()[3]);
        let x = StagedView::new(what, x)?;
        let in_place = x.has_rows_in_place(rows, n);
        Ok(HeadRows { x, rows, n, in_place, isa })
    }
    /// How far apart rows are that are read where they lie.
    fn row_stride(&self) -> Option<usize> {
        self.in_place.then(|| self.x.rows(0, self.rows, self.n).1)
    }
    /// `count` rows of a head from row `first` on, counted through all heads, and how far apart
    /// they are: where they lie, or in the buffer.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn rows<'b>(&self, first: usize, count: usize, buffer: &'b mut HostVec<C>) -> Result<(&'b [C], usize)>
    where
        'a: 'b,
    {
        let (start, len) = (first * self.n, count * self.n);
        let there = self.are_in_place(first, count) || self.x.is_in_place(start, len);
        *buffer = filled(if there { 0 } else { len }, C::POSITIVE_ZERO)?;
        Ok(self.rows_in(first, count, buffer))
    }
    /// The same, with a buffer that is large enough.
    fn rows_in<'b>(&self, first: usize, count: usize, buffer: &'b mut [C]) -> (&'b [C], usize)
    where
        'a: 'b,
    {
        let (start, len) = (first * self.n, count * self.n);
        if self.are_in_place(first, count) {
            return self.x.rows(start, self.rows, self.n);
        }
        (self.x.block(self.isa, start, len, len, buffer), self.n)
    }
    /// Are these rows read where they lie, equally far apart? Those of several heads may not be.
    fn are_in_place(&self, first: usize, count: usize) -> bool {
        self.in_place && first % self.rows + count <= self.rows
    }
}

/// Rows of heads in whole vectors, which products of tiles read again and again.
enum PaddedRows<'a, C: AttentionFloat> {
    /// Where they lie.
    InPlace(HeadRows<'a, C>),
    /// Copied, one after the other, each with zeros behind it; how far apart they are.
    Copied(PooledVec<C>, usize),
}

impl<'a, C: AttentionFloat> PaddedRows<'a, C> {
    /// # Errors
    /// `OutOfMemory`.
    fn new(d: &CpuDevice, heads: HeadRows<'a, C>, count: usize, copy: bool) -> Result<Self> {
        if !copy {
            return Ok(PaddedRows::InPlace(heads));
        }
        let (rows, n) = (heads.rows, heads.n);
        let wide = n.next_multiple_of(COLUMN_MULTIPLE);
        let x = &heads.x;
        let y = fill_pieces(d, count * rows * wide, TILE * wide, 0.5, &|start, dst| {
            let (first, count) = (start / wide, dst.remaining() / wide);
            let y = dst.zeroed(count * wide, C::POSITIVE_ZERO);
            if wide == n {
                x.read(d.isa(), first * n, y);
                return Ok(());
            }
            let mut buffer =
                filled(if x.is_in_place(first * n, count * n) { 0 } else { count * n }, C::POSITIVE_ZERO)?;
            widen(x.block(d.isa(), first * n, count * n, count * n, &mut buffer), n, wide, y);
            Ok(())
        })?;
        Ok(PaddedRows::Copied(PooledVec::of(y), wide))
    }
    /// The rows from one on, counted through all heads, and how far apart those of its head are.
    fn from(&self, row: usize) -> (&[C], usize) {
        match self {
            PaddedRows::InPlace(heads) => heads.x.rows(row * heads.n, heads.rows, heads.n),
            PaddedRows::Copied(x, wide) => (&x[row * wide..], *wide),
        }
    }
}

/// Rows that are the terms of products, as what is multiplied.
enum TermBlocks<'a, C: AttentionFloat> {
    /// Where they are read anyway, and how many rows a head has.
    Numbers(PaddedRows<'a, C>, usize),
    Pairs(PairedBlocks<C>),
}

impl<'a, C: AttentionFloat> TermBlocks<'a, C> {
    /// # Errors
    /// `OutOfMemory`.
    fn new(d: &CpuDevice, units: Units, x: HeadRows<'a, C>, heads: usize, copy: bool) -> Result<Self> {
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
    fn block(&self, head: usize, first: usize) -> (&[C], usize) {
        match self {
            TermBlocks::Numbers(numbers, rows) => numbers.from(head * rows + first),
            TermBlocks::Pairs(pairs) => pairs.block(head, first),
        }
    }
}

/// Blocks of keys, turned: [heads, blocks, n, TILE] from [heads, rows, n]; rows that do not exist
/// are zeros.
fn transposed_keys<C: AttentionFloat>(
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
