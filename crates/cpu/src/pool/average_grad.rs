//! The gradient of average pooling.

use super::average::add_halves;
use super::plan::{self, GRAD_COLUMNS_IN_REGISTERS};
use super::windows::{AxisTaps, PoolPlane, divisor};
use crate::CpuDevice;
use crate::reduce::float::{Float, each_float};
use crate::reduce::source::StagedView;
use crate::runtime::memory::filled;
use crate::runtime::output::parallel_fill::fill_pieces;
use crate::view::View;
use elinvar_core::explain::explain;
use elinvar_core::{HostData, HostVec, Result, host};
use elinvar_ops::backend::Pool;
use elinvar_simd::isa::{Kernel, dispatch_formula};
use elinvar_simd::uninit::UninitSlice;

/// Each input element adds g / divisor of the windows that hold it, in row-major order of the
/// windows.
pub(crate) fn avg_pool_grad(d: &CpuDevice, p: &Pool, g: &View<'_>, spatial: &[usize]) -> Result<HostData> {
    let dims = g.shape().dims();
    let planes = dims[..dims.len() - p.axes.len()].iter().product();
    let plane = PoolPlane::new(p, spatial)?;
    let dtype = g.buffer.dtype();
    each_float!("an average pool's gradient", dtype, C => {
        C::stored(d, spread_grad::<C>(d, &StagedView::new("an average pool's gradient", g)?, planes, &plane)?, dtype)
    })
}

/// Which windows along the last axis hold each column of a plane: the first of them for every
/// column, then the second, and so on. Where a column has no more, the number behind the last
/// window stands, whose share is +0: a sum that began with +0 is never -0, and adding it changes
/// nothing.
struct ColumnWindows {
    /// How many times as many numbers as columns.
    all: Vec<u32>,
}

impl ColumnWindows {
    fn new(plane: &PoolPlane) -> Result<Self> {
        let (width, windows) = (plane.size[2], &plane.axes[2]);
        let columns =
            |w: &AxisTaps| (0..w.count).map(|k| w.first + k * plane.dilation[2]).collect::<Vec<_>>();
        let mut count: Vec<usize> = host::filled(width, 0)?;
        windows.iter().flat_map(columns).for_each(|column| count[column] += 1);
        let most = count.iter().copied().max().unwrap_or(0);
        let mut all = host::filled(most * width, windows.len() as u32)?;
        count.fill(0);
        for (number, window) in windows.iter().enumerate() {
            for column in columns(window) {
                all[count[column] * width + column] = number as u32;
                count[column] += 1;
            }
        }
        Ok(ColumnWindows { all })
    }
}

/// The shares of a row of windows, added to the lines of a plane that they hold: what each column
/// of a line gets is the same for all lines.
struct AddGradLines<'a, C> {
    plane: &'a PoolPlane,
    holders: &'a ColumnWindows,
    /// Of each window.
    g: &'a [C],
    divisors: &'a [C],
    /// Of a row of windows, and a zero behind them.
    shares: &'a mut [C],
    /// As many as holders.
    columns: &'a mut [C],
    dx: &'a mut [C],
}

impl<C: Float> Kernel for AddGradLines<'_, C> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let PoolPlane { axes, dilation, size } = self.plane;
        let (width, windows) = (size[2], axes[2].len());
        let mut rows = self.g.chunks_exact(windows).zip(self.divisors.chunks_exact(windows));
        for &a in &axes[0] {
            for &b in &axes[1] {
                let Some((g, divisors)) = rows.next() else { return };
                for ((share, &g), &divisor) in self.shares.iter_mut().zip(g).zip(divisors) {
                    *share = g / divisor;
                }
                for (column, &holder) in self.columns.iter_mut().zip(&self.holders.all) {
                    *column = self.shares[holder as usize];
                }
                for i in 0..a.count {
                    for j in 0..b.count {
                        let line = (a.first + i * dilation[0]) * size[1] + b.first + j * dilation[1];
                        add_all(&mut self.dx[line * width..][..width], self.columns);
                    }
                }
            }
        }
    }
}

/// Adds rows of numbers to a line, in their order.
#[inline(always)]
fn add_all<C: Float>(line: &mut [C], rows: &[C]) {
    let width = line.len();
    let (whole, rest) = line.as_chunks_mut::<GRAD_COLUMNS_IN_REGISTERS>();
    let mut at = 0;
    for line in whole {
        let mut sums = *line;
        for row in rows.chunks_exact(width) {
            sums = add_halves(
                sums,
                *row[at..].first_chunk::<GRAD_COLUMNS_IN_REGISTERS>().expect("a row is as long as a line"),
            );
        }
        *line = sums;
        at += GRAD_COLUMNS_IN_REGISTERS;
    }
    if rest.is_empty() {
        return;
    }
    for row in rows.chunks_exact(width) {
        for (sum, &share) in rest.iter_mut().zip(&row[at..]) {
            *sum = *sum + share;
        }
    }
}

fn spread_grad<C: Float>(
    d: &CpuDevice,
    g: &StagedView<'_, C>,
    planes: usize,
    plane: &PoolPlane,
) -> Result<HostVec<C>> {
    let (n, windows) = (plane.len(), plane.windows());
    if planes * n == 0 || windows == 0 {
        return filled(planes * n, C::POSITIVE_ZERO);
    }
    let ns = (n + 4 * windows) as f64 / n as f64;
    let plan = plan::average_grad(plane);
    explain(|| format!("avg_pool_grad of {planes} planes {:?} -> {plan}", plane.size));
    let holders = ColumnWindows::new(plane)?;
    let mut divisors = filled(windows, C::POSITIVE_ZERO)?;
    plane.each(|w, taps| divisors[w] = C::lit(divisor(&taps) as f64));
    // Each plane is zero before it gets anything, and in the cache: all of them by one thread were
    // two fifths of it where windows share no element.
    fill_pieces(d, planes * n, n * plan.planes_per_task, ns, &|start, dst: &mut UninitSlice<'_, C>| {
        let mut buffer = filled(windows, C::POSITIVE_ZERO)?;
        let mut shares = filled(plane.axes[2].len() + 1, C::POSITIVE_ZERO)?;
        let mut columns = filled(holders.all.len(), C::POSITIVE_ZERO)?;
        for number in start / n..(start + dst.remaining()) / n {
            let g = g.block(d.isa(), number * windows, windows, windows, &mut buffer);
            if plan.is_whole {
                // As below: it is added to 0.
                dst.zeroed(n, C::POSITIVE_ZERO + g[0] / divisors[0]);
                continue;
            }
            let dx = dst.zeroed(n, C::POSITIVE_ZERO);
            let (holders, divisors) = (&holders, &divisors[..]);
            let (shares, columns) = (&mut shares[..], &mut columns[..]);
            dispatch_formula::<C, _>(
                d.isa(),
                AddGradLines { plane, holders, g, divisors, shares, columns, dx },
            );
        }
        Ok(())
    })
}
