//! The averages of windows, and their gradient.

use super::{Even, Plane, Taps, divisor, lanes};
use crate::CpuDevice;
use crate::along::float::{FEW, Float, each_float};
use crate::along::stage::Stage;
use crate::buffer::View;
use crate::isa::{Isa, Kernel, formula};
use crate::memory::filled;
use crate::parallel::try_pieces;
use elinvar_core::order::BLOCK;
use elinvar_core::{Error, HostData, HostVec, Result};
use elinvar_ops::backend::{Fold, Pool};
use std::ops::Range;

/// The averages of the windows of a plane.
struct Averages<'a, C> {
    plane: &'a Plane,
    even: Even,
    isa: Isa,
    x: &'a [C],
    y: &'a mut [C],
    /// For windows of many elements.
    terms: &'a mut HostVec<C>,
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

pub(super) fn average<C: Float>(
    d: &CpuDevice,
    x: &Stage<'_, C>,
    planes: usize,
    plane: &Plane,
) -> Result<HostVec<C>> {
    let (n, windows) = (plane.len(), plane.windows());
    let mut y = filled(planes * windows, C::NOTHING)?;
    if y.is_empty() {
        return Ok(y);
    }
    if let Some(window) = plane.whole().filter(|_| (1..=BLOCK).contains(&n)) {
        of_planes(d, x, n, C::lit(divisor(&window) as f64), &mut y)?;
        return Ok(y);
    }
    let even = Even::find(&plane.axes[2]);
    let together = (4096 / windows).max(1);
    let ns = (n / windows + 20) as f64;
    try_pieces(d, &mut y, together * windows, ns, &|start, part| {
        let (mut buffer, mut terms) = (HostVec::new(), HostVec::new());
        for (i, y) in part.chunks_mut(windows).enumerate() {
            let plane_at = (start / windows + i) * n;
            if buffer.is_empty() && !x.lies(plane_at, n) {
                buffer = filled(n, C::NOTHING)?;
            }
            let x = if n == 0 { &[] } else { x.block(d.isa(), plane_at, n, n, &mut buffer) };
            let averages = Averages { plane, even, isa: d.isa(), x, y, terms: &mut terms };
            formula::<C, _>(d.isa(), averages);
        }
        Ok::<(), Error>(())
    })?;
    Ok(y)
}

/// The averages of whole planes of `n` elements: sums of rows.
fn of_planes<C: Float>(d: &CpuDevice, x: &Stage<'_, C>, n: usize, divisor: C, y: &mut [C]) -> Result<()> {
    /// Planes that a thread takes, so many times as many as a block has room for.
    const BLOCKS: usize = 16;
    let group = BLOCK / n;
    try_pieces(d, y, BLOCKS * group, n as f64 * 0.2, &|start, part| {
        let mut buffer = filled(BLOCK, C::NOTHING)?;
        for (i, y) in part.chunks_mut(group).enumerate() {
            let len = y.len() * n;
            C::sum_rows(d.isa(), x.block(d.isa(), (start + i * group) * n, len, len, &mut buffer), n, y);
            y.iter_mut().for_each(|y| *y = *y / divisor);
        }
        Ok(())
    })
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
        C::stored(d, spread::<C>(d, &Stage::new("an average pool's gradient", g)?, planes, &plane)?, dtype)
    })
}

fn spread<C: Float>(d: &CpuDevice, g: &Stage<'_, C>, planes: usize, plane: &Plane) -> Result<HostVec<C>> {
    let (n, windows) = (plane.len(), plane.windows());
    let mut dx = filled(planes * n, C::NOTHING)?;
    if dx.is_empty() || windows == 0 {
        return Ok(dx);
    }
    let (ns, whole) = ((n + 4 * windows) as f64 / n as f64, plane.whole());
    try_pieces(d, &mut dx, n * (4096 / n).max(1), ns, &|start, part| {
        let mut buffer = filled(windows, C::NOTHING)?;
        for (i, dx) in part.chunks_mut(n).enumerate() {
            let g = g.block(d.isa(), (start / n + i) * windows, windows, windows, &mut buffer);
            if let Some(window) = whole {
                // As below: it is added to 0.
                dx.fill(C::NOTHING + g[0] / C::lit(divisor(&window) as f64));
                continue;
            }
            plane.each(|w, taps| {
                let share = g[w] / C::lit(divisor(&taps) as f64);
                plane.elements(taps, |e| dx[e] = dx[e] + share);
            });
        }
        Ok::<(), Error>(())
    })?;
    Ok(dx)
}
