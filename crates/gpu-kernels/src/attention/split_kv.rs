//! Attention of few queries to many keys: split-KV (flash decoding) on tensor cores, and the kernel
//! that combines the splits.
//!
//! One workgroup per head would leave most of a device idle, and the work is to read keys and
//! values. So each split of `KEYS_PER_SPLIT` keys has a workgroup of its own, which leaves its
//! maxima, sums and results; the second kernel weighs them by 2^(its maximum - the largest), split
//! by split, from first to last. The number of splits depends on the keys alone, so a row's bits do
//! not depend on the other rows.

use super::mma_forward::{self, exp2};
use super::plan::thresholds::KEYS_PER_SPLIT;
use crate::launch::args::{self, LaunchArgs};
use crate::launch::{BufferSlot, BufferSpec, Key, LaunchSequence, Work, grid, linear_group_id};
use crate::layout::indexing;
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Elem, Kernel, Scalar};
use elinvar_kernel::lane::{Float, Term, W32};
use elinvar_ops::backend::Attention;
use elinvar_ops::lane::Lane;

/// Invocations of a workgroup of the join.
const REDUCE_THREADS: u32 = 128;

/// Attention by tensor cores, in splits of the keys: q, k, v; gives y and lse.
///
/// # Panics
/// If it does not fit ([`mma_forward::fits`]).
pub fn steps(a: &Attention, dtype: DType, operands: [&Layout; 3]) -> LaunchSequence<'static> {
    let [q, k, _] = operands;
    let (heads, l, d) = (q.shape()[0] * q.shape()[1], q.shape()[2], q.shape()[3]);
    let rows = heads * l;
    let results = vec![BufferSpec::of(dtype.into(), rows * d), BufferSpec::of(Elem::F32, rows)];
    let mut all = LaunchSequence { results, ..LaunchSequence::default() };
    let given = [BufferSlot::Operand(0), BufferSlot::Operand(1), BufferSlot::Operand(2)];
    let ends = [BufferSlot::Result(0), BufferSlot::Result(1)];
    let splits = k.shape()[2].div_ceil(KEYS_PER_SPLIT);
    if let Some(work) = mma_forward::split(a, dtype, operands) {
        // Results of parts; maxima, and behind them sums.
        all.scratch =
            vec![BufferSpec::of(Elem::F32, splits * rows * d), BufferSpec::of(Elem::F32, 2 * splits * rows)];
        let between = [BufferSlot::Scratch(0), BufferSlot::Scratch(1)];
        all.push(work, &[&given[..], &between].concat());
        all.push(combine(dtype, [splits, rows, d]), &[&between[..], &ends].concat());
    }
    all
}

/// y[row, e] and lse[row] from parts: results [part, row, e], statistics [2, part, row].
fn combine(dtype: DType, [splits, rows, d]: [usize; 3]) -> Work<'static> {
    let wide = indexing::are_many(splits * rows * d);
    let key = Key::of("attention_split_kv_combine").with(&(dtype, wide));
    let groups = grid((rows * d).div_ceil(REDUCE_THREADS as usize) as u64);
    let all = [splits, rows, d].map(|n| n as i64);
    args::work(key, move || build(dtype, wide), groups, indexing::scalar(wide), &all)
}

fn build(dtype: DType, wide: bool) -> Kernel {
    let name = format!("attention_split_kv_combine_{dtype}{}", if wide { "_wide" } else { "" });
    let k = Builder::new(&name, [REDUCE_THREADS, 1, 1]);
    let results = k.buffer("results", Elem::F32, Access::Read);
    let statistics = k.buffer("statistics", Elem::F32, Access::Read);
    let y = k.buffer("y", dtype.into(), Access::Write);
    let lse = k.buffer("lse", Elem::F32, Access::Write);
    let number = indexing::scalar(wide);
    let args = LaunchArgs::new(&k, number, 3);
    let [splits, rows, d] = ["parts", "rows", "d"].map(|n| args.get(n));
    let at = linear_group_id(&k, number) * i64::from(REDUCE_THREADS) + k.local_id(0).to(number);
    k.if_(at.lt(rows * d), || {
        let (row, column) = (at / d, at % d);
        let float = |v: f64| k.float(Scalar::F32, v);
        let (zero, one) = (splits.like(0), splits.like(1));
        let maximum = |split: Val<'_>| k.load(statistics, split * rows + row, 1);
        let largest = k.for_(zero, splits, one, &[float(f64::NEG_INFINITY)], |split, m| {
            let next = k.load(statistics, split * rows + row, 1);
            vec![m[0].lt(next).select(next, m[0])]
        })[0];
        // Where a NaN is, all is one.
        let sums = k.for_(zero, splits, one, &[float(0.0), float(0.0)], |split, old| {
            let weight = exp2(maximum(split) - largest);
            let sum = k.load(statistics, (splits + split) * rows + row, 1);
            let result = k.load(results, (split * rows + row) * d + column, 1);
            vec![sum.fma(weight, old[0]), result.fma(weight, old[1])]
        });
        k.store(y, at, sums[1] / sums[0]);
        k.if_(column.eq(zero), || {
            let log = Float::<W32>::new(Term::Value(sums[0])).log().0.value(&k);
            k.store(lse, row, largest * float(std::f64::consts::LN_2) + log);
        });
    });
    k.finish()
}
