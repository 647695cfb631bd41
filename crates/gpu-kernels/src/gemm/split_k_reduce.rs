//! Split-K reduction: adds the partial sums of a contraction's chunks from first to last, then the
//! epilogue.
//!
//! Where a result has few elements with many terms each, the chunks are computed in parallel, one
//! partial sum for each element and chunk, and this kernel follows. An invocation takes a vector of
//! four elements where there are enough of them, and has the loads of several chunks in flight
//! before it adds the first, as it would otherwise wait for each.

use super::plan::split_k;
use crate::formula::{Compute, Formula};
use crate::launch::args::{self, LaunchArgs};
use crate::launch::{ComputeUnits, Key, Work, grid, linear_group_id};
use crate::layout::indexing::{self, Axes};
use crate::reduce::block_reduce;
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Elem, Kernel, Place};

/// Invocations of a workgroup.
const BLOCK_THREADS: u32 = 64;
/// Sums that an invocation loads before it adds them, at most.
const MAX_LOADS_IN_FLIGHT: u32 = 16;

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SplitKReduceConfig {
    /// The dtype of the result.
    pub dtype: DType,
    /// What further operands hold.
    pub extra: Vec<Elem>,
    /// Joined axes of further operands.
    pub rank: usize,
    /// Elements that an invocation takes: 1 or 4.
    pub width: u8,
    /// Chunks that are loaded before they are added.
    pub turns: u32,
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// What holds the sums of chunks.
pub fn elem(dtype: DType) -> Elem {
    block_reduce::elem(Compute::from(dtype).scalar())
}

/// The work of joining: the sums `[chunks, len]`, further operands of the epilogue (views of the
/// result's shape), then the result. There is a chunk, and an element.
pub fn join<'a>(
    epilogue: &'a dyn Formula,
    dtype: DType,
    chunks: usize,
    len: usize,
    extra: &[(&Layout, DType)],
    units: ComputeUnits,
) -> Work<'a> {
    let layouts: Vec<&Layout> = extra.iter().map(|(l, _)| *l).collect();
    let joined = layouts.first().map(|l| indexing::join(&layouts, 0, l.rank()));
    let width = split_k::reduce_width(len, units);
    let turns = ((chunks - 1).max(1) as u32).next_power_of_two().min(MAX_LOADS_IN_FLIGHT / u32::from(width));
    let config = SplitKReduceConfig {
        dtype,
        extra: extra.iter().map(|(_, d)| Elem::from(*d)).collect(),
        rank: joined.as_ref().map_or(0, |j| j.dims.len()),
        width,
        turns,
        wide: indexing::are_many(chunks * len) || layouts.iter().any(|l| indexing::is_wide(l)),
    };
    let mut all = vec![chunks as i64, len as i64];
    if let Some(joined) = joined {
        all.extend(indexing::sizes(&joined.dims, config.wide));
        for (l, strides) in layouts.iter().zip(&joined.strides) {
            all.push(l.offset() as i64);
            all.extend(strides.iter().map(|&s| s as i64));
        }
    }
    let groups = grid(len.div_ceil(BLOCK_THREADS as usize * usize::from(width)) as u64);
    let (key, scalar) =
        (epilogue.key(Key::of("gemm_split_k_reduce").with(&config)), indexing::scalar(config.wide));
    args::work(key, move || build(epilogue, &config), groups, scalar, &all)
}

/// The kernel of a form.
pub fn build(epilogue: &dyn Formula, config: &SplitKReduceConfig) -> Kernel {
    let extra: String = config.extra.iter().map(|e| format!("_{e}")).collect();
    let wide = if config.wide { "_wide" } else { "" };
    let SplitKReduceConfig { rank, width, turns, .. } = *config;
    let name = format!(
        "gemm_split_k_reduce_{}_{}{extra}_{rank}w{width}t{turns}{wide}",
        epilogue.name(),
        config.dtype
    );
    let k = Builder::new(&name, [BLOCK_THREADS, 1, 1]);
    let x = k.buffer("x", elem(config.dtype), Access::Read);
    let extras: Vec<Place> = (config.extra.iter().enumerate())
        .map(|(i, &e)| k.buffer(&format!("e{i}"), e, Access::Read))
        .collect();
    let y = k.buffer("y", config.dtype.into(), Access::Write);
    let s = indexing::scalar(config.wide);
    let count = 2 + indexing::count(config.rank, config.wide) + extras.len() * (1 + config.rank);
    let args = LaunchArgs::new(&k, s, count);
    let [chunks, len] = ["chunks", "len"].map(|n| args.get(n));
    let axes = Axes::read(&args, "size", config.rank, config.wide);
    let further: Vec<(Val, Vec<Val>)> = (0..extras.len())
        .map(|i| {
            let offset = args.get(&format!("offset{i}"));
            (offset, indexing::strides(&args, &format!("stride{i}"), config.rank))
        })
        .collect();
    let i = (linear_group_id(&k, s) * i64::from(BLOCK_THREADS) + k.local_id(0).to(s)) * i64::from(width);
    // Who takes four has all of them.
    k.if_(i.lt(len), || {
        let sum_of = |c: Val<'_>| k.load(x, c * len + i, width);
        let one = chunks.like(1);
        let step = i64::from(turns);
        let whole = (chunks - 1) / step * step + 1;
        let fragments_together = |c: Val<'_>| (0..step).map(|t| sum_of(c + t)).collect::<Vec<Val>>();
        let first = k.load(x, i, width);
        let total = k.for_(one, whole, one.like(step), &[first], |c, total| {
            vec![fragments_together(c).into_iter().fold(total[0], |total, sum| total + sum)]
        });
        let total = k.for_(whole, chunks, one, &total, |c, total| vec![total[0] + sum_of(c)]);
        let c = Compute::from(config.dtype);
        let at: Vec<Vec<Val>> = (0..i64::from(width)).map(|e| axes.index(i + e)).collect();
        let mut given = total;
        given.extend(extras.iter().zip(&further).map(|(&e, (offset, strides))| {
            let each = at.iter().map(|at| k.load(e, indexing::position(*offset, at, strides), 1));
            c.enter(k.join(&each.collect::<Vec<Val>>()))
        }));
        k.store(y, i, epilogue.emit(&k, c, &given).splat(width));
    });
    k.finish()
}
