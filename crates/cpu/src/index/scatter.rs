//! Scatter: writes or adds by index along one axis.
//!
//! An element of the source moves along one axis only. So the target is partitioned without
//! conflicts between threads, and each target element receives its sources in their order:
//! * by outer slabs: each is built in the cache, from the base and its own indices ([`slabs`]);
//!   where all share one index and consist of rows, element by element ([`by_target`]);
//! * by rows, where the index is the same along the inner axes (the gradient of an embedding): the
//!   sources of each part of the target are found first, then the part is built in the cache
//!   ([`by_parts`]);
//! * by columns otherwise ([`by_columns`]).
//!
//! An index out of range has no error message here: the caller asks the reference for it.

use super::place;
use super::plan::{SCATTER_PART_BYTES, SCATTER_ROWS_MIN_INNER};
use super::row_sources::RowSources;
use crate::elementwise::cast::cast_halves;
use crate::elementwise::plan::MAX_BLOCK_ELEMENTS;
use crate::layout::copy::{ContiguousElements, elements, to_contiguous};
use crate::layout::strided_iter::StridedIter;
use crate::lazy::fusion::SingleMap;
use crate::runtime::memory::{PooledVec, filled, with_capacity};
use crate::runtime::output::column_blocks::{BlockedMatrices, fill_column_blocks};
use crate::runtime::output::parallel_fill::{fill_pieces, parallel_fill};
use crate::view::View;
use crate::view::misuse_error;
use crate::{Cpu, CpuDevice};
use elinvar_core::{DType, Element, HostData, HostVec, Layout, Result, each_data, host, storage};
use elinvar_ops::backend::{self, Scatter};
use elinvar_ops::int::Int;
use elinvar_simd::uninit::{CacheBlock, UninitSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What goes where. The target has `outer` slabs of `size` times `inner` elements, the source as
/// many of `count` times `inner`.
struct ScatterPlan<'a> {
    index: ContiguousElements<'a, i64>,
    /// Numbers in the index from slab to slab: 0 if all have the same.
    per_slab: usize,
    /// Is an index for all of the `inner` elements?
    for_all: bool,
    outer: usize,
    size: usize,
    inner: usize,
    count: usize,
    /// Was an index out of range?
    missed: AtomicBool,
}

impl<'a> ScatterPlan<'a> {
    /// For a target of this shape, with elements.
    fn new(d: &CpuDevice, shape: &[usize], axis: usize, index: &'a View<'_>) -> Result<Self> {
        let all = i64::slice(index.buffer).ok_or_else(|| misuse_error("an index", index.buffer.dtype()))?;
        let given = index.layout;
        let repeats = |axis: usize| given.strides()[axis] == 0 || given.shape()[axis] == 1;
        let for_all = (axis + 1..shape.len()).all(repeats);
        let for_slabs = (0..axis).all(repeats);
        let mut layout = given.clone();
        if for_all {
            (axis + 1..shape.len()).rev().for_each(|last| layout = layout.select(last, 0));
        }
        if for_slabs {
            (0..axis).for_each(|_| layout = layout.select(0, 0));
        }
        let (inner, count) = (shape[axis + 1..].iter().product(), given.shape()[axis]);
        let of_slab = count * if for_all { 1 } else { inner };
        Ok(ScatterPlan {
            index: elements(d, all, &layout)?,
            per_slab: if for_slabs { 0 } else { of_slab },
            for_all,
            outer: shape[..axis].iter().product(),
            size: shape[axis],
            inner,
            count,
            missed: AtomicBool::new(false),
        })
    }
    /// The indices of a slab.
    fn of_slab(&self, slab: usize) -> &[i64] {
        let of_slab = self.count * if self.for_all { 1 } else { self.inner };
        &self.index[slab * self.per_slab..][..of_slab]
    }
    fn miss(&self) {
        self.missed.store(true, Relaxed);
    }
}

/// What a target is before anything is written or added.
struct ScatterBase<'a, T> {
    elements: &'a [T],
    /// Is it one number everywhere?
    is_one: bool,
}

impl<T: Element> ScatterBase<'_, T> {
    /// The elements from number `start` on.
    fn part<'r>(&self, start: usize, n: usize, dst: &'r mut UninitSlice<'_, T>) -> &'r mut [T] {
        if self.is_one { dst.zeroed(n, self.elements[0]) } else { dst.copied(&self.elements[start..][..n]) }
    }
}

/// A copy of `base` into which `src` is written or added at `index`; nothing if an index is out of
/// range.
pub(crate) fn scatter(
    d: &CpuDevice,
    how: Scatter,
    base: &View<'_>,
    axis: usize,
    index: &View<'_>,
    src: &View<'_>,
) -> Result<Option<HostData>> {
    let dtype = base.buffer.dtype();
    if src.buffer.dtype() != dtype {
        return Err(misuse_error("a scatter of another type", src.buffer.dtype()));
    }
    if index.shape().contains(&0) {
        return to_contiguous(d, base).map(Some);
    }
    if base.shape().contains(&0) {
        return Ok(None);
    }
    if how == Scatter::Add && dtype.is_storage() {
        // The sums run in f32.
        fn view<'a>(buffer: &'a HostData, layout: &'a Layout) -> View<'a> {
            View { buffer, layout, dtype: DType::F32 }
        }
        let (y, x) = (cast_halves(d, base, DType::F32)?, cast_halves(d, src, DType::F32)?);
        let [layout, of_src] = [base, src].map(|v| Layout::contiguous(v.shape().clone()));
        let y = scatter(d, how, &view(&y, &layout), axis, index, &view(&x, &of_src))?;
        return y.map(|y| cast_halves(d, &view(&y, &layout), dtype)).transpose();
    }
    let plan = ScatterPlan::new(d, base.shape(), axis, index)?;
    let y = match how {
        Scatter::Set => each_data!(base.buffer, v => run(d, v, base.layout, src, &plan, |y, x| *y = x)),
        Scatter::Add => match base.buffer {
            HostData::F32(v) => run(d, v, base.layout, src, &plan, |y, x| *y += x),
            HostData::F64(v) => run(d, v, base.layout, src, &plan, |y, x| *y += x),
            HostData::I64(v) => run(d, v, base.layout, src, &plan, |y, x| *y = Int::add(*y, x)),
            HostData::I32(v) => run(d, v, base.layout, src, &plan, |y, x| *y = Int::add(*y, x)),
            HostData::U8(v) => run(d, v, base.layout, src, &plan, |y, x| *y = Int::add(*y, x)),
            HostData::Bool(v) => run(d, v, base.layout, src, &plan, |y, x| *y = Int::add(*y, x)),
            storage!(HostData) => return Err(misuse_error("adding", dtype)),
        },
    }?;
    Ok((!plan.missed.load(Relaxed)).then_some(y))
}

/// With `f`, which writes or adds.
fn run<T: Element>(
    d: &CpuDevice,
    base: &[T],
    layout: &Layout,
    src: &View<'_>,
    plan: &ScatterPlan<'_>,
    f: impl Fn(&mut T, T) + Copy + Sync,
) -> Result<HostData> {
    let x =
        T::slice(src.buffer).ok_or_else(|| misuse_error("a scatter of another type", src.buffer.dtype()))?;
    let x = elements(d, x, src.layout)?;
    let is_one = StridedIter::new(layout).is_one();
    let all = if is_one {
        ContiguousElements::InPlace(&base[layout.offset()..])
    } else {
        elements(d, base, layout)?
    };
    let base = ScatterBase { elements: &all, is_one };
    // A stripe that is far beyond any cache would be memory twice for nothing.
    let is_long = !plan.for_all && size_of::<T>() * plan.size > SCATTER_PART_BYTES;
    let y = if plan.outer > 1 && plan.outer >= d.threads() || plan.inner < SCATTER_ROWS_MIN_INNER || is_long {
        slabs(d, &base, &x, plan, f)
    } else if plan.for_all {
        by_parts(d, &base, &x, plan, f)
    } else {
        by_columns(d, &base, &x, plan, f)
    };
    y.map(T::wrap)
}

/// The elements that are written or added.
enum ScatterSource<'a, T> {
    /// One after the other.
    InPlace(&'a [T]),
    /// Made when they are needed, from a number on.
    Made(&'a (dyn Fn(usize, &mut UninitSlice<'_, T>) + Sync)),
}

/// As [`scatter`], of a map that was put off, whose results go where the same index of all rows
/// says, and nowhere else: they are made block by block, and never written. As it is in the
/// gradient of an image that was enlarged, which takes 0.9 of the time so. None if it is another
/// kind of scatter.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn scatter_of_map(
    d: &CpuDevice,
    base: &View<'_>,
    axis: usize,
    index: &View<'_>,
    src: &backend::View<'_, Cpu>,
) -> Result<Option<HostData>> {
    let (Ok(node), HostData::F32(v)) = (src.buffer.node(), base.buffer) else { return Ok(None) };
    let shape = base.shape();
    let last = axis + 1 == shape.rank() && !shape.contains(&0) && !index.shape().contains(&0);
    if !last || !node.is_whole(src.layout) || Arc::strong_count(node) > 1 {
        return Ok(None);
    }
    let Some(map) = node.plan() else { return Ok(None) };
    let plan = ScatterPlan::new(d, shape, axis, index)?;
    if plan.per_slab != 0 || plan.outer <= 1 || plan.count > MAX_BLOCK_ELEMENTS {
        return Ok(None);
    }
    let Some(ready) = SingleMap::find(&map)? else { return Ok(None) };
    let Some(sources) = RowSources::new(plan.of_slab(0), plan.size)? else { return Ok(None) };
    let fill = |start: usize, dst: &mut UninitSlice<'_, f32>| ready.fill(start, dst);
    let is_one = StridedIter::new(base.layout).is_one();
    let offset = base.layout.offset();
    let all = if is_one { ContiguousElements::InPlace(&v[offset..]) } else { elements(d, v, base.layout)? };
    let base = ScatterBase { elements: &all, is_one };
    by_target(d, &base, &ScatterSource::Made(&fill), &plan, &sources, |y, x| *y += x)
        .map(|y| Some(HostData::F32(y)))
}

/// Rows that all have one index, which is turned once: of most elements what they are and what goes
/// to them meet in a register. In the order of the sources, neighbours that go to one element, as
/// of an image that was enlarged, each wait for the store of the one before.
fn by_target<T: Element>(
    d: &CpuDevice,
    base: &ScatterBase<'_, T>,
    x: &ScatterSource<'_, T>,
    plan: &ScatterPlan<'_>,
    sources: &RowSources,
    f: impl Fn(&mut T, T) + Copy + Sync,
) -> Result<HostVec<T>> {
    let ScatterPlan { outer, size, count, .. } = *plan;
    let RowSources { runs, each, first, more } = sources;
    parallel_fill(d, outer * size, size, &|start, dst: &mut UninitSlice<'_, T>| {
        let mut block = CacheBlock::<T, MAX_BLOCK_ELEMENTS>::with_any_capacity();
        let mut made: &[T] = &[];
        for row in start / size..(start + dst.remaining()) / size {
            let x = match x {
                ScatterSource::InPlace(x) => &x[row * count..][..count],
                ScatterSource::Made(fill) => {
                    if made.is_empty() {
                        // As many rows as a block has room for.
                        let rows = (MAX_BLOCK_ELEMENTS / count).min(dst.remaining() / size);
                        made = block.fill(rows * count, |dst| fill(row * count, dst));
                    }
                    let (first, rest) = made.split_at(count);
                    made = rest;
                    first
                }
            };
            let change = |y: &mut [T]| {
                for &[at, source] in more {
                    f(&mut y[at as usize], x[source as usize]);
                }
            };
            if *each == 0 {
                let y = base.part(row * size, size, dst);
                for &[at, source, n] in runs {
                    y[at..at + n].iter_mut().zip(&x[source..source + n]).for_each(|(y, &x)| f(y, x));
                }
                change(y);
                continue;
            }
            let same = [base.elements[0]];
            let base = if base.is_one { &same[..] } else { &base.elements[row * size..][..size] };
            let base = |at: usize| base[if base.len() == 1 { 0 } else { at }];
            let fill = |dst: &mut UninitSlice<'_, T>| match each {
                1 => dst.extend(size, |at| {
                    let mut y = base(at);
                    if let Some(&x) = x.get(first[at] as usize) {
                        f(&mut y, x);
                    }
                    y
                }),
                _ => {
                    let first = &first.as_chunks::<2>().0[..size];
                    dst.extend(size, |at| {
                        let mut y = base(at);
                        for &source in &first[at] {
                            if let Some(&x) = x.get(source as usize) {
                                f(&mut y, x);
                            }
                        }
                        y
                    });
                }
            };
            dst.write_then(fill, change);
        }
        Ok(())
    })
}

/// Slab by slab.
fn slabs<T: Element>(
    d: &CpuDevice,
    base: &ScatterBase<'_, T>,
    x: &[T],
    plan: &ScatterPlan<'_>,
    f: impl Fn(&mut T, T) + Copy + Sync,
) -> Result<HostVec<T>> {
    let (inner, of_slab) = (plan.inner, plan.size * plan.inner);
    if inner == 1
        && plan.per_slab == 0
        && plan.outer > 1
        && let Some(sources) = RowSources::new(plan.of_slab(0), plan.size)?
    {
        return by_target(d, base, &ScatterSource::InPlace(x), plan, &sources, f);
    }
    parallel_fill(d, plan.outer * of_slab, of_slab, &|start, dst: &mut UninitSlice<'_, T>| {
        let mut missed = false;
        for slab in start / of_slab..(start + dst.remaining()) / of_slab {
            let y = base.part(slab * of_slab, of_slab, dst);
            let (index, x) = (plan.of_slab(slab), &x[slab * plan.count * inner..][..plan.count * inner]);
            if inner == 1 {
                for (&at, &x) in index.iter().zip(x) {
                    match y.get_mut(place(at)) {
                        Some(y) => f(y, x),
                        None => missed = true,
                    }
                }
                continue;
            }
            for (row, x) in x.chunks_exact(inner).enumerate() {
                missed |= if plan.for_all {
                    add_row(y, x, index[row], plan.size, f)
                } else {
                    add_each(y, x, &index[row * inner..][..inner], [plan.size, inner], f)
                };
            }
        }
        if missed {
            plan.miss();
        }
        Ok(())
    })
}

/// A row of `size` rows, all elements by one index. Whether that is out of range.
#[inline(always)]
fn add_row<T: Element>(y: &mut [T], x: &[T], at: i64, size: usize, f: impl Fn(&mut T, T)) -> bool {
    let Some(at) = usize::try_from(at).ok().filter(|&at| at < size) else { return true };
    y[at * x.len()..][..x.len()].iter_mut().zip(x).for_each(|(y, &x)| f(y, x));
    false
}

/// A row, each element by an index of its own, to `size` rows of `pitch` elements. Whether one is
/// out of range.
#[inline(always)]
fn add_each<T: Element>(
    y: &mut [T],
    x: &[T],
    index: &[i64],
    [size, pitch]: [usize; 2],
    f: impl Fn(&mut T, T),
) -> bool {
    let mut missed = false;
    for (column, (&x, &at)) in x.iter().zip(index).enumerate() {
        if place(at) >= size {
            missed = true;
        } else {
            f(&mut y[at as usize * pitch + column], x);
        }
    }
    missed
}

/// Rows, by the part of the target that they go to.
fn by_parts<T: Element>(
    d: &CpuDevice,
    base: &ScatterBase<'_, T>,
    x: &[T],
    plan: &ScatterPlan<'_>,
    f: impl Fn(&mut T, T) + Copy + Sync,
) -> Result<HostVec<T>> {
    let ScatterPlan { outer, size, inner, count, .. } = *plan;
    let rows = outer * size;
    // Rows of a part, a power of two: enough parts for threads to share.
    let most = (SCATTER_PART_BYTES / (inner * size_of::<T>())).min(rows.div_ceil(4 * d.threads())).max(1);
    let bits = most.ilog2();
    let mut ends = host::filled((rows >> bits) + 2, 0usize)?;
    let each = |f: &mut dyn FnMut(usize, usize)| {
        for slab in 0..outer {
            for (row, &at) in plan.of_slab(slab).iter().enumerate() {
                f(slab * count + row, slab * size + at as usize);
            }
        }
    };
    let is_in = |&at: &i64| (0..size as i64).contains(&at);
    if !(0..outer).all(|slab| plan.of_slab(slab).iter().all(is_in)) {
        plan.miss();
        // What is there is not returned.
        return with_capacity(0);
    }
    // How many go to each part, then where those of each begin, then, as they are written down,
    // where they end.
    each(&mut |_, to| ends[(to >> bits) + 1] += 1);
    (1..ends.len()).for_each(|part| ends[part] += ends[part - 1]);
    let mut moves = host::filled(outer * count, [0usize; 2])?;
    each(&mut |row, to| {
        let end = &mut ends[to >> bits];
        moves[*end] = [row, to];
        *end += 1;
    });
    let ns = 0.3 * (1.0 + count as f64 / size as f64);
    fill_pieces(d, rows * inner, inner << bits, ns, &|start, dst: &mut UninitSlice<'_, T>| {
        let first = start / inner;
        let y = base.part(start, dst.remaining(), dst);
        let part = first >> bits;
        let begin = if part == 0 { 0 } else { ends[part - 1] };
        for &[row, to] in &moves[begin..ends[part]] {
            let (y, x) = (&mut y[(to - first) * inner..][..inner], &x[row * inner..][..inner]);
            y.iter_mut().zip(x).for_each(|(y, &x)| f(y, x));
        }
        Ok(())
    })
}

/// Some columns of a slab at a time, in memory of their own.
fn by_columns<T: Element>(
    d: &CpuDevice,
    base: &ScatterBase<'_, T>,
    x: &[T],
    plan: &ScatterPlan<'_>,
    f: impl Fn(&mut T, T) + Copy + Sync,
) -> Result<HostVec<T>> {
    let ScatterPlan { outer, size, inner, count, .. } = *plan;
    let width = (SCATTER_PART_BYTES / (size * size_of::<T>()) / SCATTER_ROWS_MIN_INNER
        * SCATTER_ROWS_MIN_INNER)
        .clamp(SCATTER_ROWS_MIN_INNER, inner);
    let matrices = BlockedMatrices { count: outer, rows: size, columns: inner, width };
    let ns = 1.0 + 1.5 * count as f64 / size as f64;
    fill_column_blocks(d, matrices, ns, &|column_blocks| {
        let mut dst = PooledVec::of(filled(size * width, T::ZERO)?);
        while let Some(column_block) = column_blocks.next() {
            let slab = column_block.matrix;
            let columns = column_block.column..column_block.column + column_block.width;
            let y = &mut dst[..size * column_block.width];
            if base.is_one {
                y.fill(base.elements[0]);
            } else {
                let rows = base.elements[slab * size * inner..].chunks(inner);
                y.chunks_exact_mut(column_block.width)
                    .zip(rows)
                    .for_each(|(y, row)| y.copy_from_slice(&row[columns.clone()]));
            }
            let mut missed = false;
            let (index, x) = (plan.of_slab(slab), &x[slab * count * inner..][..count * inner]);
            for (index, x) in index.chunks_exact(inner).zip(x.chunks_exact(inner)) {
                let to = [size, column_block.width];
                missed |= add_each(y, &x[columns.clone()], &index[columns.clone()], to, f);
            }
            if missed {
                plan.miss();
            }
            y.chunks_exact(column_block.width).for_each(|row| column_blocks.row(|dst| dst.copy(row)));
        }
        Ok(())
    })
}
