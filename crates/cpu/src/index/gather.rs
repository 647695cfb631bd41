//! Gather: reads by index along one axis, and the indices of nonzero elements.
//!
//! Where the index is the same along the last axes (an embedding, a selection of rows), whole rows
//! are copied. An index out of range has no error message here: the caller asks the reference for
//! it.

use super::place;
use crate::CpuDevice;
use crate::layout::copy::elements;
use crate::layout::strided_iter::{self, StridedIter};
use crate::lazy::gather::columns_of;
use crate::runtime::memory::with_capacity;
use crate::runtime::output::parallel_fill::parallel_fill;
use crate::view::View;
use crate::view::misuse_error;
use elinvar_core::{Element, HostData, HostVec, Layout, Result, each_data};
use elinvar_simd::uninit::{BLOCK_ELEMENTS, UninitSlice};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What an index names in a layout: rows of elements.
struct IndexedRows<'a> {
    index: &'a [i64],
    /// Where the first row along the axis is, and the index, for every row.
    chunk_prefixes: StridedIter<2>,
    /// Number of rows.
    count: usize,
    /// A row's elements; where it begins is not in it.
    row: StridedIter,
    /// Number of elements in a row.
    wide: usize,
    /// Size of the axis, and its step.
    size: usize,
    step: isize,
    /// Was an index out of range?
    missed: AtomicBool,
}

impl<'a> IndexedRows<'a> {
    /// None if there is nothing to index: no index, or an axis of size 0.
    fn new(layout: &Layout, axis: usize, index: &'a View<'_>) -> Result<Option<Self>> {
        let all = i64::slice(index.buffer).ok_or_else(|| misuse_error("an index", index.buffer.dtype()))?;
        let shape = index.shape();
        let (size, step) = (layout.shape()[axis], layout.strides()[axis]);
        if size == 0 || shape.numel() == 0 {
            return Ok(None);
        }
        let mut first = layout.slice(axis, 0, 1, 1).broadcast_to(shape, "index")?;
        let (mut chunk_prefixes, mut row) = (index.layout.clone(), first.clone());
        let mut wide = 1;
        while first.rank() > axis + 1 {
            let last = first.rank() - 1;
            if chunk_prefixes.strides()[last] != 0 && shape[last] != 1 {
                break;
            }
            wide *= shape[last];
            first = first.select(last, 0);
            chunk_prefixes = chunk_prefixes.select(last, 0);
        }
        for _ in 0..first.rank() {
            row = row.select(0, 0);
        }
        let (chunk_prefixes, row) = (StridedIter::of([&first, &chunk_prefixes]), StridedIter::new(&row));
        let count = shape.numel() / wide;
        Ok(Some(IndexedRows {
            index: all,
            chunk_prefixes,
            count,
            row,
            wide,
            size,
            step,
            missed: AtomicBool::new(false),
        }))
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
    fn missed(&self) -> bool {
        self.missed.load(Relaxed)
    }
}

/// An element for each index, from one row or from the neighbour of the one before. Whether an
/// index is out of range is written down once.
#[inline(always)]
fn each<T: Element>(
    v: &[T],
    rows: &IndexedRows<'_>,
    (first, step): (usize, usize),
    index: &[i64],
    dst: &mut UninitSlice<'_, T>,
) {
    let (size, mut missed) = (rows.size, false);
    if step == 0 && rows.step == 1 {
        let row = &v[first..first + size];
        dst.extend(index.len(), |k| match row.get(place(index[k])) {
            Some(&x) => x,
            None => {
                missed = true;
                row[0]
            }
        });
    } else {
        dst.extend(index.len(), |k| {
            let named = place(index[k]);
            missed |= named >= size;
            let named = if named < size { named as isize } else { 0 };
            v[(first + k * step).wrapping_add_signed(named * rows.step)]
        });
    }
    if missed {
        rows.missed.store(true, Relaxed);
    }
}

/// y[i.., j, k..] = x[i.., index[i.., j, k..], k..]; nothing if an index is out of range.
pub(crate) fn gather(d: &CpuDevice, x: &View<'_>, axis: usize, index: &View<'_>) -> Result<Option<HostData>> {
    fn one<T: Element>(d: &CpuDevice, v: &[T], rows: &IndexedRows<'_>) -> Result<HostVec<T>> {
        let wide = rows.wide;
        let unit = if wide == 1 { BLOCK_ELEMENTS } else { wide };
        parallel_fill(d, rows.count * wide, unit, &|start, dst: &mut UninitSlice<'_, T>| {
            rows.chunk_prefixes.runs(
                start / wide,
                dst.remaining() / wide,
                |[first, i], [step, step_i], n| {
                    if wide == 1 && step_i == 1 && matches!(step, 0 | 1) {
                        return each(v, rows, (first, step as usize), &rows.index[i..i + n], dst);
                    }
                    let begin = |k: usize| {
                        let k = k as isize;
                        rows.begin(first.wrapping_add_signed(k * step), i.wrapping_add_signed(k * step_i))
                    };
                    if wide == 1 {
                        return dst.extend(n, |k| v[begin(k)]);
                    }
                    for k in 0..n {
                        let at = begin(k);
                        if rows.row.is_contiguous() {
                            dst.copy(&v[at..at + wide]);
                        } else {
                            strided_iter::gather_runs(
                                v,
                                &StridedIter { offset: [at], ..rows.row.clone() },
                                0,
                                wide,
                                dst,
                            );
                        }
                    }
                },
            );
            Ok(())
        })
    }
    if let Some(y) = columns_of(d, x, axis, index)? {
        return Ok(y);
    }
    let Some(rows) = IndexedRows::new(x.layout, axis, index)? else {
        return index.shape().contains(&0).then(|| HostData::full(x.dtype, 0, 0.into())).transpose();
    };
    let y = each_data!(x.buffer, v => Element::wrap(one(d, v, &rows)?));
    Ok((!rows.missed()).then_some(y))
}

/// The row-major numbers of the elements that are not zero (NaN is not), ascending, and how many
/// they are.
pub(crate) fn nonzero(d: &CpuDevice, x: &View<'_>) -> Result<(HostData, usize)> {
    fn one<T: Element>(v: &[T]) -> Result<(HostData, usize)> {
        // Counted by the block, in the width of the elements; all at once, the count would be as
        // wide as a number.
        let count = |part: &[T]| part.iter().map(|&x| u16::from(x != T::ZERO)).sum::<u16>();
        let mut out = with_capacity(v.chunks(BLOCK_ELEMENTS).map(|part| usize::from(count(part))).sum())?;
        let mut found = [0i64; BLOCK_ELEMENTS];
        for (block, part) in v.chunks(BLOCK_ELEMENTS).enumerate() {
            // Without a branch: each number is written, and stays if it counts.
            let mut n = 0;
            for (i, &x) in part.iter().enumerate() {
                found[n] = (block * BLOCK_ELEMENTS + i) as i64;
                n += usize::from(x != T::ZERO);
            }
            out.extend_from_slice(&found[..n]);
        }
        let n = out.len();
        Ok((HostData::I64(out), n))
    }
    each_data!(x.buffer, v => one(&elements(d, v, x.layout)?))
}
