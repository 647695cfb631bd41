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

mod mainloop;

use super::plan::thresholds::KEYS_PER_SPLIT;
use super::{StridedOperand, buffer, push, scale, words};
use crate::gemm::StridedMatrix;
use crate::gemm::multistage_cp_async::CpAsyncPipeline;
use crate::gemm::smem_load::TileLoader;
use crate::launch::args::{self, LaunchArgs};
use crate::launch::{BufferSlot, BufferSpec, Key, LaunchSequence, Work, grid, linear_group_id};
use crate::layout::indexing;
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Builtin, Constant, Elem, Fragment, Kernel, MmaShape, Role, Scalar, Unary};
use elinvar_ops::backend::Attention;
use mainloop::MmaForwardMainloop;

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

/// Attention by tensor cores: q, k, v; gives y and lse.
///
/// # Panics
/// If it does not fit ([`fits`]).
pub fn steps(a: &Attention, dtype: DType, operands: [&Layout; 3]) -> LaunchSequence<'static> {
    let q = operands[0].shape();
    let rows: usize = q[..3].iter().product();
    let results = vec![BufferSpec::of(dtype.into(), rows * q[3]), BufferSpec::of(Elem::F32, rows)];
    let mut all = LaunchSequence { results, ..LaunchSequence::default() };
    if let Some(work) = attention(a, dtype, operands) {
        let given = [0, 1, 2].map(BufferSlot::Operand);
        all.push(work, &[&given[..], &[BufferSlot::Result(0), BufferSlot::Result(1)]].concat());
    }
    all
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

/// 2^x for x of at most 127, or NaN; nearly.
pub(super) fn exp2(x: Val<'_>) -> Val<'_> {
    x.unary(Unary::Exp2)
}
