//! dq, dk and dv: `out[row] = contract over t of weight[row, t] * right[t]`.
//!
//! | | rows | t | weight | right |
//! |---|---|---|---|---|
//! | dq | queries | the keys that they visit | ds | k |
//! | dk | keys | the queries that visit them, of all heads of the group | ds | q |
//! | dv | keys | the same | p | g |
//!
//! Weights of a tile of rows and 64 others are computed anew in each kernel, go to shared memory, and are the left factor
//! of the contraction, whose chunks are eight blocks. D, the sum of g * y of each query, is computed before, by a fold.

use super::{
    ACROSS, EACH, Local, Operand, PITCH, Scoring, accumulate, buffer, columns, mask_elem, push, rows,
};
use super::{down, scale, visited, words};
use crate::build::{Builder, Val};
use crate::ir::{Access, Elem, Kernel, Place, Scalar};
use crate::library::formula::Compute;
use crate::library::numbers::{self, Numbers};
use crate::library::rows::{Products, rows_to};
use crate::library::steps::{Room, Slot, Steps};
use crate::library::{Key, Work, grid, group_number, index, row};
use elinvar_core::order::{self, ATTENTION_BLOCK};
use elinvar_core::{DType, Layout};
use elinvar_ops::backend::Attention;

/// Which gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Of {
    /// By q.
    Q,
    /// By k.
    K,
    /// By v.
    V,
}

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// Which gradient.
    pub of: Of,
    /// The dtype of q, k, v and the gradient.
    pub dtype: DType,
    /// What the mask holds.
    pub mask: Option<Elem>,
    /// Query `i` sees keys `0..=i` only.
    pub causal: bool,
    /// Columns of an invocation.
    pub columns: u32,
    /// May queries, may values have more numbers than a chunk?
    pub many: [bool; 2],
    /// May there be more terms than a chunk?
    pub long: bool,
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// The layouts of what the gradient reads.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
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

/// The work of the gradient. Operands: q, k, v, o, lse, g and, if there is one, the mask. Results: dq, dk, dv.
pub fn attention_grad(a: &Attention, dtype: DType, x: Given<'_>) -> Steps<'static> {
    let elem = Elem::from(dtype);
    let room = |l: &Layout| Room::of(elem, l.shape().numel());
    let mut all = Steps { results: vec![room(x.q), room(x.k), room(x.v)], ..Steps::default() };
    let scalar = Compute::from(dtype).scalar();
    let queries: usize = x.q.shape()[..3].iter().product();
    all.scratch = vec![Room::of(row::elem(scalar), queries)];
    let sums = rows_to(&Products, dtype, &[(x.g, dtype), (x.o, dtype)], 3, row::elem(scalar));
    if let Some(work) = sums {
        all.push(work, &[Slot::Operand(5), Slot::Operand(3), Slot::Scratch(0)]);
    }
    for (i, of) in [Of::Q, Of::K, Of::V].into_iter().enumerate() {
        let Some(work) = launch(of, a, dtype, &x) else { continue };
        let mut buffers = vec![Slot::Operand(0), Slot::Operand(1)];
        if of != Of::V {
            buffers.push(Slot::Operand(2));
        }
        buffers.extend([Slot::Operand(4), Slot::Operand(5)]);
        buffers.extend(x.mask.map(|_| Slot::Operand(6)));
        if of != Of::V {
            buffers.push(Slot::Scratch(0));
        }
        buffers.push(Slot::Result(i));
        all.push(work, &buffers);
    }
    all
}

fn launch(of: Of, a: &Attention, dtype: DType, x: &Given<'_>) -> Option<Work<'static>> {
    let (b, h, l, d) = (x.q.shape()[0], x.q.shape()[1], x.q.shape()[2], x.q.shape()[3]);
    let (j, s, e) = (x.k.shape()[1], x.k.shape()[2], x.v.shape()[3]);
    let group = h / j.max(1);
    // Heads, rows and columns of the result, and its terms.
    let (heads, n, width, terms) = match of {
        Of::Q => (h, l, d, s),
        Of::K => (j, s, d, group * l),
        Of::V => (j, s, e, group * l),
    };
    if b * heads * n * width == 0 {
        return None;
    }
    let (each, across) = columns(width);
    let scalar = Compute::from(dtype).scalar();
    let mut operands = vec![x.q, x.k];
    operands.extend((of != Of::V).then_some(x.v));
    operands.extend([x.lse, x.g]);
    operands.extend(x.mask.map(|m| m.0));
    let form = Form {
        of,
        dtype,
        mask: mask_elem(x.mask),
        causal: a.causal,
        columns: each,
        many: [d > order::CHUNK, e > order::CHUNK],
        long: terms > order::CHUNK,
        wide: operands.iter().any(|l| index::is_wide(l)) || index::are_many(b * heads * n * width),
    };
    let tiles = n.div_ceil(rows(scalar));
    let mut all = [b * heads, h, j, group, l, s, d, e, tiles, across].map(|v| v as i64).to_vec();
    all.extend(words(scalar, a.scale));
    operands.iter().for_each(|l| push(&mut all, l));
    let groups = grid((b * heads * tiles * across) as u64);
    let key = Key::of("attention_grad").with(&form);
    Some(numbers::work(key, move || build(&form), groups, index::scalar(form.wide), &all))
}

impl Form {
    fn name(&self) -> String {
        let of = match self.of {
            Of::Q => "q",
            Of::K => "k",
            Of::V => "v",
        };
        let mask = self.mask.map(|e| format!("_{e}_mask")).unwrap_or_default();
        let flags = [
            (self.causal, "_causal"),
            (self.many[0], "_many"),
            (self.many[1], "_many_values"),
            (self.long, "_long"),
            (self.wide, "_wide"),
        ];
        let flags: String = flags.iter().filter(|f| f.0).map(|f| f.1).collect();
        format!("attention_grad_{of}_{}_c{}{mask}{flags}", self.dtype, self.columns)
    }
}

/// Everything that a kernel reads.
struct Reads<'k> {
    q: Operand<'k>,
    k: Operand<'k>,
    v: Option<Operand<'k>>,
    lse: Operand<'k>,
    g: Operand<'k>,
    /// D of each query, [b, h, l].
    sums: Option<Place>,
}

/// A query and its head, and a key.
type Pair<'k> = ([Val<'k>; 3], Val<'k>);

/// The kernel of a form.
pub fn build(form: &Form) -> Kernel {
    let scalar = Compute::from(form.dtype).scalar();
    let k = Builder::new(&form.name(), [down(scalar) * ACROSS, 1, 1]);
    write(&k, form, scalar);
    k.finish()
}

fn write<'k>(k: &'k Builder, form: &Form, scalar: Scalar) {
    let (elem, wide_elem) = (Elem::from(form.dtype), row::elem(scalar));
    let reads_v = form.of != Of::V;
    let [q_place, k_place] = ["q", "k"].map(|n| buffer(k, n, elem));
    let v_place = reads_v.then(|| buffer(k, "v", elem));
    let lse_place = buffer(k, "lse", wide_elem);
    let g_place = buffer(k, "g", elem);
    let mask_place = form.mask.map(|e| buffer(k, "mask", e));
    let sums = reads_v.then(|| buffer(k, "sums", wide_elem));
    let y = k.buffer("y", elem, Access::Write);
    let number = index::scalar(form.wide);
    let operands = 4 + usize::from(reads_v) + usize::from(mask_place.is_some());
    let numbers = Numbers::new(k, number, 12 + 5 * operands);
    let [heads, h, j, group, l, s, d, e, tiles, across] =
        ["heads", "h", "j", "group", "l", "s", "d", "e", "tiles", "across"].map(|n| numbers.get(n));
    let scale = scale(&numbers, scalar);
    let read = |name, place| Operand::read(&numbers, name, place);
    let (q, key) = (read("q", q_place), read("k", k_place));
    let v = v_place.map(|p| read("v", p));
    let (lse, g) = (read("lse", lse_place), read("g", g_place));
    let mask = mask_place.map(|p| read("mask", p));
    let scoring = Scoring { k, scalar, scale, mask, causal: form.causal };
    let reads = Reads { q, k: key, v, lse, g, sums };
    let tile_rows = rows(scalar) as u32;
    let weights = k.shared("weights", wide_elem, tile_rows * PITCH as u32);

    // Which head, rows and columns. The last row of a grid may have workgroups too many: they store nothing.
    let unit = group_number(k, number);
    let asked = unit / (tiles * across);
    let head = asked.min(heads - 1);
    let first = unit / across % tiles * i64::from(tile_rows);
    let first_column = unit % across * i64::from(form.columns * ACROSS);
    let local = Local::new(k, scalar);
    let own = local.rows().map(|r| first + r.to(number));
    let by_query = form.of == Of::Q;
    let (row_count, width) = match form.of {
        Of::Q => (l, d),
        Of::K => (s, d),
        Of::V => (s, e),
    };
    let per_batch = if by_query { h } else { j };
    let (batch, own_head) = (head / per_batch, head % per_batch);
    let clamped = own.map(|i| i.min(row_count - 1));
    let columns = local.columns(first_column, form.columns);
    let right = match form.of {
        Of::Q => reads.k,
        Of::K => reads.q,
        Of::V => reads.g,
    };
    let clamped_columns: Vec<Val> = columns.iter().map(|c| c.min(width - 1) * right.strides[3]).collect();

    // The terms: keys, or positions in the list of the queries of all heads of the group from `begin` on.
    let block = ATTENTION_BLOCK as i64;
    let zero = first.like(0);
    let begin = if form.causal { first / block * block } else { zero };
    let listed = (l - begin).max(zero);
    let count = if by_query { visited(form.causal, first, s) } else { group * listed };
    let kept = if by_query { own_head / group } else { own_head };
    // What stands at a place of the list.
    let query_at = |t: Val<'k>| {
        let each = listed.max(listed.like(1));
        (own_head * group + t / each, begin + t % each)
    };

    let none = vec![k.int(scalar, 0); EACH * form.columns as usize];
    let one_block = |from: Val<'k>, carried: &[Val<'k>]| -> Vec<Val<'k>> {
        // The workgroup's blocks are inside of the list; places behind its end are its last one, and nobody takes them.
        let places = local.places().map(|p| (from + p.to(number)).min(count - 1));
        let pair = |u: usize, w: usize| -> Pair<'k> {
            if by_query {
                ([batch, own_head, clamped[u]], places[w])
            } else {
                let (head, i) = query_at(places[w]);
                ([batch, head, i], clamped[u])
            }
        };
        // Rows are the left side of products, and the places of the block the right one.
        let sides = |of_query: &Operand<'k>, of_key: &Operand<'k>| {
            let query = |p: Pair<'k>| of_query.row(p.0);
            let key = |p: Pair<'k>| of_key.row([batch, kept, p.1]);
            let left: Vec<Val> =
                (0..EACH).map(|u| if by_query { query(pair(u, 0)) } else { key(pair(u, 0)) }).collect();
            let right: Vec<Val> =
                (0..EACH).map(|w| if by_query { key(pair(0, w)) } else { query(pair(0, w)) }).collect();
            if by_query {
                (of_query.side(left), of_key.side(right))
            } else {
                (of_key.side(left), of_query.side(right))
            }
        };
        let (left, others) = sides(&reads.q, &reads.k);
        let products = scoring.products(d, form.many[0], &left, &others);
        let slopes = reads.v.as_ref().map(|v| {
            let (left, others) = sides(&reads.g, v);
            scoring.products(e, form.many[1], &left, &others)
        });
        for (i, &product) in products.iter().enumerate() {
            let (u, w) = (i / EACH, i % EACH);
            let (query, at) = pair(u, w);
            let score = scoring.score(product, query, at);
            let shift = scoring.shift(k.load(reads.lse.place, reads.lse.row(query), 1));
            let p = scoring.exp(score - shift);
            let weight = match (&slopes, reads.sums) {
                (Some(slopes), Some(sums)) => {
                    let [b, head, i] = query;
                    p * (slopes[u * EACH + w] - k.load(sums, (b * h + head) * l + i, 1))
                }
                _ => p,
            };
            k.store(weights, local.rows()[u] * PITCH + local.places()[w], weight);
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
        let next = accumulate(k, &local, weights, here, (right.place, &row), &clamped_columns, carried);
        // The next block's weights are written over these.
        k.barrier();
        next
    };
    let chunk = |from: Val<'k>, to: Val<'k>| k.for_(from, to, from.like(block), &none, one_block);
    let sums = if form.long {
        let size = order::CHUNK as i64;
        k.for_(zero, count, count.like(size), &none, |from, totals| {
            let sums = chunk(from, (from + size).min(count));
            let is_first = from.eq(zero);
            totals.iter().zip(sums).map(|(&total, sum)| is_first.select(sum, total + sum)).collect()
        })
    } else {
        chunk(zero, count)
    };
    for (u, &i) in own.iter().enumerate() {
        for (w, &c) in columns.iter().enumerate() {
            let there = i.lt(row_count) & c.lt(width) & asked.lt(heads);
            let sum = sums[u * columns.len() + w];
            let sum = if form.of == Of::V { sum } else { sum * scale };
            k.if_(there, || k.store(y, (head * row_count + i) * width + c, sum));
        }
    }
}
