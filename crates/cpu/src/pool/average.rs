//! Average pooling.

use super::plan::{self, AveragePlan, AverageRow, NARROW_WINDOWS, WIDE_WINDOWS, average_row};
use super::windows::{AxisTaps, EvenWindows, PoolPlane, divisor, lanes};
use crate::CpuDevice;
use crate::reduce::INLINE_SUM_MAX_TERMS;
use crate::reduce::float::Float;
use crate::reduce::source::StagedView;
use crate::runtime::memory::filled;
use crate::runtime::parallel::try_for_each_piece;
use elinvar_core::explain::explain;
use elinvar_core::order::{BLOCK, LANES};
use elinvar_core::{Error, HostVec, Result};
use elinvar_ops::backend::Fold;
use elinvar_simd::isa::{Isa, Kernel, dispatch_formula};
use std::ops::Range;

/// The averages of the windows of a plane.
struct AveragePool<'a, C> {
    plane: &'a PoolPlane,
    even: EvenWindows,
    isa: Isa,
    x: &'a [C],
    y: &'a mut [C],
    /// For the lanes of windows that go side by side, and for the elements of one that has many.
    terms: &'a mut HostVec<C>,
    many: &'a mut HostVec<C>,
    /// For the sums of columns of windows that are far apart.
    columns: &'a mut [C],
}

impl<C: Float> Kernel for AveragePool<'_, C> {
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
                self.few_windows(a, b, row, 0..from);
                match average_row(even, plane.dilation[2], a.count * b.count, count) {
                    AverageRow::Columns => {
                        self.by_columns(a, b, row, from..to);
                        from = to;
                    }
                    AverageRow::Wide => {
                        self.windows::<WIDE_WINDOWS>(a, b, row, from..to);
                        from = to;
                    }
                    AverageRow::Narrow => {
                        self.windows::<NARROW_WINDOWS>(a, b, row, from..to);
                        from = to;
                    }
                    AverageRow::Single => {}
                }
                self.few_windows(a, b, row, from..width);
                row += width;
            }
        }
    }
}

/// The sums of each two.
#[inline(always)]
pub(super) fn add_halves<C: Float, const L: usize>(mut a: [C; L], b: [C; L]) -> [C; L] {
    for l in 0..L {
        a[l] = a[l] + b[l];
    }
    a
}

impl<C: Float> AveragePool<'_, C> {
    /// A few windows of a row, one by one.
    #[inline(always)]
    fn few_windows(&mut self, a: AxisTaps, b: AxisTaps, row: usize, windows: Range<usize>) {
        for w in windows {
            let taps = [a, b, self.plane.axes[2][w]];
            let count: usize = taps.iter().map(|t| t.count).product();
            let sum = if count <= INLINE_SUM_MAX_TERMS {
                // Most windows: a vector, without a call.
                let (mut few, mut i) = ([C::POSITIVE_ZERO; INLINE_SUM_MAX_TERMS], 0);
                self.plane.elements(taps, |e| {
                    few[i] = self.x[e];
                    i += 1;
                });
                C::few(few)
            } else if count <= LANES && self.plane.dilation[2] == 1 {
                self.edge_window(taps, count)
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
    /// The sum of a window that is not like its neighbours, of up to 128 elements: the tree begins
    /// in registers. With elements put down one by one and a call for each, averages of 7 x 7 in
    /// planes of 56 x 56 took 1.2 times as long.
    #[inline(always)]
    fn edge_window(&self, taps: [AxisTaps; 3], count: usize) -> C {
        let ([a, b, c], p) = (taps, self.plane);
        let (mut all, mut n) = ([C::POSITIVE_ZERO; LANES], 0);
        for i in 0..a.count {
            for j in 0..b.count {
                let at =
                    ((a.first + i * p.dilation[0]) * p.size[1] + b.first + j * p.dilation[1]) * p.size[2];
                let (eights, rest) = self.x[at + c.first..][..c.count].as_chunks::<8>();
                for x in eights {
                    all[n..n + 8].copy_from_slice(x);
                    n += 8;
                }
                for &x in rest {
                    all[n] = x;
                    n += 1;
                }
            }
        }
        // Lanes without a term may take part: +0 is added to what `few` makes a +0, if it is a -0.
        if count > 64 {
            for l in 0..64 {
                all[l] = all[l] + all[l + 64];
            }
        }
        if count > 32 {
            for l in 0..32 {
                all[l] = all[l] + all[l + 32];
            }
        }
        for l in 0..INLINE_SUM_MAX_TERMS {
            all[l] = all[l] + all[l + INLINE_SUM_MAX_TERMS];
        }
        C::few(std::array::from_fn(|l| all[l]))
    }
    /// Even windows of a row, `L` at a time; the last ones overlap with those before.
    #[inline(always)]
    fn windows<const L: usize>(&mut self, a: AxisTaps, b: AxisTaps, row: usize, windows: Range<usize>) {
        let (c, step) = (self.plane.axes[2][windows.start], self.even.step);
        let divisor = C::lit(divisor(&[a, b, c]) as f64);
        let mut from = windows.start;
        while from < windows.end {
            let start = from.min(windows.end - L);
            let taps = [a, b, self.plane.axes[2][start]];
            let sums = match (a.count * b.count * c.count, step) {
                (4, 2) if const { Self::HAS_SPECIAL_CASES } => self.sum_of_4::<L>(taps),
                (9, 1) if const { Self::HAS_SPECIAL_CASES } => self.sum_of_9::<L, 1>(taps),
                (9, 2) if const { Self::HAS_SPECIAL_CASES } => self.sum_of_9::<L, 2>(taps),
                (_, 1) => self.sum_of_many::<L, 1>(taps),
                (_, 2) => self.sum_of_many::<L, 2>(taps),
                _ => self.sum_of_many::<L, 0>(taps),
            };
            for (y, sum) in self.y[row + start..][..L].iter_mut().zip(sums) {
                *y = sum / divisor;
            }
            from = start + L;
        }
    }
    /// Even windows of a row that are far apart, and as wide as a power of two: lanes that stand in
    /// one column are added first, as the tree has it, by registers of neighbours, and then those
    /// of each window. Window by window, averages of 8 x 8 take 2.4 times as long.
    #[inline(always)]
    fn by_columns(&mut self, a: AxisTaps, b: AxisTaps, row: usize, windows: Range<usize>) {
        let (c, step) = (self.plane.axes[2][windows.start], self.even.step);
        let divisor = C::lit(divisor(&[a, b, c]) as f64);
        let span = (windows.len() - 1) * step + c.count;
        let mut from = 0;
        while from < span {
            // As in `windows`, the last ones overlap with those before.
            from = if span >= WIDE_WINDOWS {
                self.columns_of::<WIDE_WINDOWS>([a, b, c], from.min(span - WIDE_WINDOWS))
            } else {
                self.columns_of::<NARROW_WINDOWS>([a, b, c], from.min(span - NARROW_WINDOWS))
            };
        }
        for (i, y) in self.y[row + windows.start..][..windows.len()].iter_mut().enumerate() {
            let x = &self.columns[i * step..][..c.count];
            let sum = if let &[a, b, c, d, e, f, g, h] = x {
                ((a + e) + (c + g)) + ((b + f) + (d + h))
            } else {
                let mut few = [C::POSITIVE_ZERO; INLINE_SUM_MAX_TERMS];
                few[..x.len()].copy_from_slice(x);
                C::few(few)
            };
            *y = sum / divisor;
        }
    }
    /// The sums of `L` columns of windows, from this one on; the column behind them.
    #[inline(always)]
    fn columns_of<const L: usize>(&mut self, [a, b, c]: [AxisTaps; 3], from: usize) -> usize {
        let taps = [a, b, AxisTaps { first: c.first + from, count: 1, ..c }];
        let sums =
            if a.count * b.count == 8 { self.sum_of_8::<L>(taps) } else { self.sum_of_many::<L, 1>(taps) };
        self.columns[from..][..L].copy_from_slice(&sums);
        from + L
    }
    /// The sums of eight taps, one below the other.
    #[inline(always)]
    fn sum_of_8<const L: usize>(&self, taps: [AxisTaps; 3]) -> [C; L] {
        let (at, b) = (self.begin(taps), taps[1].count);
        let mut t = [[0; 3]; 8];
        for (n, t) in t.iter_mut().enumerate() {
            *t = [n / b, n % b, 0];
        }
        let evens = add_halves(
            add_halves(self.tap::<L, 1>(at, t[0]), self.tap::<L, 1>(at, t[4])),
            add_halves(self.tap::<L, 1>(at, t[2]), self.tap::<L, 1>(at, t[6])),
        );
        let odds = add_halves(
            add_halves(self.tap::<L, 1>(at, t[1]), self.tap::<L, 1>(at, t[5])),
            add_halves(self.tap::<L, 1>(at, t[3]), self.tap::<L, 1>(at, t[7])),
        );
        add_halves(evens, odds)
    }
    /// Networks pool f32; f64 has fewer kinds of windows to compile.
    const HAS_SPECIAL_CASES: bool = size_of::<C>() == 4;

    /// One tap of `L` windows, of which the first begins at `at`; the lane of a sum that it begins.
    #[inline(always)]
    fn tap<const L: usize, const STEP: usize>(&self, at: usize, [i, j, k]: [usize; 3]) -> [C; L] {
        let (p, step) = (self.plane, self.even.step);
        let line = (i * p.dilation[0] * p.size[1] + j * p.dilation[1]) * p.size[2];
        let v = lanes::<C, L, STEP>(self.x, at + line + k * p.dilation[2], k == 0, step);
        add_halves([C::POSITIVE_ZERO; L], v)
    }
    /// Where windows begin.
    #[inline(always)]
    fn begin(&self, [a, b, c]: [AxisTaps; 3]) -> usize {
        (a.first * self.plane.size[1] + b.first) * self.plane.size[2] + c.first
    }
    /// The sums of four taps, two apart.
    #[inline(always)]
    fn sum_of_4<const L: usize>(&self, taps: [AxisTaps; 3]) -> [C; L] {
        let (at, [_, b, c]) = (self.begin(taps), taps.map(|t| t.count));
        let mut t = [[0; 3]; 4];
        for (n, t) in t.iter_mut().enumerate() {
            *t = [n / c / b, n / c % b, n % c];
        }
        let [t0, t1, t2, t3] = t;
        let left = add_halves(self.tap::<L, 2>(at, t0), self.tap::<L, 2>(at, t2));
        add_halves(left, add_halves(self.tap::<L, 2>(at, t1), self.tap::<L, 2>(at, t3)))
    }
    /// The sums of nine taps.
    #[inline(always)]
    fn sum_of_9<const L: usize, const STEP: usize>(&self, taps: [AxisTaps; 3]) -> [C; L] {
        let (at, [_, b, c]) = (self.begin(taps), taps.map(|t| t.count));
        let mut t = [[0; 3]; 9];
        for (n, t) in t.iter_mut().enumerate() {
            *t = [n / c / b, n / c % b, n % c];
        }
        let first = add_halves(self.tap::<L, STEP>(at, t[0]), self.tap::<L, STEP>(at, t[8]));
        let evens = add_halves(
            add_halves(first, self.tap::<L, STEP>(at, t[4])),
            add_halves(self.tap::<L, STEP>(at, t[2]), self.tap::<L, STEP>(at, t[6])),
        );
        let odds = add_halves(
            add_halves(self.tap::<L, STEP>(at, t[1]), self.tap::<L, STEP>(at, t[5])),
            add_halves(self.tap::<L, STEP>(at, t[3]), self.tap::<L, STEP>(at, t[7])),
        );
        add_halves(evens, odds)
    }
    /// The sums of up to 128 taps: each step of a sum is one for all windows. Lanes without a term
    /// add +0 to sums that are no -0, so they may be left out.
    #[inline(always)]
    fn sum_of_many<const L: usize, const STEP: usize>(&mut self, taps: [AxisTaps; 3]) -> [C; L] {
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
                sums[j] = add_halves(sums[j], sums[j + half]);
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
    x: &StagedView<'_, C>,
    planes: usize,
    plane: &PoolPlane,
) -> Result<HostVec<C>> {
    let (n, windows) = (plane.len(), plane.windows());
    let mut y = filled(planes * windows, C::POSITIVE_ZERO)?;
    if y.is_empty() {
        return Ok(y);
    }
    let plan = plan::average(plane);
    explain(|| format!("avg_pool of {planes} planes {:?} -> {plan}", plane.size));
    let (even, together) = match plan {
        AveragePlan::WholePlanes { divisor, planes_per_read, planes_per_task } => {
            let divisor = C::lit(divisor as f64);
            average_of_planes(d, x, n, divisor, (planes_per_read, planes_per_task), &mut y)?;
            return Ok(y);
        }
        AveragePlan::Windows { even, planes_per_task } => (even, planes_per_task),
    };
    let ns = (n / windows + 20) as f64;
    try_for_each_piece(d, &mut y, together * windows, ns, &|start, part| {
        let (mut buffer, mut many) = (HostVec::new(), HostVec::new());
        let mut terms = filled(WIDE_WINDOWS * LANES, C::POSITIVE_ZERO)?;
        let mut columns = filled(plane.size[2], C::POSITIVE_ZERO)?;
        for (i, y) in part.chunks_mut(windows).enumerate() {
            let plane_at = (start / windows + i) * n;
            if buffer.is_empty() && !x.is_in_place(plane_at, n) {
                buffer = filled(n, C::POSITIVE_ZERO)?;
            }
            let x = if n == 0 { &[] } else { x.block(d.isa(), plane_at, n, n, &mut buffer) };
            let (terms, many, columns) = (&mut terms, &mut many, &mut columns[..]);
            let averages = AveragePool { plane, even, isa: d.isa(), x, y, terms, many, columns };
            dispatch_formula::<C, _>(d.isa(), averages);
        }
        Ok::<(), Error>(())
    })?;
    Ok(y)
}

/// The averages of whole planes of `n` elements: sums of rows.
fn average_of_planes<C: Float>(
    d: &CpuDevice,
    x: &StagedView<'_, C>,
    n: usize,
    divisor: C,
    (group, planes_per_task): (usize, usize),
    y: &mut [C],
) -> Result<()> {
    try_for_each_piece(d, y, planes_per_task, n as f64 * 0.2, &|start, part| {
        let mut buffer = filled(BLOCK, C::POSITIVE_ZERO)?;
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
