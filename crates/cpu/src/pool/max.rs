//! Max pooling: the largest element of each window, and its index; the indices are a deferred
//! second result, as most callers read only the first.

use super::kernels;
use super::plan::{self, COLUMNS_MAX_LINES, COLUMNS_MAX_SPAN, MaxPath, MaxPlan};
use super::windows::{AxisTaps, EvenWindows, PoolPlane, lanes};
use crate::CpuDevice;
use crate::reduce::float::Float;
use crate::reduce::source::{ReduceElement, StagedView};
use crate::runtime::memory::filled;
use crate::runtime::output::parallel_fill::fill_pieces;
use crate::view::View;
use elinvar_core::explain::explain;
use elinvar_core::{DType, Element, Error, HostData, HostVec, Result, storage};
use elinvar_simd::isa::{Isa, Kernel, dispatch_formula};
use elinvar_simd::uninit::UninitSlice;
use std::ops::Range;

/// The largest elements of the windows, or their places.
pub(super) fn of_dtype(
    d: &CpuDevice,
    x: &View<'_>,
    planes: usize,
    plane: &PoolPlane,
    places: bool,
) -> Result<HostData> {
    fn one<T: ReduceElement + PartialOrd>(
        d: &CpuDevice,
        x: &View<'_>,
        planes: usize,
        plane: &PoolPlane,
        plan: &MaxPlan,
        places: bool,
        store: impl FnOnce(HostVec<T>) -> Result<HostData>,
    ) -> Result<HostData> {
        if places {
            let each = |plane: &PoolPlane, even: EvenWindows, x: &[T], y: &mut UninitSlice<'_, i64>| {
                dispatch_formula::<T, _>(d.isa(), MaxPool { plane, even, x, to: PlaceSink(y) });
            };
            return Ok(HostData::I64(max(d, x, planes, plane, plan, &each)?));
        }
        let each = |plane: &PoolPlane, even: EvenWindows, x: &[T], y: &mut UninitSlice<'_, T>| {
            dispatch_formula::<T, _>(d.isa(), MaxPool { plane, even, x, to: ElementSink(y) });
        };
        store(max(d, x, planes, plane, plan, &each)?)
    }
    let plan = plan::max(plane, x.buffer.dtype());
    explain(|| format!("max_pool {} of {planes} planes {:?} -> {plan}", named(places), plane.size));
    let dtype = x.buffer.dtype();
    if !matches!(plan.path, MaxPath::Windows) {
        let (isa, path) = (d.isa(), &plan.path);
        if places {
            let each = |plane: &PoolPlane, even: EvenWindows, x: &[f32], y: &mut UninitSlice<'_, i64>| {
                if !by_registers(isa, path, plane, x, y) {
                    dispatch_formula::<f32, _>(isa, MaxPool { plane, even, x, to: PlaceSink(y) });
                }
            };
            return Ok(HostData::I64(max(d, x, planes, plane, &plan, &each)?));
        }
        let each = |plane: &PoolPlane, even: EvenWindows, x: &[f32], y: &mut UninitSlice<'_, f32>| {
            if !by_registers(isa, path, plane, x, y) {
                dispatch_formula::<f32, _>(isa, MaxPool { plane, even, x, to: ElementSink(y) });
            }
        };
        return f32::stored(d, max(d, x, planes, plane, &plan, &each)?, dtype);
    }
    match dtype {
        to @ (DType::F32 | storage!(DType)) => {
            one::<f32>(d, x, planes, plane, &plan, places, |y| f32::stored(d, y, to))
        }
        DType::F64 => one::<f64>(d, x, planes, plane, &plan, places, |y| Ok(f64::wrap(y))),
        DType::I64 => one::<i64>(d, x, planes, plane, &plan, places, |y| Ok(i64::wrap(y))),
        DType::I32 => one::<i32>(d, x, planes, plane, &plan, places, |y| Ok(i32::wrap(y))),
        DType::U8 => one::<u8>(d, x, planes, plane, &plan, places, |y| Ok(u8::wrap(y))),
        DType::Bool => one::<bool>(d, x, planes, plane, &plan, places, |y| Ok(bool::wrap(y))),
    }
}

/// What is found.
fn named(places: bool) -> &'static str {
    if places { "places" } else { "elements" }
}

/// The windows of a plane by a path of registers, if it is calm and the instruction set has such;
/// or says that it does not.
fn by_registers<O: kernels::PoolOutcome>(
    isa: Isa,
    path: &MaxPath,
    plane: &PoolPlane,
    x: &[f32],
    y: &mut UninitSlice<'_, O>,
) -> bool {
    kernels::is_calm(isa, x)
        && match path {
            MaxPath::Pairs(windows) => kernels::largest(isa, windows, x, y),
            MaxPath::Columns { step } => by_columns(isa, plane, *step, x, y),
            MaxPath::Windows => false,
        }
}

/// The windows of a calm plane that are `step` apart: the largest of each column of a row of
/// windows, register by register, then those of each window. As [`kernels::largest`], it may say
/// that it does not. Element by element, 8 x 8 of planes of 56 x 56 took four times as long.
fn by_columns<O: kernels::PoolOutcome>(
    isa: Isa,
    plane: &PoolPlane,
    step: usize,
    x: &[f32],
    y: &mut UninitSlice<'_, O>,
) -> bool {
    let c = plane.axes[2][0];
    let span = (plane.axes[2].len() - 1) * step + c.count;
    let (mut best, mut found) = ([0.0; COLUMNS_MAX_SPAN], [0; COLUMNS_MAX_SPAN]);
    let (best, found) = (&mut best[..span], &mut found[..span]);
    for &a in &plane.axes[0] {
        for &b in &plane.axes[1] {
            let (mut lines, mut n) = ([0; COLUMNS_MAX_LINES], 0);
            plane.elements([a, b, AxisTaps { count: 1, ..c }], |e| {
                lines[n] = e as u32;
                n += 1;
            });
            if !kernels::columns(isa, x, &lines[..n], best, found) {
                return false;
            }
            y.extend(plane.axes[2].len(), |window| {
                let columns = window * step..window * step + c.count;
                let (best, found) = (&best[columns.clone()], &found[columns.clone()]);
                let (largest, place) = kernels::first_largest(best, found, columns.start as u32);
                O::of(largest, place as usize)
            });
        }
    }
    true
}

/// Where the results of windows go: the largest elements, or their places.
trait WindowSink<T> {
    /// Are places wanted?
    const WANTS_PLACES: bool;
    /// The next windows.
    fn take(&mut self, best: &[T], places: &[i64]);
}

/// The elements.
struct ElementSink<'a, 'r, T>(&'a mut UninitSlice<'r, T>);

impl<T: Copy> WindowSink<T> for ElementSink<'_, '_, T> {
    const WANTS_PLACES: bool = false;
    #[inline(always)]
    fn take(&mut self, best: &[T], _: &[i64]) {
        self.0.copy(best);
    }
}

/// The places.
struct PlaceSink<'a, 'r>(&'a mut UninitSlice<'r, i64>);

impl<T> WindowSink<T> for PlaceSink<'_, '_> {
    const WANTS_PLACES: bool = true;
    #[inline(always)]
    fn take(&mut self, _: &[T], places: &[i64]) {
        self.0.copy(places);
    }
}

/// The largest elements of the windows of a plane.
struct MaxPool<'a, T, R> {
    plane: &'a PoolPlane,
    even: EvenWindows,
    x: &'a [T],
    to: R,
}

/// Is `v` to be taken instead of the best so far? NaN wins, the first among equals stays.
#[allow(clippy::eq_op, clippy::neg_cmp_op_on_partial_ord, reason = "both are false for a NaN")]
#[inline(always)]
fn wins<T: PartialOrd + Copy>(v: T, best: T) -> bool {
    !(v <= best) & (best == best)
}

impl<T: ReduceElement + PartialOrd, R: WindowSink<T>> Kernel for MaxPool<'_, T, R> {
    type Out = ();
    #[inline(always)]
    fn run(mut self) {
        let plane = self.plane;
        for &a in &plane.axes[0] {
            for &b in &plane.axes[1] {
                self.few_windows(a, b, 0..self.even.from);
                match (self.even.to - self.even.from, self.even.step) {
                    (16.., 1) if const { Self::HAS_SPECIAL_CASES } => self.row::<16, 1>(a, b),
                    (16.., 2) if const { Self::HAS_SPECIAL_CASES } => self.row::<16, 2>(a, b),
                    (16.., 4) if const { Self::HAS_SPECIAL_CASES } => self.row::<16, 4>(a, b),
                    (16.., _) if const { Self::HAS_SPECIAL_CASES } => self.row::<16, 0>(a, b),
                    (8.., 1) if const { Self::FLOATS } => self.row::<8, 1>(a, b),
                    (8.., 2) if const { Self::FLOATS } => self.row::<8, 2>(a, b),
                    (8.., _) if const { !Self::HAS_SPECIAL_CASES } => self.row::<8, 0>(a, b),
                    _ => self.few_windows(a, b, self.even.from..self.even.to),
                }
                self.few_windows(a, b, self.even.to..plane.axes[2].len());
            }
        }
    }
}

impl<T: ReduceElement + PartialOrd, R: WindowSink<T>> MaxPool<'_, T, R> {
    /// Networks pool f32; other types have fewer kinds of rows to compile.
    const HAS_SPECIAL_CASES: bool = matches!(T::DTYPE, DType::F32);
    const FLOATS: bool = matches!(T::DTYPE, DType::F32 | DType::F64);

    /// A few windows of a row, one by one.
    #[inline(always)]
    fn few_windows(&mut self, a: AxisTaps, b: AxisTaps, windows: Range<usize>) {
        for &c in &self.plane.axes[2][windows] {
            let (mut best, mut place) = (T::ZERO, None);
            self.plane.elements([a, b, c], |e| {
                if place.is_none() || wins(self.x[e], best) {
                    (best, place) = (self.x[e], Some(e));
                }
            });
            self.to.take(&[best], &[place.unwrap_or(0) as i64]);
        }
    }
    /// The even windows of a row, `L` at a time; the last ones overlap with those before. `STEP` is
    /// that of the windows, 0 for any.
    #[inline(always)]
    fn row<const L: usize, const STEP: usize>(&mut self, a: AxisTaps, b: AxisTaps) {
        let EvenWindows { from, to, step } = self.even;
        let mut at = from;
        while at < to {
            let start = at.min(to - L);
            let (best, places) = self.block::<L, STEP>(a, b, start, step);
            if at == start {
                self.to.take(&best, &places);
            } else {
                self.to.take(&best[at - start..], &places[at - start..]);
            }
            at = start + L;
        }
    }
    #[allow(clippy::needless_range_loop, reason = "lanes are counted, so that they become registers")]
    #[inline(always)]
    fn block<const L: usize, const STEP: usize>(
        &self,
        a: AxisTaps,
        b: AxisTaps,
        window: usize,
        step: usize,
    ) -> ([T; L], [i64; L]) {
        let p = self.plane;
        let (first, count) = (p.axes[2][window].first, p.axes[2][window].count);
        let at = (a.first * p.size[1] + b.first) * p.size[2] + first;
        if !R::WANTS_PLACES
            && STEP == 2
            && let Some(best) = self.pairs::<L>(a, b, at, count)
        {
            return (best, [0; L]);
        }
        let mut best = lanes::<T, L, STEP>(self.x, at, true, step);
        // How far behind `at` each was found; planes are small enough.
        let mut found = [0i32; L];
        for i in 0..a.count {
            for j in 0..b.count {
                let line = (i * p.dilation[0] * p.size[1] + j * p.dilation[1]) * p.size[2];
                for k in usize::from((i, j) == (0, 0))..count {
                    let tap = line + k * p.dilation[2];
                    let v = lanes::<T, L, STEP>(self.x, at + tap, k == 0, step);
                    for l in 0..L {
                        let wins = wins(v[l], best[l]);
                        best[l] = if wins { v[l] } else { best[l] };
                        if R::WANTS_PLACES {
                            found[l] = if wins { tap as i32 } else { found[l] };
                        }
                    }
                }
            }
        }
        let mut places = [0; L];
        if R::WANTS_PLACES {
            for l in 0..L {
                places[l] = (at + l * step) as i64 + i64::from(found[l]);
            }
        }
        (best, places)
    }
    /// The largest elements of windows two apart, from `at` on, if there is memory enough behind
    /// them: those between are computed too, as whole registers, and left out once, not at each
    /// tap.
    #[allow(clippy::needless_range_loop, reason = "lanes are counted, so that they become registers")]
    #[inline(always)]
    fn pairs<const L: usize>(&self, a: AxisTaps, b: AxisTaps, at: usize, count: usize) -> Option<[T; L]> {
        let p = self.plane;
        let line = |i: usize, j: usize| (i * p.dilation[0] * p.size[1] + j * p.dilation[1]) * p.size[2];
        let last = line(a.count - 1, b.count - 1) + (count - 1) * p.dilation[2];
        let x = self.x.get(at..at + last + 2 * L)?;
        let (mut low, mut high) = ([T::ZERO; L], [T::ZERO; L]);
        low.copy_from_slice(&x[..L]);
        high.copy_from_slice(&x[L..2 * L]);
        for i in 0..a.count {
            for j in 0..b.count {
                for k in usize::from((i, j) == (0, 0))..count {
                    let x = &x[line(i, j) + k * p.dilation[2]..][..2 * L];
                    for l in 0..L {
                        low[l] = if wins(x[l], low[l]) { x[l] } else { low[l] };
                    }
                    for l in 0..L {
                        high[l] = if wins(x[L + l], high[l]) { x[L + l] } else { high[l] };
                    }
                }
            }
        }
        Some(std::array::from_fn(|l| if 2 * l < L { low[2 * l] } else { high[2 * l - L] }))
    }
}

/// Fills the room with what comes of the windows of a plane.
type PlaneFn<'a, T, O> = dyn Fn(&PoolPlane, EvenWindows, &[T], &mut UninitSlice<'_, O>) + Sync + 'a;

fn max<T: ReduceElement + PartialOrd, O: Element>(
    d: &CpuDevice,
    x: &View<'_>,
    planes: usize,
    plane: &PoolPlane,
    plan: &MaxPlan,
    each: &PlaneFn<'_, T, O>,
) -> Result<HostVec<O>> {
    let x = StagedView::<T>::new("a maximum pool", x)?;
    let (n, windows) = (plane.len(), plane.windows());
    if planes * windows == 0 {
        return Ok(HostVec::new());
    }
    let mut empty = false;
    plane.each(|_, w| empty |= w.iter().any(|t| t.count == 0));
    if empty {
        return Err(Error::argument(
            "max_pool: a window holds no element of the input; padding or dilation is too large",
        ));
    }
    let (even, together) = (plan.even, plan.planes_per_task);
    let ns = (n + 4 * windows) as f64 / (4 * windows) as f64;
    fill_pieces(d, planes * windows, together * windows, ns, &|start, y| {
        let mut buffer = HostVec::new();
        for i in start / windows..(start + y.remaining()) / windows {
            if buffer.is_empty() && !x.is_in_place(i * n, n) {
                buffer = filled(n, T::ZERO)?;
            }
            let x = x.block(d.isa(), i * n, n, n, &mut buffer);
            y.part(windows, |y| each(plane, even, x, y));
        }
        Ok(())
    })
}
