//! Concatenation, padding and overlays: several views written into one new tensor.

use super::copy::{ContiguousElements, elements, fill, is_transposed, straight};
use super::plan::{CONCAT_BLOCK_ELEMENTS, CONCAT_PARALLEL_MIN_ELEMENTS, RUN_CALL_MIN_ELEMENTS};
use super::strided_iter::{StridedIter, gather_runs};
use crate::CpuDevice;
use crate::runtime::output::parallel_fill::parallel_fill;
use crate::view::View;
use crate::view::misuse_error;
use elinvar_core::{DType, Element, HostData, Layout, Result, Scalar, Shape, each_data, each_dtype};
use elinvar_reference::Cell;
use elinvar_simd::uninit::UninitSlice;
use std::borrow::Cow;

/// A tensor of `shape` filled with `value`, into which the parts are written one after the other.
pub(crate) fn assemble(
    d: &CpuDevice,
    value: Scalar,
    dtype: DType,
    shape: &Shape,
    parts: &[(View<'_>, Layout)],
) -> Result<HostData> {
    if let Some(slabs) = ColumnParts::find(shape.numel(), parts) {
        return each_dtype!(dtype, T => slabs.side_by_side::<T>(d));
    }
    if let [(part, to)] = parts
        && part.buffer.dtype() == dtype
        && let Some(framed) = PaddedPart::find(shape.numel(), part.layout, to)
    {
        return each_data!(part.buffer, v => framed.all(d, value, v));
    }
    let mut y = fill(d, value, dtype, shape.numel())?;
    for (part, to) in parts {
        each_data!(part.buffer, v => write(d, &mut y, v, part.layout, to))?;
    }
    Ok(y)
}

/// The elements of a view, at their places in memory of the same type.
pub(crate) fn write_into(d: &CpuDevice, y: &mut HostData, to: &Layout, x: &View<'_>) -> Result<()> {
    each_data!(x.buffer, v => write(d, y, v, x.layout, to))
}

/// Writes a part.
fn write<T: Element>(d: &CpuDevice, y: &mut HostData, part: &[T], from: &Layout, to: &Layout) -> Result<()> {
    let y = T::slice_mut(y).ok_or_else(|| misuse_error("a part of another type", T::DTYPE))?;
    // Crossed strides become a copy first; others are walked together with the target's.
    let crossed = is_transposed(from);
    let straight = if crossed {
        ContiguousElements::Copied(straight(d, part, from)?)
    } else {
        ContiguousElements::InPlace(part)
    };
    let from =
        if crossed { Cow::Owned(Layout::contiguous(from.shape().clone())) } else { Cow::Borrowed(from) };
    StridedIter::of([&from, to]).runs(0, to.shape().numel(), |[from, to], steps, n| match steps {
        [1, 1] => y[to..to + n].copy_from_slice(&straight[from..from + n]),
        [step_from, step_to] => {
            for i in 0..n as isize {
                y[to.wrapping_add_signed(i * step_to)] = straight[from.wrapping_add_signed(i * step_from)];
            }
        }
    });
    Ok(())
}

/// One part in the midst of a value, as padding makes it: rows of it and the value in turn, from
/// the front to the back, by several threads.
struct PaddedPart {
    /// Elements of a slab of the target, and how many there are. A number along the part's
    /// outermost axis is in one of its own.
    slab: usize,
    count: usize,
    both: StridedIter<2>,
    /// The part's first slab, how many it has, and its elements in each.
    first: usize,
    some: usize,
    each: usize,
}

impl PaddedPart {
    /// None if the part's elements are not rows that follow one another in the target.
    fn find(len: usize, from: &Layout, to: &Layout) -> Option<Self> {
        let both = StridedIter::of([from, to]);
        let (dims, [from_steps, steps]) = (&both.dims, &both.strides);
        let last = dims.len() - 1;
        if last == 0 || from_steps[last] != 1 || steps[last] != 1 || dims.contains(&0) || is_transposed(from)
        {
            return None;
        }
        // Each axis ends before the one around it goes on, the outermost within a slab.
        let slab = usize::try_from(steps[0]).ok()?;
        let (first, at) = (both.offset[1].checked_div(slab)?, both.offset[1] % slab);
        let ascends = (1..=last).all(|axis| steps[axis - 1] >= steps[axis] * dims[axis] as isize);
        let reach: isize = (1..=last).map(|axis| (dims[axis] - 1) as isize * steps[axis]).sum();
        if !ascends || at as isize + reach >= steps[0] || !len.is_multiple_of(slab) {
            return None;
        }
        let (some, each) = (dims[0], dims[1..].iter().product());
        Some(PaddedPart { slab, count: len / slab, both, first, some, each })
    }
    fn all<T: Element + Cell>(&self, d: &CpuDevice, value: Scalar, v: &[T]) -> Result<HostData> {
        let PaddedPart { slab, first, some, each, .. } = *self;
        let value = T::nearest(value);
        let y = parallel_fill(d, self.count * slab, slab, &|start, dst: &mut UninitSlice<'_, T>| {
            let end = start + dst.remaining();
            let before = |slabs: usize| slabs.saturating_sub(first).min(some) * each;
            let (number, past) = (before(start / slab), before(end / slab));
            self.both.runs(number, past - number, |[from, to], _, n| {
                let gap = to - (end - dst.remaining());
                dst.extend(gap, |_| value);
                dst.copy(&v[from..from + n]);
            });
            let rest = dst.remaining();
            dst.extend(rest, |_| value);
            Ok(())
        })?;
        Ok(T::wrap(y))
    }
}

/// Parts that are the columns of a matrix, all of them, from the left to the right: tensors one
/// after the other along any axis. Nothing needs to be filled before they are written.
struct ColumnParts<'a> {
    rows: usize,
    columns: usize,
    parts: Vec<(&'a View<'a>, usize)>,
}

impl<'a> ColumnParts<'a> {
    fn find(len: usize, parts: &'a [(View<'a>, Layout)]) -> Option<Self> {
        let (mut rows, mut all) = (None, Vec::with_capacity(parts.len()));
        for (part, to) in parts.iter().filter(|(_, to)| to.shape().numel() > 0) {
            let walk = StridedIter::new(to);
            // How many rows, how far apart, and elements in each.
            let (count, row_stride, width) = match (&walk.dims[..], &walk.strides[0][..]) {
                (&[n], &[1]) => (1, len as isize, n),
                (&[n], &[row_stride]) => (n, row_stride, 1),
                (&[n, width], &[row_stride, 1]) => (n, row_stride, width),
                _ => return None,
            };
            if *rows.get_or_insert(count) != count
                || row_stride.checked_mul(count as isize) != Some(len as isize)
            {
                return None;
            }
            all.push((part, walk.offset[0], width));
        }
        let columns = len / rows?;
        all.sort_by_key(|&(_, at, _)| at);
        let mut end = 0;
        for &(_, at, width) in &all {
            if at != end {
                return None;
            }
            end += width;
        }
        let parts = all.into_iter().map(|(part, _, width)| (part, width)).collect();
        (end == columns).then_some(ColumnParts { rows: rows?, columns, parts })
    }
    fn side_by_side<T: Element>(&self, d: &CpuDevice) -> Result<HostData> {
        let narrow = self.parts.iter().any(|&(_, width)| width < RUN_CALL_MIN_ELEMENTS);
        let mut parts = Vec::with_capacity(self.parts.len());
        for &(part, width) in &self.parts {
            let v = T::slice(part.buffer)
                .ok_or_else(|| misuse_error("a part of another type", part.buffer.dtype()))?;
            // Long rows are read in place, in turn with narrow ones if each row is
            // one piece.
            let walk = StridedIter::new(part.layout);
            let (n, step) = walk.inner();
            let whole = step == 1 && n.is_multiple_of(width);
            let in_place =
                width >= RUN_CALL_MIN_ELEMENTS && if narrow { whole } else { !is_transposed(part.layout) };
            let walk = in_place.then_some(walk);
            let x =
                if walk.is_some() { ContiguousElements::InPlace(v) } else { elements(d, v, part.layout)? };
            parts.push((x, walk, width));
        }
        let columns = self.columns;
        // Of wide rows each is shared: two matrices one below the other are one row, which one
        // thread took three times as long to copy.
        let unit = if !narrow && columns >= CONCAT_PARALLEL_MIN_ELEMENTS { 1 } else { columns };
        let y = parallel_fill(d, self.rows * columns, unit, &|start, dst| {
            let (mut row, mut column) = (start / columns, start % columns);
            while dst.remaining() > 0 {
                if narrow {
                    let some = (dst.remaining() / columns).min((CONCAT_BLOCK_ELEMENTS / columns).max(1));
                    let y = dst.zeroed(some * columns, T::ZERO);
                    let mut at = 0;
                    for (x, walk, width) in &parts {
                        let rows = y.chunks_exact_mut(columns);
                        if let Some(walk) = walk {
                            rows.enumerate().for_each(|(i, y)| {
                                let x = &x[walk.position((row + i) * width)..][..*width];
                                y[at..at + width].copy_from_slice(x);
                            });
                        } else if *width == 1 {
                            rows.zip(&x[row..]).for_each(|(y, &x)| y[at] = x);
                        } else {
                            rows.zip(x[row * width..].chunks_exact(*width))
                                .for_each(|(y, x)| y[at..at + width].copy_from_slice(x));
                        }
                        at += width;
                    }
                    row += some;
                    continue;
                }
                for (x, walk, width) in &parts {
                    let n = width.saturating_sub(column).min(dst.remaining());
                    let first = row * width + column;
                    column = column.saturating_sub(*width);
                    match walk {
                        _ if n == 0 => {}
                        Some(walk) => gather_runs(x, walk, first, n, dst),
                        None => dst.copy(&x[first..first + n]),
                    }
                }
                row += 1;
            }
            Ok(())
        })?;
        Ok(T::wrap(y))
    }
}
