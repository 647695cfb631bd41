//! Attention forward, exact: y and lse by online softmax (running maximum, sum and result), block
//! by block of keys.
//!
//! The scores of a block go to shared memory; four invocations per query then take its maximum,
//! exponents and sum: each holds the keys j = t mod 4, so that the halvings of the sum down to four
//! lanes are its own, and two more follow. Wide values have several workgroups, which compute the
//! same scores.

use super::smem_rows::{BLOCK, SmemRows};
use super::{
    AttentionPath, SCORE_PITCH, ScoreRule, SmemRowsConfig, StridedOperand, THREAD_TILE, THREADS_ACROSS,
    ThreadCoord, TileAssignment, TileOrder, accumulate, buffer, columns, mask_elem, push, rows,
};
use super::{down, scale, visited, words};
use crate::formula::Compute;
use crate::launch::args::{self, LaunchArgs};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing;
use crate::reduce::block_reduce;
use elinvar_core::order::{self, ATTENTION_BLOCK};
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Elem, Kernel, Scalar};
use elinvar_ops::backend::Attention;

/// Invocations that share a query's statistics.
const THREADS_PER_QUERY: usize = 4;

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionForwardConfig {
    /// The dtype of q, k, v and y.
    pub dtype: DType,
    /// What the mask holds.
    pub mask: Option<Elem>,
    /// Query `i` sees keys `0..=i` only.
    pub causal: bool,
    /// Columns of an invocation; 0 if values have none.
    pub columns: u32,
    /// May queries have more numbers than a chunk?
    pub multi_chunk: bool,
    /// Do rows go through shared memory?
    pub staged: Option<SmemRowsConfig>,
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// The work of attention: q, k, v, the mask if there is one, then y and lse. `None` if there are no
/// queries.
pub fn attention(
    a: &Attention,
    dtype: DType,
    [q, k, v]: [&Layout; 3],
    mask: Option<(&Layout, DType)>,
    how: AttentionPath,
) -> Option<Work<'static>> {
    let (b, h, l, d) = (q.shape()[0], q.shape()[1], q.shape()[2], q.shape()[3]);
    let (j, s, e) = (k.shape()[1], k.shape()[2], v.shape()[3]);
    if b * h * l == 0 {
        return None;
    }
    let (each, across) = columns(e);
    let scalar = Compute::from(dtype).scalar();
    let operands = [q, k, v].into_iter().chain(mask.map(|m| m.0));
    let config = AttentionForwardConfig {
        dtype,
        mask: mask_elem(mask),
        causal: a.causal,
        columns: each,
        multi_chunk: d > order::CHUNK,
        staged: smem_rows(dtype, [q, k, v], how),
        wide: operands.clone().any(indexing::is_wide) || indexing::are_many(b * h * l * e.max(1)),
    };
    let tiles = l.div_ceil(rows(scalar));
    let mut all = [b * h, h, h / j.max(1), l, s, d, e, tiles, across].map(|v| v as i64).to_vec();
    all.extend(words(scalar, a.scale));
    operands.for_each(|l| push(&mut all, l));
    let groups = grid((b * h * tiles * across) as u64);
    let key = Key::of("attention_forward").with(&config);
    Some(args::work(key, move || build(&config), groups, indexing::scalar(config.wide), &all))
}

/// Do rows find room in so many bytes of shared memory?
pub(super) fn fits_smem(dtype: DType, operands: [&Layout; 3], bytes: u32) -> bool {
    smem_rows(dtype, operands, AttentionPath::Smem(bytes)).is_some()
}

fn smem_rows(dtype: DType, operands: [&Layout; 3], how: AttentionPath) -> Option<SmemRowsConfig> {
    let ([q, _, v], scalar) = (operands, Compute::from(dtype).scalar());
    let widths = [q.shape()[3], v.shape()[3]];
    SmemRowsConfig::of(how, dtype, widths, &operands, &|pitch| shared_elements(scalar, pitch))
}

/// Elements of shared memory of the staged form, by the pitches of rows.
fn shared_elements(s: Scalar, [d, e]: [u32; 2]) -> u32 {
    let rows = rows(s) as u32;
    rows * (d + SCORE_PITCH as u32 + 2 * THREADS_PER_QUERY as u32 + 1) + BLOCK * (d + e)
}

impl AttentionForwardConfig {
    fn name(&self) -> String {
        let mask = self.mask.map(|e| format!("_{e}_mask")).unwrap_or_default();
        let flags = [(self.causal, "_causal"), (self.multi_chunk, "_multi_chunk"), (self.wide, "_wide")];
        let flags: String = flags.iter().filter(|f| f.0).map(|f| f.1).collect();
        let staged = self.staged.map(SmemRowsConfig::word).unwrap_or_default();
        format!("attention_forward_{}_c{}{mask}{flags}{staged}", self.dtype, self.columns)
    }
}

/// The kernel of a form.
pub fn build(config: &AttentionForwardConfig) -> Kernel {
    let scalar = Compute::from(config.dtype).scalar();
    let k = Builder::new(&config.name(), [down(scalar) * THREADS_ACROSS, 1, 1]);
    write(&k, config, scalar);
    k.finish()
}

fn write<'k>(k: &'k Builder, config: &AttentionForwardConfig, scalar: Scalar) {
    let elem = Elem::from(config.dtype);
    let places = ["q", "k", "v"].map(|n| buffer(k, n, elem));
    let mask = config.mask.map(|e| buffer(k, "mask", e));
    let y = k.buffer("y", elem, Access::Write);
    let lse = k.buffer("lse", block_reduce::elem(scalar), Access::Write);
    let number = indexing::scalar(config.wide);
    let count = 11 + 5 * (3 + usize::from(mask.is_some()));
    let args = LaunchArgs::new(k, number, count);
    let [heads, h, group, l, s, d, e, tiles, across] =
        ["heads", "h", "group", "l", "s", "d", "e", "tiles", "across"].map(|n| args.get(n));
    let scale = scale(&args, scalar);
    let [q, key, v] = [0, 1, 2].map(|i| StridedOperand::read(&args, ["q", "k", "v"][i], places[i]));
    let mask = mask.map(|p| StridedOperand::read(&args, "mask", p));
    let scoring = ScoreRule { k, scalar, scale, mask, causal: config.causal };

    let tile_rows = rows(scalar) as u32;
    let shared = block_reduce::elem(scalar);
    let scores = k.shared("scores", shared, tile_rows * SCORE_PITCH as u32);
    let parts = ["highest", "sums"].map(|n| k.shared(n, shared, tile_rows * THREADS_PER_QUERY as u32));
    let factors = k.shared("factors", shared, tile_rows);

    let smem = config.staged.map(|s| {
        let hold = |name, from, rows, side| SmemRows::new(k, name, s, scalar, (from, rows, side));
        [hold("queries", q, tile_rows, 0), hold("keys", key, BLOCK, 0), hold("values", v, BLOCK, 1)]
    });

    // Which head, queries and columns.
    let order = TileOrder::of(config.causal, config.staged.is_some(), TileOrder::Descending);
    let assigned = TileAssignment::new(linear_group_id(k, number), [heads, tiles, across], order);
    let (head, exists) = (assigned.head, assigned.exists);
    let (batch, own) = (head / h, head % h);
    let kept = own / group;
    let first = assigned.tile * i64::from(tile_rows);
    let first_column = assigned.part * i64::from(config.columns * THREADS_ACROSS);
    let local = ThreadCoord::new(k, scalar);
    let query = local.rows().map(|r| first + r.to(number));
    let clamped = query.map(|i| i.min(l - 1));
    let neighbours = config.staged.map_or(1, |s| s.neighbours(scalar, config.columns));
    let in_part = local.columns(config.columns, neighbours);
    let columns: Vec<Val> = in_part.iter().map(|c| first_column + c.to(number)).collect();
    let clamped_columns: Vec<Val> = columns.iter().map(|c| c.min(e - 1) * v.strides[3]).collect();
    let q_side = q.side(clamped.map(|i| q.row([batch, own, i])).to_vec());
    // The query whose statistics this invocation shares, and which part of them.
    let (asking, part) = (local.index / THREADS_PER_QUERY as i64, local.index % THREADS_PER_QUERY as i64);

    let n = visited(config.causal, first, s);
    let block = ATTENTION_BLOCK as i64;
    let zero = k.int(scalar, 0);
    // The keys, and values, of a block.
    let bring = |smem: &SmemRows<'k>, begin: Val<'k>| {
        smem.bring(&local, &|p| {
            let j = begin + p.to(number);
            ([batch, kept, j], j.lt(n))
        });
    };
    if let (Some(staged), Some([queries, keys, values])) = (config.staged, &smem) {
        queries.pad(&local, -0.0);
        keys.pad(&local, 0.0);
        values.pad(&local, 0.0);
        queries.bring(&local, &|p| {
            let i = first + p.to(number);
            ([batch, own, i], i.lt(l))
        });
        bring(keys, n.like(0));
        staged.commit(k);
        bring(values, n.like(0));
        staged.commit(k);
        staged.wait(k, 1);
        k.barrier();
    }
    let mut init = vec![scoring.number(f64::NEG_INFINITY), zero];
    init.extend(vec![zero; THREAD_TILE * config.columns as usize]);
    let end = k.for_(n.like(0), n, n.like(block), &init, |begin, carried| {
        let (m, sum, o) = (carried[0], carried[1], &carried[2..]);
        let at = local.places().map(|p| begin + p.to(number));
        let keys = at.map(|j| j.min(s - 1));
        let products = match &smem {
            Some([queries, keys, _]) => queries.products(&local, keys),
            None => {
                let side = key.side(keys.map(|j| key.row([batch, kept, j])).to_vec());
                scoring.products(d, config.multi_chunk, &q_side, &side)
            }
        };
        for (i, product) in products.into_iter().enumerate() {
            let (u, w) = (i / THREAD_TILE, i % THREAD_TILE);
            let score = scoring.score(product, [batch, own, clamped[u]], keys[w]);
            // A key beyond the last changes no maximum.
            let score = at[w].lt(n).select(score, scoring.number(f64::NEG_INFINITY));
            k.store(scores, local.rows()[u] * SCORE_PITCH + local.places()[w], score);
        }
        k.barrier();
        if let (Some(staged), Some([_, keys, _])) = (config.staged, &smem) {
            // While weights are made and values are taken.
            bring(keys, begin + block);
            staged.commit(k);
        }
        let place = |i: usize| asking * SCORE_PITCH + part + (i * THREADS_PER_QUERY) as i64;
        let mine: Vec<Val> =
            (0..ATTENTION_BLOCK / THREADS_PER_QUERY).map(|i| k.load(scores, place(i), 1)).collect();
        let highest = mine[1..].iter().fold(mine[0], |m, &s| m.max(s));
        k.store(parts[0], local.index, highest);
        k.barrier();
        let of_query = |p, i: i64| k.load(p, asking * THREADS_PER_QUERY as i64 + i, 1);
        let highest = (0..THREADS_PER_QUERY as i64).fold(m, |m, i| m.max(of_query(parts[0], i)));
        let shift = scoring.shift(highest);
        let alpha = scoring.exp(m - shift);
        let mut weights: Vec<Val> = (mine.iter().enumerate())
            .map(|(i, &s)| {
                let weight = scoring.exp(s - shift);
                let there = (begin + (part + (i * THREADS_PER_QUERY) as i64).to(number)).lt(n);
                let weight = there.select(weight, zero);
                let left = match config.staged {
                    Some(_) => there.select(weight, scoring.number(-0.0)),
                    None => weight,
                };
                k.store(scores, place(i), left);
                weight
            })
            .collect();
        while weights.len() > 1 {
            let half = weights.split_off(weights.len() / 2);
            weights = weights.iter().zip(half).map(|(&a, b)| a + b).collect();
        }
        k.store(parts[1], local.index, weights[0]);
        k.if_(part.eq(k.u32(0)), || k.store(factors, asking, alpha));
        if let Some(staged) = config.staged {
            // Values have come; the next keys may be on their way.
            staged.wait(k, 1);
        }
        k.barrier();
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| of_query(parts[1], i));
        let sum = sum * alpha + ((a + c) + (b + d));
        let alphas = local.rows().map(|r| k.load(factors, r, 1));
        let scaled: Vec<Val> =
            o.iter().enumerate().map(|(i, &o)| o * alphas[i / config.columns as usize]).collect();
        let count = (n - begin).min(n.like(block));
        let next_o = match (config.staged, &smem) {
            (Some(staged), Some([.., values])) => {
                let count = count.to(Scalar::U32);
                let o = values.accumulate(&local, scores, count, (&in_part, neighbours), &scaled);
                staged.wait(k, 0);
                o
            }
            _ => {
                let right = |t: Val<'k>| v.row([batch, kept, begin + t]);
                accumulate(k, &local, scores, count, (v.place, &right), &clamped_columns, &scaled)
            }
        };
        // The next block's numbers are written over these.
        k.barrier();
        if let (Some(staged), Some([.., values])) = (config.staged, &smem) {
            // While scores are made.
            bring(values, begin + block);
            staged.commit(k);
        }
        [&[highest, sum][..], &next_o[..]].concat()
    });
    if let Some(staged) = config.staged {
        staged.wait(k, 0);
    }

    let (m, sum, o) = (end[0], end[1], &end[2..]);
    k.if_(part.eq(k.u32(0)), || {
        k.store(factors, asking, sum.eq(zero).select(scoring.number(1.0), sum));
        let i = first + asking.to(number);
        let stores = i.lt(l) & exists & first_column.eq(first_column.like(0));
        k.if_(stores, || k.store(lse, head * l + i, m + scoring.log(sum)));
    });
    k.barrier();
    for (u, &i) in query.iter().enumerate() {
        let divisor = k.load(factors, local.rows()[u], 1);
        let stores = config.staged.map_or(1, |s| s.stores(scalar, config.columns));
        for (w, sums) in
            o[u * config.columns as usize..][..config.columns as usize].chunks(stores as usize).enumerate()
        {
            // Neighbours that are stored at once are there together, or not at all.
            let w = w as u32 * stores;
            let c = columns[(w / neighbours) as usize] + i64::from(w % neighbours);
            let there = i.lt(l) & c.lt(e) & exists;
            let values: Vec<Val> = sums.iter().map(|&sum| sum / divisor).collect();
            k.if_(there, || k.store(y, (head * l + i) * e + c, k.join(&values)));
        }
    }
}
