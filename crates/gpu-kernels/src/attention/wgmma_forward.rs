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

mod mainloop;

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
    Access, Builtin, Elem, Fragment, Kernel, Role, Scalar, TensorView, WARPGROUP, tile_row_elements,
};
use elinvar_ops::backend::Attention;
use mainloop::{OnlineSoftmax, WgmmaForwardMainloop, WgmmaForwardState};

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
