//! Reading and writing by index.
//!
//! Where the index is the same along the last axes (an embedding, a selection of rows, and their gradients), whole rows move.
//! An index out of range gets no sentence here: the caller asks the reference for it.

use crate::CpuDevice;
use crate::View;
use crate::copy::{cast_halves, elements, own};
use crate::memory::with_capacity;
use crate::operand::misuse;
use crate::parallel::pieces;
use crate::simd::room::{BLOCK, Room, fresh};
use crate::walk::{self, Walk};
use elinvar_core::{DType, Element, HostData, HostVec, Layout, Result, each_data};
use elinvar_ops::backend::Scatter;
use elinvar_ops::int::Int;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What an index names in a layout: rows of elements.
struct Rows<'a> {
    index: &'a [i64],
    /// Where the first row along the axis lies, and the index, for every row.
    heads: Walk<2>,
    /// Number of rows.
    count: usize,
    /// A row's elements; where it begins is not in it.
    row: Walk,
    /// Number of elements in a row.
    wide: usize,
    /// Size of the axis, and its step.
    size: usize,
    step: isize,
    /// Was an index out of range?
    missed: AtomicBool,
}

impl<'a> Rows<'a> {
    /// None if there is nothing to index: no index, or an axis of size 0.
    fn new(layout: &Layout, axis: usize, index: &'a View<'_>) -> Result<Option<Self>> {
        let all = i64::slice(index.buffer).ok_or_else(|| misuse("an index", index.buffer.dtype()))?;
        let shape = index.shape();
        let (size, step) = (layout.shape()[axis], layout.strides()[axis]);
        if size == 0 || shape.numel() == 0 {
            return Ok(None);
        }
        let mut first = layout.slice(axis, 0, 1, 1).broadcast_to(shape, "index")?;
        let (mut heads, mut row) = (index.layout.clone(), first.clone());
        let mut wide = 1;
        while first.rank() > axis + 1 {
            let last = first.rank() - 1;
            if heads.strides()[last] != 0 && shape[last] != 1 {
                break;
            }
            wide *= shape[last];
            first = first.select(last, 0);
            heads = heads.select(last, 0);
        }
        for _ in 0..first.rank() {
            row = row.select(0, 0);
        }
        let (heads, row) = (Walk::of([&first, &heads]), Walk::new(&row));
        let count = shape.numel() / wide;
        Ok(Some(Rows { index: all, heads, count, row, wide, size, step, missed: AtomicBool::new(false) }))
    }
    /// Where the row begins that index number `i` names, `first` being the first along the axis.
    #[inline(always)]
    fn begin(&self, first: usize, i: usize) -> usize {
        match usize::try_from(self.index[i]) {
            Ok(named) if named < self.size => first.wrapping_add_signed(named as isize * self.step),
            _ => {
                self.missed.store(true, Relaxed);
                first
            }
        }
    }
    /// Calls `f(number of the row, where it begins)` for all rows in row-major order.
    fn each(&self, mut f: impl FnMut(usize, usize)) {
        let mut number = 0;
        self.heads.runs(0, self.count, |[first, i], [step, step_i], n| {
            for k in 0..n as isize {
                f(number, self.begin(first.wrapping_add_signed(k * step), i.wrapping_add_signed(k * step_i)));
                number += 1;
            }
        });
    }
    fn missed(&self) -> bool {
        self.missed.load(Relaxed)
    }
}

/// y[i.., j, k..] = x[i.., index[i.., j, k..], k..]; nothing if an index is out of range.
pub(crate) fn gather(d: &CpuDevice, x: &View<'_>, axis: usize, index: &View<'_>) -> Result<Option<HostData>> {
    fn one<T: Element>(d: &CpuDevice, v: &[T], rows: &Rows<'_>) -> Result<HostVec<T>> {
        let wide = rows.wide;
        let unit = if wide == 1 { BLOCK } else { wide };
        fresh(d, rows.count * wide, unit, &|start, room: &mut Room<'_, T>| {
            rows.heads.runs(start / wide, room.left() / wide, |[first, i], [step, step_i], n| {
                let begin = |k: usize| {
                    let k = k as isize;
                    rows.begin(first.wrapping_add_signed(k * step), i.wrapping_add_signed(k * step_i))
                };
                if wide == 1 {
                    return room.extend(n, |k| v[begin(k)]);
                }
                for k in 0..n {
                    let at = begin(k);
                    if rows.row.is_contiguous() {
                        room.copy(&v[at..at + wide]);
                    } else {
                        walk::gather(v, &Walk { offset: [at], ..rows.row.clone() }, 0, wide, room);
                    }
                }
            });
            Ok(())
        })
    }
    let Some(rows) = Rows::new(x.layout, axis, index)? else {
        return index.shape().contains(&0).then(|| HostData::full(x.dtype, 0, 0.into())).transpose();
    };
    let y = each_data!(x.buffer, v => Element::wrap(one(d, v, &rows)?));
    Ok((!rows.missed()).then_some(y))
}

/// A copy of `base` into which `src` is written or added at `index`; nothing if an index is out of range.
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
        return Err(misuse("a scatter of another type", src.buffer.dtype()));
    }
    let contiguous = Layout::contiguous(base.shape().clone());
    if let Some(done) = into_rows(d, how, base, axis, index, src)? {
        return Ok(done);
    }
    let Some(rows) = Rows::new(&contiguous, axis, index)? else {
        return index.shape().contains(&0).then(|| own(d, base)).transpose();
    };
    rows.each(|_, _| ());
    if rows.missed() {
        return Ok(None);
    }
    if how == Scatter::Add && dtype.is_half() {
        // The sums run in f32.
        let (y, x) = (cast_halves(d, base, DType::F32)?, cast_halves(d, src, DType::F32)?);
        let x = View { buffer: &x, layout: &Layout::contiguous(src.shape().clone()), dtype: DType::F32 };
        let y = write(d, y, &rows, &x, how)?;
        return Ok(Some(cast_halves(
            d,
            &View { buffer: &y, layout: &contiguous, dtype: DType::F32 },
            dtype,
        )?));
    }
    Ok(Some(write(d, own(d, base)?, &rows, src, how)?))
}

/// [`scatter`] along the last axis, where rows of the target are independent of each other: each is made in the cache, from
/// the base and what its own indices say. (The gradient of a max pool is of this kind.) `Some(None)` if an index is out of
/// range, None if the views are of another kind.
fn into_rows(
    d: &CpuDevice,
    how: Scatter,
    base: &View<'_>,
    axis: usize,
    index: &View<'_>,
    src: &View<'_>,
) -> Result<Option<Option<HostData>>> {
    fn one<T: Element>(
        d: &CpuDevice,
        base: (&[T], &Layout),
        index: &[i64],
        src: &[T],
        f: impl Fn(&mut T, T) + Sync,
    ) -> Result<Option<HostData>> {
        let (data, layout) = base;
        let len = layout.shape().numel();
        let size = layout.shape().last().copied().unwrap_or(1);
        // Indices of a row.
        let count = index.len() / (len / size);
        let missed = AtomicBool::new(false);
        let y = fresh(d, len, size, &|start, room: &mut Room<'_, T>| {
            let mut out = false;
            for row in start / size..(start + room.left()) / size {
                let y = if layout.is_contiguous() {
                    room.copied(&data[layout.offset() + row * size..][..size])
                } else {
                    room.zeroed(size, data[layout.offset()])
                };
                let part = row * count..(row + 1) * count;
                for (&at, &x) in index[part.clone()].iter().zip(&src[part]) {
                    // A negative index becomes a large one.
                    match y.get_mut(at as usize) {
                        Some(y) => f(y, x),
                        None => out = true,
                    }
                }
            }
            if out {
                missed.store(true, Relaxed);
            }
            Ok(())
        })?;
        Ok((!missed.into_inner()).then(|| T::wrap(y)))
    }
    fn part<'a, T>(v: &'a [T], view: &View<'_>) -> &'a [T] {
        &v[view.layout.offset()..][..view.shape().numel()]
    }
    let straight = base.layout.is_contiguous() || Walk::new(base.layout).is_one();
    let rest = index.layout.is_contiguous() && src.layout.is_contiguous() && src.shape() == index.shape();
    let some = base.shape().numel() > 0 && index.shape().numel() > 0;
    let (HostData::I64(at), true) =
        (index.buffer, straight && rest && some && axis + 1 == base.shape().rank())
    else {
        return Ok(None);
    };
    let (at, l) = (part(at, index), &base.layout);
    Ok(Some(match (base.buffer, src.buffer, how) {
        (HostData::F32(b), HostData::F32(x), Scatter::Add) => {
            one(d, (b, l), at, part(x, src), |y, x| *y += x)?
        }
        (HostData::F64(b), HostData::F64(x), Scatter::Add) => {
            one(d, (b, l), at, part(x, src), |y, x| *y += x)?
        }
        (HostData::F32(b), HostData::F32(x), Scatter::Set) => {
            one(d, (b, l), at, part(x, src), |y, x| *y = x)?
        }
        (HostData::F64(b), HostData::F64(x), Scatter::Set) => {
            one(d, (b, l), at, part(x, src), |y, x| *y = x)?
        }
        _ => return Ok(None),
    }))
}

fn write(d: &CpuDevice, y: HostData, rows: &Rows<'_>, src: &View<'_>, how: Scatter) -> Result<HostData> {
    /// Each thread has a part of the target, and takes the rows that go there, in their order.
    fn one<T: Element>(
        d: &CpuDevice,
        mut y: HostVec<T>,
        rows: &Rows<'_>,
        src: &View<'_>,
        f: impl Fn(&mut T, T) + Sync,
    ) -> Result<HostData> {
        let x =
            T::slice(src.buffer).ok_or_else(|| misuse("a scatter of another type", src.buffer.dtype()))?;
        let x = elements(d, x, src.layout)?;
        let wide = rows.wide;
        // Every thread looks at every index: worth it where a row is more work than a look.
        let parts = if wide < 16 { 1 } else { 2 * d.threads() };
        let piece = (y.len() / wide).div_ceil(parts) * wide;
        let ns = x.len() as f64 / y.len().max(1) as f64;
        pieces(d, &mut y, piece, ns, &|start, part| {
            rows.each(|number, at| {
                let Some(at) = at.checked_sub(start).filter(|&at| at < part.len()) else { return };
                for (y, &x) in part[at..at + wide].iter_mut().zip(&x[number * wide..][..wide]) {
                    f(y, x);
                }
            });
        });
        Ok(T::wrap(y))
    }
    match how {
        Scatter::Set => each_data!(y, v => one(d, v, rows, src, |y, x| *y = x)),
        Scatter::Add => match y {
            HostData::F32(v) => one(d, v, rows, src, |y, x| *y += x),
            HostData::F64(v) => one(d, v, rows, src, |y, x| *y += x),
            HostData::I64(v) => one(d, v, rows, src, |y, x| *y = Int::add(*y, x)),
            HostData::I32(v) => one(d, v, rows, src, |y, x| *y = Int::add(*y, x)),
            HostData::U8(v) => one(d, v, rows, src, |y, x| *y = Int::add(*y, x)),
            HostData::Bool(v) => one(d, v, rows, src, |y, x| *y = Int::add(*y, x)),
            HostData::F16(_) | HostData::BF16(_) => Err(misuse("adding", y.dtype())),
        },
    }
}

/// The row-major numbers of the elements that are not zero (NaN is not), ascending, and how many they are.
pub(crate) fn nonzero(d: &CpuDevice, x: &View<'_>) -> Result<(HostData, usize)> {
    fn one<T: Element>(v: &[T]) -> Result<(HostData, usize)> {
        // Counted by the block, in the width of the elements; all at once, the count would be as wide as a number.
        let count = |part: &[T]| part.iter().map(|&x| u16::from(x != T::ZERO)).sum::<u16>();
        let mut out = with_capacity(v.chunks(BLOCK).map(|part| usize::from(count(part))).sum())?;
        let mut found = [0i64; BLOCK];
        for (block, part) in v.chunks(BLOCK).enumerate() {
            // Without a branch: each number is written, and stays if it counts.
            let mut n = 0;
            for (i, &x) in part.iter().enumerate() {
                found[n] = (block * BLOCK + i) as i64;
                n += usize::from(x != T::ZERO);
            }
            out.extend_from_slice(&found[..n]);
        }
        let n = out.len();
        Ok((HostData::I64(out), n))
    }
    each_data!(x.buffer, v => one(&elements(d, v, x.layout)?))
}
