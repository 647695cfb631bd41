//! Attention forward on tensor cores (mma.sync, flash attention): y and lse, `Precision::Fast`, for
//! values without a mask.
//!
//! A workgroup takes a tile of queries of one head; each of its four subgroups has one or two
//! fragments of 16 queries. Keys and values come block by block by cp.async, the next block while
//! one is computed (prefetch); a causal tile ends with the block of its last query. Scores of a
//! block are accumulator fragments: a row is spread over four lanes, which find its maximum
//! together and keep a part of its sum each. Weights, rounded to 16 bits, become left fragments of
//! the product with values.
//!
//! Exponents are base 2 and approximate (`Unary::Exp2`): weights have at most eleven bits, of which
//! that leaves only the last one wrong, rarely. A row depends on no other row, and blocks follow in
//! order.

use super::split_kv::KEYS_PER_SPLIT;
use super::{StridedOperand, buffer, push, scale, words};
use crate::gemm::StridedMatrix;
use crate::gemm::multistage_cp_async::CpAsyncPipeline;
use crate::gemm::smem_load::TileLoader;
use crate::launch::args::{self, LaunchArgs};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing;
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{
    Access, Builtin, Compare, Constant, Elem, Fragment, FragmentLayout as Order, Kernel, MmaShape, Place,
    Role, Scalar, Unary,
};
use elinvar_kernel::lane::{Float, Term, W32};
use elinvar_ops::backend::Attention;
use elinvar_ops::lane::Lane;

/// Invocations of a subgroup, and subgroups of a workgroup.
pub(super) const WARP_LANES: u32 = 32;
pub(super) const SUBGROUPS: u32 = 4;
/// Rows of a fragment.
pub(super) const FRAGMENT_ROWS: u32 = 16;
/// Keys of a block: their scores, of two sixteens of queries, take 32 registers.
pub(super) const BLOCK: u32 = 32;
/// Numbers of a copy.
pub(super) const COPY_ELEMENTS: usize = 8;

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmaForwardConfig {
    /// f16 or bf16: the dtype of q, k, v and y.
    pub dtype: DType,
    /// Numbers of a query, a key and a value: 32, 64 or 128.
    pub width: u32,
    /// Query `i` sees keys `0..=i` only.
    pub causal: bool,
    /// Of few queries, does each workgroup take a part of the keys, and leave what it finds as it
    /// is?
    pub split: bool,
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// Is it one that the units are used for: values of 32, 64 or 128 numbers, as wide as queries, no
/// mask, all in pieces of 16 bytes?
pub fn fits(unit: MmaShape, dtype: DType, operands: [&Layout; 3], masked: bool) -> bool {
    let [q, _, v] = operands;
    let width = q.shape()[3];
    matches!(dtype, DType::F16 | DType::BF16)
        && unit.elem == Elem::from(dtype)
        && unit.shape == [16; 3]
        && !masked
        && matches!(width, 32 | 64 | 128)
        && v.shape()[3] == width
        && operands.iter().all(|l| indexing::in_pieces(l, 3, COPY_ELEMENTS))
}

/// The work of attention: q, k, v, then y and lse. `None` if there are no queries.
///
/// # Panics
/// If it does not fit ([`fits`]).
pub fn attention(a: &Attention, dtype: DType, operands: [&Layout; 3]) -> Option<Work<'static>> {
    work(a, dtype, operands, false)
}

/// The work on parts of the keys: q, k, v, then results and statistics of each part (`splits`).
pub(super) fn split(a: &Attention, dtype: DType, operands: [&Layout; 3]) -> Option<Work<'static>> {
    work(a, dtype, operands, true)
}

fn work(a: &Attention, dtype: DType, operands: [&Layout; 3], split: bool) -> Option<Work<'static>> {
    let unit = MmaShape { elem: dtype.into(), shape: [16; 3] };
    assert!(fits(unit, dtype, operands, false), "attention by tensor cores (mma): {operands:?} of {dtype}");
    let [q, k, _] = operands;
    let (b, h, l, d) = (q.shape()[0], q.shape()[1], q.shape()[2], q.shape()[3]);
    let (j, s) = (k.shape()[1], k.shape()[2]);
    if b * h * l == 0 {
        return None;
    }
    let splits = if split { s.div_ceil(KEYS_PER_SPLIT) } else { 1 };
    let wide = operands.iter().any(|l| indexing::is_wide(l)) || indexing::are_many(splits * b * h * l * d);
    let config = MmaForwardConfig { dtype, width: d as u32, causal: a.causal, split, wide };
    let tiles = l.div_ceil(config.rows() as usize);
    let mut all = [b * h, h, h / j.max(1), l, s, tiles, splits].map(|v| v as i64).to_vec();
    all.extend(words(Scalar::F32, a.scale));
    operands.iter().for_each(|l| push(&mut all, l));
    let key = Key::of("attention_mma_forward").with(&config);
    Some(args::work(
        key,
        move || build(&config),
        grid((b * h * tiles * splits) as u64),
        indexing::scalar(wide),
        &all,
    ))
}

impl MmaForwardConfig {
    fn name(&self) -> String {
        let flags = [(self.causal, "_causal"), (self.split, "_split_kv"), (self.wide, "_wide")];
        let flags: String = flags.iter().filter(|f| f.0).map(|f| f.1).collect();
        format!("attention_mma_{}_{}{flags}", self.dtype, self.width)
    }
    /// Blocks of keys, and of values, that have room in 48 KiB of shared memory.
    fn slots(self) -> u32 {
        if self.width > 64 { 2 } else { 4 }
    }
    /// Lines of shared memory, for keys and for values.
    fn capacity_rows(self) -> u32 {
        self.slots() * BLOCK
    }
    /// Queries of a workgroup: as many as there is room for where keys will be; a sixteen for each
    /// subgroup if they are few.
    fn rows(self) -> u32 {
        if self.split { SUBGROUPS * FRAGMENT_ROWS } else { self.capacity_rows() }
    }
    /// Sixteens of a subgroup.
    fn tiles(self) -> u32 {
        self.rows() / (SUBGROUPS * FRAGMENT_ROWS)
    }
    /// From line to line in shared memory: an odd number of 16 bytes.
    fn pitch(self) -> u32 {
        self.width + COPY_ELEMENTS as u32
    }
    fn fragment(self, role: Role) -> Fragment {
        MmaShape { elem: self.dtype.into(), shape: [16; 3] }.fragment(role)
    }
}

/// The kernel of a form.
pub fn build(config: &MmaForwardConfig) -> Kernel {
    let k = Builder::new(&config.name(), [SUBGROUPS * WARP_LANES, 1, 1]);
    k.subgroup(WARP_LANES);
    // With a sixteen of queries for each subgroup, registers for three workgroups hold all that a
    // block needs.
    if config.tiles() == 1 && config.width == 128 {
        k.min_blocks_per_sm(3);
    }
    write(&k, *config);
    k.finish()
}

fn write<'k>(k: &'k Builder, config: MmaForwardConfig) {
    let elem = Elem::from(config.dtype);
    let places = ["q", "k", "v"].map(|n| buffer(k, n, elem));
    let y = k.buffer("y", if config.split { Elem::F32 } else { elem }, Access::Write);
    let lse = k.buffer("lse", Elem::F32, Access::Write);
    let number = indexing::scalar(config.wide);
    let args = LaunchArgs::new(k, number, 9 + 5 * 3);
    let [heads, h, group, l, s, tiles, splits] =
        ["heads", "h", "group", "l", "s", "tiles", "parts"].map(|n| args.get(n));
    // Exponents are of 2.
    let scale = scale(&args, Scalar::F32) * k.float(Scalar::F32, std::f64::consts::LOG2_E);
    let [q, key, v] = [0, 1, 2].map(|i| StridedOperand::read(&args, ["q", "k", "v"][i], places[i]));
    let staged = ["keys", "values"].map(|n| k.shared(n, elem, config.capacity_rows() * config.pitch()));

    // Which head and queries: of a causal head the last ones, which see most, first.
    let unit = linear_group_id(k, number);
    // Parts of one head are contiguous.
    let (unit, split) = if config.split { (unit / splits, unit % splits) } else { (unit, splits.like(0)) };
    let asked = unit / tiles;
    let head = asked.min(heads - 1);
    let (batch, own) = (head / h, head % h);
    let first_row = (tiles - 1 - unit % tiles) * i64::from(config.rows());
    let zero = first_row.like(0);
    let index = k.builtin(Builtin::LocalIndex);
    let stage = |operand: &StridedOperand<'k>, head: Val<'k>, depth: u32| {
        lines(operand, [batch, head, zero], [config.width, depth], index)
    };
    // Queries come through the keys' room.
    let rows = MmaForwardMainloop::new(k, config, first_row);
    stage(&q, own, config.rows()).copy([first_row, l], (staged[0], k.u32(0), config.pitch()));
    k.cp_async_commit();
    k.cp_async_wait(0);
    k.barrier();
    let queries: Vec<Vec<Val>> = (0..config.tiles()).map(|r| rows.queries(staged[0], r)).collect();
    k.barrier();

    let seen = if config.causal { s.min(first_row + i64::from(config.rows())) } else { s };
    let from = split * KEYS_PER_SPLIT as i64;
    let seen = if config.split { seen.min(from + KEYS_PER_SPLIT as i64) } else { seen };
    let kept = own / group;
    let stages = [stage(&key, kept, BLOCK), stage(&v, kept, BLOCK)];
    let pipeline = CpAsyncPipeline {
        stages,
        to: staged,
        pitch: [config.pitch(); 2],
        slots: config.slots(),
        end: seen,
        padded_end: seen,
    };
    pipeline.open(from);
    let turn = |masked: bool| {
        let (rows, queries) = (&rows, &queries);
        move |first: Val<'k>, bases: [Val<'k>; 2], old: &[Val<'k>]| {
            let limit = masked.then_some((first, seen));
            rows.turn(queries, (staged, bases), scale, limit, old)
        }
    };
    // Blocks that all queries see as a whole, then those on the diagonal and the one that keys end
    // in.
    let block = i64::from(BLOCK);
    let whole = if config.causal { first_row.min(seen) } else { seen } / block * block;
    let (slot, state) = pipeline.steps([from, whole], k.u32(0), &rows.begin(), &turn(false));
    let (_, state) = pipeline.steps([whole, seen], slot, &state, &turn(true));
    if config.split {
        return rows.leave(&state, asked.lt(heads), [split, splits, head, heads, l], [y, lse]);
    }
    rows.end(&state, asked.lt(heads), [head, l], [y, lse]);
}

/// How the workgroup brings `depth` rows of an operand, of `width` numbers each, to shared memory:
/// from the first of a head on.
pub(super) fn lines<'k>(
    operand: &StridedOperand<'k>,
    at: [Val<'k>; 3],
    [width, depth]: [u32; 2],
    index: Val<'k>,
) -> TileLoader<'k> {
    let zero = at[2].like(0);
    TileLoader {
        k: index.builder(),
        side: 1,
        index,
        invocations: SUBGROUPS * WARP_LANES,
        size: width,
        depth,
        k_major: false,
        width: COPY_ELEMENTS as u8,
        from: StridedMatrix::rows(operand.place, operand.row(at), operand.strides[2]),
        corner: zero,
        limit: zero.like(i64::from(width)),
        padding: Constant::float(Scalar::F32, 0.0),
    }
}

/// The rows of a subgroup's lane: of each sixteen two, row g and row g + 8.
struct MmaForwardMainloop<'k> {
    k: &'k Builder,
    config: MmaForwardConfig,
    /// The subgroup's first row in the workgroup's tile.
    own: Val<'k>,
    /// Each row, among all queries.
    each: Vec<[Val<'k>; 2]>,
    /// The lane's first column of eight.
    column: Val<'k>,
    /// The lanes that have the same rows, by one bit of their number each.
    others: [Val<'k>; 2],
}

impl<'k> MmaForwardMainloop<'k> {
    fn new(k: &'k Builder, config: MmaForwardConfig, first: Val<'k>) -> Self {
        let lane = k.builtin(Builtin::SubgroupLane);
        let own = k.builtin(Builtin::SubgroupId) * i64::from(config.tiles() * FRAGMENT_ROWS);
        let number = first.scalar();
        let row =
            |r: u32, below: u32| first + (own + lane / 4 + i64::from(r * FRAGMENT_ROWS + below)).to(number);
        MmaForwardMainloop {
            k,
            config,
            own,
            each: (0..config.tiles()).map(|r| [row(r, 0), row(r, 8)]).collect(),
            column: lane % 4 * 2,
            others: [lane ^ 1, lane ^ 2],
        }
    }
    fn number(&self, v: f64) -> Val<'k> {
        self.k.float(Scalar::F32, v)
    }
    /// Fragments across a value.
    fn across(&self) -> u32 {
        self.config.width / FRAGMENT_ROWS
    }

    /// The left fragments of a sixteen of queries that are in shared memory.
    fn queries(&self, from: Place, r: u32) -> Vec<Val<'k>> {
        let (k, pitch) = (self.k, i64::from(self.config.pitch()));
        let row = (self.own + i64::from(r * FRAGMENT_ROWS)) * pitch;
        let one = |e: u32| {
            let at = row + i64::from(e * FRAGMENT_ROWS);
            k.fragment_load(self.config.fragment(Role::A), Order::RowMajor, from, at, k.u32(pitch as u32))
        };
        (0..self.across()).map(one).collect()
    }

    /// What is carried from block to block: maxima and sums of rows, and fragments of results.
    fn begin(&self) -> Vec<Val<'k>> {
        let rows = 2 * self.config.tiles() as usize;
        let none = self.k.fragment_fill(self.config.fragment(Role::C), self.number(0.0));
        let mut all = vec![self.number(f64::NEG_INFINITY); rows];
        all.extend(vec![self.number(0.0); rows]);
        all.extend(vec![none; (self.config.tiles() * self.across()) as usize]);
        all
    }

    /// One block: where its keys and values begin in shared memory; `limit`: its first key, and
    /// behind the last that anybody sees, where not all rows see all of it.
    fn turn(
        &self,
        queries: &[Vec<Val<'k>>],
        (staged, bases): ([Place; 2], [Val<'k>; 2]),
        scale: Val<'k>,
        limit: Option<(Val<'k>, Val<'k>)>,
        old: &[Val<'k>],
    ) -> Vec<Val<'k>> {
        let (k, config, tiles) = (self.k, self.config, self.config.tiles() as usize);
        let (maxima, old) = old.split_at(2 * tiles);
        let (sums, results) = old.split_at(2 * tiles);
        let pitch = k.u32(config.pitch());
        let right = |side: usize, order: Order, line: u32, column: u32| {
            let at = bases[side] + i64::from(line * config.pitch() + column);
            k.fragment_load(config.fragment(Role::B), order, staged[side], at, pitch)
        };
        let sixteens = BLOCK / FRAGMENT_ROWS;
        let none = k.fragment_fill(config.fragment(Role::C), self.number(0.0));
        let mut scores = vec![vec![none; sixteens as usize]; tiles];
        for e in 0..self.across() {
            for c in 0..sixteens {
                let keys = right(0, Order::ColumnMajor, c * FRAGMENT_ROWS, e * FRAGMENT_ROWS);
                for (scores, queries) in scores.iter_mut().zip(queries) {
                    let sum = &mut scores[c as usize];
                    *sum = k.fragment_mul_add(queries[e as usize], keys, *sum);
                }
            }
        }
        let (mut next_maxima, mut next_sums, mut weights, mut scaled) = (vec![], vec![], vec![], vec![]);
        for r in 0..tiles {
            let rows =
                OnlineSoftmax { m: [maxima[2 * r], maxima[2 * r + 1]], sum: [sums[2 * r], sums[2 * r + 1]] };
            let eighths: Vec<Val> = (scores[r].iter())
                .flat_map(|&s| [0, 1].map(|half| k.fragment_extract(s, half) * scale))
                .collect();
            let eighths = match limit {
                None => eighths,
                Some((first, seen)) => self.seen(&eighths, self.each[r], first, seen),
            };
            let (rows, alpha, exponents) = self.weights(rows, &eighths);
            next_maxima.extend(rows.m);
            next_sums.extend(rows.sum);
            weights.push(
                exponents
                    .chunks(2)
                    .map(|p| k.fragment_compose(config.fragment(Role::A), p))
                    .collect::<Vec<Val>>(),
            );
            let across = self.across() as usize;
            scaled.push(
                results[r * across..][..across]
                    .iter()
                    .map(|&o| {
                        let splits = [0, 1].map(|half| k.fragment_extract(o, half) * alpha);
                        k.fragment_compose(config.fragment(Role::C), &splits)
                    })
                    .collect::<Vec<Val>>(),
            );
        }
        for c in 0..sixteens {
            for e in 0..self.across() {
                let values = right(1, Order::RowMajor, c * FRAGMENT_ROWS, e * FRAGMENT_ROWS);
                for (results, weights) in scaled.iter_mut().zip(&weights) {
                    let sum = &mut results[e as usize];
                    *sum = k.fragment_mul_add(weights[c as usize], values, *sum);
                }
            }
        }
        [next_maxima, next_sums, scaled.concat()].concat()
    }

    /// Scores by eights of keys from `first` on, -inf for those that a row does not see.
    fn seen(&self, eighths: &[Val<'k>], rows: [Val<'k>; 2], first: Val<'k>, seen: Val<'k>) -> Vec<Val<'k>> {
        let k = self.k;
        let never = self.number(f64::NEG_INFINITY).splat(4);
        // How many keys of the block a row sees.
        let counts = rows.map(|row| {
            let end = if self.config.causal { seen.min(row + 1) } else { seen };
            end - first
        });
        let one = |(i, &scores): (usize, &Val<'k>)| {
            let at = |n: i64| (self.column + (8 * i as i64 + n)).to(first.scalar());
            let [a, b] = [at(0), at(1)];
            let there = [a.lt(counts[0]), b.lt(counts[0]), a.lt(counts[1]), b.lt(counts[1])];
            k.compose(&there).select(scores, never)
        };
        eighths.iter().enumerate().map(one).collect()
    }

    /// The maxima and sums of two rows with a block's scores, what makes the results before fit to
    /// them, and the block's weights.
    fn weights(
        &self,
        old: OnlineSoftmax<'k>,
        scores: &[Val<'k>],
    ) -> (OnlineSoftmax<'k>, Val<'k>, Vec<Val<'k>>) {
        let k = self.k;
        let larger = |a: Val<'k>, b: Val<'k>| a.lt(b).select(b, a);
        let m = [0u8, 2].map(|first| {
            let mut all = scores.iter().flat_map(|s| [s.extract(first), s.extract(first + 1)]);
            let own = all.next().map_or(self.number(f64::NEG_INFINITY), |one| all.fold(one, larger));
            self.others.iter().fold(own, |m, &other| larger(m, k.shuffle(m, other)))
        });
        let m = [larger(old.m[0], m[0]), larger(old.m[1], m[1])];
        // Where nothing was seen so far, nothing is taken off, and weights are 2^-inf.
        let never = self.number(f64::NEG_INFINITY);
        let shift = m.map(|m| m.eq(never).select(self.number(0.0), m));
        let alpha = [0, 1].map(|i| exp2(old.m[i] - shift[i]));
        let [shifts, alphas] = [shift, alpha].map(|[a, b]| k.compose(&[a, a, b, b]));
        let weights: Vec<Val> = scores.iter().map(|&s| exp2(s - shifts)).collect();
        let mut sum = [old.sum[0] * alpha[0], old.sum[1] * alpha[1]];
        for w in &weights {
            for (i, sum) in sum.iter_mut().enumerate() {
                let first = 2 * i as u8;
                *sum = *sum + w.extract(first) + w.extract(first + 1);
            }
        }
        (OnlineSoftmax { m, sum }, alphas, weights)
    }

    /// Stores what a part found of those rows that there are: results as they are; maxima, and
    /// behind those of all parts sums.
    fn leave(
        &self,
        state: &[Val<'k>],
        exists: Val<'k>,
        [split, splits, head, heads, l]: [Val<'k>; 5],
        [results, statistics]: [Place; 2],
    ) {
        let (k, config) = (self.k, self.config);
        let (maxima, state) = state.split_at(2);
        let (sums, fragments) = state.split_at(2);
        let total =
            [0, 1].map(|i| self.others.iter().fold(sums[i], |sum, &other| sum + k.shuffle(sum, other)));
        let args: Vec<Val> =
            fragments.iter().flat_map(|&o| [0, 1].map(|half| k.fragment_extract(o, half))).collect();
        for i in 0..2 {
            let row = self.each[0][i];
            k.if_(row.lt(l) & exists, || {
                let line = (split * heads + head) * l + row;
                for (eighth, four) in args.iter().enumerate() {
                    let first = 2 * i as u8;
                    let pair = k.compose(&[four.extract(first), four.extract(first + 1)]);
                    let column = self.column + 8 * eighth as i64;
                    k.store(results, line * i64::from(config.width) + column.to(line.scalar()), pair);
                }
                k.if_(self.column.eq(k.u32(0)), || {
                    k.store(statistics, line, maxima[i]);
                    k.store(statistics, splits * heads * l + line, total[i]);
                });
            });
        }
    }

    /// Stores results and statistics of those rows that there are.
    fn end(&self, state: &[Val<'k>], exists: Val<'k>, [head, l]: [Val<'k>; 2], [y, lse]: [Place; 2]) {
        let (k, config, tiles) = (self.k, self.config, self.config.tiles() as usize);
        let (maxima, state) = state.split_at(2 * tiles);
        let (sums, results) = state.split_at(2 * tiles);
        let (zero, one) = (self.number(0.0), self.number(1.0));
        let across = self.across() as usize;
        for r in 0..tiles {
            let total = [0, 1]
                .map(|i| self.others.iter().fold(sums[2 * r + i], |sum, &other| sum + k.shuffle(sum, other)));
            let inverse = total.map(|t| one / t.eq(zero).select(one, t));
            let splits: Vec<Val> = (results[r * across..][..across].iter())
                .flat_map(|&o| [0, 1].map(|half| k.fragment_extract(o, half)))
                .collect();
            for i in 0..2 {
                let row = self.each[r][i];
                let there = row.compare(Compare::Lt, l) & exists;
                k.if_(there, || {
                    let line = (head * l + row) * i64::from(config.width);
                    for (eighth, split) in splits.iter().enumerate() {
                        let first = 2 * i as u8;
                        let pair = [split.extract(first), split.extract(first + 1)];
                        let pair = k.compose(&pair) * inverse[i];
                        let column = self.column + 8 * eighth as i64;
                        k.store(y, line + column.to(line.scalar()), pair);
                    }
                    k.if_(self.column.eq(k.u32(0)), || {
                        let log = Float::<W32>::new(Term::Value(total[i])).log().0.value(k);
                        let m = maxima[2 * r + i] * self.number(std::f64::consts::LN_2);
                        k.store(lse, head * l + row, m + log);
                    });
                });
            }
        }
    }
}

/// 2^x for x of at most 127, or NaN; nearly.
pub(super) fn exp2(x: Val<'_>) -> Val<'_> {
    x.unary(Unary::Exp2)
}

/// The running maximum, and a lane's part of the sum, of two rows.
#[derive(Clone, Copy)]
struct OnlineSoftmax<'k> {
    m: [Val<'k>; 2],
    sum: [Val<'k>; 2],
}
