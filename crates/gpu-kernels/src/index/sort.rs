//! Sort: each row along the last axis, ascending or descending, stable: bitonic sort of blocks and
//! parallel merge; the values and their indices.
//!
//! An element becomes an unsigned integer whose order is that of the sort: NaN the largest, zeros
//! equal, and all bits flipped to descend. Equal keys are ordered by their place, so there is one
//! sorted row: blocks of up to 512 by a bitonic network in shared memory, then runs are merged two
//! by two. In a merge every element finds its own place: its rank in its run, and by binary search
//! that in the other.

use crate::formula::Compute;
use crate::launch::args::{self, LaunchArgs};
use crate::launch::sequence::{BufferSlot, BufferSpec, LaunchSequence};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing::{self, Axes, is_wide};
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Atomic, Builtin, Compare, Elem, Kernel, Place, Scalar, Unary};

/// Invocations of a workgroup.
const BLOCK_THREADS: u32 = 256;
/// Elements that a workgroup sorts in shared memory: two an invocation, 6 KiB of keys of 64 bits
/// and places.
const BLOCK_ELEMENTS: usize = 512;

/// What keys are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeySource {
    /// Elements of a dtype, in their order.
    Values {
        /// The dtype.
        dtype: DType,
        /// From the largest to the smallest?
        descending: bool,
    },
    /// Indices (i64) into an axis. One that is not in range is the largest, and leaves 1 in a
    /// buffer.
    Indices,
}

impl KeySource {
    fn dtype(self) -> DType {
        match self {
            KeySource::Values { dtype, .. } => dtype,
            KeySource::Indices => DType::I64,
        }
    }
    /// The type of keys.
    fn key(self) -> Scalar {
        match self {
            KeySource::Values { dtype: DType::F64 | DType::I64, .. } => Scalar::U64,
            KeySource::Values { .. } | KeySource::Indices => Scalar::U32,
        }
    }
    fn key_elem(self) -> Elem {
        if self.key() == Scalar::U64 { Elem::U64 } else { Elem::U32 }
    }
    fn name(self) -> String {
        match self {
            KeySource::Values { dtype, descending } => {
                format!("{dtype}{}", if descending { "_descending" } else { "" })
            }
            KeySource::Indices => "indices".to_string(),
        }
    }
}

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SortConfig {
    /// What keys are made of.
    pub source: KeySource,
    /// Elements of a row that a workgroup sorts, a power of two; `None` for a merge.
    pub block: Option<u32>,
    /// Do values and places come out, and not keys?
    pub last: bool,
    /// Joined axes of the rows.
    pub rank: usize,
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// The work of a sort. Operand: x. Results: the values, and where they came from (i64).
pub fn sort(x: &Layout, dtype: DType, descending: bool) -> LaunchSequence<'static> {
    let len = x.shape().numel();
    let results = vec![BufferSpec::of(dtype.into(), len), BufferSpec::of(Elem::I64, len)];
    let mut all = LaunchSequence { results, ..LaunchSequence::default() };
    let source = KeySource::Values { dtype, descending };
    if len > 0 {
        steps(
            &mut all,
            source,
            x,
            0,
            BufferSlot::Operand(0),
            Some([BufferSlot::Result(0), BufferSlot::Result(1)]),
            None,
        );
    }
    all
}

/// Adds the launches of a sort of rows along the last axis. `size`: of the axis that indices go
/// into. `to`: where values and places go. Without it, keys (u32 or u64) and places (u32), of
/// `[rows, n]`, are left in scratch memory, and it says where.
pub(crate) fn steps(
    all: &mut LaunchSequence<'static>,
    source: KeySource,
    x: &Layout,
    size: usize,
    operand: BufferSlot,
    to: Option<[BufferSlot; 2]>,
    refused: Option<BufferSlot>,
) -> [BufferSlot; 2] {
    let n = x.shape().last().copied().unwrap_or(1);
    let len = x.shape().numel();
    let mut scratch = || {
        let at = all.scratch.len();
        all.scratch.extend([BufferSpec::of(source.key_elem(), len), BufferSpec::of(Elem::U32, len)]);
        [BufferSlot::Scratch(at), BufferSlot::Scratch(at + 1)]
    };
    let block = n.next_power_of_two().clamp(2, BLOCK_ELEMENTS);
    let merges = n.div_ceil(block).next_power_of_two().trailing_zeros() as usize;
    // What the launches write, one after the other.
    let rounds = merges + 1;
    let own = match to {
        Some(_) => merges.min(2),
        None => rounds.min(2),
    };
    let pairs: Vec<[BufferSlot; 2]> = (0..own).map(|_| scratch()).collect();
    let target = |round: usize| match to {
        Some(to) if round == merges => to,
        _ => pairs[round % 2],
    };
    let last = |round: usize| to.is_some() && round == merges;
    let first = launch(source, x, n, SortPass::Block(block), last(0), size);
    let mut buffers = vec![operand];
    buffers.extend(refused);
    buffers.extend(target(0));
    all.push(first, &buffers);
    for round in 1..rounds {
        let work = launch(source, x, n, SortPass::Merge(block << (round - 1)), last(round), size);
        let mut buffers = target(round - 1).to_vec();
        if last(round) {
            buffers.push(operand);
        }
        buffers.extend(target(round));
        all.push(work, &buffers);
    }
    target(merges)
}

/// One launch: blocks of so many elements, or a merge of runs of so many.
#[derive(Clone, Copy)]
enum SortPass {
    Block(usize),
    Merge(usize),
}

fn launch(
    source: KeySource,
    x: &Layout,
    n: usize,
    stage: SortPass,
    last: bool,
    size: usize,
) -> Work<'static> {
    let kept = x.rank().saturating_sub(1);
    let rows: usize = x.shape()[..kept].iter().product();
    let outer = indexing::join(&[x], 0, kept);
    let block = match stage {
        SortPass::Block(b) => Some(b as u32),
        SortPass::Merge(_) => None,
    };
    let wide = is_wide(x) || indexing::are_many(x.shape().numel());
    let config = SortConfig { source, block, last, rank: outer.dims.len(), wide };
    let (number, turns, groups) = match stage {
        SortPass::Block(b) => {
            let blocks = n.div_ceil(b);
            (blocks, size, (rows * blocks).div_ceil(BLOCK_ELEMENTS / b))
        }
        // A search among w elements ends after as many halvings as w has bits.
        SortPass::Merge(w) => {
            (w, w.trailing_zeros() as usize + 1, (rows * n).div_ceil(BLOCK_THREADS as usize))
        }
    };
    let mut all = [rows, n, number, turns].map(|v| v as i64).to_vec();
    all.extend([x.offset() as i64, x.strides().get(kept).map_or(0, |&s| s as i64)]);
    all.extend(indexing::sizes(&outer.dims, wide));
    all.extend(outer.strides[0].iter().map(|&s| s as i64));
    let key = Key::of("sort").with(&config);
    args::work(key, move || build(&config), grid(groups as u64), indexing::scalar(wide), &all)
}

impl SortConfig {
    fn name(&self) -> String {
        let stage = match self.block {
            Some(b) => format!("block{b}"),
            None => "merge".to_string(),
        };
        let last = if self.last { "_last" } else { "" };
        let wide = if self.wide { "_wide" } else { "" };
        format!("sort_{}_{stage}_{}{last}{wide}", self.source.name(), self.rank)
    }
}

/// The key of an element: what is smaller comes first.
fn key<'k>(source: KeySource, v: Val<'k>) -> Val<'k> {
    let k = v.builder();
    let KeySource::Values { dtype, descending } = source else { unreachable!("an index has its own key") };
    let (s, sign) = match source.key() {
        Scalar::U64 => (Scalar::U64, k.int(Scalar::U64, i64::MIN)),
        _ => (Scalar::U32, k.u32(1 << 31)),
    };
    let key = match Compute::from(dtype) {
        Compute::F32 | Compute::F64 => {
            let zero = v.like(0);
            // -0 is 0; negative numbers are the larger the nearer they are to 0.
            let bits = v.eq(zero).select(zero, v).bitcast(s);
            let negative = (bits & sign).eq(sign);
            let ordered = negative.select(!bits, bits | sign);
            v.eq(v).select(ordered, k.int(s, -1))
        }
        Compute::I64 | Compute::I32 => v.bitcast(s) ^ sign,
        Compute::U8 => v,
        Compute::Bool => v.to(s),
    };
    if descending { key.unary(Unary::Not) } else { key }
}

/// What both kinds of kernels know.
struct SortBody<'k> {
    k: &'k Builder,
    rows: Val<'k>,
    n: Val<'k>,
    /// Blocks of a row, or elements of a run.
    number: Val<'k>,
    /// The size of the axis of indices, or turns of a search.
    turns: Val<'k>,
    offset: Val<'k>,
    stride: Val<'k>,
    outer: Axes<'k>,
    strides: Vec<Val<'k>>,
}

impl<'k> SortBody<'k> {
    fn read(k: &'k Builder, config: &SortConfig) -> Self {
        let count = 6 + indexing::count(config.rank, config.wide) + config.rank;
        let args = LaunchArgs::new(k, indexing::scalar(config.wide), count);
        let [rows, n, number, turns, offset, stride] =
            ["rows", "n", "number", "turns", "offset", "stride"].map(|n| args.get(n));
        let outer = Axes::read(&args, "row", config.rank, config.wide);
        let strides = indexing::strides(&args, "row_stride", config.rank);
        SortBody { k, rows, n, number, turns, offset, stride, outer, strides }
    }
    /// Where element `i` of a row is.
    fn at(&self, row: Val<'k>, i: Val<'k>) -> Val<'k> {
        indexing::position(self.offset, &self.outer.index(row), &self.strides) + i * self.stride
    }
}

/// Where elements go: keys and places, or values and places.
struct SortOutput {
    x: Option<Place>,
    first: Place,
    places: Place,
}

impl SortOutput {
    /// Stores an element of a row, which stood at `from`, at `to`.
    fn put<'k>(
        &self,
        p: &SortBody<'k>,
        row: Val<'k>,
        to: Val<'k>,
        key: impl FnOnce() -> Val<'k>,
        from: Val<'k>,
    ) {
        let (k, at) = (p.k, row * p.n + to);
        let Some(x) = self.x else {
            k.store(self.first, at, key());
            return k.store(self.places, at, from);
        };
        let i = from.to(p.n.scalar());
        k.store(self.first, at, k.load(x, p.at(row, i), 1));
        k.store(self.places, at, i.to(Scalar::I64));
    }
}

/// The kernel of a form.
pub fn build(config: &SortConfig) -> Kernel {
    let k = Builder::new(&config.name(), [BLOCK_THREADS, 1, 1]);
    match config.block {
        Some(size) => blocks(&k, config, size),
        None => merge(&k, config),
    }
    k.finish()
}

/// The buffers that elements go to.
fn target(k: &Builder, config: &SortConfig, x: Option<Place>) -> SortOutput {
    let elem = if config.last { config.source.dtype().into() } else { config.source.key_elem() };
    let places = if config.last { Elem::I64 } else { Elem::U32 };
    SortOutput {
        x,
        first: k.buffer("y", elem, Access::Write),
        places: k.buffer("places", places, Access::Write),
    }
}

/// Does an element (key and place) come after another?
fn after<'k>(a: (Val<'k>, Val<'k>), b: (Val<'k>, Val<'k>)) -> Val<'k> {
    a.0.compare(Compare::Gt, b.0) | (a.0.eq(b.0) & a.1.compare(Compare::Gt, b.1))
}

/// Sorts blocks of `size` elements: several of them a workgroup.
fn blocks(k: &Builder, config: &SortConfig, size: u32) {
    let source = config.source;
    let x = k.buffer("x", source.dtype().into(), Access::Read);
    let refused = (source == KeySource::Indices).then(|| k.buffer("refused", Elem::U32, Access::ReadWrite));
    let to = target(k, config, config.last.then_some(x));
    let p = SortBody::read(k, config);
    let keys = k.shared("keys", source.key_elem(), BLOCK_ELEMENTS as u32);
    let places = k.shared("at", Elem::U32, BLOCK_ELEMENTS as u32);
    let number = p.n.scalar();
    let t = k.builtin(Builtin::LocalIndex);
    let first = linear_group_id(k, number) * i64::from(BLOCK_ELEMENTS as u32 / size);
    let count = p.rows * p.number;
    // The block of a slot of shared memory, its row, and the slot's place in the row.
    let slot = |e: u32| {
        let at = t + i64::from(e * BLOCK_THREADS);
        let block = first + (at / i64::from(size)).to(number);
        let inside = block.min(count - 1);
        let i = inside % p.number * i64::from(size) + (at % i64::from(size)).to(number);
        (at, block, inside / p.number, i)
    };
    for e in 0..2 {
        let (at, _, row, i) = slot(e);
        let greatest = k.int(source.key(), -1);
        let load = || {
            let v = k.load(x, p.at(row, i), 1);
            let Some(refused) = refused else { return vec![key(source, v)] };
            let there = !v.lt(v.like(0)) & v.lt(p.turns.to(Scalar::I64));
            k.if_(!there, || {
                k.atomic(Atomic::Or, refused, k.u32(0), k.u32(1));
            });
            vec![there.select(v.to(Scalar::U32), greatest)]
        };
        let key = k.if_else(i.lt(p.n), load, || vec![greatest])[0];
        k.store(keys, at, key);
        k.store(places, at, i.to(Scalar::U32));
    }
    k.barrier();
    let one = k.u32(1);
    k.each(one, k.u32(size.trailing_zeros() + 1), one, |stage| {
        k.each(k.u32(0), stage, one, |step| {
            let bit = stage - 1 - step;
            let far = one << bit;
            let low = ((t >> bit) << (bit + 1)) | (t & (far - 1));
            let high = low + far;
            let [a, b] = [low, high].map(|at| (k.load(keys, at, 1), k.load(places, at, 1)));
            // Every second run of a stage descends, but for the last one.
            let down = (((low & i64::from(size - 1)) >> stage) & 1).eq(one);
            let turn = down.select(after(b, a), after(a, b));
            k.if_(turn, || {
                for (at, v) in [(low, b), (high, a)] {
                    k.store(keys, at, v.0);
                    k.store(places, at, v.1);
                }
            });
            k.barrier();
        });
    });
    for e in 0..2 {
        let (at, block, row, i) = slot(e);
        let stores = block.lt(count) & i.lt(p.n);
        k.if_(stores, || to.put(&p, row, i, || k.load(keys, at, 1), k.load(places, at, 1)));
    }
}

/// Merges runs of `number` elements, two by two.
fn merge(k: &Builder, config: &SortConfig) {
    let keys = k.buffer("keys", config.source.key_elem(), Access::Read);
    let from = k.buffer("from", Elem::U32, Access::Read);
    let x = config.last.then(|| k.buffer("x", config.source.dtype().into(), Access::Read));
    let to = target(k, config, x);
    let p = SortBody::read(k, config);
    let number = p.n.scalar();
    let e = linear_group_id(k, number) * i64::from(BLOCK_THREADS) + k.local_id(0).to(number);
    k.if_(e.lt(p.rows * p.n), || {
        let (row, i) = (e / p.n, e % p.n);
        let base = row * p.n;
        let run = i / p.number;
        let right = (run & 1).eq(run.like(1));
        let pair = (run - (run & 1)) * p.number;
        // The other run.
        let begin = right.select(pair, (pair + p.number).min(p.n));
        let end = right.select(pair + p.number, (pair + p.number * 2).min(p.n));
        let mine = k.load(keys, e, 1);
        let zero = i.like(0);
        let found = k.for_(zero, p.turns, i.like(1), &[begin, end], |_, c| {
            let (low, high) = (c[0], c[1]);
            let open = low.lt(high);
            let middle = (low + high) / 2;
            let theirs = k.if_else(open, || vec![k.load(keys, base + middle, 1)], || vec![mine])[0];
            // Of equals, those of the left run come first.
            let before = theirs.lt(mine) | (right & theirs.eq(mine));
            vec![(open & before).select(middle + 1, low), (open & !before).select(middle, high)]
        });
        let place = pair + (i - run * p.number) + (found[0] - begin);
        to.put(&p, row, place, || mine, k.load(from, e, 1));
    });
}
