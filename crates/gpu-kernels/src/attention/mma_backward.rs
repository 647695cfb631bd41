//! Attention backward on tensor cores (mma.sync): dq, dk and dv, `Precision::Fast`, for values
//! without a mask.
//!
//! As in `backward.rs`, `out[row] = sum over t of weight[row, t] * right[t]`, one kernel each,
//! without atomics. A workgroup takes 64 rows of one head, 16 per subgroup, in fragments; the
//! others come block by block by cp.async. Scores, and products of gradients with values, are
//! accumulator fragments; lanes turn them into weights, rounded to 16 bits, which are the left
//! fragments of the next product.

use super::backward::{AttentionGrad, BackwardInputs};
use super::mma_forward::{BLOCK, COPY_ELEMENTS, FRAGMENT_ROWS, SUBGROUPS, WARP_LANES, exp2, fits, lines};
use super::{StridedOperand, buffer, push, scale, words};
use crate::gemm::multistage_cp_async::CpAsyncPipeline;
use crate::gemm::smem_load::TileLoader;
use crate::launch::args::{self, LaunchArgs};
use crate::launch::sequence::{BufferSlot, BufferSpec, LaunchSequence};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing;
use crate::reduce::block_reduce::RegisterBudget;
use crate::reduce::rowwise::{RowDot, rows_to};
use elinvar_core::DType;
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{
    Access, Builtin, Elem, Fragment, FragmentLayout as Order, Kernel, MmaShape, Place, Role, Scalar,
};
use elinvar_ops::backend::Attention;

/// Rows of a workgroup.
const BLOCK_ROWS: u32 = SUBGROUPS * FRAGMENT_ROWS;

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmaBackwardConfig {
    /// Which gradient.
    pub grad: AttentionGrad,
    /// f16 or bf16: the dtype of q, k, v and the gradient.
    pub dtype: DType,
    /// Numbers of a query, a key and a value: 32, 64 or 128.
    pub width: u32,
    /// Query `i` sees keys `0..=i` only.
    pub causal: bool,
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// Is it one that the units are used for? As for the result, and the result's gradient has this
/// layout, too.
pub fn grad_fits(unit: MmaShape, dtype: DType, x: &BackwardInputs<'_>) -> bool {
    fits(unit, dtype, [x.q, x.k, x.v], x.mask.is_some()) && indexing::in_pieces(x.g, 3, COPY_ELEMENTS)
}

/// The work of the gradient. Operands: q, k, v, o, lse, g. Results: dq, dk, dv.
///
/// # Panics
/// If it does not fit ([`grad_fits`]).
pub fn attention_grad(a: &Attention, dtype: DType, x: &BackwardInputs<'_>) -> LaunchSequence<'static> {
    let unit = MmaShape { elem: dtype.into(), shape: [16; 3] };
    assert!(grad_fits(unit, dtype, x), "the gradient of attention by tensor cores (mma): {x:?} of {dtype}");
    let buffer_spec = |l: &elinvar_core::Layout| BufferSpec::of(dtype.into(), l.shape().numel());
    let mut all = LaunchSequence {
        results: vec![buffer_spec(x.q), buffer_spec(x.k), buffer_spec(x.v)],
        ..LaunchSequence::default()
    };
    all.scratch = vec![BufferSpec::of(Elem::F32, x.q.shape()[..3].iter().product())];
    if let Some(work) =
        rows_to(&RowDot, dtype, &[(x.g, dtype), (x.o, dtype)], 3, Elem::F32, RegisterBudget::One, false)
    {
        all.push(work, &[BufferSlot::Operand(5), BufferSlot::Operand(3), BufferSlot::Scratch(0)]);
    }
    for (i, grad) in [AttentionGrad::Q, AttentionGrad::K, AttentionGrad::V].into_iter().enumerate() {
        let Some(work) = launch(grad, a, dtype, x) else { continue };
        let mut buffers = vec![BufferSlot::Operand(0), BufferSlot::Operand(1)];
        buffers.extend((grad != AttentionGrad::V).then_some(BufferSlot::Operand(2)));
        buffers.extend([BufferSlot::Operand(4), BufferSlot::Operand(5)]);
        buffers.extend((grad != AttentionGrad::V).then_some(BufferSlot::Scratch(0)));
        buffers.push(BufferSlot::Result(i));
        all.push(work, &buffers);
    }
    all
}

fn launch(grad: AttentionGrad, a: &Attention, dtype: DType, x: &BackwardInputs<'_>) -> Option<Work<'static>> {
    let (b, h, l, d) = (x.q.shape()[0], x.q.shape()[1], x.q.shape()[2], x.q.shape()[3]);
    let (j, s) = (x.k.shape()[1], x.k.shape()[2]);
    let (heads, n) = if grad == AttentionGrad::Q { (h, l) } else { (j, s) };
    if b * heads * n == 0 {
        return None;
    }
    let mut operands = vec![x.q, x.k];
    operands.extend((grad != AttentionGrad::V).then_some(x.v));
    operands.extend([x.lse, x.g]);
    let wide =
        operands.iter().any(|l| indexing::is_wide(l)) || indexing::are_many(b * h.max(j) * l.max(s) * d);
    let config = MmaBackwardConfig { grad, dtype, width: d as u32, causal: a.causal, wide };
    let tiles = n.div_ceil(BLOCK_ROWS as usize);
    let mut all = [b * heads, h, j, h / j.max(1), l, s, tiles].map(|v| v as i64).to_vec();
    all.extend(words(Scalar::F32, a.scale));
    operands.iter().for_each(|l| push(&mut all, l));
    let groups = grid((b * heads * tiles) as u64);
    let key = Key::of("attention_mma_backward").with(&config);
    Some(args::work(key, move || build(&config), groups, indexing::scalar(wide), &all))
}

impl MmaBackwardConfig {
    fn name(&self) -> String {
        let grad = match self.grad {
            AttentionGrad::Q => "q",
            AttentionGrad::K => "k",
            AttentionGrad::V => "v",
        };
        let flags = [(self.causal, "_causal"), (self.wide, "_wide")];
        let flags: String = flags.iter().filter(|f| f.0).map(|f| f.1).collect();
        format!("attention_mma_backward_{grad}_{}_{}{flags}", self.dtype, self.width)
    }
    /// Others of a block: what wide rows leave registers for.
    fn block(self) -> u32 {
        if self.width > 64 { FRAGMENT_ROWS } else { BLOCK }
    }
    /// Blocks that have room in shared memory: at least as much as the rows need, which come
    /// through it.
    fn slots(self) -> u32 {
        if self.width > 64 { 4 } else { 3 }
    }
    fn pitch(self) -> u32 {
        self.width + COPY_ELEMENTS as u32
    }
    fn across(self) -> u32 {
        self.width / FRAGMENT_ROWS
    }
    fn fragment(self, role: Role) -> Fragment {
        MmaShape { elem: self.dtype.into(), shape: [16; 3] }.fragment(role)
    }
}

/// The kernel of a form.
pub fn build(config: &MmaBackwardConfig) -> Kernel {
    let k = Builder::new(&config.name(), [SUBGROUPS * WARP_LANES, 1, 1]);
    k.subgroup(WARP_LANES);
    // As many as registers hold without that a block's numbers wait in memory.
    k.min_blocks_per_sm(if config.width == 128 { 3 } else { 4 });
    write(&k, *config);
    k.finish()
}

/// What each query has: the logarithm of its sum, of 2, and D.
struct QueryStatistics<'k> {
    lse: StridedOperand<'k>,
    /// [b, h, l]; none for dv.
    sums: Option<Place>,
    h: Val<'k>,
    l: Val<'k>,
}

impl<'k> QueryStatistics<'k> {
    /// Of a query; past the last one, of that.
    fn grad(&self, k: &'k Builder, [batch, head, i]: [Val<'k>; 3]) -> [Val<'k>; 2] {
        let i = i.min(self.l - 1);
        let lse = k.load(self.lse.place, self.lse.row([batch, head, i]), 1);
        let none = k.float(Scalar::F32, 0.0);
        let shift = lse.eq(k.float(Scalar::F32, f64::NEG_INFINITY)).select(none, lse);
        let sum = self.sums.map_or(none, |sums| k.load(sums, (batch * self.h + head) * self.l + i, 1));
        [shift * k.float(Scalar::F32, std::f64::consts::LOG2_E), sum]
    }
}

fn write<'k>(k: &'k Builder, config: MmaBackwardConfig) {
    let elem = Elem::from(config.dtype);
    let (by_query, slopes) = (config.grad == AttentionGrad::Q, config.grad != AttentionGrad::V);
    let [q_place, k_place] = ["q", "k"].map(|n| buffer(k, n, elem));
    let v_place = slopes.then(|| buffer(k, "v", elem));
    let lse_place = buffer(k, "lse", Elem::F32);
    let g_place = buffer(k, "g", elem);
    let sums = slopes.then(|| buffer(k, "sums", Elem::F32));
    let y = k.buffer("y", elem, Access::Write);
    let number = indexing::scalar(config.wide);
    let args = LaunchArgs::new(k, number, 9 + 5 * (4 + usize::from(slopes)));
    let [heads, h, j, group, l, s, tiles] =
        ["heads", "h", "j", "group", "l", "s", "tiles"].map(|n| args.get(n));
    let scale = scale(&args, Scalar::F32);
    let read = |name, place| StridedOperand::read(&args, name, place);
    let (q, key) = (read("q", q_place), read("k", k_place));
    let v = v_place.map(|p| read("v", p));
    let (lse, g) = (read("lse", lse_place), read("g", g_place));
    let staged =
        ["first", "second"].map(|n| k.shared(n, elem, config.slots() * config.block() * config.pitch()));

    // Which head and rows. Of a causal head, the last queries see most, and the first keys are seen
    // most.
    let unit = linear_group_id(k, number);
    let asked = unit / tiles;
    let head = asked.min(heads - 1);
    let per_batch = if by_query { h } else { j };
    let (batch, own_head) = (head / per_batch, head % per_batch);
    let tile = if by_query { tiles - 1 - unit % tiles } else { unit % tiles };
    let first_row = tile * i64::from(BLOCK_ROWS);
    let zero = first_row.like(0);
    let index = k.builtin(Builtin::LocalIndex);
    let stage = |operand: &StridedOperand<'k>, head: Val<'k>, depth: u32| {
        lines(operand, [batch, head, zero], [config.width, depth], index)
    };
    let count = if by_query { l } else { s };
    let own = if by_query { [Some(q), Some(g).filter(|_| slopes)] } else { [Some(key), v] };
    for (operand, place) in own.iter().zip(staged) {
        if let Some(o) = operand {
            stage(o, own_head, BLOCK_ROWS).copy([first_row, count], (place, k.u32(0), config.pitch()));
        }
    }
    k.cp_async_commit();
    k.cp_async_wait(0);
    k.barrier();
    let lane = k.builtin(Builtin::SubgroupLane);
    let first_of_subgroup = k.builtin(Builtin::SubgroupId) * i64::from(FRAGMENT_ROWS);
    let row = |below: i64| first_row + (first_of_subgroup + lane / 4 + below).to(number);
    let rows = [row(0), row(8)];
    let statistics = QueryStatistics { lse, sums, h, l };
    let turns = MmaBackwardMainloop {
        k,
        config,
        left: [0, 1].map(|i| own[i].map_or(Vec::new(), |_| left(k, config, staged[i], first_of_subgroup))),
        staged,
        exponents: scale * k.float(Scalar::F32, std::f64::consts::LOG2_E),
        rows,
        column: lane % 4 * 2,
        of_rows: by_query.then(|| rows.map(|i| statistics.grad(k, [batch, own_head, i]))),
        seen: [l, s],
    };
    k.barrier();

    let none = k.fragment_fill(config.fragment(Role::C), k.float(Scalar::F32, 0.0));
    let none = vec![none; config.across() as usize];
    let pipeline = |stages: [TileLoader<'k>; 2], end: Val<'k>| CpAsyncPipeline {
        stages,
        to: staged,
        pitch: [config.pitch(); 2],
        slots: config.slots(),
        end,
        padded_end: end,
    };
    let sums = match v.filter(|_| by_query) {
        Some(v) => {
            let kept = own_head / group;
            let end = if config.causal { s.min(first_row + i64::from(BLOCK_ROWS)) } else { s };
            let pipeline =
                pipeline([stage(&key, kept, config.block()), stage(&v, kept, config.block())], end);
            pipeline.open(zero);
            // Blocks that all rows see as a whole, then the others.
            let whole = if config.causal { first_row.min(end) } else { end };
            let whole = whole / i64::from(config.block()) * i64::from(config.block());
            let (slot, sums) = pipeline.steps([zero, whole], k.u32(0), &none, &|first, bases, sums| {
                turns.turn(false, first, bases, sums, &|_| unreachable!("rows are queries"))
            });
            let masked = |first: Val<'k>, bases: [Val<'k>; 2], sums: &[Val<'k>]| {
                turns.turn(true, first, bases, sums, &|_| unreachable!("rows are queries"))
            };
            pipeline.steps([whole, end], slot, &sums, &masked).1
        }
        None => {
            // The queries of each head of the group, from the first that sees a row on.
            let begin = if config.causal { first_row } else { zero };
            k.for_(zero, group, zero.like(1), &none, |number, sums| {
                let head = own_head * group + number;
                let pipeline =
                    pipeline([stage(&q, head, config.block()), stage(&g, head, config.block())], l);
                pipeline.open(begin);
                let turn = |first: Val<'k>, bases: [Val<'k>; 2], sums: &[Val<'k>]| {
                    turns.turn(true, first, bases, sums, &|i| statistics.grad(k, [batch, head, i]))
                };
                let sums = pipeline.steps([begin, l], k.u32(0), sums, &turn).1;
                // The next head's queries are written over these.
                k.barrier();
                sums
            })
        }
    };

    let factor = if config.grad == AttentionGrad::V { k.float(Scalar::F32, 1.0) } else { scale };
    let splits: Vec<Val> =
        sums.iter().flat_map(|&o| [0, 1].map(|half| k.fragment_extract(o, half) * factor)).collect();
    for (i, row) in rows.into_iter().enumerate() {
        k.if_(row.lt(count) & asked.lt(heads), || {
            let line = (head * count + row) * i64::from(config.width);
            for (eighth, split) in splits.iter().enumerate() {
                let first = 2 * i as u8;
                let pair = k.compose(&[split.extract(first), split.extract(first + 1)]);
                let column = turns.column + 8 * eighth as i64;
                k.store(y, line + column.to(line.scalar()), pair);
            }
        });
    }
}

/// The left fragments of a subgroup's rows, which are in shared memory.
fn left<'k>(k: &'k Builder, config: MmaBackwardConfig, from: Place, row: Val<'k>) -> Vec<Val<'k>> {
    let pitch = i64::from(config.pitch());
    let one = |e: u32| {
        let at = row * pitch + i64::from(e * FRAGMENT_ROWS);
        k.fragment_load(config.fragment(Role::A), Order::RowMajor, from, at, k.u32(pitch as u32))
    };
    (0..config.across()).map(one).collect()
}

/// What all turns know.
struct MmaBackwardMainloop<'k> {
    k: &'k Builder,
    config: MmaBackwardConfig,
    /// Fragments of the rows: queries and gradients, or keys and values.
    left: [Vec<Val<'k>>; 2],
    staged: [Place; 2],
    /// From products to exponents of 2.
    exponents: Val<'k>,
    /// The lane's rows, and its first column of eight.
    rows: [Val<'k>; 2],
    column: Val<'k>,
    /// The statistics of rows that are queries.
    of_rows: Option<[[Val<'k>; 2]; 2]>,
    /// How many queries and keys there are.
    seen: [Val<'k>; 2],
}

impl<'k> MmaBackwardMainloop<'k> {
    /// A right fragment: 16 terms, or 16 others as columns, of a side.
    fn right(&self, side: usize, base: Val<'k>, order: Order, line: u32, column: u32) -> Val<'k> {
        let (k, config) = (self.k, self.config);
        let at = base + i64::from(line * config.pitch() + column);
        k.fragment_load(config.fragment(Role::B), order, self.staged[side], at, k.u32(config.pitch()))
    }
    /// The products of a side's rows with sixteen others of a block, by eights of these.
    fn products(&self, side: usize, base: Val<'k>, c: u32) -> [Val<'k>; 2] {
        let (k, config) = (self.k, self.config);
        let none = k.fragment_fill(config.fragment(Role::C), k.float(Scalar::F32, 0.0));
        let sum = self.left[side].iter().enumerate().fold(none, |sum, (e, &left)| {
            let right =
                self.right(side, base, Order::ColumnMajor, c * FRAGMENT_ROWS, e as u32 * FRAGMENT_ROWS);
            k.fragment_mul_add(left, right, sum)
        });
        [0, 1].map(|half| k.fragment_extract(sum, half))
    }

    /// The sums with those of a block: its first, where both sides begin in shared memory.
    /// `masked`: not all rows go with all of it.
    fn turn(
        &self,
        masked: bool,
        first: Val<'k>,
        bases: [Val<'k>; 2],
        sums: &[Val<'k>],
        of_column: &dyn Fn(Val<'k>) -> [Val<'k>; 2],
    ) -> Vec<Val<'k>> {
        let (k, config) = (self.k, self.config);
        let side = usize::from(config.grad == AttentionGrad::V);
        let mut sums = sums.to_vec();
        // Sixteen by sixteen, so that few scores are held at a time.
        for c in 0..config.block() / FRAGMENT_ROWS {
            let scores = self.products(0, bases[0], c);
            let slopes = (config.grad != AttentionGrad::V).then(|| self.products(1, bases[1], c));
            let weights = [0, 1].map(|half| {
                let at = |n: i64| {
                    first
                        + (self.column + (i64::from(c * FRAGMENT_ROWS) + 8 * half as i64 + n))
                            .to(first.scalar())
                };
                let columns = [at(0), at(1)];
                // Of each of the four numbers.
                let [shift, d] = match self.of_rows {
                    Some([a, b]) => [0, 1].map(|i| k.compose(&[a[i], a[i], b[i], b[i]])),
                    None => {
                        let [a, b] = columns.map(of_column);
                        [0, 1].map(|i| k.compose(&[a[i], b[i], a[i], b[i]]))
                    }
                };
                let p = exp2(scores[half] * self.exponents - shift);
                let weight = slopes.map_or(p, |slopes| p * (slopes[half] - d));
                if !masked {
                    return weight;
                }
                self.there(columns).select(weight, k.float(Scalar::F32, 0.0).splat(4))
            });
            let weight = k.fragment_compose(config.fragment(Role::A), &weights);
            for (e, sum) in sums.iter_mut().enumerate() {
                let right = self.right(
                    side,
                    bases[side],
                    Order::RowMajor,
                    c * FRAGMENT_ROWS,
                    e as u32 * FRAGMENT_ROWS,
                );
                *sum = k.fragment_mul_add(weight, right, *sum);
            }
        }
        sums
    }

    /// Does a row go with these two of the others, for both rows?
    fn there(&self, columns: [Val<'k>; 2]) -> Val<'k> {
        let by_query = self.config.grad == AttentionGrad::Q;
        let one = |row: Val<'k>, column: Val<'k>| {
            let (query, key) = if by_query { (row, column) } else { (column, row) };
            let exists = column.lt(self.seen[usize::from(by_query)]);
            if self.config.causal { exists & key.lt(query + 1) } else { exists }
        };
        let ([a, b], [x, y]) = (self.rows, columns);
        self.k.compose(&[one(a, x), one(a, y), one(b, x), one(b, y)])
    }
}
