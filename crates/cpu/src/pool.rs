//! Pools over the last one to three axes: one plane after another, its windows cut to the plane beforehand.

use crate::CpuDevice;
use crate::View;
use crate::along::float::{FEW, Float, each_float};
use crate::along::stage::{Number, Stage};
use crate::isa::Isa;
use crate::memory::{filled, with_capacity};
use crate::parallel::try_pieces;
use elinvar_core::host;
use elinvar_core::order::BLOCK;
use elinvar_core::{DType, Error, HostData, Result};
use elinvar_ops::backend::{Fold, Pool, PoolKind, Windows};

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
    /// The largest elements of a row of windows and their places. The row goes by once for each tap, so that the loop is
    /// long; each window sees its elements in row-major order.
    fn largest<T: Number + PartialOrd>(
        &self,
        [a, b]: [Taps; 2],
        x: &[T],
        best: &mut [T],
        places: &mut [i64],
    ) {
        let windows = &self.axes[2];
        let most = windows.iter().map(|w| w.count).max().unwrap_or(0);
        for i in 0..a.count {
            for j in 0..b.count {
                let at = (a.first + i * self.dilation[0]) * self.size[1] + b.first + j * self.dilation[1];
                let line = &x[at * self.size[2]..][..self.size[2]];
                for k in 0..most {
                    let first = (i, j, k) == (0, 0, 0);
                    for ((w, best), place) in windows.iter().zip(&mut *best).zip(&mut *places) {
                        if k >= w.count {
                            continue;
                        }
                        let e = w.first + k * self.dilation[2];
                        let v = line[e];
                        let wins = first | (v > *best) | (is_nan(v) & !is_nan(*best));
                        *best = if wins { v } else { *best };
                        *place = if wins { (at * self.size[2] + e) as i64 } else { *place };
                    }
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
    let mut all = host::with_capacity(axis.start.len())?;
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

/// Not equal to itself?
#[allow(clippy::eq_op, reason = "that is what a NaN is")]
#[inline(always)]
fn is_nan<T: PartialEq>(v: T) -> bool {
    v != v
}

fn max<T: Number + PartialOrd>(
    d: &CpuDevice,
    x: &View<'_>,
    planes: usize,
    plane: &Plane,
) -> Result<(Vec<T>, Vec<i64>)> {
    let x = Stage::<T>::new("a maximum pool", x)?;
    let (n, windows) = (plane.len(), plane.windows());
    let (mut y, mut winners) = (filled(planes * windows, T::ZERO)?, filled(planes * windows, 0i64)?);
    if y.is_empty() {
        return Ok((y, winners));
    }
    let mut empty = false;
    plane.each(|_, w| empty |= w.iter().any(|t| t.count == 0));
    if empty {
        return Err(Error::argument(
            "max_pool: a window holds no element of the input; padding or dilation is too large",
        ));
    }
    let mut all = host::with_capacity(planes)?;
    all.extend(y.chunks_mut(windows).zip(winners.chunks_mut(windows)).enumerate());
    let together = (4096 / windows).max(1);
    try_pieces(d, &mut all, together, (n + 4 * windows) as f64, |_, part| {
        let mut buffer = filled(n, T::ZERO)?;
        for (i, (y, winners)) in part {
            let x = x.block(*i * n, n, n, &mut buffer);
            let row = plane.axes[2].len();
            let mut rows = y.chunks_exact_mut(row).zip(winners.chunks_exact_mut(row));
            for &a in &plane.axes[0] {
                for &b in &plane.axes[1] {
                    let Some((y, winners)) = rows.next() else { break };
                    plane.largest([a, b], x, y, winners);
                }
            }
        }
        Ok::<(), Error>(())
    })?;
    drop(all);
    Ok((y, winners))
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
