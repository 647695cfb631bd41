//! Queries, keys and values as rows of heads: in place, or copied to whole vectors.

use super::tile_kernel::COLUMN_MULTIPLE;
use crate::CpuDevice;
use crate::reduce::float::Float;
use crate::reduce::source::StagedView;
use crate::runtime::memory::{PooledVec, filled};
use crate::runtime::output::parallel_fill::fill_pieces;
use crate::view::View;
use elinvar_core::order::ATTENTION_BLOCK;
use elinvar_core::{HostVec, Result};
use elinvar_ops::backend::Attention;
use elinvar_simd::isa::Isa;

/// Keys of a block, and queries of a tile: all queries of a tile visit the same keys.
pub(super) const TILE: usize = ATTENTION_BLOCK;

/// Sizes: batch, query heads, key heads, queries, keys, numbers in a query and key, numbers in a
/// value.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttentionSizes {
    pub(super) b: usize,
    pub(super) h: usize,
    pub(super) j: usize,
    pub(super) l: usize,
    pub(super) s: usize,
    pub(super) d: usize,
    pub(super) v: usize,
}

impl AttentionSizes {
    pub(super) fn new(q: &View<'_>, k: &View<'_>, v: &View<'_>) -> Self {
        let (q, k) = (q.shape(), k.shape());
        AttentionSizes { b: q[0], h: q[1], j: k[1], l: q[2], s: k[2], d: q[3], v: v.shape()[3] }
    }
    /// Is there nothing to multiply?
    pub(super) fn empty(&self) -> bool {
        [self.b, self.h, self.j, self.l, self.s, self.d, self.v].contains(&0)
    }
    /// Query heads per key head.
    pub(super) fn group(&self) -> usize {
        self.h / self.j
    }
    /// Numbers in a row of queries and keys, in whole vectors.
    pub(super) fn wide_d(&self) -> usize {
        self.d.next_multiple_of(COLUMN_MULTIPLE)
    }
    /// Numbers in a row of values, in whole vectors.
    pub(super) fn wide_v(&self) -> usize {
        self.v.next_multiple_of(COLUMN_MULTIPLE)
    }
    /// How many keys the queries of the tile from `i` on visit.
    pub(super) fn visited(&self, a: &Attention, i: usize) -> usize {
        if a.causal { self.s.min((i / TILE + 1) * TILE) } else { self.s }
    }
}

/// Copies rows of `n` numbers into rows of `wide`; what is between stays.
pub(super) fn widen<C: Copy>(x: &[C], n: usize, wide: usize, y: &mut [C]) {
    for (x, y) in x.chunks_exact(n).zip(y.chunks_exact_mut(wide)) {
        y[..n].copy_from_slice(x);
    }
}

/// Heads of rows of numbers, counted through the batch.
pub(super) struct HeadRows<'a, C> {
    pub(super) x: StagedView<'a, C>,
    /// Rows of a head.
    pub(super) rows: usize,
    /// Numbers of a row.
    pub(super) n: usize,
    /// Are rows read in place?
    pub(super) in_place: bool,
    pub(super) isa: Isa,
}

impl<'a, C: Float> HeadRows<'a, C> {
    /// # Errors
    /// As for [`StagedView::new`].
    pub(super) fn new(isa: Isa, what: &str, x: &View<'a>) -> Result<Self> {
        let (rows, n) = (x.shape()[2], x.shape()[3]);
        let x = StagedView::new(what, x)?;
        let in_place = x.has_rows_in_place(rows, n);
        Ok(HeadRows { x, rows, n, in_place, isa })
    }
    /// How far apart rows are that are read in place.
    pub(super) fn row_stride(&self) -> Option<usize> {
        self.in_place.then(|| self.x.rows(0, self.rows, self.n).1)
    }
    /// `count` rows of a head from row `first` on, counted through all heads, and how far apart
    /// they are: where they are, or in the buffer.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn rows<'b>(
        &self,
        first: usize,
        count: usize,
        buffer: &'b mut HostVec<C>,
    ) -> Result<(&'b [C], usize)>
    where
        'a: 'b,
    {
        let (start, len) = (first * self.n, count * self.n);
        let there = self.are_in_place(first, count) || self.x.is_in_place(start, len);
        *buffer = filled(if there { 0 } else { len }, C::POSITIVE_ZERO)?;
        Ok(self.rows_in(first, count, buffer))
    }
    /// The same, with a buffer that is large enough.
    pub(super) fn rows_in<'b>(&self, first: usize, count: usize, buffer: &'b mut [C]) -> (&'b [C], usize)
    where
        'a: 'b,
    {
        let (start, len) = (first * self.n, count * self.n);
        if self.are_in_place(first, count) {
            return self.x.rows(start, self.rows, self.n);
        }
        (self.x.block(self.isa, start, len, len, buffer), self.n)
    }
    /// Are these rows read in place, equally far apart? Those of several heads may not be.
    pub(super) fn are_in_place(&self, first: usize, count: usize) -> bool {
        self.in_place && first % self.rows + count <= self.rows
    }
}

/// Rows of heads in whole vectors, which products of tiles read again and again.
pub(super) enum PaddedRows<'a, C: Float> {
    /// Where they are.
    InPlace(HeadRows<'a, C>),
    /// Copied, one after the other, each with zeros behind it; how far apart they are.
    Copied(PooledVec<C>, usize),
}

impl<'a, C: Float> PaddedRows<'a, C> {
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn new(d: &CpuDevice, heads: HeadRows<'a, C>, count: usize, copy: bool) -> Result<Self> {
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
    pub(super) fn from(&self, row: usize) -> (&[C], usize) {
        match self {
            PaddedRows::InPlace(heads) => heads.x.rows(row * heads.n, heads.rows, heads.n),
            PaddedRows::Copied(x, wide) => (&x[row * wide..], *wide),
        }
    }
}
