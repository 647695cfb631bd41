//! Attention and its gradient: tiles of 64 queries against blocks of 64 keys.
//!
//! The definition (`NUMERICS.md`, "Attention") goes through the keys in blocks of 64, so a tile of scores is all that ever
//! stands in memory. Products of tiles are chains of fma in registers ([`crate::simd::tile`]); between them, every step of
//! the definition is a vector loop over a row of 64 scores.

mod backward;
mod forward;
mod scores;

pub(crate) use backward::{Results, attention_grad};
pub(crate) use forward::attention;

use crate::CpuDevice;
use crate::View;
use crate::along::float::Float;
use crate::along::stage::Stage;
use crate::memory::{Scratch, filled, scratch};
use crate::parallel::try_pieces;
use crate::simd::tile::{COLUMNS, Tiled};
use elinvar_core::order::ATTENTION_BLOCK;
use elinvar_core::{Error, Result};
use elinvar_ops::backend::Attention;

/// Keys of a block, and queries of a tile: all queries of a tile visit the same keys.
pub(crate) const TILE: usize = ATTENTION_BLOCK;

/// f32 or f64, with all that attention needs.
pub(crate) trait Number: Float + Tiled {}
impl Number for f32 {}
impl Number for f64 {}

/// Sizes: batch, query heads, key heads, queries, keys, numbers in a query and key, numbers in a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    b: usize,
    h: usize,
    j: usize,
    l: usize,
    s: usize,
    d: usize,
    v: usize,
}

impl Sizes {
    fn new(q: &View<'_>, k: &View<'_>, v: &View<'_>) -> Self {
        let (q, k) = (q.shape(), k.shape());
        Sizes { b: q[0], h: q[1], j: k[1], l: q[2], s: k[2], d: q[3], v: v.shape()[3] }
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
        self.d.next_multiple_of(COLUMNS)
    }
    /// Numbers in a row of values, in whole vectors.
    fn wide_v(&self) -> usize {
        self.v.next_multiple_of(COLUMNS)
    }
    /// How many keys the queries of the tile from `i` on visit.
    fn visited(&self, a: &Attention, i: usize) -> usize {
        if a.causal { self.s.min((i / TILE + 1) * TILE) } else { self.s }
    }
    /// Nanoseconds for a product of a tile with a block, at a hundred thousand million fma a second.
    fn tile_ns(&self) -> f64 {
        (TILE * TILE * (self.d + self.v)) as f64 / 100.0
    }
}

/// Copies rows of `n` numbers into rows of `wide`; what is between stays.
fn widen<C: Copy>(x: &[C], n: usize, wide: usize, y: &mut [C]) {
    for (x, y) in x.chunks_exact(n).zip(y.chunks_exact_mut(wide)) {
        y[..n].copy_from_slice(x);
    }
}

/// Rows of heads [heads, rows, n] in whole vectors: [heads, rows, wide], filled with zeros.
fn rows_of<C: Number>(d: &CpuDevice, x: &Stage<'_, C>, [heads, rows, n]: [usize; 3]) -> Result<Scratch<C>> {
    let wide = n.next_multiple_of(COLUMNS);
    let mut y = scratch(heads * rows * wide, C::NOTHING)?;
    try_pieces(d, &mut y, TILE * wide, 0.5, |start, y| {
        let (first, count) = (start / wide, y.len() / wide);
        let mut buffer = filled(count * n, C::NOTHING)?;
        widen(x.block(first * n, count * n, count * n, &mut buffer), n, wide, y);
        Ok::<(), Error>(())
    })?;
    Ok(y)
}

/// Blocks of keys, turned: [heads, blocks, n, TILE] from [heads, rows, n]; rows that do not exist are zeros.
fn turned<C: Number>(d: &CpuDevice, x: &Stage<'_, C>, [heads, rows, n]: [usize; 3]) -> Result<Scratch<C>> {
    let blocks = rows.div_ceil(TILE);
    let mut y = scratch(heads * blocks * n * TILE, C::NOTHING)?;
    try_pieces(d, &mut y, n * TILE, 1.0, |start, y| {
        let (head, block) = (start / (n * TILE) / blocks, start / (n * TILE) % blocks);
        let count = TILE.min(rows - block * TILE);
        let mut buffer = filled(count * n, C::NOTHING)?;
        let x = x.block((head * rows + block * TILE) * n, count * n, count * n, &mut buffer);
        for (e, y) in y.chunks_exact_mut(TILE).enumerate() {
            for (y, x) in y.iter_mut().zip(x.chunks_exact(n)) {
                *y = x[e];
            }
        }
        Ok::<(), Error>(())
    })?;
    Ok(y)
}
