//! Attention backward: gradients by q, k and v from recomputed scores, tile of queries by block of
//! keys.
//!
//! The sum over keys (dq) and the sums over queries (dk, dv) each have their order, in chunks of
//! 512 terms. One walk of one thread over all queries and keys of a key head, queries first,
//! satisfies both. Where there are fewer key heads than threads, tiles of queries and blocks of
//! keys are walked separately, and the scores are computed twice.

use super::bf16::{self, PairScratch, PairedBlocks, PairedRows};
use super::plan::{self, AttentionProblem, BackwardTasks};
use super::rows::{AttentionSizes, HeadRows, PaddedRows, TILE};
use super::scores::{MaskTile, RowDots, ScoreMask, ScoreRow, SoftmaxGradStep};
use super::terms::{TermBlocks, transposed_keys};
use super::tile_kernel::StridedMatrix;
use crate::CpuDevice;
use crate::gemm::Units;
use crate::machine::Machine;
use crate::reduce::float::{Float, each_float};
use crate::reduce::source::StagedView;
use crate::runtime::memory::{PooledVec, filled, with_capacity};
use crate::runtime::parallel::try_for_each_piece;
use crate::view::View;
use elinvar_core::explain::explain;
use elinvar_core::host;
use elinvar_core::order::{BLOCK, CHUNK};
use elinvar_core::{DType, HostData, HostVec, Result};
use elinvar_ops::backend::{Attention, Compute, Fold};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_simd::dispatch::run_lanes_of_any_type;
use elinvar_simd::isa::Isa;
use std::ops::Range;

/// What the gradient reads besides q, k, v and the mask.
pub(crate) struct GradInputs<'a> {
    /// The output.
    pub o: View<'a>,
    /// Its row statistics.
    pub lse: View<'a>,
    /// The gradient of the output.
    pub g: View<'a>,
}

/// The gradients by q, k and v.
pub(crate) fn attention_grad(
    d: &CpuDevice,
    a: &Attention,
    q: View<'_>,
    k: View<'_>,
    v: View<'_>,
    mask: Option<View<'_>>,
    r: GradInputs<'_>,
) -> Result<(HostData, HostData, HostData)> {
    if AttentionSizes::new(&q, &k, &v).empty() {
        let (to, mask) = (crate::view::reference_view, mask.map(crate::view::reference_view));
        let (o, lse, g) = (to(r.o), to(r.lse), to(r.g));
        return Reference::attention_grad(&ReferenceDevice, a, to(q), to(k), to(v), mask, o, lse, g);
    }
    let dtype = q.buffer.dtype();
    each_float!("attention's gradient", dtype, C => {
        let [dq, dk, dv] = backward::<C>(d, a, [&q, &k, &v], mask.as_ref(), &r)?;
        Ok((C::stored(d, dq, dtype)?, C::stored(d, dk, dtype)?, C::stored(d, dv, dtype)?))
    })
}

/// A part of the walk, and room for what comes out of it. A gradient that has no room is not
/// computed.
struct GradItem<'a, C> {
    /// The key head, counted through the batch.
    kv: usize,
    /// Query heads, counted through the batch.
    heads: Range<usize>,
    /// The queries, from the start of a tile on.
    queries: Range<usize>,
    /// The keys, from the start of a block on.
    keys: Range<usize>,
    dq: Option<&'a mut [C]>,
    dkv: Option<(&'a mut [C], &'a mut [C])>,
}

fn backward<C: Float>(
    d: &CpuDevice,
    a: &Attention,
    [q, k, v]: [&View<'_>; 3],
    mask: Option<&View<'_>>,
    r: &GradInputs<'_>,
) -> Result<[HostVec<C>; 3]> {
    let z = AttentionSizes::new(q, k, v);
    let what = "attention's gradient";
    let (heads, kv_heads) = (z.b * z.h, z.b * z.j);
    let halves = [q, k, v, &r.g].iter().all(|x| x.buffer.dtype() == DType::BF16);
    let (k, v) = (HeadRows::<C>::new(d.isa(), what, k)?, HeadRows::<C>::new(d.isa(), what, v)?);
    let (q, g) = (HeadRows::new(d.isa(), what, q)?, HeadRows::new(d.isa(), what, &r.g)?);
    let problem = AttentionProblem {
        sizes: z,
        bytes: size_of::<C>(),
        precision: a.precision,
        causal: a.causal,
        halves,
        q_rows: q.row_stride(),
        k_rows: k.row_stride(),
        v_rows: v.row_stride(),
        g_rows: g.row_stride(),
    };
    let machine = Machine::of(d);
    let plan = plan::backward(&problem, &machine);
    explain(|| {
        format!("attention's gradient {} {} on {machine}: {plan}: {}", problem.shape(), C::DTYPE, plan.why())
    });
    let units = plan.units;
    let transposed = |x| match units {
        Units::Fma => transposed_keys(d, x, kv_heads),
        Units::Bf16Pairs | Units::Amx => bf16::transposed_keys(d, x, kv_heads),
    };
    let q = PaddedRows::new(d, q, heads, plan.copies_q)?;
    let g = PaddedRows::new(d, g, heads, plan.copies_g)?;
    let pairs = match units {
        Units::Fma => None,
        Units::Bf16Pairs | Units::Amx => {
            let blocks = |x, wide| PairedBlocks::new(d, units, x, [heads, z.l, wide]);
            Some([blocks(&q, z.wide_d())?, blocks(&g, z.wide_v())?])
        }
    };
    let walk = GradWalk {
        isa: d.isa(),
        a,
        z,
        units,
        delta_in_registers: plan.delta_in_registers,
        q,
        g,
        pairs,
        keys_transposed: transposed(&k)?,
        values_transposed: transposed(&v)?,
        keys: TermBlocks::new(d, units, k, kv_heads, plan.copies_k)?,
        o: HeadRows::new(d.isa(), what, &r.o)?,
        lse: StagedView::new(what, &r.lse)?,
        mask: MaskTile::new(mask)?,
    };
    let mut dq = filled(heads * z.l * z.d, C::POSITIVE_ZERO)?;
    let mut dk = filled(kv_heads * z.s * z.d, C::POSITIVE_ZERO)?;
    let mut dv = filled(kv_heads * z.s * z.v, C::POSITIVE_ZERO)?;
    let mut items = grad_items(&walk.z, plan.tasks, plan.count, [&mut dq, &mut dk, &mut dv]);
    try_for_each_piece(d, &mut items, 1, plan.ns, &|_, items| {
        items.iter_mut().try_for_each(|item| walk.run(item))
    })?;
    drop(items);
    Ok([dq, dk, dv])
}

/// The parts of the walk, each with its part of the results.
fn grad_items<'a, C>(
    z: &AttentionSizes,
    tasks: BackwardTasks,
    count: usize,
    [dq, dk, dv]: [&'a mut [C]; 3],
) -> Vec<GradItem<'a, C>> {
    let mut items = Vec::with_capacity(count);
    let group =
        |kv: usize| (kv / z.j * z.h + kv % z.j * z.group())..(kv / z.j * z.h + (kv % z.j + 1) * z.group());
    let kv_of = |head: usize| head / z.h * z.j + head % z.h / z.group();
    if tasks == BackwardTasks::KeyHeads {
        let all =
            dq.chunks_mut(z.group() * z.l * z.d).zip(dk.chunks_mut(z.s * z.d).zip(dv.chunks_mut(z.s * z.v)));
        for (kv, (dq, dkv)) in all.enumerate() {
            let (heads, queries, keys) = (group(kv), 0..z.l, 0..z.s);
            items.push(GradItem { kv, heads, queries, keys, dq: Some(dq), dkv: Some(dkv) });
        }
    } else {
        for (head, dq) in dq.chunks_mut(z.l * z.d).enumerate() {
            for (t, dq) in dq.chunks_mut(TILE * z.d).enumerate() {
                let queries = t * TILE..z.l.min((t + 1) * TILE);
                let (heads, keys) = (head..head + 1, 0..z.s);
                items.push(GradItem { kv: kv_of(head), heads, queries, keys, dq: Some(dq), dkv: None });
            }
        }
        for (kv, (dk, dv)) in dk.chunks_mut(z.s * z.d).zip(dv.chunks_mut(z.s * z.v)).enumerate() {
            for (t, dkv) in dk.chunks_mut(TILE * z.d).zip(dv.chunks_mut(TILE * z.v)).enumerate() {
                let keys = t * TILE..z.s.min((t + 1) * TILE);
                let (heads, queries) = (group(kv), 0..z.l);
                items.push(GradItem { kv, heads, queries, keys, dq: None, dkv: Some(dkv) });
            }
        }
    }
    items
}

struct GradWalk<'a, C: Float> {
    isa: Isa,
    a: &'a Attention,
    z: AttentionSizes,
    /// What is multiplied, and by what.
    units: Units,
    delta_in_registers: bool,
    /// [b, h, l, d], in whole vectors
    q: PaddedRows<'a, C>,
    /// [b, h, l, v], in whole vectors
    g: PaddedRows<'a, C>,
    /// Both as the terms of products, if pairs are multiplied.
    pairs: Option<[PairedBlocks<C>; 2]>,
    /// [b, j, s, d]
    keys: TermBlocks<'a, C>,
    /// [b, j, blocks, terms of d, TILE]
    keys_transposed: PooledVec<C>,
    /// [b, j, blocks, terms of v, TILE]
    values_transposed: PooledVec<C>,
    /// [b, h, l, v]
    o: HeadRows<'a, C>,
    lse: StagedView<'a, C>,
    mask: Option<MaskTile<'a, C>>,
}

/// Contractions of many rows side by side, whose terms come in portions.
struct ChunkedSums<C> {
    units: Units,
    /// Numbers in a row, in whole vectors.
    wide: usize,
    /// The chunk that is being chained.
    chunk: HostVec<C>,
    /// Finished chunks, if there can be more than one.
    total: HostVec<C>,
}

impl<C: Float> ChunkedSums<C> {
    fn new(units: Units, rows: usize, wide: usize, terms: usize) -> Result<Self> {
        let total = if terms > CHUNK { rows * wide } else { 0 };
        Ok(ChunkedSums {
            units,
            wide,
            chunk: filled(rows * wide, C::POSITIVE_ZERO)?,
            total: filled(total, C::POSITIVE_ZERO)?,
        })
    }
    /// `terms` further terms of `rows` rows from `row` on, which had `before` terms: products of a,
    /// whose element (row, term) is meant, and the rows of b.
    fn add(
        &mut self,
        isa: Isa,
        [row, rows, terms]: [usize; 3],
        before: usize,
        a: StridedMatrix<'_, C>,
        (b, row_stride): (&[C], usize),
    ) {
        let wide = self.wide;
        let mut done = 0;
        while done < terms {
            let fresh = (before + done).is_multiple_of(CHUNK);
            if fresh {
                self.close(row, rows, before + done);
            }
            let some = (terms - done).min(CHUNK - (before + done) % CHUNK);
            let a = StridedMatrix { data: &a.data[done * a.column..], ..a };
            let c = &mut self.chunk[row * wide..(row + rows) * wide];
            bf16::tile_product(
                isa,
                self.units,
                [rows, wide, some],
                a,
                (&b[done * row_stride..], row_stride),
                (c, wide),
                fresh,
            );
            done += some;
        }
    }
    /// The chunk of these rows is complete: they had `terms` terms.
    fn close(&mut self, row: usize, rows: usize, terms: usize) {
        let part = row * self.wide..(row + rows) * self.wide;
        if terms == 0 || self.total.is_empty() {
            return;
        }
        let (total, chunk) = (&mut self.total[part.clone()], &self.chunk[part]);
        if terms <= CHUNK {
            total.copy_from_slice(chunk);
        } else {
            total.iter_mut().zip(chunk).for_each(|(t, &c)| *t = *t + c);
        }
    }
    /// The sums of rows that had `terms` terms.
    fn sums(&mut self, row: usize, rows: usize, terms: usize) -> &[C] {
        self.close(row, rows, terms);
        let all = if self.total.is_empty() || terms == 0 { &self.chunk } else { &self.total };
        &all[row * self.wide..(row + rows) * self.wide]
    }
}

/// Buffers for a block of scores.
struct ScoreScratch<C> {
    /// Weights, and the gradients of scores.
    tiles: [Vec<ScoreRow<C>>; 2],
    masked: Vec<ScoreRow<C>>,
    /// For sums of more terms than a chunk.
    spare: HostVec<C>,
}

impl<C: Float> ScoreScratch<C> {
    fn new(is_masked: bool, has_chunks: bool) -> Result<Self> {
        let rows = |count: usize| host::filled(count, [C::POSITIVE_ZERO; TILE]);
        Ok(ScoreScratch {
            tiles: [rows(TILE)?, rows(TILE)?],
            masked: rows(if is_masked { TILE } else { 0 })?,
            spare: filled(if has_chunks { TILE * TILE } else { 0 }, C::POSITIVE_ZERO)?,
        })
    }
}

/// A block of scores: `rows` queries from `first` on, counted through all heads, and `count` keys
/// from `key` on.
#[derive(Clone, Copy)]
struct ScoreBlock {
    first: usize,
    rows: usize,
    key: usize,
    count: usize,
    /// Are keys behind their queries left out?
    diagonal: bool,
}

impl<C: Float> GradWalk<'_, C> {
    fn run(&self, item: &mut GradItem<'_, C>) -> Result<()> {
        let (z, isa) = (&self.z, self.isa);
        let (wide_d, wide_v) = (z.wide_d(), z.wide_v());
        let blocks = z.s.div_ceil(TILE);
        let (terms_d, terms_v) = (self.units.terms().terms(z.d), self.units.terms().terms(z.v));
        let keys_transposed = &self.keys_transposed[item.kv * blocks * terms_d * TILE..];
        let values_transposed = &self.values_transposed[item.kv * blocks * terms_v * TILE..];
        let scale = C::lit(self.a.scale);
        let mut scores = ScoreScratch::new(self.mask.is_some(), terms_d.max(terms_v) > CHUNK)?;
        let mut pairs = PairScratch::new(self.units)?;
        let mut dq = ChunkedSums::new(self.units, TILE, wide_d, z.s)?;
        let side = if item.dkv.is_some() { item.keys.len() } else { 0 };
        let terms = z.group() * z.l;
        let mut dk = ChunkedSums::new(self.units, side, wide_d, terms)?;
        let mut dv = ChunkedSums::new(self.units, side, wide_v, terms)?;
        // Terms that the sums of each block of keys had so far.
        let mut had = host::filled(item.keys.len().div_ceil(TILE), 0)?;
        for (nth, head) in item.heads.clone().enumerate() {
            for query in item.queries.clone().step_by(TILE) {
                let visited = z.visited(self.a, query).min(item.keys.end);
                if item.keys.start >= visited {
                    continue;
                }
                let rows = TILE.min(item.queries.end - query);
                let first = head * z.l + query;
                let (q, g) = (self.q.from(first), self.g.from(first));
                let [queries, gradients] = match &self.pairs {
                    None => [q, g],
                    Some(pairs) => pairs.each_ref().map(|pairs| pairs.block(head, query)),
                };
                let (shift, weighted) = self.statistics(first, rows, g)?;
                let (q, g) = (
                    PairedRows::new(self.units, isa, q, rows, z.d)?,
                    PairedRows::new(self.units, isa, g, rows, z.v)?,
                );
                let mut dq_had = 0;
                for key in (item.keys.start..visited).step_by(TILE) {
                    let count = TILE.min(visited - key);
                    let (p, ds) = self.score_grads(
                        ScoreBlock { first, rows, key, count, diagonal: self.a.causal && key == query },
                        [q.strided(), g.strided()],
                        [&keys_transposed[key * terms_d..], &values_transposed[key * terms_v..]],
                        [&shift, &weighted],
                        &mut scores,
                    );
                    if item.dq.is_some() {
                        let (left, terms) = pairs.of_keys(isa, ds, count);
                        dq.add(isa, [0, rows, terms], dq_had, left, self.keys.block(item.kv, key));
                        dq_had += terms;
                    }
                    if item.dkv.is_some() {
                        let (row, block) = (key - item.keys.start, (key - item.keys.start) / TILE);
                        let (left, terms) = pairs.of_queries(isa, ds);
                        dk.add(isa, [row, count, terms], had[block], left, queries);
                        let (left, terms) = pairs.of_queries(isa, p);
                        dv.add(isa, [row, count, terms], had[block], left, gradients);
                        had[block] += terms;
                    }
                }
                if let Some(y) = &mut item.dq {
                    let at = (nth * item.queries.len() + query - item.queries.start) * z.d;
                    let sums = dq.sums(0, rows, dq_had);
                    scaled(sums, wide_d, &mut y[at..at + rows * z.d], z.d, Some(scale));
                }
            }
        }
        if let Some(out) = &mut item.dkv {
            self.write_key_grads(item.keys.len(), &had, [&mut dk, &mut dv], out);
        }
        Ok(())
    }
    /// The weights of a block, and the gradients of its scores, from queries and the result's
    /// gradients, keys and values.
    fn score_grads<'s>(
        &self,
        block: ScoreBlock,
        [q, g]: [StridedMatrix<'_, C>; 2],
        [keys, values]: [&[C]; 2],
        [shift, weighted]: [&ScoreRow<C>; 2],
        scratch: &'s mut ScoreScratch<C>,
    ) -> (&'s mut [ScoreRow<C>], &'s mut [ScoreRow<C>]) {
        let (z, isa, units) = (&self.z, self.isa, self.units);
        let ScoreBlock { first, rows, key, count, diagonal } = block;
        let ScoreScratch { tiles: [p, ds], masked, spare } = scratch;
        let (p, ds) = (&mut p[..rows], &mut ds[..rows]);
        let size = |terms: usize| [rows, TILE, units.terms().terms(terms)];
        let to = (p.as_flattened_mut(), TILE);
        bf16::contract(isa, units, size(z.d), q, (keys, TILE), to, spare);
        let to = (ds.as_flattened_mut(), TILE);
        bf16::contract(isa, units, size(z.v), g, (values, TILE), to, spare);
        if let Some(mask) = &self.mask {
            mask.read(isa, z, first, rows, key, count, masked);
        }
        let masking = ScoreMask {
            scale: C::lit(self.a.scale),
            mask: self.mask.as_ref().map(|m| (&masked[..], m.keep)),
            keys: count,
            diagonal,
        };
        run_lanes_of_any_type(isa, SoftmaxGradStep { masking, p: &mut *p, ds: &mut *ds, shift, weighted });
        (p, ds)
    }
    /// Writes the gradients of `keys` keys and values, whose sums had so many terms in each block.
    fn write_key_grads(
        &self,
        keys: usize,
        had: &[usize],
        [dk, dv]: [&mut ChunkedSums<C>; 2],
        (dk_out, dv_out): &mut (&mut [C], &mut [C]),
    ) {
        let (z, scale) = (&self.z, C::lit(self.a.scale));
        for (block, &terms) in had.iter().enumerate() {
            let row = block * TILE;
            let rows = TILE.min(keys - row);
            let out = &mut dk_out[row * z.d..(row + rows) * z.d];
            scaled(dk.sums(row, rows, terms), z.wide_d(), out, z.d, Some(scale));
            let out = &mut dv_out[row * z.v..(row + rows) * z.v];
            scaled(dv.sums(row, rows, terms), z.wide_v(), out, z.v, None);
        }
    }
    /// For the queries from `first` on: what is taken off their scores, and the sum of g * y.
    fn statistics(&self, first: usize, rows: usize, g: (&[C], usize)) -> Result<(ScoreRow<C>, ScoreRow<C>)> {
        let z = &self.z;
        let (mut shift, mut weighted) = ([C::POSITIVE_ZERO; TILE], [C::POSITIVE_ZERO; TILE]);
        let mut buffer = [C::POSITIVE_ZERO; TILE];
        let never = C::lit(f64::NEG_INFINITY);
        for (shift, &lse) in
            shift.iter_mut().zip(&self.lse.block(self.isa, first, rows, rows, &mut buffer)[..rows])
        {
            *shift = if lse == never { C::POSITIVE_ZERO } else { lse };
        }
        let mut buffer = HostVec::new();
        let (y, row_stride) = self.o.rows(first, rows, &mut buffer)?;
        if self.delta_in_registers {
            let sums = &mut weighted[..rows];
            run_lanes_of_any_type(self.isa, RowDots { y: (y, row_stride), g, n: z.v, sums });
            return Ok((shift, weighted));
        }
        let mut terms = filled(z.v, C::POSITIVE_ZERO)?;
        let mut folded = with_capacity(z.v.div_ceil(BLOCK))?;
        for i in 0..rows {
            let (y, g) = (&y[i * row_stride..], &g.0[i * g.1..]);
            for ((term, &g), &y) in terms.iter_mut().zip(g).zip(y) {
                *term = g * y;
            }
            folded.clear();
            folded.extend(terms.chunks(BLOCK).map(|t| C::block(self.isa, Fold::Sum, t)));
            weighted[i] = C::join(Fold::Sum, &folded);
        }
        Ok((shift, weighted))
    }
}

/// The first `n` numbers of each row, times a factor if there is one.
fn scaled<C: Float>(x: &[C], wide: usize, y: &mut [C], n: usize, by: Option<C>) {
    for (x, y) in x.chunks_exact(wide).zip(y.chunks_exact_mut(n)) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = match by {
                Some(by) => x * by,
                None => x,
            };
        }
    }
}
