//! Attention of few queries (decoding): keys and values are streamed once, block by block.
//!
//! Several tiles of queries would share blocks of keys that are transposed and values that are
//! converted beforehand; for a single tile that would be another pass over all of them through
//! memory. Query heads that share a key head (grouped-query attention) are one tile here, so each
//! key is read once for all of them. The result of a query does not depend on the others in its
//! tile.

use super::rows::{HeadRows, TILE};
use crate::gemm::transpose_block;
use crate::reduce::float::Float;

/// Keys and values, read block by block.
pub(super) struct StreamedKeyValues<'a, C> {
    /// [b, j, s, d]
    k: HeadRows<'a, C>,
    /// [b, j, s, v]
    v: HeadRows<'a, C>,
}

impl<'a, C: Float> StreamedKeyValues<'a, C> {
    pub fn new(k: HeadRows<'a, C>, v: HeadRows<'a, C>) -> Self {
        StreamedKeyValues { k, v }
    }
    /// Numbers that a block of keys or of values takes: these turned, and where they are not read
    /// where they are, these copied.
    pub fn scratch_len(&self) -> usize {
        let copied = |x: &HeadRows<'_, C>| if x.in_place { 0 } else { TILE * x.n };
        TILE * self.k.n + copied(&self.k).max(copied(&self.v))
    }
    /// `count` keys from one on, counted through all heads, turned: [d, TILE]; keys that do not
    /// exist are zeros.
    pub fn keys<'b>(&self, first: usize, count: usize, dst: &'b mut [C]) -> &'b [C] {
        let (transposed, copied) = dst.split_at_mut(TILE * self.k.n);
        let (x, row_stride) = self.k.rows_in(first, count, copied);
        if count < TILE {
            transposed.fill(C::POSITIVE_ZERO);
        }
        transpose_block(self.k.isa, x, 0, row_stride as isize, self.k.n, count, transposed, TILE);
        transposed
    }
    /// `count` values from one on, and how far apart they are.
    pub fn values<'b>(&self, first: usize, count: usize, dst: &'b mut [C]) -> (&'b [C], usize)
    where
        'a: 'b,
    {
        let (_, copied) = dst.split_at_mut(TILE * self.k.n);
        self.v.rows_in(first, count, copied)
    }
}
