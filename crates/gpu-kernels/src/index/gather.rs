//! Gather: `y[i.., j, k..] = x[i.., index[i.., j, k..], k..]`; x and index agree in all axes but
//! one.
//!
//! An index out of range takes no element, and leaves 1 in the last buffer, which is 0 before.

use crate::launch::args::{self, LaunchArgs};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing::{self, Axes, is_wide};
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::Builder;
use elinvar_kernel::ir::{Access, Atomic, Elem, Kernel, Scalar};

/// Invocations of a workgroup.
const BLOCK_THREADS: u32 = 256;

/// The work of a gather: x, the index (i64), the result, and a u32 that tells of indices out of
/// range. `None` if there are no elements.
pub fn gather(x: &Layout, dtype: DType, axis: usize, index: &Layout) -> Option<Work<'static>> {
    let len = index.shape().numel();
    if len == 0 {
        return None;
    }
    let wide = is_wide(x) || is_wide(index);
    // Along the axis x is reached by the index alone; an empty axis has nothing to reach.
    let (size, step) = (x.shape()[axis], x.strides()[axis]);
    let first = match size {
        0 => Layout::contiguous(index.shape().clone()),
        _ => x.slice(axis, 0, 1, 1).broadcast_to(index.shape(), "gather").ok()?,
    };
    let joined = indexing::join(&[&first, index], 0, index.rank());
    let rank = joined.dims.len();
    let mut all = vec![len as i64, size as i64, step as i64, first.offset() as i64, index.offset() as i64];
    all.extend(indexing::sizes(&joined.dims, wide));
    all.extend(joined.strides.iter().flatten().map(|&s| s as i64));
    let groups = grid((len as u64).div_ceil(u64::from(BLOCK_THREADS)));
    let elem = Elem::from(dtype);
    let key = Key::of("gather").with(&(elem, rank, wide));
    Some(args::work(key, move || build(elem, rank, wide), groups, indexing::scalar(wide), &all))
}

/// The kernel for elements of a type, and so many joined axes.
pub fn build(elem: Elem, rank: usize, wide: bool) -> Kernel {
    let name = format!("gather_{elem}_{rank}{}", if wide { "_wide" } else { "" });
    let k = Builder::new(&name, [BLOCK_THREADS, 1, 1]);
    let x = k.buffer("x", elem, Access::Read);
    let index = k.buffer("index", Elem::I64, Access::Read);
    let y = k.buffer("y", elem, Access::Write);
    let refused = k.buffer("refused", Elem::U32, Access::ReadWrite);
    let number = indexing::scalar(wide);
    let args = LaunchArgs::new(&k, number, 5 + indexing::count(rank, wide) + 2 * rank);
    let [len, size, step, x_offset, index_offset] =
        ["len", "size", "step", "x_offset", "index_offset"].map(|n| args.get(n));
    let axes = Axes::read(&args, "size", rank, wide);
    let x_strides = indexing::strides(&args, "x_stride", rank);
    let index_strides = indexing::strides(&args, "index_stride", rank);

    let i = linear_group_id(&k, number) * i64::from(BLOCK_THREADS) + k.local_id(0).to(number);
    k.if_(i.lt(len), || {
        let at = axes.index(i);
        let named = k.load(index, indexing::position(index_offset, &at, &index_strides), 1);
        let there = !named.lt(named.like(0)) & named.lt(size.to(Scalar::I64));
        let take = || {
            let from = indexing::position(x_offset, &at, &x_strides) + named.to(number) * step;
            k.store(y, i, k.load(x, from, 1));
        };
        k.if_or(there, take, || {
            k.atomic(Atomic::Or, refused, k.u32(0), k.u32(1));
        });
    });
    k.finish()
}
