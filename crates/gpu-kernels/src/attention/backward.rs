//! Attention backward, exact: dq, dk and dv as `out[row] = contract over t of weight[row, t] *
//! right[t]`.
//!
//! | | rows | t | weight | right |
//! |---|---|---|---|---|
//! | dq | queries | the keys that they visit | ds | k |
//! | dk | keys | the queries that visit them, of all heads of the group | ds | q |
//! | dv | keys | the same | p | g |
//!
//! The weights of a tile of rows and 64 others are recomputed in each kernel, go to shared memory,
//! and are the left factor of the contraction, whose chunks are eight blocks. D, the sum of g * y
//! of each query, is computed before, by a fold.

use super::smem_rows::{BLOCK, SmemRows};
use super::{
    AttentionPath, SCORE_PITCH, ScoreRule, SmemRowsConfig, StridedOperand, THREAD_TILE, THREADS_ACROSS,
    ThreadCoord, TileAssignment, TileOrder, accumulate, buffer, columns, mask_elem, push, rows,
};
use super::{down, scale, visited, words};
use crate::formula::Compute;
use crate::launch::args::{self, LaunchArgs};
use crate::launch::sequence::{BufferSlot, BufferSpec, LaunchSequence};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing;
use crate::reduce::block_reduce;
use crate::reduce::rowwise::{RowDot, rows_to};
use elinvar_core::order::{self, ATTENTION_BLOCK};
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Elem, Kernel, Place, Scalar};
use elinvar_ops::backend::Attention;

/// Which gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionGrad {
    /// By q.
    Q,
    /// By k.
    K,
    /// By v.
    V,
}

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionBackwardConfig {
    /// Which gradient.
    pub grad: AttentionGrad,
    /// The dtype of q, k, v and the gradient.
    pub dtype: DType,
    /// What the mask holds.
    pub mask: Option<Elem>,
    /// Query `i` sees keys `0..=i` only.
    pub causal: bool,
    /// Columns of an invocation.
    pub columns: u32,
    /// May queries, may values have more numbers than a chunk?
    pub multi_chunk: [bool; 2],
    /// May there be more terms than a chunk?
    pub long: bool,
    /// Do rows go through shared memory?
    pub staged: Option<SmemRowsConfig>,
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// The layouts of what the gradient reads.
#[derive(Clone, Copy, Debug)]
pub struct BackwardInputs<'a> {
    /// Queries.
    pub q: &'a Layout,
    /// Keys.
    pub k: &'a Layout,
    /// Values.
    pub v: &'a Layout,
    /// The result.
    pub o: &'a Layout,
    /// Its row statistics.
    pub lse: &'a Layout,
    /// The gradient of the result.
    pub g: &'a Layout,
    /// The mask, and its dtype.
    pub mask: Option<(&'a Layout, DType)>,
}

/// The work of the gradient. Operands: q, k, v, o, lse, g and, if there is one, the mask. Results:
/// dq, dk, dv.
pub fn attention_grad(
    a: &Attention,
    dtype: DType,
    x: BackwardInputs<'_>,
    how: AttentionPath,
) -> LaunchSequence<'static> {
    let elem = Elem::from(dtype);
    let buffer_spec = |l: &Layout| BufferSpec::of(elem, l.shape().numel());
    let mut all = LaunchSequence {
        results: vec![buffer_spec(x.q), buffer_spec(x.k), buffer_spec(x.v)],
        ..LaunchSequence::default()
    };
    let scalar = Compute::from(dtype).scalar();
    let queries: usize = x.q.shape()[..3].iter().product();
    all.scratch = vec![BufferSpec::of(block_reduce::elem(scalar), queries)];
    let sums = rows_to(
        &RowDot,
        dtype,
        &[(x.g, dtype), (x.o, dtype)],
        3,
        block_reduce::elem(scalar),
        block_reduce::RegisterBudget::One,
        false,
    );
    if let Some(work) = sums {
        all.push(work, &[BufferSlot::Operand(5), BufferSlot::Operand(3), BufferSlot::Scratch(0)]);
    }
    for (i, grad) in [AttentionGrad::Q, AttentionGrad::K, AttentionGrad::V].into_iter().enumerate() {
        let Some(work) = launch(grad, a, dtype, &x, how) else { continue };
        let mut buffers = vec![BufferSlot::Operand(0), BufferSlot::Operand(1)];
        if grad != AttentionGrad::V {
            buffers.push(BufferSlot::Operand(2));
        }
        buffers.extend([BufferSlot::Operand(4), BufferSlot::Operand(5)]);
        buffers.extend(x.mask.map(|_| BufferSlot::Operand(6)));
        if grad != AttentionGrad::V {
            buffers.push(BufferSlot::Scratch(0));
        }
        buffers.push(BufferSlot::Result(i));
        all.push(work, &buffers);
    }
    all
}

fn launch(
    grad: AttentionGrad,
    a: &Attention,
    dtype: DType,
    x: &BackwardInputs<'_>,
    how: AttentionPath,
) -> Option<Work<'static>> {
    let (b, h, l, d) = (x.q.shape()[0], x.q.shape()[1], x.q.shape()[2], x.q.shape()[3]);
    let (j, s, e) = (x.k.shape()[1], x.k.shape()[2], x.v.shape()[3]);
    let group = h / j.max(1);
    // Heads, rows and columns of the result, and its terms.
    let (heads, n, width, terms) = match grad {
        AttentionGrad::Q => (h, l, d, s),
        AttentionGrad::K => (j, s, d, group * l),
        AttentionGrad::V => (j, s, e, group * l),
    };
    if b * heads * n * width == 0 {
        return None;
    }
    let (each, across) = columns(width);
    let scalar = Compute::from(dtype).scalar();
    let mut operands = vec![x.q, x.k];
    operands.extend((grad != AttentionGrad::V).then_some(x.v));
    operands.extend([x.lse, x.g]);
    operands.extend(x.mask.map(|m| m.0));
    let config = AttentionBackwardConfig {
        grad,
        dtype,
        mask: mask_elem(x.mask),
        causal: a.causal,
        columns: each,
        multi_chunk: [d > order::CHUNK, e > order::CHUNK],
        long: terms > order::CHUNK,
        staged: smem_rows(grad, dtype, x, how),
        wide: operands.iter().any(|l| indexing::is_wide(l)) || indexing::are_many(b * heads * n * width),
    };
    let tiles = n.div_ceil(rows(scalar));
    let mut all = [b * heads, h, j, group, l, s, d, e, tiles, across].map(|v| v as i64).to_vec();
    all.extend(words(scalar, a.scale));
    operands.iter().for_each(|l| push(&mut all, l));
    let groups = grid((b * heads * tiles * across) as u64);
    let key = Key::of("attention_backward").with(&config);
    Some(args::work(key, move || build(&config), groups, indexing::scalar(config.wide), &all))
}

/// Do rows of a kernel find room in so many bytes of shared memory?
pub(super) fn fits_smem(dtype: DType, x: &BackwardInputs<'_>, bytes: u32) -> bool {
    let how = AttentionPath::Smem(bytes);
    let all = [AttentionGrad::Q, AttentionGrad::K, AttentionGrad::V];
    all.into_iter().any(|grad| smem_rows(grad, dtype, x, how).is_some())
}

fn smem_rows(
    grad: AttentionGrad,
    dtype: DType,
    x: &BackwardInputs<'_>,
    how: AttentionPath,
) -> Option<SmemRowsConfig> {
    let scalar = Compute::from(dtype).scalar();
    let widths = [x.q.shape()[3], x.v.shape()[3]];
    SmemRowsConfig::of(how, dtype, widths, &[x.q, x.k, x.v, x.g], &|pitch| {
        shared_elements(grad, scalar, pitch)
    })
}

/// Elements of shared memory of the staged form, by the pitches of rows.
fn shared_elements(grad: AttentionGrad, s: Scalar, [d, e]: [u32; 2]) -> u32 {
    let (rows, own) = (rows(s) as u32, if grad == AttentionGrad::V { d } else { d + e });
    rows * (own + SCORE_PITCH as u32) + BLOCK * (d + e)
}

impl AttentionBackwardConfig {
    fn name(&self) -> String {
        let grad = match self.grad {
            AttentionGrad::Q => "q",
            AttentionGrad::K => "k",
            AttentionGrad::V => "v",
        };
        let mask = self.mask.map(|e| format!("_{e}_mask")).unwrap_or_default();
        let flags = [
            (self.causal, "_causal"),
            (self.multi_chunk[0], "_multi_chunk"),
            (self.multi_chunk[1], "_many_values"),
            (self.long, "_long"),
            (self.wide, "_wide"),
        ];
        let flags: String = flags.iter().filter(|f| f.0).map(|f| f.1).collect();
        let staged = self.staged.map(SmemRowsConfig::word).unwrap_or_default();
        format!("attention_backward_{grad}_{}_c{}{mask}{flags}{staged}", self.dtype, self.columns)
    }
}

/// Everything that a kernel reads.
struct BackwardReads<'k> {
    q: StridedOperand<'k>,
    k: StridedOperand<'k>,
    v: Option<StridedOperand<'k>>,
    lse: StridedOperand<'k>,
    g: StridedOperand<'k>,
    /// D of each query, [b, h, l].
    sums: Option<Place>,
}

/// A query and its head, and a key.
type QueryKey<'k> = ([Val<'k>; 3], Val<'k>);

/// The kernel of a form.
pub fn build(config: &AttentionBackwardConfig) -> Kernel {
    let scalar = Compute::from(config.dtype).scalar();
    let k = Builder::new(&config.name(), [down(scalar) * THREADS_ACROSS, 1, 1]);
    write(&k, config, scalar);
    k.finish()
}

fn write<'k>(k: &'k Builder, config: &AttentionBackwardConfig, scalar: Scalar) {
    let (elem, wide_elem) = (Elem::from(config.dtype), block_reduce::elem(scalar));
    let reads_v = config.grad != AttentionGrad::V;
    let [q_place, k_place] = ["q", "k"].map(|n| buffer(k, n, elem));
    let v_place = reads_v.then(|| buffer(k, "v", elem));
    let lse_place = buffer(k, "lse", wide_elem);
    let g_place = buffer(k, "g", elem);
    let mask_place = config.mask.map(|e| buffer(k, "mask", e));
    let sums = reads_v.then(|| buffer(k, "sums", wide_elem));
    let y = k.buffer("y", elem, Access::Write);
    let number = indexing::scalar(config.wide);
    let operands = 4 + usize::from(reads_v) + usize::from(mask_place.is_some());
    let args = LaunchArgs::new(k, number, 12 + 5 * operands);
    let [heads, h, j, group, l, s, d, e, tiles, across] =
        ["heads", "h", "j", "group", "l", "s", "d", "e", "tiles", "across"].map(|n| args.get(n));
    let scale = scale(&args, scalar);
    let read = |name, place| StridedOperand::read(&args, name, place);
    let (q, key) = (read("q", q_place), read("k", k_place));
    let v = v_place.map(|p| read("v", p));
    let (lse, g) = (read("lse", lse_place), read("g", g_place));
    let mask = mask_place.map(|p| read("mask", p));
    let scoring = ScoreRule { k, scalar, scale, mask, causal: config.causal };
    let reads = BackwardReads { q, k: key, v, lse, g, sums };
    let tile_rows = rows(scalar) as u32;
    let weights = k.shared("weights", wide_elem, tile_rows * SCORE_PITCH as u32);

    // Own rows, and those of a block: of the factors of scores, and of those of slopes.
    let smem = config.staged.map(|f| {
        let hold = |name, from, rows, side| SmemRows::new(k, name, f, scalar, (from, rows, side));
        let (own, others) = match config.grad {
            AttentionGrad::Q => ([Some(reads.q), Some(reads.g)], [reads.k, reads.v.expect("it is read")]),
            AttentionGrad::K => ([Some(reads.k), reads.v], [reads.q, reads.g]),
            AttentionGrad::V => ([Some(reads.k), None], [reads.q, reads.g]),
        };
        let [x, y] = [0, 1].map(|i| own[i].map(|o| hold(["own", "own_slopes"][i], o, tile_rows, i)));
        let others = [0, 1].map(|i| hold(["others", "others_slopes"][i], others[i], BLOCK, i));
        (x.into_iter().chain(y).collect::<Vec<_>>(), others)
    });
    // Which of a block's rows are the right factor of the result.
    let taken = usize::from(config.grad == AttentionGrad::V);

    // Which head, rows and columns.
    let by_query = config.grad == AttentionGrad::Q;
    let longest = if by_query { TileOrder::Descending } else { TileOrder::Ascending };
    let order = TileOrder::of(config.causal, config.staged.is_some(), longest);
    let assigned = TileAssignment::new(linear_group_id(k, number), [heads, tiles, across], order);
    let (head, exists) = (assigned.head, assigned.exists);
    let first = assigned.tile * i64::from(tile_rows);
    let first_column = assigned.part * i64::from(config.columns * THREADS_ACROSS);
    let local = ThreadCoord::new(k, scalar);
    let own = local.rows().map(|r| first + r.to(number));
    let (row_count, width) = match config.grad {
        AttentionGrad::Q => (l, d),
        AttentionGrad::K => (s, d),
        AttentionGrad::V => (s, e),
    };
    let per_batch = if by_query { h } else { j };
    let (batch, own_head) = (head / per_batch, head % per_batch);
    let clamped = own.map(|i| i.min(row_count - 1));
    let neighbours = config.staged.map_or(1, |s| s.neighbours(scalar, config.columns));
    let in_part = local.columns(config.columns, neighbours);
    let columns: Vec<Val> = in_part.iter().map(|c| first_column + c.to(number)).collect();
    let right = match config.grad {
        AttentionGrad::Q => reads.k,
        AttentionGrad::K => reads.q,
        AttentionGrad::V => reads.g,
    };
    let clamped_columns: Vec<Val> = columns.iter().map(|c| c.min(width - 1) * right.strides[3]).collect();

    // The terms: keys, or positions in the list of the queries of all heads of the group from
    // `begin` on.
    let block = ATTENTION_BLOCK as i64;
    let zero = first.like(0);
    let begin = if config.causal { first / block * block } else { zero };
    let listed = (l - begin).max(zero);
    let count = if by_query { visited(config.causal, first, s) } else { group * listed };
    let kept = if by_query { own_head / group } else { own_head };
    // What stands at a place of the list.
    let query_at = |t: Val<'k>| {
        let each = listed.max(listed.like(1));
        (own_head * group + t / each, begin + t % each)
    };

    // Rows of the block that begins there.
    let bring = |smem: &SmemRows<'k>, from: Val<'k>| {
        smem.bring(&local, &|p| {
            let t = from + p.to(number);
            if by_query {
                return ([batch, kept, t], t.lt(count));
            }
            let (head, i) = query_at(t);
            ([batch, head, i], t.lt(count))
        });
    };
    if let (Some(staged), Some((own_rows, others))) = (config.staged, &smem) {
        for smem in own_rows {
            smem.pad(&local, -0.0);
            smem.bring(&local, &|p| {
                let i = first + p.to(number);
                ([batch, own_head, i], i.lt(row_count))
            });
        }
        for smem in others {
            smem.pad(&local, 0.0);
            bring(smem, zero);
        }
        staged.commit(k);
    }

    let none = vec![k.int(scalar, 0); THREAD_TILE * config.columns as usize];
    let one_block = |from: Val<'k>, carried: &[Val<'k>]| -> Vec<Val<'k>> {
        // The workgroup's blocks are inside of the list; places behind its end are its last one,
        // and are not used.
        let places = local.places().map(|p| (from + p.to(number)).min(count - 1));
        let pair = |u: usize, w: usize| -> QueryKey<'k> {
            if by_query {
                ([batch, own_head, clamped[u]], places[w])
            } else {
                let (head, i) = query_at(places[w]);
                ([batch, head, i], clamped[u])
            }
        };
        // Rows are the left side of products, and the places of the block the right one.
        let sides = |of_query: &StridedOperand<'k>, of_key: &StridedOperand<'k>| {
            let query = |p: QueryKey<'k>| of_query.row(p.0);
            let key = |p: QueryKey<'k>| of_key.row([batch, kept, p.1]);
            let left: Vec<Val> = (0..THREAD_TILE)
                .map(|u| if by_query { query(pair(u, 0)) } else { key(pair(u, 0)) })
                .collect();
            let right: Vec<Val> = (0..THREAD_TILE)
                .map(|w| if by_query { key(pair(0, w)) } else { query(pair(0, w)) })
                .collect();
            if by_query {
                (of_query.side(left), of_key.side(right))
            } else {
                (of_key.side(left), of_query.side(right))
            }
        };
        let (products, slopes) = match (config.staged, &smem) {
            (Some(staged), Some((own_rows, others))) => {
                staged.wait(k, 0);
                k.barrier();
                let mut all = own_rows.iter().zip(others).map(|(own, others)| own.products(&local, others));
                (all.next().expect("there are scores"), all.next())
            }
            _ => {
                let (left, others) = sides(&reads.q, &reads.k);
                let products = scoring.products(d, config.multi_chunk[0], &left, &others);
                let slopes = reads.v.as_ref().map(|v| {
                    let (left, others) = sides(&reads.g, v);
                    scoring.products(e, config.multi_chunk[1], &left, &others)
                });
                (products, slopes)
            }
        };
        for (i, &product) in products.iter().enumerate() {
            let (u, w) = (i / THREAD_TILE, i % THREAD_TILE);
            let (query, at) = pair(u, w);
            let score = scoring.score(product, query, at);
            let shift = scoring.shift(k.load(reads.lse.place, reads.lse.row(query), 1));
            let p = scoring.exp(score - shift);
            let weight = match (&slopes, reads.sums) {
                (Some(slopes), Some(sums)) => {
                    let [b, head, i] = query;
                    p * (slopes[u * THREAD_TILE + w] - k.load(sums, (b * h + head) * l + i, 1))
                }
                _ => p,
            };
            let weight = match config.staged {
                Some(_) => {
                    (from + local.places()[w].to(number)).lt(count).select(weight, scoring.number(-0.0))
                }
                None => weight,
            };
            k.store(weights, local.rows()[u] * SCORE_PITCH + local.places()[w], weight);
        }
        k.barrier();
        let row = |t: Val<'k>| {
            if by_query {
                return right.row([batch, kept, from + t]);
            }
            let (head, i) = query_at(from + t);
            right.row([batch, head, i])
        };
        let here = (count - from).min(count.like(block));
        let next = match (config.staged, &smem) {
            (Some(_), Some((_, others))) => {
                // While the result's terms are added.
                bring(&others[1 - taken], from + block);
                let here = here.to(Scalar::U32);
                others[taken].accumulate(&local, weights, here, (&in_part, neighbours), carried)
            }
            _ => accumulate(k, &local, weights, here, (right.place, &row), &clamped_columns, carried),
        };
        // The next block's weights are written over these.
        k.barrier();
        if let (Some(staged), Some((_, others))) = (config.staged, &smem) {
            bring(&others[taken], from + block);
            staged.commit(k);
        }
        next
    };
    let chunk = |from: Val<'k>, to: Val<'k>| k.for_(from, to, from.like(block), &none, one_block);
    let sums = if config.long {
        let size = order::CHUNK as i64;
        k.for_(zero, count, count.like(size), &none, |from, totals| {
            let sums = chunk(from, (from + size).min(count));
            let is_first = from.eq(zero);
            totals.iter().zip(sums).map(|(&total, sum)| is_first.select(sum, total + sum)).collect()
        })
    } else {
        chunk(zero, count)
    };
    if let Some(staged) = config.staged {
        staged.wait(k, 0);
    }
    let stores = config.staged.map_or(1, |s| s.stores(scalar, config.columns));
    for (u, &i) in own.iter().enumerate() {
        let sums = &sums[u * config.columns as usize..][..config.columns as usize];
        for (w, sums) in sums.chunks(stores as usize).enumerate() {
            // Neighbours that are stored at once are there together, or not at all.
            let w = w as u32 * stores;
            let c = columns[(w / neighbours) as usize] + i64::from(w % neighbours);
            let there = i.lt(row_count) & c.lt(width) & exists;
            let scaled = |&sum: &Val<'k>| if config.grad == AttentionGrad::V { sum } else { sum * scale };
            let values: Vec<Val> = sums.iter().map(scaled).collect();
            k.if_(there, || k.store(y, (head * row_count + i) * width + c, k.join(&values)));
        }
    }
}
