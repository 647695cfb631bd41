//! Deferred gathers of rows and columns of planes by an index that is the same for all planes
//! (mirror padding, resampling).
//!
//! A gather along one axis of a gather along the other becomes one, without the intermediate
//! tensor, and a fused map reads it block by block ([`super::fusion`]); any other reader has it
//! written first.
//!
//! How it can be wrong: an index out of range would be noticed too late. So indices are checked
//! when the gather is made.

use super::buffer::{CpuBuffer, Node};
use super::kernels::{GROUP_ELEMENTS, RowPermute};
use super::plan::{GATHER_CALL_MIN_ELEMENTS, GATHER_RUN_MIN_ELEMENTS};
use crate::runtime::output::parallel_fill::parallel_fill;
use crate::view::View;
use crate::{Cpu, CpuDevice, Isa};
use elinvar_core::{Element, HostData, Layout, Result, each_data, host};
use elinvar_ops::backend;
use elinvar_simd::uninit::{CopyBits, UninitSlice, copy_as_bits};
use std::ops::Range;
use std::sync::Arc;

/// What is picked from planes that are one after the other.
pub(crate) struct DeferredGather {
    d: CpuDevice,
    node: Arc<Node>,
    /// Where the first plane begins, and how many there are.
    offset: usize,
    planes: usize,
    /// Rows and columns of each.
    size: [usize; 2],
    rows: Option<Arc<[u32]>>,
    columns: Option<Arc<ColumnIndex>>,
    /// [`compute`] and [`fill`], by way of the pick: see [`super::fusion::FusionPlan`].
    compute: fn(&DeferredGather) -> Result<HostData>,
    fill: fn(&DeferredGather, &[f32], usize, &mut UninitSlice<'_, f32>),
}

/// Columns of a row.
pub(crate) struct ColumnIndex {
    at: Vec<u32>,
    /// Where neighbours come from that are neighbours, and how many, if most are.
    runs: Vec<(usize, usize)>,
    permute: Option<RowPermute>,
}

impl ColumnIndex {
    /// None if a place is not in a row of this size.
    pub(crate) fn new(at: Vec<u32>, size: usize) -> Result<Option<ColumnIndex>> {
        if !at.iter().all(|&at| (at as usize) < size) {
            return Ok(None);
        }
        let mut runs: Vec<(usize, usize)> = host::with_capacity(at.len())?;
        for at in at.iter().map(|&at| at as usize) {
            match runs.last_mut() {
                Some((from, n)) if *from + *n == at => *n += 1,
                _ => runs.push((at, 1)),
            }
        }
        if runs.len() * GATHER_RUN_MIN_ELEMENTS > at.len() {
            runs.clear();
        }
        let permute = if runs.is_empty() { RowPermute::find(&at, size) } else { None };
        Ok(Some(ColumnIndex { at, runs, permute }))
    }
    pub(crate) fn count(&self) -> usize {
        self.at.len()
    }
    /// Writes those of a row that have these numbers.
    #[inline(always)]
    pub(crate) fn pick<B: Copy>(
        &self,
        isa: Isa,
        row: &[B],
        columns: Range<usize>,
        dst: &mut UninitSlice<'_, B>,
    ) {
        let Range { mut start, end } = columns;
        if start == 0 && end == self.at.len() && !self.runs.is_empty() {
            for &(from, n) in &self.runs {
                if n < GATHER_CALL_MIN_ELEMENTS {
                    dst.extend(n, |i| row[from + i])
                } else {
                    dst.copy(&row[from..from + n])
                }
            }
            return;
        }
        if let Some(permute) = &self.permute {
            let first = start.next_multiple_of(GROUP_ELEMENTS).min(end);
            let one = |dst: &mut UninitSlice<'_, B>, from: usize, to: usize| {
                let at = &self.at[from..to];
                dst.extend(at.len(), |i| row[at[i] as usize]);
            };
            one(dst, start, first);
            start = first;
            let count = (end - start) / GROUP_ELEMENTS;
            if count > 0 && permute.pick(isa, row, start / GROUP_ELEMENTS, count, dst) {
                start += count * GROUP_ELEMENTS;
            }
        }
        let at = &self.at[start..end];
        dst.extend(at.len(), |i| row[at[i] as usize]);
    }
}

/// Places of an axis, as an index has them that is the same along all others; None if one is
/// negative or too large.
pub(crate) fn places(all: &[i64], index: &Layout, axis: usize) -> Result<Option<Vec<u32>>> {
    let count = index.shape()[axis];
    let mut places = host::with_capacity(count)?;
    for i in 0..count {
        let at = all[index.offset().wrapping_add_signed(i as isize * index.strides()[axis])];
        let Ok(at) = u32::try_from(at) else { return Ok(None) };
        places.push(at);
    }
    Ok(Some(places))
}

/// A gather that is put off; None if it is of another kind, is not worth it, or an index is out of
/// range.
///
/// # Errors
/// Those of computing what is picked from; `OutOfMemory`.
pub(crate) fn defer(
    d: &CpuDevice,
    x: &backend::View<'_, Cpu>,
    axis: usize,
    index: &backend::View<'_, Cpu>,
) -> Result<Option<CpuBuffer>> {
    let (shape, at) = (x.layout.shape(), index.layout);
    let rank = shape.rank();
    let shared = rank >= 2
        && axis + 2 >= rank
        && (0..rank).all(|a| a == axis || at.strides()[a] == 0 || at.shape()[a] == 1);
    let len = at.shape().numel();
    let small = shape.iter().all(|&n| u32::try_from(n).is_ok());
    if !shared
        || len < d.fuses_from()
        || !x.layout.is_contiguous()
        || !small
        || shape.numel() == 0
        || len == 0
    {
        return Ok(None);
    }
    let (Ok(node), HostData::I64(all)) = (x.buffer.node(), index.buffer.data()?) else { return Ok(None) };
    let Some(places) = places(all, at, axis)? else { return Ok(None) };
    let size = [shape[rank - 2], shape[rank - 1]];
    let mut picked = match node.picked().filter(|_| node.is_whole(x.layout)) {
        Some(before) if before.goes_on(size, axis + 2 - rank) => DeferredGather {
            d: d.clone(),
            node: before.node.clone(),
            rows: before.rows.clone(),
            columns: before.columns.clone(),
            ..*before
        },
        _ => {
            node.data()?;
            DeferredGather {
                d: d.clone(),
                node: node.clone(),
                offset: x.layout.offset(),
                planes: shape[..rank - 2].iter().product(),
                size,
                rows: None,
                columns: None,
                compute,
                fill,
            }
        }
    };
    let n = shape[axis];
    if axis + 1 == rank {
        let Some(columns) = ColumnIndex::new(places, n)? else { return Ok(None) };
        picked.columns = Some(Arc::new(columns));
    } else {
        if !places.iter().all(|&at| (at as usize) < n) {
            return Ok(None);
        }
        picked.rows = Some(places.into());
    }
    Ok(Some(CpuBuffer::picked(picked)))
}

impl DeferredGather {
    /// Rows and columns of a plane of what was picked.
    fn counts(&self) -> [usize; 2] {
        let [rows, columns] = self.size;
        [self.rows.as_ref().map_or(rows, |r| r.len()), self.columns.as_ref().map_or(columns, |c| c.count())]
    }
    pub(crate) fn len(&self) -> usize {
        self.planes * self.counts().iter().product::<usize>()
    }
    /// Can something be picked from it along this axis of its planes, of this size, from where it
    /// picks itself?
    fn goes_on(&self, size: [usize; 2], axis: usize) -> bool {
        let free = if axis == 0 { self.rows.is_none() } else { self.columns.is_none() };
        free && self.counts() == size
    }
    /// All of it.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn compute(&self) -> Result<HostData> {
        (self.compute)(self)
    }
    /// What it picks from.
    ///
    /// # Errors
    /// None: that was there when it was made.
    pub(crate) fn numbers(&self) -> Result<&HostData> {
        self.node.data()
    }
    /// Fills the room from element number `start` on, out of [`DeferredGather::numbers`].
    pub(crate) fn fill(&self, numbers: &[f32], start: usize, dst: &mut UninitSlice<'_, f32>) {
        (self.fill)(self, numbers, start, dst);
    }
}

fn fill(picked: &DeferredGather, numbers: &[f32], start: usize, dst: &mut UninitSlice<'_, f32>) {
    copy_as_bits(numbers, dst, GatherRows { picked, start });
}

fn compute(picked: &DeferredGather) -> Result<HostData> {
    fn one<T: Element>(picked: &DeferredGather, v: &[T]) -> Result<HostData> {
        let y = parallel_fill(&picked.d, picked.len(), picked.counts()[1], &|start,
                                                                             dst: &mut UninitSlice<
            '_,
            T,
        >| {
            copy_as_bits(v, dst, GatherRows { picked, start });
            Ok(())
        })?;
        Ok(T::wrap(y))
    }
    each_data!(picked.numbers()?, v => one(picked, v))
}

/// Rows of what is picked, from an element on.
struct GatherRows<'a> {
    picked: &'a DeferredGather,
    start: usize,
}

impl CopyBits for GatherRows<'_> {
    #[inline(never)]
    fn run<B: Copy>(self, data: &[B], dst: &mut UninitSlice<'_, B>) {
        let DeferredGather { d, offset, size: [height, width], rows, columns, .. } = self.picked;
        let [count, wide] = self.picked.counts();
        let (mut row, mut column) = (self.start / wide, self.start % wide);
        let (mut plane, isa) = (row / count, d.isa());
        row %= count;
        while dst.remaining() > 0 {
            let n = (wide - column).min(dst.remaining());
            let from = rows.as_ref().map_or(row, |rows| rows[row] as usize);
            let line = &data[offset + (plane * height + from) * width..][..*width];
            match columns {
                Some(columns) => columns.pick(isa, line, column..column + n, dst),
                None => dst.copy(&line[column..column + n]),
            }
            column = 0;
            row += 1;
            if row == count {
                (row, plane) = (0, plane + 1);
            }
        }
    }
}

/// Columns of all rows, which are one after the other: picked at once. None if the views are of
/// another kind; `Some(None)` if an index is out of range.
pub(crate) fn columns_of(
    d: &CpuDevice,
    x: &View<'_>,
    axis: usize,
    index: &View<'_>,
) -> Result<Option<Option<HostData>>> {
    struct GatherAll<'a> {
        isa: Isa,
        columns: &'a ColumnIndex,
        rows: Range<usize>,
        size: usize,
    }
    impl CopyBits for GatherAll<'_> {
        #[inline(never)]
        fn run<B: Copy>(self, data: &[B], dst: &mut UninitSlice<'_, B>) {
            for row in self.rows {
                let row = &data[row * self.size..][..self.size];
                self.columns.pick(self.isa, row, 0..self.columns.count(), dst);
            }
        }
    }
    fn one<T: Element>(
        d: &CpuDevice,
        v: &[T],
        [rows, size]: [usize; 2],
        columns: &ColumnIndex,
    ) -> Result<HostData> {
        let count = columns.count();
        let y = parallel_fill(d, rows * count, count, &|start, dst: &mut UninitSlice<'_, T>| {
            let rows = start / count..(start + dst.remaining()) / count;
            copy_as_bits(v, dst, GatherAll { isa: d.isa(), columns, rows, size });
            Ok(())
        })?;
        Ok(T::wrap(y))
    }
    let (shape, at) = (x.shape(), index.layout);
    let shared = axis + 1 == shape.rank() && at.strides()[..axis].iter().all(|&s| s == 0);
    let (size, count) = (shape[axis], at.shape()[axis]);
    let small = u32::try_from(size).is_ok();
    if !shared || !x.layout.is_contiguous() || at.shape().numel() <= count || shape.numel() == 0 || !small {
        return Ok(None);
    }
    let all = i64::slice(index.buffer)
        .ok_or_else(|| crate::view::misuse_error("an index", index.buffer.dtype()))?;
    let Some(places) = places(all, at, axis)? else { return Ok(Some(None)) };
    let Some(columns) = ColumnIndex::new(places, size)? else { return Ok(Some(None)) };
    let (offset, rows) = (x.layout.offset(), shape.numel() / size);
    let y = each_data!(x.buffer, v => one(d, &v[offset..], [rows, size], &columns))?;
    Ok(Some(Some(y)))
}
