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
use crate::gemm::{Real, turn};
use crate::memory::{Scratch, filled};
use crate::simd::room::fresh_pieces;
use crate::simd::tile::{COLUMNS, Tiled};
use elinvar_core::Result;
use elinvar_core::order::ATTENTION_BLOCK;
use elinvar_ops::backend::Attention;
use std::ops::Deref;

/// Keys of a block, and queries of a tile: all queries of a tile visit the same keys.
pub(crate) const TILE: usize = ATTENTION_BLOCK;

/// f32 or f64, with all that attention needs.
pub(crate) trait Number: Float + Tiled + Real {}
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

/// Numbers that lie in memory as they are wanted, or a copy of them.
enum Rows<'a, C: Number> {
    There(&'a [C]),
    Copied(Scratch<C>),
}

impl<C: Number> Deref for Rows<'_, C> {
    type Target = [C];
    fn deref(&self) -> &[C] {
        match self {
            Rows::There(x) => x,
            Rows::Copied(x) => x,
        }
    }
}

/// Rows of heads [heads, rows, n] in whole vectors: [heads, rows, wide], filled with zeros.
fn rows_of<'a, C: Number>(
    d: &CpuDevice,
    x: &Stage<'a, C>,
    [heads, rows, n]: [usize; 3],
) -> Result<Rows<'a, C>> {
    let wide = n.next_multiple_of(COLUMNS);
    let all = heads * rows * n;
    if wide == n
        && let Some(x) = x.padded(0, all, all)
    {
        return Ok(Rows::There(x));
    }
    let y = fresh_pieces(d, heads * rows * wide, TILE * wide, 0.5, &|start, room| {
        let (first, count) = (start / wide, room.left() / wide);
        let y = room.zeroed(count * wide, C::NOTHING);
        if wide == n {
            x.read(first * n, y);
            return Ok(());
        }
        let mut buffer = room_for(x, first * n, count * n)?;
        widen(x.block(first * n, count * n, count * n, &mut buffer), n, wide, y);
        Ok(())
    })?;
    Ok(Rows::Copied(Scratch::of(y)))
}

/// A buffer for a block of so many numbers, if it needs one.
fn room_for<C: Number>(x: &Stage<'_, C>, start: usize, n: usize) -> Result<Vec<C>> {
    filled(if x.lies(start, n) { 0 } else { n }, C::NOTHING)
}

/// Blocks of keys, turned: [heads, blocks, n, TILE] from [heads, rows, n]; rows that do not exist are zeros.
fn turned<C: Number>(d: &CpuDevice, x: &Stage<'_, C>, [heads, rows, n]: [usize; 3]) -> Result<Scratch<C>> {
    let blocks = rows.div_ceil(TILE);
    let y = fresh_pieces(d, heads * blocks * n * TILE, n * TILE, 0.3, &|start, room| {
        let (head, block) = (start / (n * TILE) / blocks, start / (n * TILE) % blocks);
        let (first, count) = ((head * rows + block * TILE) * n, TILE.min(rows - block * TILE));
        let mut buffer = room_for(x, first, count * n)?;
        let x = x.block(first, count * n, count * n, &mut buffer);
        turn(d.isa(), x, 0, n as isize, n, count, room.zeroed(n * TILE, C::NOTHING), TILE);
        Ok(())
    })?;
    Ok(Scratch::of(y))
}
