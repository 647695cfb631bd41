//! `y[i] = epilogue(sum of the chunks of i)`: the sums of a contraction's chunks, added from first to last.
//!
//! Where a result has few elements and each of them many terms, chunks are computed side by side, one sum for each element
//! and chunk, and this follows.

use super::formula::{Compute, Formula};
use super::index::{self, Axes};
use super::numbers::{self, Numbers};
use super::row;
use super::{Key, Work, grid, group_number};
use crate::build::{Builder, Val};
use crate::ir::{Access, Elem, Kernel, Place};
use elinvar_core::{DType, Layout};

/// Invocations of a workgroup.
const GROUP: u32 = 64;
/// Elements of the sums of chunks, at most: what may be taken for a while to be faster.
const MOST: usize = 1 << 25;

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// The dtype of the result.
    pub dtype: DType,
    /// What further operands hold.
    pub extra: Vec<Elem>,
    /// Joined axes of further operands.
    pub rank: usize,
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// What holds the sums of chunks.
pub fn elem(dtype: DType) -> Elem {
    row::elem(Compute::from(dtype).scalar())
}

/// Is it worth while to take `chunks` of `len` elements apart, if the work without has so many workgroups, and a device is
/// busy with `busy`?
pub(super) fn are_apart(units: usize, busy: usize, chunks: usize, len: usize) -> bool {
    chunks > 1 && units < busy && chunks.saturating_mul(len) <= MOST
}

/// The work of joining: the sums `[chunks, len]`, further operands of the epilogue (views of the result's shape), then the
/// result. There is a chunk, and an element.
pub fn join<'a>(
    epilogue: &'a dyn Formula,
    dtype: DType,
    chunks: usize,
    len: usize,
    extra: &[(&Layout, DType)],
) -> Work<'a> {
    let layouts: Vec<&Layout> = extra.iter().map(|(l, _)| *l).collect();
    let joined = layouts.first().map(|l| index::join(&layouts, 0, l.rank()));
    let form = Form {
        dtype,
        extra: extra.iter().map(|(_, d)| Elem::from(*d)).collect(),
        rank: joined.as_ref().map_or(0, |j| j.dims.len()),
        wide: index::are_many(chunks * len) || layouts.iter().any(|l| index::is_wide(l)),
    };
    let mut all = vec![chunks as i64, len as i64];
    if let Some(joined) = joined {
        all.extend(index::sizes(&joined.dims, form.wide));
        for (l, strides) in layouts.iter().zip(&joined.strides) {
            all.push(l.offset() as i64);
            all.extend(strides.iter().map(|&s| s as i64));
        }
    }
    let groups = grid(len.div_ceil(GROUP as usize) as u64);
    let (key, scalar) = (epilogue.key(Key::of("chunks").with(&form)), index::scalar(form.wide));
    numbers::work(key, move || build(epilogue, &form), groups, scalar, &all)
}

/// The kernel of a form.
pub fn build(epilogue: &dyn Formula, form: &Form) -> Kernel {
    let extra: String = form.extra.iter().map(|e| format!("_{e}")).collect();
    let wide = if form.wide { "_wide" } else { "" };
    let name = format!("chunks_{}_{}{extra}_{}{wide}", epilogue.name(), form.dtype, form.rank);
    let k = Builder::new(&name, [GROUP, 1, 1]);
    let x = k.buffer("x", elem(form.dtype), Access::Read);
    let extras: Vec<Place> =
        (form.extra.iter().enumerate()).map(|(i, &e)| k.buffer(&format!("e{i}"), e, Access::Read)).collect();
    let y = k.buffer("y", form.dtype.into(), Access::Write);
    let s = index::scalar(form.wide);
    let count = 2 + index::count(form.rank, form.wide) + extras.len() * (1 + form.rank);
    let numbers = Numbers::new(&k, s, count);
    let [chunks, len] = ["chunks", "len"].map(|n| numbers.get(n));
    let axes = Axes::read(&numbers, "size", form.rank, form.wide);
    let further: Vec<(Val, Vec<Val>)> = (0..extras.len())
        .map(|i| {
            let offset = numbers.get(&format!("offset{i}"));
            (offset, index::strides(&numbers, &format!("stride{i}"), form.rank))
        })
        .collect();
    let i = group_number(&k, s) * i64::from(GROUP) + k.local_id(0).to(s);
    k.if_(i.lt(len), || {
        let first = k.load(x, i, 1);
        let one = chunks.like(1);
        let sum = k.for_(one, chunks, one, &[first], |c, total| vec![total[0] + k.load(x, c * len + i, 1)]);
        let c = Compute::from(form.dtype);
        let at = axes.index(i);
        let mut given = sum;
        given.extend(
            extras
                .iter()
                .zip(&further)
                .map(|(&e, (offset, strides))| c.enter(k.load(e, index::position(*offset, &at, strides), 1))),
        );
        k.store(y, i, epilogue.emit(&k, c, &given));
    });
    k.finish()
}
