//! Pools over the last one to three axes: one plane after another, its windows cut to the plane beforehand.

use crate::along::float::{FEW, Float, each_float};
use crate::along::stage::{Number, Stage};
use crate::buffer::{CpuBuffer, View};
use crate::isa::{Isa, Kernel, dispatch};
use crate::memory::filled;
use crate::parallel::try_pieces;
use crate::simd::room::{Room, fresh_pieces};
use crate::{Cpu, CpuDevice, host};
use elinvar_core::host::with_capacity;
use elinvar_core::order::BLOCK;
use elinvar_core::{DType, Element, Error, HostData, Result};
use elinvar_ops::backend::{self, Fold, Pool, PoolKind, Windows};
use std::ops::Range;

/// The taps of a window along one axis that lie in the plane.
#[derive(Clone, Copy, Debug)]
struct Taps {
    first: usize,
    count: usize,
    divisor: usize,
}

/// Windows over a plane of one to three axes; missing axes stand in front, with one window of one tap.
struct Plane {
    axes: [Vec<Taps>; 3],
    dilation: [usize; 3],
    /// Sizes of the input.
    size: [usize; 3],
}

impl Plane {
    fn new(p: &Pool, spatial: &[usize]) -> Result<Self> {
        let mut plane = Plane { axes: [const { Vec::new() }; 3], dilation: [1; 3], size: [1; 3] };
        let missing = 3 - p.axes.len();
        for axis in &mut plane.axes[..missing] {
            axis.push(Taps { first: 0, count: 1, divisor: 1 });
        }
        for (i, (axis, &size)) in p.axes.iter().zip(spatial).enumerate() {
            plane.axes[missing + i] = taps(axis, size)?;
            plane.dilation[missing + i] = axis.dilation;
            plane.size[missing + i] = size;
        }
        Ok(plane)
    }
    /// Elements of the input.
    fn len(&self) -> usize {
        self.size.iter().product()
    }
    /// Windows.
    fn windows(&self) -> usize {
        self.axes.iter().map(Vec::len).product()
    }
    /// Calls `f` with the number of each window, row-major.
    #[inline(always)]
    fn each(&self, mut f: impl FnMut(usize, [Taps; 3])) {
        let mut i = 0;
        for &a in &self.axes[0] {
            for &b in &self.axes[1] {
                for &c in &self.axes[2] {
                    f(i, [a, b, c]);
                    i += 1;
                }
            }
        }
    }
    /// Calls `f` with the place of each element of a window, row-major.
    #[inline(always)]
    fn elements(&self, [a, b, c]: [Taps; 3], mut f: impl FnMut(usize)) {
        for i in 0..a.count {
            let at = (a.first + i * self.dilation[0]) * self.size[1];
            for j in 0..b.count {
                let at = (at + b.first + j * self.dilation[1]) * self.size[2] + c.first;
                for k in 0..c.count {
                    f(at + k * self.dilation[2]);
                }
            }
        }
    }
}

fn taps(axis: &Windows, size: usize) -> Result<Vec<Taps>> {
    let mut all = with_capacity(axis.start.len())?;
    let step = axis.dilation.max(1) as isize;
    for ((&start, &len), &divisor) in axis.start.iter().zip(&axis.len).zip(&axis.divisor) {
        // The first tap that is not in front of the plane, and the first behind it.
        let skipped = if start < 0 { (-start + step - 1) / step } else { 0 };
        let end = size as isize - start;
        let end = if end <= 0 { 0 } else { ((end + step - 1) / step).min(len as isize) };
        let first = (start + skipped * step).max(0) as usize;
        all.push(Taps { first, count: (end - skipped).max(0) as usize, divisor });
    }
    Ok(all)
}

fn divisor(w: &[Taps; 3]) -> usize {
    w.iter().map(|t| t.divisor).product()
}

/// y[.., s'] from x[.., s], and for a maximum the winner's row-major index in its plane, which is computed when somebody reads
/// it: a gradient does, and hardly anybody else.
pub(crate) fn pool(
    d: &CpuDevice,
    p: &Pool,
    x: &backend::View<'_, Cpu>,
) -> Result<(CpuBuffer, Option<CpuBuffer>)> {
    let look = host(x)?;
    let dims = look.shape().dims();
    let (lead, spatial) = dims.split_at(dims.len() - p.axes.len());
    let (planes, plane) = (lead.iter().product(), Plane::new(p, spatial)?);
    let dtype = look.buffer.dtype();
    if p.kind == PoolKind::Avg {
        return each_float!("an average pool", dtype, C => {
            let y = average::<C>(d, &Stage::new("an average pool", &look)?, planes, &plane)?;
            Ok((CpuBuffer::new(C::stored(y, dtype)?), None))
        });
    }
    let y = of_dtype(d, &look, planes, &plane, false)?;
    let places = match x.buffer.node() {
        Err(_) => CpuBuffer::new(of_dtype(d, &look, planes, &plane, true)?),
        Ok(node) => {
            let (d, node, layout) = (d.clone(), node.clone(), x.layout.clone());
            let later = move || {
                let x = View { buffer: node.data()?, layout: &layout, dtype };
                of_dtype(&d, &x, planes, &plane, true)
            };
            CpuBuffer::later(y.len(), later)
        }
    };
    Ok((CpuBuffer::new(y), Some(places)))
}

/// The largest elements of the windows, or their places.
fn of_dtype(d: &CpuDevice, x: &View<'_>, planes: usize, plane: &Plane, places: bool) -> Result<HostData> {
    fn one<T: Number + PartialOrd>(
        d: &CpuDevice,
        x: &View<'_>,
        planes: usize,
        plane: &Plane,
        places: bool,
        store: impl FnOnce(Vec<T>) -> Result<HostData>,
    ) -> Result<HostData> {
        if places {
            let each = |plane: &Plane, even: Even, x: &[T], y: &mut Room<'_, i64>| {
                dispatch(d.isa(), Largest { plane, even, x, to: Places(y) });
            };
            return Ok(HostData::I64(max(d, x, planes, plane, &each)?));
        }
        let each = |plane: &Plane, even: Even, x: &[T], y: &mut Room<'_, T>| {
            dispatch(d.isa(), Largest { plane, even, x, to: Elements(y) });
        };
        store(max(d, x, planes, plane, &each)?)
    }
    match x.buffer.dtype() {
        to @ (DType::F32 | DType::F16 | DType::BF16) => {
            one::<f32>(d, x, planes, plane, places, |y| f32::stored(y, to))
        }
        DType::F64 => one::<f64>(d, x, planes, plane, places, |y| Ok(f64::wrap(y))),
        DType::I64 => one::<i64>(d, x, planes, plane, places, |y| Ok(i64::wrap(y))),
        DType::I32 => one::<i32>(d, x, planes, plane, places, |y| Ok(i32::wrap(y))),
        DType::U8 => one::<u8>(d, x, planes, plane, places, |y| Ok(u8::wrap(y))),
        DType::Bool => one::<bool>(d, x, planes, plane, places, |y| Ok(bool::wrap(y))),
    }
}

/// Windows along the last axis of which each begins `step` elements after the one before, and all have as many taps.
#[derive(Clone, Copy, Debug)]
struct Even {
    from: usize,
    to: usize,
    step: usize,
}

impl Even {
    /// The longest run of such windows.
    fn find(windows: &[Taps]) -> Even {
        let mut best = Even { from: 0, to: 0, step: 1 };
        let mut from = 0;
        for i in 1..=windows.len() {
            let step = |i: usize| windows[i].first.checked_sub(windows[i - 1].first).filter(|s| *s > 0);
            let ends = i == windows.len()
                || windows[i].count != windows[from].count
                || step(i).is_none()
                || step(i) != step(from + 1);
            if ends {
                if i - from > best.to - best.from {
                    let step = if i - from > 1 { step(from + 1).unwrap_or(1) } else { 1 };
                    best = Even { from, to: i, step };
                }
                // The window that ended a run may begin the next.
                from = if i < windows.len() && i - from > 1 && windows[i - 1].count == windows[i].count {
                    i - 1
                } else {
                    i
                };
            }
        }
        best
    }
}

/// Where the results of windows go: the largest elements, or their places.
trait Takes<T> {
    /// Are places wanted?
    const PLACES: bool;
    /// The next windows.
    fn take(&mut self, best: &[T], places: &[i64]);
}

/// The elements.
struct Elements<'a, 'r, T>(&'a mut Room<'r, T>);

impl<T: Copy> Takes<T> for Elements<'_, '_, T> {
    const PLACES: bool = false;
    #[inline(always)]
    fn take(&mut self, best: &[T], _: &[i64]) {
        self.0.copy(best);
    }
}

/// The places.
struct Places<'a, 'r>(&'a mut Room<'r, i64>);

impl<T> Takes<T> for Places<'_, '_> {
    const PLACES: bool = true;
    #[inline(always)]
    fn take(&mut self, _: &[T], places: &[i64]) {
        self.0.copy(places);
    }
}

/// The largest elements of the windows of a plane.
struct Largest<'a, T, R> {
    plane: &'a Plane,
    even: Even,
    x: &'a [T],
    to: R,
}

/// Is `v` to be taken instead of the best so far? NaN wins, the first among equals stays.
#[allow(clippy::eq_op, clippy::neg_cmp_op_on_partial_ord, reason = "both are false for a NaN")]
#[inline(always)]
fn wins<T: PartialOrd + Copy>(v: T, best: T) -> bool {
    !(v <= best) & (best == best)
}

impl<T: Number + PartialOrd, R: Takes<T>> Kernel for Largest<'_, T, R> {
    type Out = ();
    #[inline(always)]
    fn run(mut self) {
        let plane = self.plane;
        for &a in &plane.axes[0] {
            for &b in &plane.axes[1] {
                self.some(a, b, 0..self.even.from);
                match (self.even.to - self.even.from, self.even.step) {
                    (16.., 1) => self.row::<16, 1>(a, b),
                    (16.., 2) => self.row::<16, 2>(a, b),
                    (16.., _) => self.row::<16, 0>(a, b),
                    (8.., 1) => self.row::<8, 1>(a, b),
                    (8.., 2) => self.row::<8, 2>(a, b),
                    _ => self.some(a, b, self.even.from..self.even.to),
                }
                self.some(a, b, self.even.to..plane.axes[2].len());
            }
        }
    }
}

impl<T: Number + PartialOrd, R: Takes<T>> Largest<'_, T, R> {
    /// A few windows of a row, one by one.
    #[inline(always)]
    fn some(&mut self, a: Taps, b: Taps, windows: Range<usize>) {
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
    /// The even windows of a row, `L` at a time; the last ones overlap with those before. `STEP` is that of the windows, 0
    /// for any.
    #[inline(always)]
    fn row<const L: usize, const STEP: usize>(&mut self, a: Taps, b: Taps) {
        let Even { from, to, step } = self.even;
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
        a: Taps,
        b: Taps,
        window: usize,
        step: usize,
    ) -> ([T; L], [i64; L]) {
        let p = self.plane;
        let (first, count) = (p.axes[2][window].first, p.axes[2][window].count);
        let at = (a.first * p.size[1] + b.first) * p.size[2] + first;
        if !R::PLACES
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
                        if R::PLACES {
                            found[l] = if wins { tap as i32 } else { found[l] };
                        }
                    }
                }
            }
        }
        let mut places = [0; L];
        if R::PLACES {
            for l in 0..L {
                places[l] = (at + l * step) as i64 + i64::from(found[l]);
            }
        }
        (best, places)
    }
    /// The largest elements of windows two apart, from `at` on, if there is memory enough behind them: those between are
    /// computed too, as whole registers, and left out once, not at each tap.
    #[allow(clippy::needless_range_loop, reason = "lanes are counted, so that they become registers")]
    #[inline(always)]
    fn pairs<const L: usize>(&self, a: Taps, b: Taps, at: usize, count: usize) -> Option<[T; L]> {
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

/// Elements `at`, `at + step`, ... of a plane, under a window's first tap or another.
#[inline(always)]
fn lanes<T: Copy, const L: usize, const STEP: usize>(x: &[T], at: usize, head: bool, step: usize) -> [T; L] {
    match STEP {
        1 => {
            let x = &x[at..at + L];
            return std::array::from_fn(|l| x[l]);
        }
        // Whole registers, of which every second element is taken. What lies behind the last element may not be there,
        // but before a tap that is not the first, there is another.
        2 if head => {
            if let Some(x) = x.get(at..at + 2 * L) {
                return std::array::from_fn(|l| x[2 * l]);
            }
        }
        2 => {
            let x = &x[at - 1..at - 1 + 2 * L];
            return std::array::from_fn(|l| x[2 * l + 1]);
        }
        _ => {}
    }
    std::array::from_fn(|l| x[at + l * step])
}

/// Fills the room with what comes of the windows of a plane.
type OfPlane<'a, T, O> = dyn Fn(&Plane, Even, &[T], &mut Room<'_, O>) + Sync + 'a;

fn max<T: Number + PartialOrd, O: Element>(
    d: &CpuDevice,
    x: &View<'_>,
    planes: usize,
    plane: &Plane,
    each: &OfPlane<'_, T, O>,
) -> Result<Vec<O>> {
    let x = Stage::<T>::new("a maximum pool", x)?;
    let (n, windows) = (plane.len(), plane.windows());
    if planes * windows == 0 {
        return Ok(Vec::new());
    }
    let mut empty = false;
    plane.each(|_, w| empty |= w.iter().any(|t| t.count == 0));
    if empty {
        return Err(Error::argument(
            "max_pool: a window holds no element of the input; padding or dilation is too large",
        ));
    }
    // Places are counted in 32 bits within a window's reach.
    let small = i32::try_from(n).is_ok();
    let even = if small { Even::find(&plane.axes[2]) } else { Even { from: 0, to: 0, step: 1 } };
    let together = (4096 / windows).max(1);
    let ns = (n + 4 * windows) as f64 / (4 * windows) as f64;
    fresh_pieces(d, planes * windows, together * windows, ns, &|start, y| {
        let mut buffer = Vec::new();
        for i in start / windows..(start + y.left()) / windows {
            if buffer.is_empty() && !x.lies(i * n, n) {
                buffer = filled(n, T::ZERO)?;
            }
            let x = x.block(i * n, n, n, &mut buffer);
            y.part(windows, |y| each(plane, even, x, y));
        }
        Ok(())
    })
}

/// The averages of the windows of a plane.
struct Averages<'a, C> {
    plane: &'a Plane,
    even: Even,
    isa: Isa,
    x: &'a [C],
    y: &'a mut [C],
    /// For windows of many elements.
    terms: &'a mut Vec<C>,
}

impl<C: Float> Kernel for Averages<'_, C> {
    type Out = ();
    #[inline(always)]
    fn run(mut self) {
        let (plane, even) = (self.plane, self.even);
        let width = plane.axes[2].len();
        let mut row = 0;
        for &a in &plane.axes[0] {
            for &b in &plane.axes[1] {
                let count = plane.axes[2].get(even.from).map_or(0, |c| c.count);
                let (mut from, to) = (even.from, even.to);
                self.some(a, b, row, 0..from);
                if a.count * b.count * count <= FEW && to - from >= FEW {
                    while from < to {
                        // The last ones overlap with those before.
                        let start = from.min(to - FEW);
                        match even.step {
                            1 => self.block::<1>(a, b, row, start),
                            2 => self.block::<2>(a, b, row, start),
                            _ => self.block::<0>(a, b, row, start),
                        }
                        from = start + FEW;
                    }
                }
                self.some(a, b, row, from..width);
                row += width;
            }
        }
    }
}

impl<C: Float> Averages<'_, C> {
    /// A few windows of a row, one by one.
    #[inline(always)]
    fn some(&mut self, a: Taps, b: Taps, row: usize, windows: Range<usize>) {
        for w in windows {
            let taps = [a, b, self.plane.axes[2][w]];
            let count: usize = taps.iter().map(|t| t.count).product();
            let sum = if count <= FEW {
                // Most windows: a vector, without a call.
                let (mut few, mut i) = ([C::NOTHING; FEW], 0);
                self.plane.elements(taps, |e| {
                    few[i] = self.x[e];
                    i += 1;
                });
                C::few(few)
            } else {
                self.terms.clear();
                self.plane.elements(taps, |e| self.terms.push(self.x[e]));
                sum(self.isa, self.terms)
            };
            self.y[row + w] = sum / C::lit(divisor(&taps) as f64);
        }
    }
    /// As many even windows of few elements as a window's sum has lanes: each step of that sum is one for all windows. Lanes
    /// without a term add +0 to sums that are no -0, so they may be left out.
    #[allow(clippy::needless_range_loop, reason = "lanes are counted, so that they become registers")]
    #[inline(always)]
    fn block<const STEP: usize>(&mut self, a: Taps, b: Taps, row: usize, window: usize) {
        let (p, step) = (self.plane, self.even.step);
        let c = p.axes[2][window];
        let at = (a.first * p.size[1] + b.first) * p.size[2] + c.first;
        let (mut sums, mut n) = ([[C::NOTHING; FEW]; FEW], 0);
        for i in 0..a.count {
            for j in 0..b.count {
                let line = (i * p.dilation[0] * p.size[1] + j * p.dilation[1]) * p.size[2];
                for k in 0..c.count {
                    let v = lanes::<C, FEW, STEP>(self.x, at + line + k * p.dilation[2], k == 0, step);
                    for l in 0..FEW {
                        sums[n][l] = C::NOTHING + v[l];
                    }
                    n += 1;
                }
            }
        }
        for half in [8, 4] {
            if n > half {
                for j in 0..half {
                    for l in 0..FEW {
                        sums[j][l] = sums[j][l] + sums[j + half][l];
                    }
                }
            }
        }
        let [s0, s1, s2, s3, ..] = sums;
        let y = &mut self.y[row + window..][..FEW];
        for l in 0..FEW {
            y[l] = (s0[l] + s2[l]) + (s1[l] + s3[l]);
        }
        for (y, c) in y.iter_mut().zip(&p.axes[2][window..]) {
            *y = *y / C::lit((a.divisor * b.divisor * c.divisor) as f64);
        }
    }
}

fn average<C: Float>(d: &CpuDevice, x: &Stage<'_, C>, planes: usize, plane: &Plane) -> Result<Vec<C>> {
    let (n, windows) = (plane.len(), plane.windows());
    let mut y = filled(planes * windows, C::NOTHING)?;
    if y.is_empty() {
        return Ok(y);
    }
    let even = Even::find(&plane.axes[2]);
    let together = (4096 / windows).max(1);
    let ns = (n / windows + 20) as f64;
    try_pieces(d, &mut y, together * windows, ns, |start, part| {
        let (mut buffer, mut terms) = (Vec::new(), Vec::new());
        for (i, y) in part.chunks_mut(windows).enumerate() {
            let plane_at = (start / windows + i) * n;
            if buffer.is_empty() && !x.lies(plane_at, n) {
                buffer = filled(n, C::NOTHING)?;
            }
            let x = if n == 0 { &[] } else { x.block(plane_at, n, n, &mut buffer) };
            dispatch(d.isa(), Averages { plane, even, isa: d.isa(), x, y, terms: &mut terms });
        }
        Ok::<(), Error>(())
    })?;
    Ok(y)
}

/// The sum of terms in the canonical order.
fn sum<C: Float>(isa: Isa, terms: &[C]) -> C {
    if terms.len() <= BLOCK {
        return C::block(isa, Fold::Sum, terms);
    }
    let blocks: Vec<C> = terms.chunks(BLOCK).map(|t| C::block(isa, Fold::Sum, t)).collect();
    C::join(Fold::Sum, &blocks)
}

/// Each input element adds g / divisor of the windows that hold it, in row-major order of the windows.
pub(crate) fn avg_pool_grad(d: &CpuDevice, p: &Pool, g: &View<'_>, spatial: &[usize]) -> Result<HostData> {
    let dims = g.shape().dims();
    let planes = dims[..dims.len() - p.axes.len()].iter().product();
    let plane = Plane::new(p, spatial)?;
    let dtype = g.buffer.dtype();
    each_float!("an average pool's gradient", dtype, C => {
        C::stored(spread::<C>(d, &Stage::new("an average pool's gradient", g)?, planes, &plane)?, dtype)
    })
}

fn spread<C: Float>(d: &CpuDevice, g: &Stage<'_, C>, planes: usize, plane: &Plane) -> Result<Vec<C>> {
    let (n, windows) = (plane.len(), plane.windows());
    let mut dx = filled(planes * n, C::NOTHING)?;
    if dx.is_empty() || windows == 0 {
        return Ok(dx);
    }
    let ns = (n + 4 * windows) as f64 / n as f64;
    try_pieces(d, &mut dx, n * (4096 / n).max(1), ns, |start, part| {
        let mut buffer = filled(windows, C::NOTHING)?;
        for (i, dx) in part.chunks_mut(n).enumerate() {
            let g = g.block((start / n + i) * windows, windows, windows, &mut buffer);
            plane.each(|w, taps| {
                let share = g[w] / C::lit(divisor(&taps) as f64);
                plane.elements(taps, |e| dx[e] = dx[e] + share);
            });
        }
        Ok::<(), Error>(())
    })?;
    Ok(dx)
}
