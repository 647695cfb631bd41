//! `y[row, i]` = the row's elements 0..=i combined, in the order of `elinvar_core::order::scan`.
//!
//! A workgroup takes a row, block by block. Each of its 64 invocations scans one group of 16 elements in registers, by
//! steps of 1, 2, 4, 8; the first invocation chains the last elements of the groups; then each group gets the chain
//! of those before it on its left, and all get what the blocks before ended with, further to the left.

use super::formula::Compute;
use super::index::{self, Axes, is_wide};
use super::numbers::{self, Numbers};
use super::row::elem;
use super::{Key, Work, grid, group_number};
use crate::build::{Builder, Val};
use crate::ir::{Access, Binary, Elem, Kernel, Scalar};
use elinvar_core::order::{SCAN_BLOCK, SCAN_GROUP};
use elinvar_core::{DType, Layout};
use elinvar_ops::backend::Scan;

/// Invocations of a workgroup: one per group of a block.
const GROUP: u32 = (SCAN_BLOCK / SCAN_GROUP) as u32;

/// The work of a scan along the last axis: the operand, then the result. `None` if there are no elements.
pub fn scan(f: Scan, x: &Layout, dtype: DType, to: DType) -> Option<Work<'static>> {
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
    let (to, rank) = (Elem::from(to), outer.dims.len());
    let key = Key::of("scan").with(&(f, dtype, to, rank, wide));
    let build = move || build(f, dtype, to, rank, wide);
    Some(numbers::work(key, build, grid(rows as u64), index::scalar(wide), &all))
}

/// The kernel for rows with so many joined axes.
pub fn build(f: Scan, dtype: DType, to: Elem, rank: usize, wide: bool) -> Kernel {
    let (word, op) = match f {
        Scan::Sum => ("sum", Binary::Add),
        Scan::Prod => ("prod", Binary::Mul),
    };
    let scalar = match Compute::from(dtype) {
        Compute::F32 => Scalar::F32,
        Compute::F64 => Scalar::F64,
        Compute::I64 | Compute::I32 | Compute::U8 | Compute::Bool => Scalar::I64,
    };
    let name = format!("scan_{word}_{dtype}_{to}_{rank}{}", if wide { "_wide" } else { "" });
    let k = Builder::new(&name, [GROUP, 1, 1]);
    let x = k.buffer("x", dtype.into(), Access::Read);
    let y = k.buffer("y", to, Access::Write);
    let number = index::scalar(wide);
    let numbers = Numbers::new(&k, number, 4 + index::count(rank, wide) + rank);
    let [rows, n, offset, stride] = ["rows", "n", "offset", "stride"].map(|n| numbers.get(n));
    let axes = Axes::read(&numbers, "row", rank, wide);
    let strides = index::strides(&numbers, "row_stride", rank);
    let last = k.shared("last", elem(scalar), GROUP);

    let asked = group_number(&k, number);
    let row = asked.min(rows - 1);
    let from = index::position(offset, &axes.index(row), &strides);
    let t = k.local_id(0);
    let leads = t.eq(k.u32(0));
    let size = SCAN_BLOCK as i64;
    let zero = k.int(scalar, 0);
    k.for_(n.like(0), n, n.like(size), &[zero], |block, carried| {
        let first = block + t.to(number) * SCAN_GROUP as i64;
        let mut v: Vec<Val> = (0..SCAN_GROUP as i64)
            .map(|e| {
                let i = first + e;
                k.if_else(i.lt(n), || vec![k.load(x, from + i * stride, 1).to(scalar)], || vec![zero])[0]
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
        let later = n.like(0).lt(block);
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
