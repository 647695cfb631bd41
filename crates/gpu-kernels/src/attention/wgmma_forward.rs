//! Attention forward by TMA and wgmma (Hopper tensor cores, flash attention): y and lse,
//! `Precision::Fast`, for values without a mask.
//!
//! A workgroup takes a tile of queries of one head, 64 per warpgroup. Queries stay in shared
//! memory; keys and values come block by block by TMA loads, the last block first: so the blocks
//! that need masking come before the loop, where the tile is no higher than a block. Scores are
//! wgmma accumulators: a row is spread over four lanes. Weights, rounded to 16 bits, are the left
//! factor of the product with values, from registers.
//!
//! An iteration begins the scores of its block and the product of the weights of the block before;
//! while that is multiplied, scores become weights. So the exponentials of one warpgroup overlap
//! with tensor-core work of its own and of the others. Shared memory that has been read is refilled
//! behind the barrier of the next iteration, when its scores are under way.
//!
//! Exponents are base 2, and scores are scaled where the maximum is subtracted, by one fma: so the
//! maximum is that of unscaled scores, or their minimum if the scale is negative. A row depends on
//! no other row.

use super::mma_forward::exp2;
use super::tma_operands::{
    ARGS_PER_OPERAND, FRAGMENT_ROWS, TILE_ELEMENTS, TILE_SIDE, TmaLayout, TmaOperand, WARP_LANES,
    assign_tile, exponents, fragment, heads_together,
};
use crate::launch::args::{self, LaunchArgs};
use crate::launch::{BufferSlot, BufferSpec, Key, LaunchSequence, Work, grid, linear_group_id};
use crate::layout::indexing;
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{
    Access, Binary, Builtin, Elem, Fragment, FragmentLayout as Order, Kernel, Place, Role, Scalar,
    TensorView, WARPGROUP, tile_row_elements,
};
use elinvar_kernel::lane::{Float, Term, W32};
use elinvar_ops::backend::Attention;
use elinvar_ops::lane::Lane;

/// How attention is cut into pieces. It changes bits by the block alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WgmmaAttentionTile {
    /// Groups of 128 invocations, each with 64 queries.
    pub groups: u32,
    /// Keys of a block: a multiple of 64, up to 256.
    pub block: u32,
    /// Blocks of keys, and of values, that have room in shared memory: at least 2.
    pub slots: u32,
}

impl WgmmaAttentionTile {
    /// The tile of a width: as many queries as registers of a multiprocessor hold. Smaller blocks,
    /// and fewer queries of 64 elements, were slower on an H100.
    pub const fn of(width: u32) -> WgmmaAttentionTile {
        let groups = if width > TILE_SIDE { 2 } else { 3 };
        WgmmaAttentionTile { groups, block: 128, slots: 2 }
    }
    const fn queries(self) -> u32 {
        self.groups * TILE_SIDE
    }
    /// Bytes of shared memory for a width: queries, keys and values, mbarriers.
    pub const fn shared_bytes(self, width: u32) -> u32 {
        (self.queries() + 2 * self.slots * self.block) * width * 2 + (2 * self.slots + 1) * 8
    }
}

/// Can it be done so? Values of 64 or 128 numbers, as wide as queries, no mask, all of which TMA
/// tiles can be fetched. If it can, a query can be done so alone.
pub fn fits(a: &Attention, dtype: DType, operands: [&Layout; 3], masked: bool, shared: u32) -> bool {
    let [q, k, v] = operands;
    let width = q.shape()[3];
    let exponents = exponents(a);
    matches!(dtype, DType::F16 | DType::BF16)
        && !masked
        && matches!(width, 64 | 128)
        && v.shape()[3] == width
        && k.shape()[2] > 0
        && exponents.is_normal()
        && WgmmaAttentionTile::of(width as u32).shared_bytes(width as u32) <= shared
        && operands.iter().all(|l| !indexing::is_wide(l) && TmaLayout::of(dtype.into(), l).is_some())
}

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WgmmaForwardConfig {
    /// f16 or bf16: the dtype of q, k, v and y.
    pub dtype: DType,
    /// Numbers of a query, a key and a value: 64 or 128.
    pub width: u32,
    /// Query `i` sees keys `0..=i` only.
    pub causal: bool,
    /// Is the scale below zero?
    pub negative: bool,
    /// Of which of q, k and v do heads stand in lines?
    pub interleaved_heads: [bool; 3],
    /// How it is cut into pieces.
    pub tile: WgmmaAttentionTile,
}

/// The work of attention: q, k, v, then y and lse. `None` if there are no queries.
///
/// # Panics
/// If it does not fit ([`fits`]).
pub fn attention(
    a: &Attention,
    dtype: DType,
    operands: [&Layout; 3],
    tile: WgmmaAttentionTile,
) -> Option<Work<'static>> {
    let [q, k, _] = operands;
    let (b, h, l, d) = (q.shape()[0], q.shape()[1], q.shape()[2], q.shape()[3]);
    let (j, s) = (k.shape()[1], k.shape()[2]);
    if b * h * l == 0 {
        return None;
    }
    let layouts = operands.map(|l| {
        let layouts = TmaLayout::of(dtype.into(), l);
        layouts.unwrap_or_else(|| panic!("attention by wgmma: {operands:?} of {dtype}"))
    });
    let exponents = exponents(a);
    let config = WgmmaForwardConfig {
        dtype,
        width: d as u32,
        causal: a.causal,
        negative: exponents < 0.0,
        interleaved_heads: layouts.map(|l| l.interleaved_heads),
        tile,
    };
    let tiles = l.div_ceil(tile.queries() as usize);
    let heads_together = heads_together(a.causal, b * h, 4 * s * d);
    let mut all = [b * h, h, h / j.max(1), l, s, tiles, heads_together].map(|v| v as i64).to_vec();
    all.push(i64::from(exponents.to_bits() as i32));
    all.extend(layouts.iter().flat_map(|l| l.args));
    let key = Key::of("attention_wgmma_forward").with(&config);
    let groups = grid((b * h * tiles) as u64);
    Some(args::work(key, move || build(&config), groups, Scalar::I32, &all))
}

/// The same as steps: gives y and lse.
///
/// # Panics
/// If it does not fit ([`fits`]).
pub fn steps(a: &Attention, dtype: DType, operands: [&Layout; 3]) -> LaunchSequence<'static> {
    let [q, ..] = operands;
    let (rows, width) = (q.shape()[..3].iter().product::<usize>(), q.shape()[3]);
    let results = vec![BufferSpec::of(dtype.into(), rows * width), BufferSpec::of(Elem::F32, rows)];
    let mut all = LaunchSequence { results, ..LaunchSequence::default() };
    if let Some(work) = attention(a, dtype, operands, WgmmaAttentionTile::of(width as u32)) {
        let given = [BufferSlot::Operand(0), BufferSlot::Operand(1), BufferSlot::Operand(2)];
        all.push(work, &[&given[..], &[BufferSlot::Result(0), BufferSlot::Result(1)]].concat());
    }
    all
}

impl WgmmaForwardConfig {
    fn name(&self) -> String {
        let WgmmaAttentionTile { block, slots, .. } = self.tile;
        let flags = [(self.causal, "_causal"), (self.negative, "_negative")];
        let mut flags: String = flags.iter().filter(|f| f.0).map(|f| f.1).collect();
        for (interleaved_heads, name) in self.interleaved_heads.into_iter().zip(["q", "k", "v"]) {
            flags += if interleaved_heads { name } else { "" };
        }
        format!(
            "attention_wgmma_{}_{}_{}x{block}s{slots}{flags}",
            self.dtype,
            self.width,
            self.tile.queries()
        )
    }
    /// Blocks across a value.
    fn across(self) -> u32 {
        self.width / TILE_SIDE
    }
    fn fragment(self, role: Role) -> Fragment {
        fragment(self.dtype, role)
    }
}

/// The kernel of a form.
pub fn build(config: &WgmmaForwardConfig) -> Kernel {
    let t = config.tile;
    let k = Builder::new(&config.name(), [t.groups * WARPGROUP, 1, 1]);
    k.subgroup(WARP_LANES);
    k.min_blocks_per_sm(1);
    k.mbarriers(2 * t.slots + 1);
    write(&k, *config);
    k.finish()
}

fn write<'k>(k: &'k Builder, config: WgmmaForwardConfig) {
    let (elem, t) = (Elem::from(config.dtype), config.tile);
    assert!(TensorView::is_transposable(elem) && tile_row_elements(elem) == TILE_SIDE, "values of 16 bits");
    let places = ["q", "k", "v"].map(|n| k.buffer(n, elem, Access::Read));
    let y = k.buffer("y", elem, Access::Write);
    let lse = k.buffer("lse", Elem::F32, Access::Write);
    let args = LaunchArgs::new(k, Scalar::I32, 8 + ARGS_PER_OPERAND * 3);
    let [heads, h, group, l, s, tiles, heads_together] =
        ["heads", "h", "group", "l", "s", "tiles", "together"].map(|n| args.get(n));
    let scale = args.get("exponents").bitcast(Scalar::F32);
    let operand = |i: usize, lines: u32, count: Val<'k>| {
        TmaOperand::read(
            (k, &args),
            (["q", "k", "v"][i], places[i]),
            config.interleaved_heads[i],
            (lines, count),
        )
    };
    let (q, keys, values) = (operand(0, t.queries(), l), operand(1, t.block, s), operand(2, TILE_SIDE, s));
    let queries = k.shared("queries", elem, t.queries() * config.width);
    let [kept_keys, kept_values] =
        ["keys", "values"].map(|n| k.shared(n, elem, t.slots * t.block * config.width));

    let unit = linear_group_id(k, Scalar::I32);
    let (exists, head, tile) = assign_tile(unit, [heads, tiles, heads_together], config.causal);
    let (batch, own) = (head / h, head % h);
    let first_row = tile * i64::from(t.queries());
    let seen = if config.causal { s.min(first_row + i64::from(t.queries())) } else { s };
    let block = i64::from(t.block);
    let blocks = (seen + (block - 1)) / block;
    let lane = k.builtin(Builtin::SubgroupLane);
    let row = |below: i64| {
        let within = k.builtin(Builtin::SubgroupId) * i64::from(FRAGMENT_ROWS) + lane / 4 + below;
        first_row + within.to(Scalar::I32)
    };
    let rows = WgmmaForwardMainloop {
        k,
        config,
        queries,
        kept: [kept_keys, kept_values],
        operands: [keys, values].map(|o| o.head(batch, h / group, own / group)),
        rows_base: k.builtin(Builtin::LocalIndex) / i64::from(WARPGROUP) * i64::from(TILE_ELEMENTS),
        each: [row(0), row(8)],
        column: lane % 4 * 2,
        others: [lane ^ 1, lane ^ 2],
        scale,
        seen,
        blocks,
    };

    let own_queries = q.head(batch, h, own);
    let zero = k.u32(0);
    let tiles = (0..config.across())
        .map(|e| own_queries.tma_tile(k, (queries, k.u32(e * t.queries() * TILE_SIDE)), first_row, e));
    k.tma_load(zero, tiles.collect());
    let none = blocks.like(0);
    for i in 0..t.slots {
        rows.load_tiles(KEYS, none + i64::from(i), k.u32(i));
        if i + 1 < t.slots {
            rows.load_tiles(VALUES, none + i64::from(i), k.u32(i));
        }
    }
    // The last block, of which not all rows see all.
    k.mbarrier_wait(zero, zero);
    k.mbarrier_wait(rows.mbarrier(KEYS, zero), zero);
    let scores = rows.scores(zero);
    k.wgmma_wait(0);
    let never = rows.number(if config.negative { f64::INFINITY } else { f64::NEG_INFINITY });
    let begin = OnlineSoftmax { m: [never; 2], sum: [rows.number(0.0); 2] };
    let (softmax, alpha, weights) = rows.weights(begin, &scores, Some((blocks - 1) * block));
    k.mbarrier_wait(rows.mbarrier(VALUES, zero), zero);
    let empty = k.fragment_fill(config.fragment(Role::C), rows.number(0.0));
    let results = vec![empty; (config.width / FRAGMENT_ROWS) as usize];
    let state = WgmmaForwardState {
        slot: zero,
        phase: zero,
        softmax,
        alpha,
        weights: rows.rounded(&weights),
        results,
    };

    // Blocks that all queries see as a whole stand before the others.
    let whole = if config.causal { first_row.min(seen) } else { seen } / block;
    let turns = |from: Val<'k>, to: Val<'k>, masked: bool, state: &WgmmaForwardState<'k>| {
        let turn = |at: Val<'k>, carried: &[Val<'k>]| {
            rows.turn(at, masked, &WgmmaForwardState::of(config, carried)).carried()
        };
        WgmmaForwardState::of(config, &k.for_(from, to, from.like(1), &state.carried(), turn))
    };
    let second = none + 1;
    let state = if config.causal && !t.block.is_multiple_of(t.queries()) {
        let masked = (blocks - whole).max(second);
        let state = turns(second, masked, true, &state);
        turns(masked, blocks, false, &state)
    } else {
        turns(second, blocks, false, &state)
    };
    let results = rows.results(&state.weights, state.slot, &rows.scaled(&state.results, state.alpha));
    k.wgmma_wait(0);
    rows.end((&state.softmax, &results), exists, [head, l], [y, lse]);
}

/// Which of two: their slots, and their mbarriers behind that of queries.
const KEYS: usize = 0;
const VALUES: usize = 1;

/// What a turn leaves to the next one.
struct WgmmaForwardState<'k> {
    /// Where the values of the last block are, and the phase of their mbarrier.
    slot: Val<'k>,
    phase: Val<'k>,
    softmax: OnlineSoftmax<'k>,
    /// What the results have to be multiplied by.
    alpha: [Val<'k>; 2],
    weights: Vec<Val<'k>>,
    results: Vec<Val<'k>>,
}

impl<'k> WgmmaForwardState<'k> {
    fn carried(&self) -> Vec<Val<'k>> {
        let OnlineSoftmax { m, sum } = self.softmax;
        [&[self.slot, self.phase], &m[..], &sum, &self.alpha, &self.weights, &self.results].concat()
    }
    fn of(config: WgmmaForwardConfig, all: &[Val<'k>]) -> WgmmaForwardState<'k> {
        let (weights, results) = all[8..].split_at((config.tile.block / FRAGMENT_ROWS) as usize);
        WgmmaForwardState {
            slot: all[0],
            phase: all[1],
            softmax: OnlineSoftmax { m: [all[2], all[3]], sum: [all[4], all[5]] },
            alpha: [all[6], all[7]],
            weights: weights.to_vec(),
            results: results.to_vec(),
        }
    }
}

/// The running maximum (or minimum) of products, and a lane's part of the sum, of two rows.
#[derive(Clone, Copy)]
struct OnlineSoftmax<'k> {
    m: [Val<'k>; 2],
    sum: [Val<'k>; 2],
}

/// The rows of a subgroup's lane: row g and row g + 8 of its sixteen.
struct WgmmaForwardMainloop<'k> {
    k: &'k Builder,
    config: WgmmaForwardConfig,
    queries: Place,
    /// Keys, and values.
    kept: [Place; 2],
    operands: [TmaOperand<'k>; 2],
    /// Where the blocks of the invocation's 64 queries begin, in each 64 numbers.
    rows_base: Val<'k>,
    /// Each row, among all queries.
    each: [Val<'k>; 2],
    /// The lane's first column of eight.
    column: Val<'k>,
    /// The lanes that have the same rows, by one bit of their number each.
    others: [Val<'k>; 2],
    /// From products to exponents of 2.
    scale: Val<'k>,
    /// Behind the last key that anybody sees.
    seen: Val<'k>,
    blocks: Val<'k>,
}

impl<'k> WgmmaForwardMainloop<'k> {
    fn number(&self, v: f64) -> Val<'k> {
        self.k.float(Scalar::F32, v)
    }
    fn mbarrier(&self, side: usize, slot: Val<'k>) -> Val<'k> {
        slot + i64::from(1 + side as u32 * self.config.tile.slots)
    }
    /// The next slot, and the phase of what is in it.
    fn next(&self, slot: Val<'k>, phase: Val<'k>) -> [Val<'k>; 2] {
        let k = self.k;
        let wraps = slot.eq(k.u32(self.config.tile.slots - 1));
        [wraps.select(k.u32(0), slot + 1), wraps.select(k.u32(1) - phase, phase)]
    }
    /// Fetches a block to a slot, if there is one; they are counted from the last one.
    fn load_tiles(&self, side: usize, number: Val<'k>, slot: Val<'k>) {
        let (k, config, t) = (self.k, self.config, self.config.tile);
        k.if_(number.lt(self.blocks), || {
            let line = (self.blocks - 1 - number) * i64::from(t.block);
            let base = slot * i64::from(t.block * config.width);
            let one = |line: Val<'k>, at: u32, part: u32| {
                let to = (self.kept[side], base + i64::from(at * TILE_ELEMENTS));
                self.operands[side].tma_tile(k, to, line, part)
            };
            let high = t.block / TILE_SIDE;
            let tiles = if side == KEYS {
                (0..config.across()).map(|e| one(line, e * high, e)).collect()
            } else {
                // Columns of 64 keys side by side.
                let at =
                    |i: u32| one(line + i64::from(i / config.across() * TILE_SIDE), i, i % config.across());
                (0..high * config.across()).map(at).collect()
            };
            k.tma_load(self.mbarrier(side, slot), tiles);
        });
    }
    /// Begins the products of the rows with the keys in a slot.
    fn scores(&self, slot: Val<'k>) -> Vec<Val<'k>> {
        let (k, config, t) = (self.k, self.config, self.config.tile);
        let none = |_| k.fragment_fill(config.fragment(Role::C), self.number(0.0));
        let sums: Vec<Val> = (0..t.block / FRAGMENT_ROWS).map(none).collect();
        let base = slot * i64::from(t.block * config.width);
        (0..config.across()).fold(sums, |sums, e| {
            let a = self.rows_base + i64::from(e * t.queries() * TILE_SIDE);
            let b = base + i64::from(e * t.block * TILE_SIDE);
            k.wgmma_ss((Order::RowMajor, self.queries, a), (Order::ColumnMajor, self.kept[KEYS], b), &sums)
        })
    }
    /// Begins to add the products of weights with the values in a slot.
    fn results(&self, weights: &[Val<'k>], slot: Val<'k>, sums: &[Val<'k>]) -> Vec<Val<'k>> {
        let (k, config) = (self.k, self.config);
        let base = slot * i64::from(config.tile.block * config.width);
        weights.chunks(4).enumerate().fold(sums.to_vec(), |sums, (c, weights)| {
            let b = base + i64::from(c as u32 * TILE_SIDE * config.width);
            k.wgmma_rs(weights, (Order::RowMajor, self.kept[VALUES], b), &sums)
        })
    }
    fn scaled(&self, results: &[Val<'k>], [a, b]: [Val<'k>; 2]) -> Vec<Val<'k>> {
        let (k, c) = (self.k, self.config.fragment(Role::C));
        let alphas = k.compose(&[a, a, b, b]);
        let half = |o: Val<'k>, i: u8| k.fragment_extract(o, i) * alphas;
        results.iter().map(|&o| k.fragment_compose(c, &[half(o, 0), half(o, 1)])).collect()
    }
    fn rounded(&self, weights: &[Val<'k>]) -> Vec<Val<'k>> {
        let a = self.config.fragment(Role::A);
        weights.chunks(2).map(|w| self.k.fragment_compose(a, w)).collect()
    }

    /// The block of this number, counted from the last one.
    fn turn(&self, number: Val<'k>, masked: bool, old: &WgmmaForwardState<'k>) -> WgmmaForwardState<'k> {
        let (k, t) = (self.k, self.config.tile);
        let [slot, phase] = self.next(old.slot, old.phase);
        k.mbarrier_wait(self.mbarrier(KEYS, slot), phase);
        let scores = self.scores(slot);
        let scaled = self.scaled(&old.results, old.alpha);
        // All have read the keys of the block before, and the values of the one before that. And
        // the scores of all warpgroups are queued before any results, and so are there while
        // results are multiplied: behind these, the barrier costs a seventh of the time.
        k.barrier();
        let before = old.slot.eq(k.u32(0)).select(k.u32(t.slots - 1), old.slot - 1);
        self.load_tiles(KEYS, number + i64::from(t.slots - 1), old.slot);
        let later = number + (i64::from(t.slots) - 2);
        self.load_tiles(VALUES, later, before);
        let results = self.results(&old.weights, old.slot, &scaled);
        k.wgmma_wait((t.block / TILE_SIDE) as u8);
        let first = masked.then(|| (self.blocks - 1 - number) * i64::from(t.block));
        let (softmax, alpha, weights) = self.weights(old.softmax, &scores, first);
        // The assembler puts a wait as early as it can, beside others of what it takes for one
        // piece. To wait for a mbarrier first, which is a loop, makes this another one, and the
        // exponentials stay in front of it.
        k.mbarrier_wait(self.mbarrier(VALUES, slot), phase);
        k.wgmma_wait(0);
        WgmmaForwardState { slot, phase, softmax, alpha, weights: self.rounded(&weights), results }
    }

    /// The maxima and sums of two rows with a block's scores, what makes the results before fit to
    /// them, and the block's weights, by eights of keys. `first`: the block's first key, where not
    /// all rows see all of it.
    fn weights(
        &self,
        old: OnlineSoftmax<'k>,
        scores: &[Val<'k>],
        first: Option<Val<'k>>,
    ) -> (OnlineSoftmax<'k>, [Val<'k>; 2], Vec<Val<'k>>) {
        let (k, config) = (self.k, self.config);
        let never = self.number(if config.negative { f64::INFINITY } else { f64::NEG_INFINITY });
        let eighths: Vec<Val> =
            scores.iter().flat_map(|&s| [0, 1].map(|half| k.fragment_extract(s, half))).collect();
        let eighths = match first {
            None => eighths,
            Some(first) => self.hidden(&eighths, first, never),
        };
        let most = if config.negative { Binary::Min } else { Binary::Max };
        let m = [0u8, 2].map(|at| {
            // Two chains, so that one goes on while the other waits.
            let own = [at, at + 1].map(|c| {
                let all = eighths.iter().map(|e| e.extract(c));
                all.reduce(|a, b| a.binary(most, b)).expect("a block has keys")
            });
            let own = own[0].binary(most, own[1]);
            self.others.iter().fold(own, |m, &other| m.binary(most, k.shuffle(m, other)))
        });
        let m = [0, 1].map(|i| old.m[i].binary(most, m[i]));
        // Where nothing was seen so far, nothing is taken off, and weights are 2^-inf.
        let shift = m.map(|m| m.eq(never).select(self.number(0.0), m * self.scale));
        let alpha = [0, 1].map(|i| exp2(old.m[i].fma(self.scale, -shift[i])));
        let shifts = k.compose(&[shift[0], shift[0], shift[1], shift[1]]);
        let (scales, less) = (self.scale.splat(4), -shifts);
        let weights: Vec<Val> = eighths.iter().map(|e| exp2(e.fma(scales, less))).collect();
        let sum = [0, 1].map(|i| {
            let of = |c: u8| {
                let all = weights.iter().map(|w| w.extract(c));
                all.reduce(|a, b| a + b).expect("a block has keys")
            };
            old.sum[i].fma(alpha[i], of(2 * i as u8) + of(2 * i as u8 + 1))
        });
        (OnlineSoftmax { m, sum }, alpha, weights)
    }

    /// Scores by eights of keys from `first` on; others for those that a row does not see.
    fn hidden(&self, eighths: &[Val<'k>], first: Val<'k>, never: Val<'k>) -> Vec<Val<'k>> {
        let k = self.k;
        let never = never.splat(4);
        // How many keys of the block a row sees, from the lane's first column on.
        let counts = self.each.map(|row| {
            let end = if self.config.causal { self.seen.min(row + 1) } else { self.seen };
            end - first - self.column.to(Scalar::I32)
        });
        let one = |(i, &scores): (usize, &Val<'k>)| {
            let more = |count: Val<'k>, n: i64| count.like(8 * i as i64 + n).lt(count);
            let [a, b] = counts;
            let there = [more(a, 0), more(a, 1), more(b, 0), more(b, 1)];
            k.compose(&there).select(scores, never)
        };
        eighths.iter().enumerate().map(one).collect()
    }

    /// Stores results and statistics of those rows that there are.
    fn end(
        &self,
        (softmax, results): (&OnlineSoftmax<'k>, &[Val<'k>]),
        exists: Val<'k>,
        [head, l]: [Val<'k>; 2],
        [y, lse]: [Place; 2],
    ) {
        let (k, config) = (self.k, self.config);
        let (zero, one) = (self.number(0.0), self.number(1.0));
        let total =
            softmax.sum.map(|sum| self.others.iter().fold(sum, |sum, &other| sum + k.shuffle(sum, other)));
        let inverse = total.map(|t| one / t.eq(zero).select(one, t));
        let parts: Vec<Val> =
            results.iter().flat_map(|&o| [0, 1].map(|half| k.fragment_extract(o, half))).collect();
        for i in 0..2 {
            let row = self.each[i];
            k.if_(row.lt(l) & exists, || {
                let line = (head * l + row) * i64::from(config.width);
                for (eighth, part) in parts.iter().enumerate() {
                    let first = 2 * i as u8;
                    let pair = k.compose(&[part.extract(first), part.extract(first + 1)]) * inverse[i];
                    let column = self.column + 8 * eighth as i64;
                    k.store(y, line + column.to(Scalar::I32), pair);
                }
                k.if_(self.column.eq(k.u32(0)), || {
                    let log = Float::<W32>::new(Term::Value(total[i])).log().0.value(k);
                    let m = softmax.m[i] * self.scale * self.number(std::f64::consts::LN_2);
                    k.store(lse, head * l + row, m + log);
                });
            });
        }
    }
}
