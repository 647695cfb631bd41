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

mod mainloop;

use super::backward::BackwardInputs;
use super::delta::{self, statistics};
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
use elinvar_kernel::ir::{Access, Builtin, Elem, Kernel, Place, Role, Scalar, WARPGROUP};
use elinvar_ops::backend::Attention;
use mainloop::{WgmmaBackwardMainloop, WgmmaBackwardState};

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
