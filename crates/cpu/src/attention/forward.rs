//! Attention forward: a tile of queries visits the blocks of keys and values, with online softmax
//! statistics per row.

use super::bf16::{self, PairScratch, PairedRows};
use super::few_queries::StreamedKeyValues;
use super::plan::{self, AttentionProblem, KeysAndValues};
use super::rows::{AttentionSizes, HeadRows, TILE};
use super::scores::{MaskTile, OnlineSoftmax, ScoreMask, ScoreRow, SoftmaxStep};
use super::terms::{TermBlocks, transposed_keys};
use crate::CpuDevice;
use crate::gemm::Units;
use crate::machine::Machine;
use crate::reduce::float::{Float, each_float};
use crate::runtime::memory::PooledVec;
use crate::runtime::output::parallel_fill::fill_two;
use crate::runtime::scratch::scratch;
use crate::view::View;
use elinvar_core::explain::explain;
use elinvar_core::host;
use elinvar_core::order::CHUNK;
use elinvar_core::{DType, HostData, HostVec, Result};
use elinvar_ops::backend::{Attention, Compute};
use elinvar_ops::lane::Lane;
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_simd::dispatch::run_lanes_of_any_type;
use elinvar_simd::isa::{Isa, Kernel, dispatch};
use elinvar_simd::scalar_lane::ScalarLane;
use elinvar_simd::uninit::UninitSlice;

/// o[b, h, l, v] and lse[b, h, l].
pub(crate) fn attention(
    d: &CpuDevice,
    a: &Attention,
    q: View<'_>,
    k: View<'_>,
    v: View<'_>,
    mask: Option<View<'_>>,
) -> Result<(HostData, HostData)> {
    if AttentionSizes::new(&q, &k, &v).empty() {
        let to = crate::view::reference_view;
        return Reference::attention(&ReferenceDevice, a, to(q), to(k), to(v), mask.map(to));
    }
    let dtype = q.buffer.dtype();
    each_float!("attention", dtype, C => {
        let (y, lse) = forward::<C>(d, a, &q, &k, &v, mask.as_ref())?;
        Ok((C::stored(d, y, dtype)?, C::stored(d, lse, dtype.compute())?))
    })
}

fn forward<C: Float>(
    d: &CpuDevice,
    a: &Attention,
    q: &View<'_>,
    k: &View<'_>,
    v: &View<'_>,
    mask: Option<&View<'_>>,
) -> Result<(HostVec<C>, HostVec<C>)> {
    let z = AttentionSizes::new(q, k, v);
    let (what, kv_heads) = ("attention", z.b * z.j);
    let halves = [q, k, v].iter().all(|x| x.buffer.dtype() == DType::BF16);
    let (q, k, v) = (
        HeadRows::new(d.isa(), what, q)?,
        HeadRows::<C>::new(d.isa(), what, k)?,
        HeadRows::<C>::new(d.isa(), what, v)?,
    );
    let problem = AttentionProblem {
        sizes: z,
        bytes: size_of::<C>(),
        precision: a.precision,
        causal: a.causal,
        halves,
        q_rows: q.row_stride(),
        k_rows: k.row_stride(),
        v_rows: v.row_stride(),
        g_rows: None,
    };
    let machine = Machine::of(d);
    let plan = plan::forward(&problem, &machine);
    explain(|| format!("attention {} {} on {machine}: {plan}: {}", problem.shape(), C::DTYPE, plan.why()));
    let units = plan.units;
    let blocks = match plan.keys_and_values {
        KeysAndValues::Streamed => KeyValueSource::Streamed(StreamedKeyValues::new(k, v)),
        KeysAndValues::Kept { copies_values } => KeyValueSource::Kept {
            keys: match units {
                Units::Fma => transposed_keys(d, &k, kv_heads)?,
                Units::Bf16Pairs | Units::Amx => bf16::transposed_keys(d, &k, kv_heads)?,
            },
            values: TermBlocks::new(d, units, v, kv_heads, copies_values)?,
        },
    };
    let joined = plan.heads_per_tile;
    let tiles = ForwardTiles { isa: d.isa(), a, z, units, q, blocks, mask: MaskTile::new(mask)? };
    let down = z.l.div_ceil(TILE);
    let rows = |t: usize| joined * TILE.min(z.l - t % down * TILE);
    let sizes: Vec<_> = (0..plan.tiles).map(|t| [rows(t) * z.v, rows(t)]).collect();
    fill_two(d, &sizes, plan.ns, &|t, y, lse| tiles.run(t / down * joined, t % down * TILE, y, lse))
}

/// Where blocks of keys and values come from.
enum KeyValueSource<'a, C: Float> {
    /// They were made before: several tiles of queries visit each.
    Kept {
        /// [b, j, blocks, terms of d, TILE]
        keys: PooledVec<C>,
        /// [b, j, s, v]
        values: TermBlocks<'a, C>,
    },
    /// They are made when they are visited.
    Streamed(StreamedKeyValues<'a, C>),
}

struct ForwardTiles<'a, C: Float> {
    isa: Isa,
    a: &'a Attention,
    z: AttentionSizes,
    /// What is multiplied, and by what.
    units: Units,
    /// [b, h, l, d]
    q: HeadRows<'a, C>,
    blocks: KeyValueSource<'a, C>,
    mask: Option<MaskTile<'a, C>>,
}

/// Memory of a tile: scores, sums, room for a second chunk of scores, and for a block that passes.
struct TileScratch<'a, C> {
    tile: &'a mut [ScoreRow<C>],
    o: &'a mut [C],
    spare: &'a mut [C],
    streamed: &'a mut [C],
}

impl<C: Float> ForwardTiles<'_, C> {
    /// A tile of queries of a head, counted through the batch, or of it and of heads after it.
    fn run(
        &self,
        head: usize,
        query: usize,
        y: &mut UninitSlice<'_, C>,
        lse: &mut UninitSlice<'_, C>,
    ) -> Result<()> {
        let (rows, wide) = (lse.remaining(), self.z.wide_v());
        let spare = if self.units.terms().terms(self.z.d) > CHUNK { rows * TILE } else { 0 };
        let streamed = match &self.blocks {
            KeyValueSource::Kept { .. } => 0,
            KeyValueSource::Streamed(blocks) => blocks.scratch_len(),
        };
        // One piece of memory: few are kept.
        scratch(rows * TILE + rows * wide + spare + streamed, |all| {
            let (tile, all) = all.split_at_mut(rows * TILE);
            let (o, all) = all.split_at_mut(rows * wide);
            let (spare, streamed) = all.split_at_mut(spare);
            let (tile, _) = tile.as_chunks_mut();
            self.walk(head, query, TileScratch { tile, o, spare, streamed }, y, lse)
        })?
    }

    fn walk(
        &self,
        head: usize,
        query: usize,
        TileScratch { tile, o, spare, streamed }: TileScratch<'_, C>,
        y: &mut UninitSlice<'_, C>,
        lse: &mut UninitSlice<'_, C>,
    ) -> Result<()> {
        let (z, isa) = (&self.z, self.isa);
        let (rows, wide) = (lse.remaining(), z.wide_v());
        let kv = head / z.h * z.j + head % z.h / z.group();
        let (all_blocks, terms) = (z.s.div_ceil(TILE), self.units.terms().terms(z.d));
        let mut buffer = HostVec::new();
        let q = self.q.rows(head * z.l + query, rows, &mut buffer)?;
        let q = PairedRows::new(self.units, isa, q, rows, z.d)?;
        let mut pairs = PairScratch::new(self.units)?;
        let mut masked: Vec<ScoreRow<C>> =
            host::filled(if self.mask.is_some() { rows } else { 0 }, [C::POSITIVE_ZERO; TILE])?;
        let mut run = OnlineSoftmax {
            m: [C::lit(f64::NEG_INFINITY); TILE],
            l: [C::POSITIVE_ZERO; TILE],
            alpha: [C::POSITIVE_ZERO; TILE],
        };
        let visited = z.visited(self.a, query);
        for key in (0..visited).step_by(TILE) {
            let count = TILE.min(visited - key);
            let right = match &self.blocks {
                KeyValueSource::Kept { keys, .. } => &keys[(kv * all_blocks * TILE + key) * terms..],
                KeyValueSource::Streamed(blocks) => blocks.keys(kv * z.s + key, count, &mut *streamed),
            };
            let right = (right, TILE);
            let to = (tile.as_flattened_mut(), TILE);
            bf16::contract(isa, self.units, [rows, TILE, terms], q.strided(), right, to, spare);
            if let Some(mask) = &self.mask {
                mask.read(isa, z, head * z.l + query, rows, key, count, &mut masked);
            }
            let masking = ScoreMask {
                scale: C::lit(self.a.scale),
                mask: self.mask.as_ref().map(|m| (&masked[..], m.keep)),
                keys: count,
                diagonal: self.a.causal && key == query,
            };
            run_lanes_of_any_type(isa, SoftmaxStep { masking, tile: &mut *tile, run: &mut run });
            // Before the first block there are no sums, and no number that a sum begins with
            // changes what it becomes: of -inf, NaN and infinity, the weights say so themselves.
            let fresh = key == 0;
            if !fresh {
                dispatch(isa, ScaleRows { o: &mut *o, wide, by: &run.alpha });
            }
            let (left, terms) = pairs.of_keys(isa, tile, count);
            let right = match &self.blocks {
                KeyValueSource::Kept { values, .. } => values.block(kv, key),
                KeyValueSource::Streamed(blocks) => blocks.values(kv * z.s + key, count, &mut *streamed),
            };
            bf16::tile_product(isa, self.units, [rows, wide, terms], left, right, (&mut *o, wide), fresh);
        }
        dispatch(isa, NormaliseRows { o: &mut *o, wide, run: &mut run });
        if wide == z.v {
            y.copy(o);
        } else {
            o.chunks_exact(wide).for_each(|o| y.copy(&o[..z.v]));
        }
        lse.copy(&run.l[..rows]);
        Ok(())
    }
}

/// Each row times its factor.
struct ScaleRows<'a, C> {
    o: &'a mut [C],
    wide: usize,
    by: &'a ScoreRow<C>,
}

impl<C: Float> Kernel for ScaleRows<'_, C> {
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

/// Sums become results: divided by the sums of their weights, which become the statistics of the
/// rows.
struct NormaliseRows<'a, C> {
    o: &'a mut [C],
    wide: usize,
    run: &'a mut OnlineSoftmax<C>,
}

impl<C: Float> Kernel for NormaliseRows<'_, C> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let OnlineSoftmax { m, l, .. } = self.run;
        for (o, &l) in self.o.chunks_exact_mut(self.wide).zip(&*l) {
            let divisor = if l == C::POSITIVE_ZERO { C::lit(1.0) } else { l };
            for o in o {
                *o = *o / divisor;
            }
        }
        for (l, &m) in l.iter_mut().zip(&*m) {
            *l = m + ScalarLane(*l).log().0;
        }
    }
}
