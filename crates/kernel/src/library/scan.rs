//! `y[row, i]` = the row's elements 0..=i combined, in the order of `elinvar_core::order::scan`.
//!
//! A workgroup takes a row, block by block. Each of its 64 invocations scans one group of 16 elements in registers, by
//! steps of 1, 2, 4, 8; the first invocation chains the last elements of the groups; then each group gets the chain
//! of those before it on its left, and all get what the blocks before ended with, further to the left.
//!
//! A few long rows are scanned block by block side by side; then what blocks end with is chained, and each block gets the
//! chain of those before it.

use super::formula::Compute;
use super::index::{self, Axes, is_wide};
use super::numbers::{self, Numbers};
use super::row::elem;
use super::steps::{Room, Slot, Steps};
use super::{Key, Work, grid, group_number};
use crate::build::{Builder, Val};
use crate::ir::{Access, Binary, Elem, Kernel, Scalar};
use elinvar_core::order::{SCAN_BLOCK, SCAN_GROUP};
use elinvar_core::{DType, Layout};
use elinvar_ops::backend::Scan;

/// Invocations of a workgroup: one per group of a block.
const GROUP: u32 = (SCAN_BLOCK / SCAN_GROUP) as u32;

/// Rows that fill a device without being cut, and blocks of a row that are not worth cutting.
const MANY_ROWS: usize = 128;
const FEW_BLOCKS: usize = 8;

/// The work of a scan along the last axis. Operand: x. Result: its prefixes.
pub fn steps(f: Scan, x: &Layout, dtype: DType, to: DType) -> Steps<'static> {
    let len = x.shape().numel();
    let mut all = Steps { results: vec![Room::of(to.into(), len)], ..Steps::default() };
    let n = x.shape().last().copied().unwrap_or(1);
    let (rows, blocks) = (len.checked_div(n).unwrap_or(0), n.div_ceil(SCAN_BLOCK));
    let scalar = scalar(dtype);
    if rows >= MANY_ROWS || blocks <= FEW_BLOCKS {
        if let Some(work) = scan(f, x, dtype, to) {
            all.push(work, &[Slot::Operand(0), Slot::Result(0)]);
        }
        return all;
    }
    let Some(first) = launch(f, x, dtype, elem(scalar), true) else { return all };
    all.scratch = vec![Room::of(elem(scalar), len), Room::of(elem(scalar), rows * blocks)];
    let [scanned, before] = [0, 1].map(Slot::Scratch);
    all.push(first, &[Slot::Operand(0), scanned]);
    let wide = index::are_many(len);
    let sizes = [rows, n, blocks].map(|v| v as i64);
    let chain = move || chain(f, scalar, wide);
    let key = Key::of("scan_chain").with(&(f, scalar, wide));
    let number = index::scalar(wide);
    all.push(numbers::work(key, chain, grid(rows as u64), number, &sizes), &[scanned, before]);
    let to = Elem::from(to);
    let groups = grid(len.div_ceil(SPREAD as usize) as u64);
    let key = Key::of("scan_spread").with(&(f, scalar, to, wide));
    let spread = move || spread(f, scalar, to, wide);
    all.push(numbers::work(key, spread, groups, number, &sizes), &[scanned, before, Slot::Result(0)]);
    all
}

/// Invocations of the kernels that join blocks.
const SPREAD: u32 = 256;

fn op(f: Scan) -> (&'static str, Binary) {
    match f {
        Scan::Sum => ("sum", Binary::Add),
        Scan::Prod => ("prod", Binary::Mul),
    }
}

/// The type in which elements are combined.
fn scalar(dtype: DType) -> Scalar {
    match Compute::from(dtype) {
        Compute::F32 => Scalar::F32,
        Compute::F64 => Scalar::F64,
        Compute::I64 | Compute::I32 | Compute::U8 | Compute::Bool => Scalar::I64,
    }
}

/// The kernel that chains what the blocks of a row end with: a workgroup brings them into shared memory, and its first
/// invocation does what has an order.
pub fn chain(f: Scan, scalar: Scalar, wide: bool) -> Kernel {
    let (word, op) = op(f);
    let name = format!("scan_chain_{word}_{scalar}{}", if wide { "_wide" } else { "" });
    let k = Builder::new(&name, [SPREAD, 1, 1]);
    let x = k.buffer("x", elem(scalar), Access::Read);
    let before = k.buffer("before", elem(scalar), Access::Write);
    let s = index::scalar(wide);
    let numbers = Numbers::new(&k, s, 3);
    let [rows, n, blocks] = ["rows", "n", "blocks"].map(|n| numbers.get(n));
    let shared = k.shared("ends", elem(scalar), SPREAD);
    // The last row of a grid may have workgroups too many: they go along, and store nothing.
    let asked = group_number(&k, s);
    let row = asked.min(rows - 1);
    let t = k.local_id(0);
    let zero = k.int(scalar, 0);
    let (first, step) = (n.like(0), n.like(i64::from(SPREAD)));
    k.for_(first, blocks, step, &[zero], |from, carried| {
        let b = from + t.to(s);
        let end = ((b + 1) * SCAN_BLOCK as i64).min(n) - 1;
        let load = || vec![k.load(x, row * n + end, 1)];
        let own = k.if_else(b.lt(blocks), load, || vec![zero])[0];
        k.store(shared, t, own);
        k.barrier();
        // In the place of its end, a block gets what stands before it.
        k.if_(t.eq(k.u32(0)), || {
            k.for_(k.u32(0), k.u32(SPREAD), k.u32(1), carried, |i, c| {
                let own = k.load(shared, i, 1);
                k.store(shared, i, c[0]);
                let is_first = from.eq(first) & i.eq(k.u32(0));
                vec![is_first.select(own, c[0].binary(op, own))]
            });
        });
        k.barrier();
        let mine = k.load(shared, t, 1);
        let there = b.lt(blocks) & asked.lt(rows);
        k.if_(there, || k.store(before, row * blocks + b, mine));
        // What the last block ended with is not in its place any more.
        let last = k.load(shared, k.u32(SPREAD - 1), 1);
        let end = ((from + i64::from(SPREAD)) * SCAN_BLOCK as i64).min(n) - 1;
        let next = last.binary(op, k.load(x, row * n + end, 1));
        // The next ends are written over these.
        k.barrier();
        vec![next]
    });
    k.finish()
}

/// The kernel that gives every element what stands before its block.
pub fn spread(f: Scan, scalar: Scalar, to: Elem, wide: bool) -> Kernel {
    let (word, op) = op(f);
    let name = format!("scan_spread_{word}_{scalar}_{to}{}", if wide { "_wide" } else { "" });
    let k = Builder::new(&name, [SPREAD, 1, 1]);
    let x = k.buffer("x", elem(scalar), Access::Read);
    let before = k.buffer("before", elem(scalar), Access::Read);
    let y = k.buffer("y", to, Access::Write);
    let s = index::scalar(wide);
    let numbers = Numbers::new(&k, s, 3);
    let [rows, n, blocks] = ["rows", "n", "blocks"].map(|n| numbers.get(n));
    let i = group_number(&k, s) * i64::from(SPREAD) + k.local_id(0).to(s);
    k.if_(i.lt(rows * n), || {
        let (row, block) = (i / n, i % n / SCAN_BLOCK as i64);
        let v = k.load(x, i, 1);
        let joined = k.load(before, row * blocks + block, 1).binary(op, v);
        k.store(y, i, block.eq(block.like(0)).select(v, joined).to(to.scalar()));
    });
    k.finish()
}

/// The work of a scan along the last axis in one launch: the operand, then the result. `None` if there are no elements.
pub fn scan(f: Scan, x: &Layout, dtype: DType, to: DType) -> Option<Work<'static>> {
    launch(f, x, dtype, to.into(), false)
}

fn launch(f: Scan, x: &Layout, dtype: DType, to: Elem, apart: bool) -> Option<Work<'static>> {
    if x.shape().numel() == 0 {
        return None;
    }
    let kept = x.rank().saturating_sub(1);
    let n = x.shape().get(kept).copied().unwrap_or(1);
    let stride = x.strides().get(kept).copied().unwrap_or(0);
    let rows: usize = x.shape()[..kept].iter().product();
    let wide = is_wide(x);
    let outer = index::join(&[x], 0, kept);
    let mut all = vec![rows as i64, n as i64, x.offset() as i64, stride as i64];
    all.extend(index::sizes(&outer.dims, wide));
    all.extend(outer.strides[0].iter().map(|&s| s as i64));
    let rank = outer.dims.len();
    let key = Key::of("scan").with(&(f, dtype, to, rank, apart, wide));
    let build = move || build(f, dtype, to, rank, apart, wide);
    let units = if apart { rows * n.div_ceil(SCAN_BLOCK) } else { rows };
    Some(numbers::work(key, build, grid(units as u64), index::scalar(wide), &all))
}

/// The kernel for rows with so many joined axes; with `apart`, for blocks of rows that know nothing of each other.
pub fn build(f: Scan, dtype: DType, to: Elem, rank: usize, apart: bool, wide: bool) -> Kernel {
    let (word, op) = op(f);
    let scalar = scalar(dtype);
    let apart_word = if apart { "_apart" } else { "" };
    let name = format!("scan_{word}_{dtype}_{to}_{rank}{apart_word}{}", if wide { "_wide" } else { "" });
    let k = Builder::new(&name, [GROUP, 1, 1]);
    let x = k.buffer("x", dtype.into(), Access::Read);
    let y = k.buffer("y", to, Access::Write);
    let number = index::scalar(wide);
    let numbers = Numbers::new(&k, number, 4 + index::count(rank, wide) + rank);
    let [rows, n, offset, stride] = ["rows", "n", "offset", "stride"].map(|n| numbers.get(n));
    let axes = Axes::read(&numbers, "row", rank, wide);
    let strides = index::strides(&numbers, "row_stride", rank);
    let last = k.shared("last", elem(scalar), GROUP);

    let unit = group_number(&k, number);
    let size = SCAN_BLOCK as i64;
    // A row and all of it, or a block.
    let blocks = (n + (size - 1)) / size;
    let (asked, begin, end) = if apart {
        let begin = unit % blocks * size;
        (unit / blocks, begin, (begin + size).min(n))
    } else {
        (unit, n.like(0), n)
    };
    let row = asked.min(rows - 1);
    let from = index::position(offset, &axes.index(row), &strides);
    let t = k.local_id(0);
    let leads = t.eq(k.u32(0));
    let zero = k.int(scalar, 0);
    k.for_(begin, end, n.like(size), &[zero], |block, carried| {
        let first = block + t.to(number) * SCAN_GROUP as i64;
        let mut v: Vec<Val> = (0..SCAN_GROUP as i64)
            .map(|e| {
                // No branch: all loads are under way at once. What is behind the end of the row is not used.
                let i = first + e;
                let v = k.load(x, from + i.min(n - 1) * stride, 1).to(scalar);
                i.lt(n).select(v, zero)
            })
            .collect();
        let mut d = 1;
        while d < SCAN_GROUP {
            for e in (d..SCAN_GROUP).rev() {
                v[e] = v[e - d].binary(op, v[e]);
            }
            d *= 2;
        }
        k.store(last, t, v[SCAN_GROUP - 1]);
        k.barrier();
        // What stands behind the end of the row is chained, too, and read by nobody.
        k.if_(leads, || {
            let begin = k.load(last, k.u32(0), 1);
            k.for_(k.u32(1), k.u32(GROUP), k.u32(1), &[begin], |g, c| {
                let sum = c[0].binary(op, k.load(last, g, 1));
                k.store(last, g, sum);
                vec![sum]
            });
        });
        k.barrier();
        let before = k.load(last, leads.select(t, t - 1), 1);
        let whole = k.load(last, k.u32(GROUP - 1), 1);
        let later = begin.lt(block);
        for (e, v) in v.iter().enumerate() {
            let chained = leads.select(*v, before.binary(op, *v));
            let all = later.select(carried[0].binary(op, chained), chained);
            let i = first + e as i64;
            k.if_(i.lt(n) & asked.lt(rows), || k.store(y, row * n + i, all.to(to.scalar())));
        }
        // The next block's groups are written over these.
        k.barrier();
        vec![later.select(carried[0].binary(op, whole), whole)]
    });
    k.finish()
}
