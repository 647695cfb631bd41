//! Operand staging for reductions: elements of a view in row-major order, as contiguous blocks of
//! the compute type, whatever the strides and the dtype.
//!
//! Nothing here depends on a formula. A block that is contiguous and of that type already is
//! borrowed; any other is copied into a buffer that stays in the cache.

use super::plan::thresholds::ROW_COPY_TASK_ELEMENTS;
use crate::CpuDevice;
use crate::elementwise::convert::StoredFloat;
use crate::runtime::memory::{PooledData, filled};
use crate::runtime::parallel::for_each_piece;
use crate::view::View;
use elinvar_core::{DType, Element, Error, HostData, Result, bf16, f16, match_storage, storage};
use elinvar_simd::isa::{Isa, Kernel, dispatch};
use elinvar_simd::uninit::UninitSlice;

/// A type in which is computed, and how it is read from storage.
pub(crate) trait ReduceElement: Element {
    /// Can elements of this type be read as this number, exactly?
    fn reads(from: DType) -> bool;
    /// The elements at `at`, `at + stride`, ... of storage that [`ReduceElement::reads`] accepts.
    fn load(isa: Isa, data: &HostData, at: usize, stride: isize, out: &mut [Self]);
}

/// Element `i` of a run.
#[inline(always)]
fn place(at: usize, stride: isize, i: usize) -> usize {
    at.wrapping_add_signed(stride * i as isize)
}

#[inline(always)]
fn load_run<S: Copy, T>(v: &[S], at: usize, stride: isize, out: &mut [T], f: impl Fn(S) -> T) {
    match stride {
        1 => {
            let v = &v[at..at + out.len()];
            out.iter_mut().zip(v).for_each(|(o, &x)| *o = f(x));
        }
        0 => {
            let Some(&x) = v.get(at) else { return };
            out.iter_mut().for_each(|o| *o = f(x));
        }
        _ => out.iter_mut().enumerate().for_each(|(i, o)| *o = f(v[place(at, stride, i)])),
    }
}

/// Truth values as numbers, in vector code: marks of classes are as many as logits.
struct BoolsToF32<'a>(&'a [bool], &'a mut [f32]);

impl Kernel for BoolsToF32<'_> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for (y, &x) in self.1.iter_mut().zip(self.0) {
            *y = f32::from(u8::from(x));
        }
    }
}

impl ReduceElement for f32 {
    fn reads(from: DType) -> bool {
        matches!(from, DType::F32 | storage!(DType) | DType::Bool)
    }
    fn load(isa: Isa, data: &HostData, at: usize, stride: isize, out: &mut [f32]) {
        match_storage!(HostData data; storage v: T => if stride == 1 {
                T::widen(isa, &v[at..at + out.len()], &mut UninitSlice::over(out));
            } else {
                load_run(v, at, stride, out, T::to_f32);
            };
            HostData::F32(v) => load_run(v, at, stride, out, |x| x),
            HostData::Bool(v) if stride == 1 => dispatch(isa, BoolsToF32(&v[at..at + out.len()], out)),
            HostData::Bool(v) => load_run(v, at, stride, out, |x| f32::from(u8::from(x))),
            HostData::F64(_) | HostData::I64(_) | HostData::I32(_) | HostData::U8(_) => {
                unreachable!("checked when the view was staged")
            }
        )
    }
}

impl ReduceElement for f64 {
    fn reads(from: DType) -> bool {
        matches!(from, DType::F64 | DType::Bool)
    }
    fn load(_: Isa, data: &HostData, at: usize, stride: isize, out: &mut [f64]) {
        match data {
            HostData::F64(v) => load_run(v, at, stride, out, |x| x),
            HostData::Bool(v) => load_run(v, at, stride, out, |x| f64::from(u8::from(x))),
            HostData::F32(_) | storage!(HostData) | HostData::I64(_) | HostData::I32(_) | HostData::U8(_) => {
                unreachable!("checked when the view was staged")
            }
        }
    }
}

impl ReduceElement for i64 {
    fn reads(from: DType) -> bool {
        !from.is_float()
    }
    fn load(_: Isa, data: &HostData, at: usize, stride: isize, out: &mut [i64]) {
        match data {
            HostData::I64(v) => load_run(v, at, stride, out, |x| x),
            HostData::I32(v) => load_run(v, at, stride, out, i64::from),
            HostData::U8(v) => load_run(v, at, stride, out, i64::from),
            HostData::Bool(v) => load_run(v, at, stride, out, i64::from),
            HostData::F32(_) | HostData::F64(_) | storage!(HostData) => {
                unreachable!("checked when the view was staged")
            }
        }
    }
}

/// Types that are read from their own storage alone.
macro_rules! impl_native {
    ($($t:ty),*) => {$(
        impl ReduceElement for $t {
            fn reads(from: DType) -> bool {
                from == <$t>::DTYPE
            }
            fn load(_: Isa, data: &HostData, at: usize, stride: isize, out: &mut [$t]) {
                match <$t>::slice(data) {
                    Some(v) => load_run(v, at, stride, out, |x| x),
                    None => unreachable!("checked when the view was staged"),
                }
            }
        }
    )*};
}
impl_native!(i32, u8, bool, f16, bf16);

/// A size and a stride.
pub(crate) type Axis = (usize, isize);

/// Axes without those of size 1, and with neighbours joined that are in memory as one.
pub(crate) fn join_axes(sizes: &[usize], strides: &[isize]) -> Vec<Axis> {
    let mut all: Vec<Axis> = Vec::with_capacity(sizes.len());
    for (&n, &s) in sizes.iter().zip(strides).filter(|(n, _)| **n != 1) {
        match all.last_mut() {
            Some(outer) if outer.1 == s * n as isize => *outer = (outer.0 * n, s),
            _ => all.push((n, s)),
        }
    }
    all
}

/// Where element `flat` of the axes is, from the first; row-major.
pub(crate) fn offset(axes: &[Axis], mut flat: usize) -> isize {
    let mut at = 0;
    for &(n, s) in axes.iter().rev() {
        at += (flat % n) as isize * s;
        flat /= n;
    }
    at
}

/// A view, to be read in blocks.
#[derive(Clone, Debug)]
pub(crate) struct StagedView<'a, T> {
    data: &'a HostData,
    /// The elements themselves, if they need no conversion.
    own: Option<&'a [T]>,
    first: usize,
    /// All axes but the last.
    outer: Vec<Axis>,
    /// The last axis.
    inner: Axis,
}

impl<'a, T: ReduceElement> StagedView<'a, T> {
    /// A view to be read as `T`.
    ///
    /// # Errors
    /// `DTypeMismatch` if its elements are no such numbers: the op should have converted them.
    pub fn new(what: &str, x: &View<'a>) -> Result<Self> {
        let dtype = x.buffer.dtype();
        if !T::reads(dtype) {
            return Err(Error::dtype(format!(
                "cpu: {what} of {dtype} cannot be computed in {}; the op should have converted it first",
                T::DTYPE
            )));
        }
        let mut outer = join_axes(x.layout.shape(), x.layout.strides());
        let inner = outer.pop().unwrap_or((1, 1));
        Ok(StagedView { data: x.buffer, own: T::slice(x.buffer), first: x.layout.offset(), outer, inner })
    }
    /// Elements in row-major order, from the first to the last.
    pub fn whole(data: &'a HostData) -> Self {
        StagedView { data, own: T::slice(data), first: 0, outer: Vec::new(), inner: (data.len(), 1) }
    }
    /// The name of the one element that all of these `len` from `start` on are, if they are known
    /// to be one.
    pub fn number(&self, start: usize, len: usize) -> Option<usize> {
        let (n, stride) = self.inner;
        (stride == 0 && start % n.max(1) + len <= n).then(|| start / n.max(1))
    }
    /// How often an element is repeated, if it is.
    pub fn run(&self) -> Option<usize> {
        (self.inner.1 == 0).then_some(self.inner.0)
    }
    /// Is each row of `n` elements the same one?
    pub fn is_one_row(&self, n: usize) -> bool {
        self.inner == (n, 1) && self.outer.iter().all(|&(_, stride)| stride == 0)
    }
    /// Are rows read in place?
    pub fn is_read_in_place(&self) -> bool {
        self.own.is_some() && self.inner.1 == 1
    }
    /// How many elements from `start` on are one after the other; all of those that are copied
    /// anyway.
    pub fn stretch(&self, start: usize) -> usize {
        let (n, stride) = self.inner;
        if self.own.is_some() && stride == 1 { n - start % n.max(1) } else { usize::MAX }
    }
    /// Do stretches begin at multiples of `size` elements of a row of `n`?
    pub fn is_even(&self, n: usize, size: usize) -> bool {
        let (len, _) = self.inner;
        len >= n || len.is_multiple_of(size) || self.stretch(0) > len
    }
    /// The elements `start..start + len`, and what stands behind them up to `padded`, if they are
    /// so in memory.
    pub fn padded(&self, start: usize, len: usize, padded: usize) -> Option<&'a [T]> {
        let (n, stride) = self.inner;
        let (row, at) = (start / n.max(1), start % n.max(1));
        if stride != 1 || at + len > n {
            return None;
        }
        let base = self.first.wrapping_add_signed(offset(&self.outer, row));
        self.own?.get(base + at..base + at + padded)
    }
    /// Where the elements `start..start + len` are in their storage, whatever their type, if they
    /// do one after the other.
    pub fn stored(&self, start: usize, len: usize) -> Option<(&'a HostData, usize)> {
        let (n, stride) = self.inner;
        let (row, at) = (start / n.max(1), start % n.max(1));
        let base = self.first.wrapping_add_signed(offset(&self.outer, row));
        (stride == 1 && at + len <= n).then_some((self.data, base + at))
    }
    /// The elements `start..start + len` as parts that are in memory, each with its elements one
    /// after the other, if there are at most `N`; the others are empty.
    pub fn parts<const N: usize>(&self, mut start: usize, len: usize) -> Option<[&'a [T]; N]> {
        let end = start + len;
        let mut parts: [&[T]; N] = [&[]; N];
        for part in &mut parts {
            if start == end {
                break;
            }
            let some = self.stretch(start).min(end - start);
            *part = self.padded(start, some, some)?;
            start += some;
        }
        (start == end).then_some(parts)
    }
    /// Does [`StagedView::block`] borrow these elements, so that it needs no buffer?
    pub fn is_in_place(&self, start: usize, len: usize) -> bool {
        let (n, stride) = self.inner;
        self.own.is_some() && stride == 1 && start % n.max(1) + len <= n
    }
    /// Are rows of `n` elements, in groups of `rows`, where they are: the elements of each one
    /// after the other, and the rows of a group equally far apart?
    pub fn has_rows_in_place(&self, rows: usize, n: usize) -> bool {
        let (len, stride) = self.inner;
        let each =
            || self.outer.last().is_some_and(|&(m, row_stride)| row_stride >= 0 && m.is_multiple_of(rows));
        self.own.is_some() && stride == 1 && (len.is_multiple_of(rows * n) || len == n && each())
    }
    /// Such rows from the one on that element `start` begins, and all that is behind; and how far
    /// apart those of its group are.
    ///
    /// # Panics
    /// If rows are not contiguous.
    pub fn rows(&self, start: usize, rows: usize, n: usize) -> (&'a [T], usize) {
        assert!(self.has_rows_in_place(rows, n), "rows that lie as they are read");
        let len = self.inner.0;
        let base = self.first.wrapping_add_signed(offset(&self.outer, start / len)) + start % len;
        let row_stride = match self.outer.last() {
            Some(&(_, row_stride)) if !len.is_multiple_of(rows * n) => row_stride as usize,
            _ => n,
        };
        (&self.own.expect("they need no conversion")[base..], row_stride)
    }
    /// The elements `start..start + len`, and room behind them up to `padded`, in which stands
    /// anything. `buffer` has room for `padded` elements.
    pub fn block<'b>(&self, isa: Isa, start: usize, len: usize, padded: usize, buffer: &'b mut [T]) -> &'b [T]
    where
        'a: 'b,
    {
        if let Some(all) = self.padded(start, len, padded) {
            return all;
        }
        self.read(isa, start, &mut buffer[..len]);
        &buffer[..padded]
    }
    /// Copies the elements from `start` on.
    pub fn read(&self, isa: Isa, start: usize, out: &mut [T]) {
        let (n, stride) = self.inner;
        let (mut row, mut at) = (start / n.max(1), start % n.max(1));
        let mut done = 0;
        while done < out.len() {
            let base = self.first.wrapping_add_signed(offset(&self.outer, row));
            let some = (n - at).min(out.len() - done);
            T::load(isa, self.data, place(base, stride, at), stride, &mut out[done..done + some]);
            (row, at, done) = (row + 1, 0, done + some);
        }
    }
}

/// The elements of a view in row-major order, copied, if its neighbours in memory belong to
/// different rows; such rows would otherwise be read one element per cache line.
///
/// # Errors
/// `DTypeMismatch` as for [`StagedView::new`]; `OutOfMemory`.
pub(crate) fn row_major_copy<T: ReduceElement>(
    d: &CpuDevice,
    what: &str,
    x: &View<'_>,
) -> Result<Option<PooledData>> {
    /// Elements of a side of a tile: a cache line of f32.
    const TILE_SIDE: usize = 16;
    let stage = StagedView::<T>::new(what, x)?;
    let (n, step) = stage.inner;
    let Some((&(columns, 1), outer)) = stage.outer.split_last() else { return Ok(None) };
    // An element that is repeated along the row (a channel's weight) needs no copy either.
    if matches!(step, 0 | 1) || columns < TILE_SIDE / 2 || x.shape().numel() == 0 {
        return Ok(None);
    }
    let mut y = filled(x.shape().numel(), T::ZERO)?;
    let piece = TILE_SIDE * n * (ROW_COPY_TASK_ELEMENTS / (TILE_SIDE * n)).max(1);
    for_each_piece(d, &mut y, piece, 1.0, &|start, part| {
        let mut done = 0;
        while done < part.len() {
            let (row, column) = ((start + done) / n / columns, (start + done) / n % columns);
            let width = TILE_SIDE.min(columns - column).min((part.len() - done) / n);
            let base = stage.first.wrapping_add_signed(offset(outer, row)) + column;
            for i in (0..n).step_by(TILE_SIDE) {
                let mut tile = [[T::ZERO; TILE_SIDE]; TILE_SIDE];
                let some = TILE_SIDE.min(n - i);
                for (k, tile) in tile[..some].iter_mut().enumerate() {
                    let (at, tile) = (place(base, step, i + k), &mut tile[..width]);
                    match stage.own {
                        Some(own) => tile.copy_from_slice(&own[at..at + width]),
                        None => T::load(d.isa(), stage.data, at, 1, tile),
                    }
                }
                for c in 0..width {
                    let y = &mut part[done + c * n + i..][..some];
                    y.iter_mut().zip(&tile).for_each(|(y, tile)| *y = tile[c]);
                }
            }
            done += width * n;
        }
    });
    Ok(Some(PooledData::new(T::wrap(y))))
}

/// A view to be read as `T`: its copy, if there is one.
///
/// # Errors
/// As for [`StagedView::new`].
pub(crate) fn staged<'a, T: ReduceElement>(
    what: &str,
    x: &View<'a>,
    copy: &'a Option<PooledData>,
) -> Result<StagedView<'a, T>> {
    match copy {
        Some(copy) => Ok(StagedView::whole(copy)),
        None => StagedView::new(what, x),
    }
}
