//! The forward: one tile of queries walks over the blocks of keys.

use super::scores::{Mask, Masking, Row, Running, Weigh};
use super::{Number, Sizes, TILE, rows_of, turned};
use crate::CpuDevice;
use crate::View;
use crate::along::float::{Float, each_float};
use crate::along::stage::Stage;
use crate::isa::{Isa, Kernel, dispatch};
use crate::memory::{Scratch, filled};
use crate::parallel::try_pieces;
use crate::simd::tile::Strided;
use elinvar_core::host;
use elinvar_core::order::CHUNK;
use elinvar_core::{HostData, Result};
use elinvar_ops::backend::{Attention, Backend};
use elinvar_reference::{Reference, ReferenceDevice};

/// o[b, h, l, v] and lse[b, h, l].
pub(crate) fn attention(
    d: &CpuDevice,
    a: &Attention,
    q: View<'_>,
    k: View<'_>,
    v: View<'_>,
    mask: Option<View<'_>>,
) -> Result<(HostData, HostData)> {
    if Sizes::new(&q, &k, &v).empty() {
        let to = crate::to;
        return Reference::attention(&ReferenceDevice, a, to(q), to(k), to(v), mask.map(to));
    }
    let dtype = q.buffer.dtype();
    each_float!("attention", dtype, C => {
        let (y, lse) = forward::<C>(d, a, &q, &k, &v, mask.as_ref())?;
        Ok((C::stored(y, dtype)?, C::stored(lse, dtype.compute())?))
    })
}

/// A tile of queries and room for its results.
struct Item<'a, C> {
    /// The head, counted through the batch.
    head: usize,
    /// The first query.
    query: usize,
    y: &'a mut [C],
    lse: &'a mut [C],
}

fn forward<C: Number>(
    d: &CpuDevice,
    a: &Attention,
    q: &View<'_>,
    k: &View<'_>,
    v: &View<'_>,
    mask: Option<&View<'_>>,
) -> Result<(Vec<C>, Vec<C>)> {
    let z = Sizes::new(q, k, v);
    let q = Stage::new("attention", q)?;
    let keys = turned(d, &Stage::<C>::new("attention", k)?, [z.b * z.j, z.s, z.d])?;
    let values = rows_of(d, &Stage::<C>::new("attention", v)?, [z.b * z.j, z.s, z.v])?;
    let tiles = Tiles { isa: d.isa(), a, z, q, keys, values, mask: Mask::new(mask)? };
    let mut y = filled(z.b * z.h * z.l * z.v, C::NOTHING)?;
    let mut lse = filled(z.b * z.h * z.l, C::NOTHING)?;
    let mut items = host::with_capacity(z.b * z.h * z.l.div_ceil(TILE))?;
    let heads = y.chunks_mut(z.l * z.v).zip(lse.chunks_mut(z.l));
    for (head, (y, lse)) in heads.enumerate() {
        let all = y.chunks_mut(TILE * z.v).zip(lse.chunks_mut(TILE)).enumerate();
        items.extend(all.map(|(t, (y, lse))| Item { head, query: t * TILE, y, lse }));
    }
    let ns = z.tile_ns() * z.s.div_ceil(TILE) as f64;
    try_pieces(d, &mut items, 1, ns, |_, items| items.iter_mut().try_for_each(|item| tiles.run(item)))?;
    drop(items);
    Ok((y, lse))
}

struct Tiles<'a, C: Float> {
    isa: Isa,
    a: &'a Attention,
    z: Sizes,
    q: Stage<'a, C>,
    /// [b, j, blocks, d, TILE]
    keys: Scratch<C>,
    /// [b, j, s, wide v]
    values: Scratch<C>,
    mask: Option<Mask<'a, C>>,
}

impl<C: Number> Tiles<'_, C> {
    fn run(&self, item: &mut Item<'_, C>) -> Result<()> {
        let (z, isa) = (&self.z, self.isa);
        let (rows, wide) = (item.lse.len(), z.wide_v());
        let kv = item.head / z.h * z.j + item.head % z.h / z.group();
        let blocks = z.s.div_ceil(TILE);
        let keys = &self.keys[kv * blocks * z.d * TILE..];
        let values = &self.values[kv * z.s * wide..];
        let first = item.head * z.l + item.query;
        let mut buffer = filled(rows * z.d, C::NOTHING)?;
        let q = self.q.block(first * z.d, rows * z.d, rows * z.d, &mut buffer);
        let mut tile = host::filled(rows, [C::NOTHING; TILE])?;
        let mut spare = filled(if z.d > CHUNK { rows * TILE } else { 0 }, C::NOTHING)?;
        let mut masked: Vec<Row<C>> =
            host::filled(if self.mask.is_some() { rows } else { 0 }, [C::NOTHING; TILE])?;
        let mut o = filled(rows * wide, C::NOTHING)?;
        let mut run = Running {
            m: [C::lit(f64::NEG_INFINITY); TILE],
            l: [C::NOTHING; TILE],
            alpha: [C::NOTHING; TILE],
        };
        let visited = z.visited(self.a, item.query);
        for key in (0..visited).step_by(TILE) {
            let count = TILE.min(visited - key);
            let left = Strided { data: q, row: z.d, column: 1 };
            let right = (&keys[key * z.d..], TILE);
            C::contract(isa, [rows, TILE, z.d], left, right, (tile.as_flattened_mut(), TILE), &mut spare);
            if let Some(mask) = &self.mask {
                mask.read(z, first, rows, key, count, &mut masked);
            }
            let masking = Masking {
                scale: C::lit(self.a.scale),
                mask: self.mask.as_ref().map(|m| (&masked[..], m.keep)),
                keys: count,
                diagonal: self.a.causal && key == item.query,
            };
            dispatch(isa, Weigh { masking, tile: &mut tile, run: &mut run });
            dispatch(isa, Shrink { o: &mut o, wide, by: &run.alpha });
            let left = Strided { data: tile.as_flattened(), row: TILE, column: 1 };
            C::chain(isa, [rows, wide, count], left, (&values[key * wide..], wide), (&mut o, wide), false);
        }
        for (i, o) in o.chunks_exact(wide).enumerate() {
            let divisor = if run.l[i] == C::NOTHING { C::lit(1.0) } else { run.l[i] };
            for (y, &o) in item.y[i * z.v..].iter_mut().zip(&o[..z.v]) {
                *y = o / divisor;
            }
            item.lse[i] = run.m[i] + run.l[i].log();
        }
        Ok(())
    }
}

/// Each row times its factor.
struct Shrink<'a, C> {
    o: &'a mut [C],
    wide: usize,
    by: &'a Row<C>,
}

impl<C: Number> Kernel for Shrink<'_, C> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for (o, &by) in self.o.chunks_exact_mut(self.wide).zip(self.by) {
            for o in o {
                *o = *o * by;
            }
        }
    }
}
