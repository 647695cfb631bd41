//! Attention backward by TMA and wgmma (Hopper tensor cores): dq, dk and dv, `Precision::Fast`, for
//! values without a mask.
//!
//! Two kernels without atomics. One has rows of queries, as the forward, and adds dS K to dq; the
//! other has rows of keys, and adds P^T g to dv and dS^T Q to dk. Of S and g V^T, the rows stay in
//! shared memory and the others come block by block, in a multistage pipeline of TMA loads; weights
//! are left factors from registers (wgmma RS). A block that was loaded once is read along its rows
//! for one product and across them for another.
//!
//! An iteration begins S and g V^T. Exponentials are computed while the second is multiplied; by
//! keys, the product of the weights follows, and is multiplied while dS is made. The accumulating
//! products are waited for in the next iteration, behind its S.
//!
//! D = sum of g o of each query, and its exponent offset, come from `delta.rs`.

use super::backward::BackwardInputs;
use super::delta::{self, statistics};
use super::mma_forward::exp2;
use super::tma_operands::{
    ARGS_PER_OPERAND, FRAGMENT_ROWS, TILE_ELEMENTS, TILE_SIDE, TmaLayout, TmaOperand, WARP_LANES,
    assign_tile, exponents, fragment, heads_together,
};
use super::wgmma_forward::WgmmaAttentionTile;
use crate::launch::args::{self, LaunchArgs};
use crate::launch::sequence::{BufferSlot, BufferSpec, LaunchSequence};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing;
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{
    Access, Builtin, Elem, FragmentLayout as Order, Kernel, Place, Role, Scalar, TmaTile, WARPGROUP,
};
use elinvar_ops::backend::Attention;

/// Which kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackwardPass {
    /// Rows are queries: dq.
    GradQuery,
    /// Rows are keys: dk and dv.
    GradKeyValue,
}

impl BackwardPass {
    /// How it is cut into pieces: of a tile, `block` is of those that are no rows. Larger blocks
    /// were slower on an H100, for both widths.
    pub const fn tile(self, width: u32) -> WgmmaAttentionTile {
        match self {
            BackwardPass::GradQuery if width > TILE_SIDE => {
                WgmmaAttentionTile { groups: 2, block: 64, slots: 3 }
            }
            BackwardPass::GradQuery => WgmmaAttentionTile { groups: 3, block: 64, slots: 4 },
            BackwardPass::GradKeyValue if width > TILE_SIDE => {
                WgmmaAttentionTile { groups: 2, block: 64, slots: 3 }
            }
            BackwardPass::GradKeyValue => WgmmaAttentionTile { groups: 2, block: 64, slots: 4 },
        }
    }
    /// Bytes of shared memory: rows and others of both sides, statistics of blocks of queries,
    /// mbarriers.
    const fn shared_bytes(self, t: WgmmaAttentionTile, width: u32) -> u32 {
        let statistics = match self {
            BackwardPass::GradQuery => 0,
            BackwardPass::GradKeyValue => t.slots * 2 * t.block * 4,
        };
        2 * (t.groups * TILE_SIDE + t.slots * t.block) * width * 2 + statistics + (t.slots + 1) * 8
    }
}

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WgmmaBackwardConfig {
    /// Whose rows.
    pub pass: BackwardPass,
    /// f16 or bf16: the dtype of q, k, v and the gradients.
    pub dtype: DType,
    /// Numbers of a query, a key and a value: 64 or 128.
    pub width: u32,
    /// Query `i` sees keys `0..=i` only.
    pub causal: bool,
    /// Of which of q, k, v and g do heads stand in lines?
    pub interleaved_heads: [bool; 4],
    /// How it is cut into pieces.
    pub tile: WgmmaAttentionTile,
}

/// Can it be done so? As the result, and the result's gradient has this layout, too.
pub fn grad_fits(a: &Attention, dtype: DType, x: &BackwardInputs<'_>, shared: u32) -> bool {
    let width = x.q.shape()[3] as u32;
    super::wgmma_forward::fits(a, dtype, [x.q, x.k, x.v], x.mask.is_some(), shared)
        && [BackwardPass::GradQuery, BackwardPass::GradKeyValue]
            .iter()
            .all(|pass| pass.shared_bytes(pass.tile(width), width) <= shared)
        && !indexing::is_wide(x.g)
        && delta::fits(x.o, x.lse)
        && TmaLayout::of(dtype.into(), x.g).is_some()
}

/// The work of the gradient. Operands: q, k, v, o, lse, g. Results: dq, dk, dv.
///
/// # Panics
/// If it does not fit ([`grad_fits`]).
pub fn attention_grad(a: &Attention, dtype: DType, x: &BackwardInputs<'_>) -> LaunchSequence<'static> {
    let width = x.q.shape()[3] as u32;
    steps_by(a, dtype, x, [BackwardPass::GradQuery, BackwardPass::GradKeyValue].map(|pass| pass.tile(width)))
}

/// The same, cut into pieces otherwise: by queries and by keys.
pub fn steps_by(
    a: &Attention,
    dtype: DType,
    x: &BackwardInputs<'_>,
    tiles: [WgmmaAttentionTile; 2],
) -> LaunchSequence<'static> {
    let buffer_spec = |l: &Layout| BufferSpec::of(dtype.into(), l.shape().numel());
    let mut all = LaunchSequence {
        results: vec![buffer_spec(x.q), buffer_spec(x.k), buffer_spec(x.v)],
        ..LaunchSequence::default()
    };
    let rows = x.q.shape()[..3].iter().product();
    all.scratch = vec![BufferSpec::of(Elem::F32, rows); 2];
    if let Some(work) = statistics(dtype, [x.g, x.o, x.lse]) {
        let given = [5, 3, 4].map(BufferSlot::Operand);
        all.push(work, &[&given[..], &[BufferSlot::Scratch(0), BufferSlot::Scratch(1)]].concat());
    }
    let given = [0, 1, 2, 5].map(BufferSlot::Operand);
    for (pass, tile) in [BackwardPass::GradQuery, BackwardPass::GradKeyValue].into_iter().zip(tiles) {
        let results: &[BufferSlot] = match pass {
            BackwardPass::GradQuery => &[BufferSlot::Result(0)],
            BackwardPass::GradKeyValue => &[BufferSlot::Result(1), BufferSlot::Result(2)],
        };
        if let Some(work) = launch(pass, a, dtype, x, tile) {
            all.push(
                work,
                &[&given[..], &[BufferSlot::Scratch(1), BufferSlot::Scratch(0)], results].concat(),
            );
        }
    }
    all
}

fn launch(
    pass: BackwardPass,
    a: &Attention,
    dtype: DType,
    x: &BackwardInputs<'_>,
    tile: WgmmaAttentionTile,
) -> Option<Work<'static>> {
    let (b, h, l, d) = (x.q.shape()[0], x.q.shape()[1], x.q.shape()[2], x.q.shape()[3]);
    let (j, s) = (x.k.shape()[1], x.k.shape()[2]);
    let (heads, rows, others) = match pass {
        BackwardPass::GradQuery => (h, l, s),
        BackwardPass::GradKeyValue => (j, s, l),
    };
    if b * heads * rows == 0 {
        return None;
    }
    let layouts = [x.q, x.k, x.v, x.g].map(|l| {
        TmaLayout::of(dtype.into(), l)
            .unwrap_or_else(|| panic!("the gradient of attention by wgmma: {x:?} of {dtype}"))
    });
    let (width, interleaved_heads) = (d as u32, layouts.map(|l| l.interleaved_heads));
    let config = WgmmaBackwardConfig { pass, dtype, width, causal: a.causal, interleaved_heads, tile };
    let tiles = rows.div_ceil((tile.groups * TILE_SIDE) as usize);
    let heads_together = heads_together(
        a.causal,
        b * heads,
        4 * others * d * if pass == BackwardPass::GradKeyValue { h / j } else { 1 },
    );
    let mut all = [b * heads, j, h / j.max(1), l, s, heads_together].map(|v| v as i64).to_vec();
    all.push(i64::from(exponents(a).to_bits() as i32));
    all.extend(layouts.iter().flat_map(|l| l.args));
    let key = Key::of("attention_wgmma_backward").with(&config);
    Some(args::work(key, move || build(&config), grid((b * heads * tiles) as u64), Scalar::I32, &all))
}

impl WgmmaBackwardConfig {
    fn name(&self) -> String {
        let WgmmaAttentionTile { groups, block, slots } = self.tile;
        let pass = match self.pass {
            BackwardPass::GradQuery => "q",
            BackwardPass::GradKeyValue => "kv",
        };
        let mut flags = String::from(if self.causal { "_causal" } else { "" });
        for (interleaved_heads, name) in self.interleaved_heads.into_iter().zip(["q", "k", "v", "g"]) {
            flags += if interleaved_heads { name } else { "" };
        }
        let rows = groups * TILE_SIDE;
        format!("attention_wgmma_backward_{pass}_{}_{}_{rows}x{block}s{slots}{flags}", self.dtype, self.width)
    }
    fn across(self) -> u32 {
        self.width / TILE_SIDE
    }
    fn rows(self) -> u32 {
        self.tile.groups * TILE_SIDE
    }
    fn is_by_queries(self) -> bool {
        self.pass == BackwardPass::GradQuery
    }
}

/// The kernel of a form.
pub fn build(config: &WgmmaBackwardConfig) -> Kernel {
    let t = config.tile;
    let k = Builder::new(&config.name(), [t.groups * WARPGROUP, 1, 1]);
    k.subgroup(WARP_LANES);
    k.min_blocks_per_sm(1);
    k.mbarriers(t.slots + 1);
    write(&k, *config);
    k.finish()
}

fn write<'k>(k: &'k Builder, config: WgmmaBackwardConfig) {
    let (elem, t, by_queries) = (Elem::from(config.dtype), config.tile, config.is_by_queries());
    let names = ["q", "k", "v", "g"];
    let places = names.map(|n| k.buffer(n, elem, Access::Read));
    let [shifts, sums] = ["shifts", "sums"].map(|n| k.buffer(n, Elem::F32, Access::Read));
    let results: &[&str] = if by_queries { &["dq"] } else { &["dk", "dv"] };
    let results: Vec<Place> = results.iter().map(|n| k.buffer(n, elem, Access::Write)).collect();
    let args = LaunchArgs::new(k, Scalar::I32, 7 + ARGS_PER_OPERAND * 4);
    let [heads, j, group, l, s, heads_together] =
        ["heads", "j", "group", "l", "s", "together"].map(|n| args.get(n));
    let exponents = args.get("exponents").bitcast(Scalar::F32);
    let of_rows = [by_queries, !by_queries, !by_queries, by_queries];
    let operands: [TmaOperand<'k>; 4] = std::array::from_fn(|i| {
        let lines = if of_rows[i] { config.rows() } else { t.block };
        let count = if i == 0 || i == 3 { l } else { s };
        TmaOperand::read((k, &args), (names[i], places[i]), config.interleaved_heads[i], (lines, count))
    });
    let area = |lines: u32| lines * config.width;
    let rows = ["first_rows", "second_rows"].map(|n| k.shared(n, elem, area(config.rows())));
    let others = ["first", "second"].map(|n| k.shared(n, elem, t.slots * area(t.block)));
    let statistics = (!by_queries).then(|| k.shared("statistics", Elem::F32, t.slots * 2 * t.block));

    // Which head and rows. Of a causal head, the last queries see most, and the first keys are seen
    // most.
    let (count, of_others) = if by_queries { (l, s) } else { (s, l) };
    let high = i64::from(config.rows());
    let tiles = (count + (high - 1)) / high;
    let unit = linear_group_id(k, Scalar::I32);
    let (exists, head, tile) = assign_tile(unit, [heads, tiles, heads_together], config.causal && by_queries);
    let per_batch = if by_queries { j * group } else { j };
    let (batch, own) = (head / per_batch, head % per_batch);
    let first_row = tile * high;
    let zero = first_row.like(0);
    let block = i64::from(t.block);
    // Blocks of others: behind the last one, and, of each head of queries, the first one.
    let seen = if by_queries && config.causal { s.min(first_row + high) } else { of_others };
    let end = (seen + (block - 1)) / block;
    let begin = if !by_queries && config.causal { (first_row / block).min(end) } else { zero };

    let lane = k.builtin(Builtin::SubgroupLane);
    let row = |below: i64| {
        let within = k.builtin(Builtin::SubgroupId) * i64::from(FRAGMENT_ROWS) + lane / 4 + below;
        first_row + within.to(Scalar::I32)
    };
    let each = [row(0), row(8)];
    let [q, key, v, g] = operands;
    let (left, right) = if by_queries { ([q, g], [key, v]) } else { ([key, v], [q, g]) };
    let head_of = |o: TmaOperand<'k>, is_query: bool, head: Val<'k>| {
        o.head(batch, if is_query { j * group } else { j }, head)
    };
    let none = k.u32(0);
    let tiles = (0..2).flat_map(|side| {
        let from = head_of(left[side], by_queries, own);
        (0..config.across())
            .map(move |e| from.tma_tile(k, (rows[side], k.u32(e * config.rows() * TILE_SIDE)), first_row, e))
    });
    k.tma_load(none, tiles.collect());
    let of_rows = by_queries.then(|| {
        each.map(|row| {
            let at = head * l + row.min(l - 1);
            [shifts, sums].map(|place| k.load(place, at, 1))
        })
    });
    let turns = WgmmaBackwardMainloop {
        k,
        config,
        rows,
        others,
        statistics: statistics.map(|place| (place, [shifts, sums])),
        right,
        batch,
        first_head: if by_queries { own / group } else { own * group },
        heads: if by_queries { j } else { j * group },
        last_head: if by_queries { zero + 1 } else { group },
        begin,
        end,
        l,
        rows_base: k.builtin(Builtin::LocalIndex) / i64::from(WARPGROUP) * i64::from(TILE_ELEMENTS),
        each,
        column: lane % 4 * 2,
        exponents,
        of_rows,
        seen,
    };

    // Each of its own, as a product that changes them where they are needs them.
    let empty = |_| k.fragment_fill(fragment(config.dtype, Role::C), k.float(Scalar::F32, 0.0));
    let sums = (0..results.len() as u32 * config.width / FRAGMENT_ROWS).map(empty).collect();
    // What comes next is fetched: of which head, which block.
    let mut next = [zero, turns.first()];
    // The first turn by queries fetches nothing.
    for i in 0..t.slots - u32::from(!by_queries) {
        next = turns.load_tiles(next, k.u32(i));
    }
    k.mbarrier_wait(none, none);
    let mut state = WgmmaBackwardState { slot: none, phase: none, next, sums };
    if by_queries {
        // The last block, of which not all rows see all, and then the others.
        k.mbarrier_wait(none + 1, none);
        state = turns.turn([true, false], end - 1, state);
        k.wgmma_wait(0);
        let from_last = |i: Val<'k>| end - 1 - i;
        let mut done = zero + 1;
        if config.causal && !t.block.is_multiple_of(config.rows()) {
            let masked = (end - first_row.min(seen) / block).max(done);
            state = turns.all([done, masked], from_last, true, state);
            done = masked;
        }
        state = turns.all([done, end], from_last, false, state);
    } else {
        // The blocks that not all rows go with come first.
        let masked = if config.causal { ((first_row + (high + block - 1)) / block).min(end) } else { begin };
        let carried = k.for_(zero, group, zero.like(1), &state.carried(), |_, carried| {
            let mut state = WgmmaBackwardState::of(carried);
            if config.causal {
                state = turns.all([begin, masked], |i| i, true, state);
            }
            turns.all([masked, end], |i| i, false, state).carried()
        });
        state = WgmmaBackwardState::of(&carried);
        k.cp_async_wait(0);
    }
    turns.store(&state.sums, exists, (head, count), &results);
}

/// What a turn leaves to the next one.
struct WgmmaBackwardState<'k> {
    /// Where the next block is, and the phase of its mbarrier.
    slot: Val<'k>,
    phase: Val<'k>,
    /// What is fetched next: of which head, which block.
    next: [Val<'k>; 2],
    sums: Vec<Val<'k>>,
}

impl<'k> WgmmaBackwardState<'k> {
    fn carried(&self) -> Vec<Val<'k>> {
        [&[self.slot, self.phase], &self.next[..], &self.sums].concat()
    }
    fn of(all: &[Val<'k>]) -> WgmmaBackwardState<'k> {
        WgmmaBackwardState { slot: all[0], phase: all[1], next: [all[2], all[3]], sums: all[4..].to_vec() }
    }
}

/// What all turns know.
struct WgmmaBackwardMainloop<'k> {
    k: &'k Builder,
    config: WgmmaBackwardConfig,
    /// Queries and gradients, or keys and values.
    rows: [Place; 2],
    others: [Place; 2],
    /// What queries of a block have, where it is put, and where it comes from.
    statistics: Option<(Place, [Place; 2])>,
    right: [TmaOperand<'k>; 2],
    batch: Val<'k>,
    /// The first head of others, of how many in a batch, and how many are gone through.
    first_head: Val<'k>,
    heads: Val<'k>,
    last_head: Val<'k>,
    /// The blocks of each head.
    begin: Val<'k>,
    end: Val<'k>,
    /// Queries.
    l: Val<'k>,
    /// Where the blocks of the invocation's 64 rows begin.
    rows_base: Val<'k>,
    each: [Val<'k>; 2],
    column: Val<'k>,
    exponents: Val<'k>,
    /// Of rows that are queries: what is taken off, and D.
    of_rows: Option<[[Val<'k>; 2]; 2]>,
    /// Behind the last of the others that anybody sees.
    seen: Val<'k>,
}

impl<'k> WgmmaBackwardMainloop<'k> {
    /// The first block that is fetched.
    fn first(&self) -> Val<'k> {
        if self.config.is_by_queries() { self.end - 1 } else { self.begin }
    }
    /// Fetches a block to a slot, if there is one; gives the one after it.
    fn load_tiles(&self, [head, block]: [Val<'k>; 2], slot: Val<'k>) -> [Val<'k>; 2] {
        let (k, config, t) = (self.k, self.config, self.config.tile);
        let by_queries = config.is_by_queries();
        let there = if by_queries {
            self.begin.like(-1).lt(block)
        } else {
            head.lt(self.last_head) & block.lt(self.end)
        };
        let line = block * i64::from(t.block);
        let own = self.first_head + head;
        k.if_(there, || {
            let base = slot * i64::from(t.block * config.width);
            let tiles = (0..2).flat_map(|side| {
                let from = self.right[side].head(self.batch, self.heads, own);
                (0..config.across()).map(move |e| {
                    let to = (self.others[side], base + i64::from(e * t.block * TILE_SIDE));
                    from.tma_tile(k, to, line, e)
                })
            });
            k.tma_load(slot + 1, tiles.collect::<Vec<TmaTile>>());
        });
        if let Some((place, from)) = self.statistics {
            // One invocation for each number, if there are so many; behind the last query, zeros.
            let index = k.builtin(Builtin::LocalIndex);
            let invocations = t.groups * WARPGROUP;
            let apart = if invocations >= 2 * t.block { t.block } else { 0 };
            for (i, from) in from.into_iter().enumerate() {
                for first in (0..t.block).step_by(invocations as usize) {
                    let rows_base = index - i64::from(i as u32 * apart) + i64::from(first);
                    k.if_(rows_base.lt(k.u32(t.block)), || {
                        let row = line + rows_base.to(Scalar::I32);
                        let to = slot * i64::from(2 * t.block) + (rows_base + i64::from(i as u32 * t.block));
                        let at = ((self.batch * self.heads + own) * self.l + row).max(row.like(0));
                        k.cp_async((place, to), (from, at), 1, row.lt(self.l) & there);
                    });
                }
            }
            k.cp_async_commit();
        }
        if by_queries {
            return [head, block - 1];
        }
        let ends = (block + 1).lt(self.end);
        [ends.select(head, head + 1), ends.select(block + 1, self.begin)]
    }
    fn next(&self, slot: Val<'k>, phase: Val<'k>) -> [Val<'k>; 2] {
        let k = self.k;
        let wraps = slot.eq(k.u32(self.config.tile.slots - 1));
        [wraps.select(k.u32(0), slot + 1), wraps.select(k.u32(1) - phase, phase)]
    }

    /// Turns with these blocks, by their numbers.
    fn all(
        &self,
        [from, to]: [Val<'k>; 2],
        block: impl Fn(Val<'k>) -> Val<'k>,
        masked: bool,
        state: WgmmaBackwardState<'k>,
    ) -> WgmmaBackwardState<'k> {
        let k = self.k;
        let carried = k.for_(from, to, from.like(1), &state.carried(), |i, carried| {
            self.turn([masked, true], block(i), WgmmaBackwardState::of(carried)).carried()
        });
        // What is carried into another loop is copied.
        k.wgmma_wait(0);
        WgmmaBackwardState::of(&carried)
    }

    /// Begins the products of rows with a block of a side.
    fn products(&self, side: usize, slot: Val<'k>) -> Vec<Val<'k>> {
        let (k, config, t) = (self.k, self.config, self.config.tile);
        let none = |_| k.fragment_fill(fragment(config.dtype, Role::C), k.float(Scalar::F32, 0.0));
        let sums: Vec<Val> = (0..t.block / FRAGMENT_ROWS).map(none).collect();
        let base = slot * i64::from(t.block * config.width);
        (0..config.across()).fold(sums, |sums, e| {
            let a = self.rows_base + i64::from(e * config.rows() * TILE_SIDE);
            let b = base + i64::from(e * t.block * TILE_SIDE);
            k.wgmma_ss(
                (Order::RowMajor, self.rows[side], a),
                (Order::ColumnMajor, self.others[side], b),
                &sums,
            )
        })
    }
    /// Begins to add the products of weights with a block of a side.
    fn add(&self, weights: &[Val<'k>], side: usize, slot: Val<'k>, sums: &[Val<'k>]) -> Vec<Val<'k>> {
        let (k, config, t) = (self.k, self.config, self.config.tile);
        let a = fragment(config.dtype, Role::A);
        let rounded: Vec<Val> = weights.chunks(2).map(|w| k.fragment_compose(a, w)).collect();
        let base = slot * i64::from(t.block * config.width);
        // Blocks of 64 columns are as far apart as there are others: of 64 others they are
        // contiguous, else they are taken one by one.
        let each = if t.block == TILE_SIDE { sums.len() } else { (TILE_SIDE / FRAGMENT_ROWS) as usize };
        let columns = sums.chunks(each).enumerate().flat_map(|(e, sums)| {
            rounded.chunks(4).enumerate().fold(sums.to_vec(), |sums, (c, weights)| {
                let b = base + i64::from(e as u32 * t.block * TILE_SIDE + c as u32 * TILE_ELEMENTS);
                k.wgmma_rs(weights, (Order::RowMajor, self.others[side], b), &sums)
            })
        });
        columns.collect()
    }

    /// The sums with those of a block. `masked`: not all rows go with all of it; `fetches`: what
    /// comes later is fetched.
    fn turn(
        &self,
        [masked, fetches]: [bool; 2],
        block: Val<'k>,
        old: WgmmaBackwardState<'k>,
    ) -> WgmmaBackwardState<'k> {
        let (k, config, t) = (self.k, self.config, self.config.tile);
        let WgmmaBackwardState { slot, phase, next, sums } = old;
        let late = config.is_by_queries();
        if !late {
            k.mbarrier_wait(slot + 1, phase);
        }
        let scores = self.products(0, slot);
        let slopes = self.products(1, slot);
        if self.statistics.is_some() {
            k.cp_async_wait((t.slots - 2) as u8);
        }
        k.wgmma_wait(config.across() as u8);
        // All have read the block before this one, and what was copied for this one is there for
        // all.
        let next = if fetches {
            k.barrier();
            let before = slot.eq(k.u32(0)).select(k.u32(t.slots - 1), slot - 1);
            self.load_tiles(next, before)
        } else {
            next
        };
        let [later, later_phase] = self.next(slot, phase);
        let first = block * i64::from(t.block);
        let args = |sums: &[Val<'k>]| -> Vec<Val<'k>> {
            sums.iter().flat_map(|&s| [0, 1].map(|half| k.fragment_extract(s, half))).collect()
        };
        let weights: Vec<Val> = args(&scores)
            .into_iter()
            .enumerate()
            .map(|(i, score)| {
                let less = self.statistic(0, i, slot);
                let p = exp2(score.fma(self.exponents.splat(4), -less));
                if masked { self.there(first, i).select(p, k.float(Scalar::F32, 0.0).splat(4)) } else { p }
            })
            .collect();
        let half = sums.len() / if late { 1 } else { 2 };
        let (ds, dv) = sums.split_at(half);
        let dv = if late { Vec::new() } else { self.add(&weights, 1, slot, dv) };
        if late {
            // The assembler puts a wait as early as it can; with a loop in front of it, it stays
            // behind the exponentials (see `wgmma_forward.rs`).
            k.if_(self.begin.lt(block), || k.mbarrier_wait(later + 1, later_phase));
        }
        let added = if t.block == TILE_SIDE { 1 } else { config.across() * t.block / TILE_SIDE };
        k.wgmma_wait(if late { 0 } else { added as u8 });
        let slopes: Vec<Val> = args(&slopes)
            .into_iter()
            .enumerate()
            .map(|(i, slope)| weights[i] * (slope - self.statistic(1, i, slot)))
            .collect();
        let ds = self.add(&slopes, 0, slot, ds);
        WgmmaBackwardState { slot: later, phase: later_phase, next, sums: [ds, dv].concat() }
    }

    /// What is taken off (0), or D (1), for the four numbers of an eighth of a block.
    fn statistic(&self, which: usize, eighth: usize, slot: Val<'k>) -> Val<'k> {
        let k = self.k;
        if let Some(rows) = self.of_rows {
            let [a, b] = rows.map(|r| r[which]);
            return k.compose(&[a, a, b, b]);
        }
        let (place, _) = self.statistics.expect("rows or columns are queries");
        let block = self.config.tile.block;
        let at =
            slot * i64::from(2 * block) + self.column + i64::from(which as u32 * block + 8 * eighth as u32);
        let two = k.load(place, at, 2);
        let [a, b] = [0, 1].map(|i| two.extract(i));
        k.compose(&[a, b, a, b])
    }

    /// Do the rows go with the others of an eighth of a block that begins at `first`?
    fn there(&self, first: Val<'k>, eighth: usize) -> Val<'k> {
        let by_queries = self.config.is_by_queries();
        let from = first + self.column.to(Scalar::I32);
        let column = |n: i64| from + (8 * eighth as i64 + n);
        let one = |row: Val<'k>, column: Val<'k>| {
            let (query, key) = if by_queries { (row, column) } else { (column, row) };
            let sees = key.lt(query + 1);
            match (by_queries, self.config.causal) {
                // Queries behind the last one are zeros, and have no part in sums.
                (false, _) => sees,
                (true, true) => column.lt(self.seen) & sees,
                (true, false) => column.lt(self.seen),
            }
        };
        let ([a, b], [x, y]) = (self.each, [column(0), column(1)]);
        self.k.compose(&[one(a, x), one(a, y), one(b, x), one(b, y)])
    }

    /// Stores the rows that there are.
    fn store(&self, sums: &[Val<'k>], exists: Val<'k>, (head, count): (Val<'k>, Val<'k>), results: &[Place]) {
        let (k, config) = (self.k, self.config);
        let scale = self.exponents * k.float(Scalar::F32, std::f64::consts::LN_2);
        for (n, (place, sums)) in
            results.iter().zip(sums.chunks((config.width / FRAGMENT_ROWS) as usize)).enumerate()
        {
            let parts: Vec<Val> = (sums.iter())
                .flat_map(|&o| [0, 1].map(|half| k.fragment_extract(o, half)))
                .map(|x| if n == 0 { x * scale } else { x })
                .collect();
            for (i, row) in self.each.into_iter().enumerate() {
                k.if_(row.lt(count) & exists, || {
                    let line = (head * count + row) * i64::from(config.width);
                    for (eighth, part) in parts.iter().enumerate() {
                        let first = 2 * i as u8;
                        let pair = k.compose(&[part.extract(first), part.extract(first + 1)]);
                        let column = self.column + 8 * eighth as i64;
                        k.store(*place, line + column.to(Scalar::I32), pair);
                    }
                });
            }
        }
    }
}
