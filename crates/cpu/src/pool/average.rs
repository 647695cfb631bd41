//! The averages of windows, and their gradient.

use super::{Even, Plane, Taps, divisor, lanes};
use crate::CpuDevice;
use crate::along::float::{FEW, Float, each_float};
use crate::along::stage::Stage;
use crate::buffer::View;
use crate::isa::{Isa, Kernel, formula};
use crate::memory::filled;
use crate::parallel::try_pieces;
use elinvar_core::order::{BLOCK, LANES};
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
    /// For the lanes of windows that go side by side, and for the elements of one that has many.
    terms: &'a mut HostVec<C>,
    many: &'a mut HostVec<C>,
}

/// Even windows that are summed at once: a register of the widest, and what is left of rows of few windows.
const WIDE: usize = 16;
const NARROW: usize = 4;

impl<C: Float> Kernel for Averages<'_, C> {
    type Out = ();
    #[inline(always)]
    fn run(mut self) {
        let (plane, even) = (self.plane, self.even);
        let width = plane.axes[2].len();
        let count = plane.axes[2].get(even.from).map_or(0, |c| c.count);
        let mut row = 0;
        for &a in &plane.axes[0] {
            for &b in &plane.axes[1] {
                let (mut from, to) = (even.from, even.to);
                self.some(a, b, row, 0..from);
                if (1..=LANES).contains(&(a.count * b.count * count)) {
                    if to - from >= WIDE {
                        self.windows::<WIDE>(a, b, row, from..to);
                        from = to;
                    } else if to - from >= NARROW {
                        self.windows::<NARROW>(a, b, row, from..to);
                        from = to;
                    }
                }
                self.some(a, b, row, from..width);
                row += width;
            }
        }
    }
}

/// The sums of each two.
#[inline(always)]
fn two<C: Float, const L: usize>(mut a: [C; L], b: [C; L]) -> [C; L] {
    for l in 0..L {
        a[l] = a[l] + b[l];
    }
    a
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
                let mut all = std::mem::take(self.many);
                all.clear();
                self.plane.elements(taps, |e| all.push(self.x[e]));
                *self.many = all;
                sum(self.isa, self.many)
            };
            self.y[row + w] = sum / C::lit(divisor(&taps) as f64);
        }
    }
    /// Even windows of a row, `L` at a time; the last ones overlap with those before.
    #[inline(always)]
    fn windows<const L: usize>(&mut self, a: Taps, b: Taps, row: usize, windows: Range<usize>) {
        let (c, step) = (self.plane.axes[2][windows.start], self.even.step);
        let divisor = C::lit(divisor(&[a, b, c]) as f64);
        let mut from = windows.start;
        while from < windows.end {
            let start = from.min(windows.end - L);
            let taps = [a, b, self.plane.axes[2][start]];
            let sums = match (a.count * b.count * c.count, step) {
                (4, 2) if const { Self::OFTEN } => self.of_four::<L>(taps),
                (9, 1) if const { Self::OFTEN } => self.of_nine::<L, 1>(taps),
                (9, 2) if const { Self::OFTEN } => self.of_nine::<L, 2>(taps),
                (_, 1) => self.of_many::<L, 1>(taps),
                (_, 2) => self.of_many::<L, 2>(taps),
                _ => self.of_many::<L, 0>(taps),
            };
            for (y, sum) in self.y[row + start..][..L].iter_mut().zip(sums) {
                *y = sum / divisor;
            }
            from = start + L;
        }
    }
    /// Networks pool f32; f64 has fewer kinds of windows to compile.
    const OFTEN: bool = size_of::<C>() == 4;

    /// One tap of `L` windows, of which the first begins at `at`; the lane of a sum that it begins.
    #[inline(always)]
    fn tap<const L: usize, const STEP: usize>(&self, at: usize, [i, j, k]: [usize; 3]) -> [C; L] {
        let (p, step) = (self.plane, self.even.step);
        let line = (i * p.dilation[0] * p.size[1] + j * p.dilation[1]) * p.size[2];
        let v = lanes::<C, L, STEP>(self.x, at + line + k * p.dilation[2], k == 0, step);
        two([C::NOTHING; L], v)
    }
    /// Where windows begin.
    #[inline(always)]
    fn begin(&self, [a, b, c]: [Taps; 3]) -> usize {
        (a.first * self.plane.size[1] + b.first) * self.plane.size[2] + c.first
    }
    /// The sums of four taps, two apart.
    #[inline(always)]
    fn of_four<const L: usize>(&self, taps: [Taps; 3]) -> [C; L] {
        let (at, [_, b, c]) = (self.begin(taps), taps.map(|t| t.count));
        let mut t = [[0; 3]; 4];
        for (n, t) in t.iter_mut().enumerate() {
            *t = [n / c / b, n / c % b, n % c];
        }
        let [t0, t1, t2, t3] = t;
        let left = two(self.tap::<L, 2>(at, t0), self.tap::<L, 2>(at, t2));
        two(left, two(self.tap::<L, 2>(at, t1), self.tap::<L, 2>(at, t3)))
    }
    /// The sums of nine taps.
    #[inline(always)]
    fn of_nine<const L: usize, const STEP: usize>(&self, taps: [Taps; 3]) -> [C; L] {
        let (at, [_, b, c]) = (self.begin(taps), taps.map(|t| t.count));
        let mut t = [[0; 3]; 9];
        for (n, t) in t.iter_mut().enumerate() {
            *t = [n / c / b, n / c % b, n % c];
        }
        let first = two(self.tap::<L, STEP>(at, t[0]), self.tap::<L, STEP>(at, t[8]));
        let evens = two(
            two(first, self.tap::<L, STEP>(at, t[4])),
            two(self.tap::<L, STEP>(at, t[2]), self.tap::<L, STEP>(at, t[6])),
        );
        let odds = two(
            two(self.tap::<L, STEP>(at, t[1]), self.tap::<L, STEP>(at, t[5])),
            two(self.tap::<L, STEP>(at, t[3]), self.tap::<L, STEP>(at, t[7])),
        );
        two(evens, odds)
    }
    /// The sums of up to 128 taps: each step of a sum is one for all windows. Lanes without a term add +0 to sums that are no -0, so
    /// they may be left out.
    #[inline(always)]
    fn of_many<const L: usize, const STEP: usize>(&mut self, taps: [Taps; 3]) -> [C; L] {
        let at = self.begin(taps);
        let mut all = std::mem::take(self.terms);
        let (sums, mut n) = (all.as_chunks_mut::<L>().0, 0);
        for i in 0..taps[0].count {
            for j in 0..taps[1].count {
                for k in 0..taps[2].count {
                    sums[n] = self.tap::<L, STEP>(at, [i, j, k]);
                    n += 1;
                }
            }
        }
        while n > 1 {
            let half = n.next_power_of_two() / 2;
            for j in 0..n - half {
                sums[j] = two(sums[j], sums[j + half]);
            }
            n = half;
        }
        let sum = sums[0];
        *self.terms = all;
        sum
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
        let (mut buffer, mut many) = (HostVec::new(), HostVec::new());
        let mut terms = filled(WIDE * LANES, C::NOTHING)?;
        for (i, y) in part.chunks_mut(windows).enumerate() {
            let plane_at = (start / windows + i) * n;
            if buffer.is_empty() && !x.lies(plane_at, n) {
                buffer = filled(n, C::NOTHING)?;
            }
            let x = if n == 0 { &[] } else { x.block(d.isa(), plane_at, n, n, &mut buffer) };
            let (terms, many) = (&mut terms, &mut many);
            let averages = Averages { plane, even, isa: d.isa(), x, y, terms, many };
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
