//! Nonzero (stream compaction): the row-major indices of the elements that are not zero, ascending,
//! and how many there are.
//!
//! Three launches: each block of 1024 elements counts its own; one workgroup computes the exclusive
//! prefix sum of the counts; each block writes its indices there.

use crate::launch::args::{self, LaunchArgs};
use crate::launch::sequence::{BufferSlot, BufferSpec, LaunchSequence};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing::{self, Axes, is_wide};
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Compare, Elem, Kernel, Place, Scalar};

/// Invocations of a workgroup.
const BLOCK_THREADS: u32 = 256;
/// Elements of an invocation, one behind the other.
const ELEMENTS_PER_THREAD: i64 = 4;
/// Elements of a workgroup.
const BLOCK_ELEMENTS: usize = BLOCK_THREADS as usize * ELEMENTS_PER_THREAD as usize;

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NonzeroConfig {
    /// The dtype of the operand.
    pub dtype: DType,
    /// Are the numbers written, or only counted?
    pub writes: bool,
    /// Joined axes.
    pub rank: usize,
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// The work of finding what is not zero. Operand: x. Results: the numbers (i64; room for all
/// elements, though the first two steps do not touch it, so that it can be made when the count is
/// known), and their count (one i64).
pub fn nonzero(x: &Layout, dtype: DType) -> LaunchSequence<'static> {
    let len = x.shape().numel();
    let results = vec![BufferSpec::of(Elem::I64, len), BufferSpec::zeros(Elem::I64, 1)];
    let mut all = LaunchSequence { results, ..LaunchSequence::default() };
    if len == 0 {
        return all;
    }
    let blocks = len.div_ceil(BLOCK_ELEMENTS);
    all.scratch = vec![BufferSpec::of(Elem::U32, blocks), BufferSpec::of(Elem::I64, blocks)];
    all.push(launch(x, dtype, false), &[BufferSlot::Operand(0), BufferSlot::Scratch(0)]);
    let sums = args::work(Key::of("nonzero_sums"), sums, [1, 1, 1], Scalar::I32, &[blocks as i64]);
    all.push(sums, &[BufferSlot::Scratch(0), BufferSlot::Scratch(1), BufferSlot::Result(1)]);
    all.push(
        launch(x, dtype, true),
        &[BufferSlot::Operand(0), BufferSlot::Scratch(1), BufferSlot::Result(0)],
    );
    all
}

fn launch(x: &Layout, dtype: DType, writes: bool) -> Work<'static> {
    let joined = indexing::join(&[x], 0, x.rank());
    let len = x.shape().numel();
    let config = NonzeroConfig { dtype, writes, rank: joined.dims.len(), wide: is_wide(x) };
    let mut all = vec![len as i64, x.offset() as i64];
    all.extend(indexing::sizes(&joined.dims, config.wide));
    all.extend(joined.strides[0].iter().map(|&s| s as i64));
    let groups = grid(len.div_ceil(BLOCK_ELEMENTS) as u64);
    let key = Key::of("nonzero").with(&config);
    args::work(key, move || build(&config), groups, indexing::scalar(config.wide), &all)
}

/// The sums of a workgroup's numbers up to and with each invocation's, in shared memory.
fn sums_up_to<'k>(k: &'k Builder, shared: Place, t: Val<'k>, v: Val<'k>) -> Val<'k> {
    let mut sum = v;
    k.store(shared, t, sum);
    k.barrier();
    let mut d = 1;
    while d < BLOCK_THREADS {
        let far = !t.lt(k.u32(d));
        let before = k.if_else(far, || vec![k.load(shared, t - i64::from(d), 1)], || vec![v.like(0)])[0];
        sum = sum + before;
        k.barrier();
        k.store(shared, t, sum);
        k.barrier();
        d *= 2;
    }
    sum
}

/// The kernel of a form.
pub fn build(config: &NonzeroConfig) -> Kernel {
    let word = if config.writes { "write" } else { "count" };
    let wide = if config.wide { "_wide" } else { "" };
    let k = Builder::new(
        &format!("nonzero_{word}_{}_{}{wide}", config.dtype, config.rank),
        [BLOCK_THREADS, 1, 1],
    );
    let x = k.buffer("x", config.dtype.into(), Access::Read);
    let before = config.writes.then(|| k.buffer("before", Elem::I64, Access::Read));
    let y = k.buffer("y", if config.writes { Elem::I64 } else { Elem::U32 }, Access::Write);
    let number = indexing::scalar(config.wide);
    let args = LaunchArgs::new(&k, number, 2 + indexing::count(config.rank, config.wide) + config.rank);
    let (len, offset) = (args.get("len"), args.get("offset"));
    let axes = Axes::read(&args, "size", config.rank, config.wide);
    let strides = indexing::strides(&args, "stride", config.rank);
    let shared = k.shared("counts", Elem::U32, BLOCK_THREADS);
    let block = linear_group_id(&k, number);
    let t = k.local_id(0);
    let first = block * BLOCK_ELEMENTS as i64 + t.to(number) * ELEMENTS_PER_THREAD;
    let found: Vec<Val> = (0..ELEMENTS_PER_THREAD)
        .map(|e| {
            let i = first + e;
            let load = || {
                let v = k.load(x, indexing::position(offset, &axes.index(i), &strides), 1);
                vec![if v.scalar() == Scalar::Bool { v } else { v.compare(Compare::Ne, v.like(0)) }]
            };
            k.if_else(i.lt(len), load, || vec![k.constant(false.into())])[0]
        })
        .collect();
    let counts: Vec<Val> = found.iter().map(|f| f.to(Scalar::U32)).collect();
    let own = counts[1..].iter().fold(counts[0], |n, &c| n + c);
    let up_to = sums_up_to(&k, shared, t, own);
    // The last row of a grid may have workgroups too many.
    let there = (block * BLOCK_ELEMENTS as i64).lt(len);
    match before {
        None => {
            let last = there & t.eq(k.u32(BLOCK_THREADS - 1));
            k.if_(last, || k.store(y, block, up_to));
        }
        Some(before) => k.if_(there, || {
            let mut at = k.load(before, block, 1) + (up_to - own).to(Scalar::I64);
            for (e, (&f, &c)) in found.iter().zip(&counts).enumerate() {
                k.if_(f, || k.store(y, at, (first + e as i64).to(Scalar::I64)));
                at = at + c.to(Scalar::I64);
            }
        }),
    }
    k.finish()
}

/// The kernel that adds the counts up: for each block what stands before it, and the count of all.
pub fn sums() -> Kernel {
    let k = Builder::new("nonzero_sums", [BLOCK_THREADS, 1, 1]);
    let x = k.buffer("x", Elem::U32, Access::Read);
    let y = k.buffer("y", Elem::I64, Access::Write);
    let count = k.buffer("count", Elem::I64, Access::Write);
    let args = LaunchArgs::new(&k, Scalar::I32, 1);
    let n = args.get("n");
    let shared = k.shared("sums", Elem::I64, BLOCK_THREADS);
    let t = k.local_id(0);
    let all =
        k.for_(n.like(0), n, n.like(i64::from(BLOCK_THREADS)), &[k.int(Scalar::I64, 0)], |first, carried| {
            let i = first + t.to(Scalar::I32);
            let load = || vec![k.load(x, i, 1).to(Scalar::I64)];
            let own = k.if_else(i.lt(n), load, || vec![k.int(Scalar::I64, 0)])[0];
            let up_to = sums_up_to(&k, shared, t, own);
            k.if_(i.lt(n), || k.store(y, i, carried[0] + (up_to - own)));
            let whole = carried[0] + k.load(shared, k.u32(BLOCK_THREADS - 1), 1);
            // The next counts are written over these.
            k.barrier();
            vec![whole]
        });
    k.if_(t.eq(k.u32(0)), || k.store(count, k.u32(0), all[0]));
    k.finish()
}
