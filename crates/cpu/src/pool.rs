//! Pools over the last one to three axes: one plane after another, its windows cut to the plane beforehand.

use crate::CpuDevice;
use crate::View;
use crate::along::float::{FEW, Float, each_float};
use crate::along::stage::{Number, Stage};
use crate::isa::{Isa, Kernel, dispatch};
use crate::memory::filled;
use crate::parallel::try_pieces;
use crate::simd::room::{Room, fresh_both};
use elinvar_core::host::with_capacity;
use elinvar_core::order::BLOCK;
use elinvar_core::{DType, Error, HostData, Result};
use elinvar_ops::backend::{Fold, Pool, PoolKind, Windows};
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

/// y[.., s'] from x[.., s], and for a maximum the winner's row-major index in its plane.
pub(crate) fn pool(d: &CpuDevice, p: &Pool, x: &View<'_>) -> Result<(HostData, Option<HostData>)> {
    let dims = x.shape().dims();
    let (lead, spatial) = dims.split_at(dims.len() - p.axes.len());
    let (planes, plane) = (lead.iter().product(), Plane::new(p, spatial)?);
    let dtype = x.buffer.dtype();
    match p.kind {
        PoolKind::Avg => each_float!("an average pool", dtype, C => {
            let y = average::<C>(d, &Stage::new("an average pool", x)?, planes, &plane)?;
            Ok((C::stored(y, dtype)?, None))
        }),
        PoolKind::Max => match dtype {
            DType::F32 | DType::F16 | DType::BF16 => {
                let (y, winners) = max::<f32>(d, x, planes, &plane)?;
                Ok((f32::stored(y, dtype)?, Some(HostData::I64(winners))))
            }
            DType::F64 => wrapped::<f64>(d, x, planes, &plane),
            DType::I64 => wrapped::<i64>(d, x, planes, &plane),
            DType::I32 => wrapped::<i32>(d, x, planes, &plane),
            DType::U8 => wrapped::<u8>(d, x, planes, &plane),
            DType::Bool => wrapped::<bool>(d, x, planes, &plane),
        },
    }
}

fn wrapped<T: Number + PartialOrd>(
    d: &CpuDevice,
    x: &View<'_>,
    planes: usize,
    plane: &Plane,
) -> Result<(HostData, Option<HostData>)> {
    let (y, winners) = max::<T>(d, x, planes, plane)?;
    Ok((T::wrap(y), Some(HostData::I64(winners))))
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

/// The largest elements of the windows of a plane, and their places.
struct Largest<'a, 'r, 's, T> {
    plane: &'a Plane,
    even: Even,
    x: &'a [T],
    best: &'a mut Room<'r, T>,
    places: &'a mut Room<'s, i64>,
}

/// Is `v` to be taken instead of the best so far? NaN wins, the first among equals stays.
#[allow(clippy::eq_op, clippy::neg_cmp_op_on_partial_ord, reason = "both are false for a NaN")]
#[inline(always)]
fn wins<T: PartialOrd + Copy>(v: T, best: T) -> bool {
    !(v <= best) & (best == best)
}

impl<T: Number + PartialOrd> Kernel for Largest<'_, '_, '_, T> {
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

impl<T: Number + PartialOrd> Largest<'_, '_, '_, T> {
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
            self.best.copy(&[best]);
            self.places.copy(&[place.unwrap_or(0) as i64]);
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
                self.best.copy(&best);
                self.places.copy(&places);
            } else {
                self.best.copy(&best[at - start..]);
                self.places.copy(&places[at - start..]);
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
        let mut best = self.lanes::<L, STEP>(at, true, step);
        // How far behind `at` each was found; planes are small enough.
        let mut found = [0i32; L];
        for i in 0..a.count {
            for j in 0..b.count {
                let line = (i * p.dilation[0] * p.size[1] + j * p.dilation[1]) * p.size[2];
                for k in usize::from((i, j) == (0, 0))..count {
                    let tap = line + k * p.dilation[2];
                    let v = self.lanes::<L, STEP>(at + tap, k == 0, step);
                    for l in 0..L {
                        let wins = wins(v[l], best[l]);
                        best[l] = if wins { v[l] } else { best[l] };
                        found[l] = if wins { tap as i32 } else { found[l] };
                    }
                }
            }
        }
        (best, std::array::from_fn(|l| (at + l * step) as i64 + i64::from(found[l])))
    }
    /// Elements `at`, `at + step`, ...
    #[inline(always)]
    fn lanes<const L: usize, const STEP: usize>(&self, at: usize, head: bool, step: usize) -> [T; L] {
        match STEP {
            1 => {
                let x = &self.x[at..at + L];
                return std::array::from_fn(|l| x[l]);
            }
            // Whole registers, of which every second element is taken. What lies behind the last element may not be there,
            // but before a tap that is not the first, there is another.
            2 if head => {
                if let Some(x) = self.x.get(at..at + 2 * L) {
                    return std::array::from_fn(|l| x[2 * l]);
                }
            }
            2 => {
                let x = &self.x[at - 1..at - 1 + 2 * L];
                return std::array::from_fn(|l| x[2 * l + 1]);
            }
            _ => {}
        }
        std::array::from_fn(|l| self.x[at + l * step])
    }
}

fn max<T: Number + PartialOrd>(
    d: &CpuDevice,
    x: &View<'_>,
    planes: usize,
    plane: &Plane,
) -> Result<(Vec<T>, Vec<i64>)> {
    let x = Stage::<T>::new("a maximum pool", x)?;
    let (n, windows) = (plane.len(), plane.windows());
    if planes * windows == 0 {
        return Ok((Vec::new(), Vec::new()));
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
    fresh_both(d, planes * windows, together * windows, ns, &|start, y, places| {
        let mut buffer = Vec::new();
        for i in start / windows..(start + y.left()) / windows {
            if buffer.is_empty() && !x.lies(i * n, n) {
                buffer = filled(n, T::ZERO)?;
            }
            let x = x.block(i * n, n, n, &mut buffer);
            y.part(windows, |best| {
                places.part(windows, |places| dispatch(d.isa(), Largest { plane, even, x, best, places }));
            });
        }
        Ok(())
    })
}

fn average<C: Float>(d: &CpuDevice, x: &Stage<'_, C>, planes: usize, plane: &Plane) -> Result<Vec<C>> {
    let (n, windows) = (plane.len(), plane.windows());
    let mut y = filled(planes * windows, C::NOTHING)?;
    if y.is_empty() {
        return Ok(y);
    }
    let together = (4096 / windows).max(1);
    let ns = (n / windows + 20) as f64;
    try_pieces(d, &mut y, together * windows, ns, |start, part| {
        let mut buffer = filled(n, C::NOTHING)?;
        let mut terms = with_capacity(n)?;
        for (i, y) in part.chunks_mut(windows).enumerate() {
            let x = match n {
                0 => &[],
                _ => x.block((start / windows + i) * n, n, n, &mut buffer),
            };
            plane.each(|w, taps| {
                let count: usize = taps.iter().map(|t| t.count).product();
                let sum = if count <= FEW {
                    // Most windows: a vector, without a call.
                    let mut few = [C::NOTHING; FEW];
                    let mut i = 0;
                    plane.elements(taps, |e| {
                        few[i] = x[e];
                        i += 1;
                    });
                    C::few(few)
                } else {
                    terms.clear();
                    plane.elements(taps, |e| terms.push(x[e]));
                    sum(d.isa(), &terms)
                };
                y[w] = sum / C::lit(divisor(&taps) as f64);
            });
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
