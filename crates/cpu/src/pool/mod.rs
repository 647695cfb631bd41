//! Pooling over the last one to three axes: plane by plane, with windows clipped to the plane
//! beforehand.

mod average;
mod kernels;
mod max;
mod plan;

pub(crate) use average::avg_pool_grad;

use crate::lazy::buffer::CpuBuffer;
use crate::reduce::float::{Float, each_float};
use crate::reduce::source::StagedView;
use crate::view::View;
use crate::view::host_view;
use crate::{Cpu, CpuDevice};
use elinvar_core::Result;
use elinvar_core::host::with_capacity;
use elinvar_ops::backend::{self, Pool, PoolKind, Windows};

/// The taps of a window along one axis that lie in the plane.
#[derive(Clone, Copy, Debug)]
struct AxisTaps {
    first: usize,
    count: usize,
    divisor: usize,
}

/// Windows over a plane of one to three axes; missing axes stand in front, with one window of one
/// tap.
struct PoolPlane {
    axes: [Vec<AxisTaps>; 3],
    dilation: [usize; 3],
    /// Sizes of the input.
    size: [usize; 3],
}

impl PoolPlane {
    fn new(p: &Pool, spatial: &[usize]) -> Result<Self> {
        let mut plane = PoolPlane { axes: [const { Vec::new() }; 3], dilation: [1; 3], size: [1; 3] };
        let missing = 3 - p.axes.len();
        for axis in &mut plane.axes[..missing] {
            axis.push(AxisTaps { first: 0, count: 1, divisor: 1 });
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
    /// The one window, if it has all elements.
    fn whole(&self) -> Option<[AxisTaps; 3]> {
        let all = |(axis, size): (&Vec<AxisTaps>, &usize)| matches!(axis[..], [one] if one.count == *size);
        self.axes.iter().zip(&self.size).all(all).then(|| self.axes.each_ref().map(|axis| axis[0]))
    }
    /// Calls `f` with the number of each window, row-major.
    #[inline(always)]
    fn each(&self, mut f: impl FnMut(usize, [AxisTaps; 3])) {
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
    fn elements(&self, [a, b, c]: [AxisTaps; 3], mut f: impl FnMut(usize)) {
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

fn taps(axis: &Windows, size: usize) -> Result<Vec<AxisTaps>> {
    let mut all = with_capacity(axis.start.len())?;
    let step = axis.dilation.max(1) as isize;
    for ((&start, &len), &divisor) in axis.start.iter().zip(&axis.len).zip(&axis.divisor) {
        // The first tap that is not in front of the plane, and the first behind it.
        let skipped = if start < 0 { (-start + step - 1) / step } else { 0 };
        let end = size as isize - start;
        let end = if end <= 0 { 0 } else { ((end + step - 1) / step).min(len as isize) };
        let first = (start + skipped * step).max(0) as usize;
        all.push(AxisTaps { first, count: (end - skipped).max(0) as usize, divisor });
    }
    Ok(all)
}

fn divisor(w: &[AxisTaps; 3]) -> usize {
    w.iter().map(|t| t.divisor).product()
}

/// y[.., s'] from x[.., s], and for a maximum the winner's row-major index in its plane, which is
/// computed when somebody reads it: a gradient does, and hardly anybody else.
pub(crate) fn pool(
    d: &CpuDevice,
    p: &Pool,
    x: &backend::View<'_, Cpu>,
) -> Result<(CpuBuffer, Option<CpuBuffer>)> {
    let look = host_view(x)?;
    let dims = look.shape().dims();
    let (lead, spatial) = dims.split_at(dims.len() - p.axes.len());
    let (planes, plane) = (lead.iter().product(), PoolPlane::new(p, spatial)?);
    let dtype = look.buffer.dtype();
    if p.kind == PoolKind::Avg {
        return each_float!("an average pool", dtype, C => {
            let y = average::average::<C>(d, &StagedView::new("an average pool", &look)?, planes, &plane)?;
            Ok((CpuBuffer::new(C::stored(d, y, dtype)?), None))
        });
    }
    let y = max::of_dtype(d, &look, planes, &plane, false)?;
    let places = match x.buffer.node() {
        Err(_) => CpuBuffer::new(max::of_dtype(d, &look, planes, &plane, true)?),
        Ok(node) => {
            let (d, node, layout) = (d.clone(), node.clone(), x.layout.clone());
            let later = move || {
                let x = View { buffer: node.data()?, layout: &layout, dtype };
                max::of_dtype(&d, &x, planes, &plane, true)
            };
            CpuBuffer::deferred(y.len(), later)
        }
    };
    Ok((CpuBuffer::new(y), Some(places)))
}

/// Windows along the last axis of which each begins `step` elements after the one before, and all
/// have as many taps, and the same divisor.
#[derive(Clone, Copy, Debug)]
struct EvenWindows {
    from: usize,
    to: usize,
    step: usize,
}

impl EvenWindows {
    /// The longest run of such windows.
    fn find(windows: &[AxisTaps]) -> EvenWindows {
        let mut best = EvenWindows { from: 0, to: 0, step: 1 };
        let mut from = 0;
        for i in 1..=windows.len() {
            let step = |i: usize| windows[i].first.checked_sub(windows[i - 1].first).filter(|s| *s > 0);
            let ends = i == windows.len()
                || windows[i].count != windows[from].count
                || windows[i].divisor != windows[from].divisor
                || step(i).is_none()
                || step(i) != step(from + 1);
            if ends {
                if i - from > best.to - best.from {
                    let step = if i - from > 1 { step(from + 1).unwrap_or(1) } else { 1 };
                    best = EvenWindows { from, to: i, step };
                }
                // The window that ended a run may begin the next.
                let alike = |a: AxisTaps, b: AxisTaps| (a.count, a.divisor) == (b.count, b.divisor);
                from = if i < windows.len() && i - from > 1 && alike(windows[i - 1], windows[i]) {
                    i - 1
                } else {
                    i
                };
            }
        }
        best
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
        // Whole registers, of which every second element is taken. What lies behind the last
        // element may not be there, but before a tap that is not the first, there is another.
        2 if head => {
            if let Some(x) = x.get(at..at + 2 * L) {
                return std::array::from_fn(|l| x[2 * l]);
            }
        }
        2 => {
            let x = &x[at - 1..at - 1 + 2 * L];
            return std::array::from_fn(|l| x[2 * l + 1]);
        }
        4 => {
            if let Some(x) = x.get(at..at + 4 * L) {
                return std::array::from_fn(|l| x[4 * l]);
            }
        }
        _ => {}
    }
    std::array::from_fn(|l| x[at + l * step])
}
