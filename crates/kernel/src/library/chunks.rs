//! `y[i]` = the sums of the chunks of a contraction, added from first to last.
//!
//! Where a result has few elements and each of them many terms, chunks are computed side by side, one sum for each element
//! and chunk, and this follows.

use super::formula::Compute;
use super::numbers::{self, Numbers};
use super::row;
use super::{Key, Work, grid, group_number, index};
use crate::build::Builder;
use crate::ir::{Access, Elem, Kernel};
use elinvar_core::DType;

/// Invocations of a workgroup.
const GROUP: u32 = 64;

/// What holds the sums of chunks.
pub fn elem(dtype: DType) -> Elem {
    row::elem(Compute::from(dtype).scalar())
}

/// The work of joining: the sums `[chunks, len]`, then the result. There is a chunk, and an element.
pub fn join(dtype: DType, chunks: usize, len: usize) -> Work<'static> {
    let wide = (chunks * len) as i128 >= index::NARROW;
    let groups = grid(len.div_ceil(GROUP as usize) as u64);
    let key = Key::of("chunks").with(&(dtype, wide));
    numbers::work(key, move || build(dtype, wide), groups, index::scalar(wide), &[chunks as i64, len as i64])
}

/// The kernel.
pub fn build(dtype: DType, wide: bool) -> Kernel {
    let k = Builder::new(&format!("chunks_{dtype}{}", if wide { "_wide" } else { "" }), [GROUP, 1, 1]);
    let x = k.buffer("x", elem(dtype), Access::Read);
    let y = k.buffer("y", dtype.into(), Access::Write);
    let s = index::scalar(wide);
    let numbers = Numbers::new(&k, s, 2);
    let [chunks, len] = ["chunks", "len"].map(|n| numbers.get(n));
    let i = group_number(&k, s) * i64::from(GROUP) + k.local_id(0).to(s);
    k.if_(i.lt(len), || {
        let first = k.load(x, i, 1);
        let one = chunks.like(1);
        let sum = k.for_(one, chunks, one, &[first], |c, total| vec![total[0] + k.load(x, c * len + i, 1)]);
        k.store(y, i, sum[0]);
    });
    k.finish()
}
