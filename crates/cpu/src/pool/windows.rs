//! Windows over a plane, clipped to it.

use elinvar_core::Result;
use elinvar_core::host::with_capacity;
use elinvar_ops::backend::{Pool, Windows};

/// The taps of a window along one axis that are in the plane.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisTaps {
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) divisor: usize,
}

/// Windows over a plane of one to three axes; missing axes stand in front, with one window of one
/// tap.
pub(super) struct PoolPlane {
    pub(super) axes: [Vec<AxisTaps>; 3],
    pub(super) dilation: [usize; 3],
    /// Sizes of the input.
    pub(super) size: [usize; 3],
}

impl PoolPlane {
    pub(super) fn new(p: &Pool, spatial: &[usize]) -> Result<Self> {
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
    pub(super) fn len(&self) -> usize {
        self.size.iter().product()
    }
    /// Windows.
    pub(super) fn windows(&self) -> usize {
        self.axes.iter().map(Vec::len).product()
    }
    /// The one window, if it has all elements.
    pub(super) fn whole(&self) -> Option<[AxisTaps; 3]> {
        let all = |(axis, size): (&Vec<AxisTaps>, &usize)| matches!(axis[..], [one] if one.count == *size);
        self.axes.iter().zip(&self.size).all(all).then(|| self.axes.each_ref().map(|axis| axis[0]))
    }
    /// Calls `f` with the number of each window, row-major.
    #[inline(always)]
    pub(super) fn each(&self, mut f: impl FnMut(usize, [AxisTaps; 3])) {
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
    pub(super) fn elements(&self, [a, b, c]: [AxisTaps; 3], mut f: impl FnMut(usize)) {
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

pub(super) fn divisor(w: &[AxisTaps; 3]) -> usize {
    w.iter().map(|t| t.divisor).product()
}

/// Windows along the last axis of which each begins `step` elements after the one before, and all
/// have as many taps, and the same divisor.
#[derive(Clone, Copy, Debug)]
pub(super) struct EvenWindows {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) step: usize,
}

impl EvenWindows {
    /// The longest run of such windows.
    pub(super) fn find(windows: &[AxisTaps]) -> EvenWindows {
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
pub(super) fn lanes<T: Copy, const L: usize, const STEP: usize>(
    x: &[T],
    at: usize,
    head: bool,
    step: usize,
) -> [T; L] {
    match STEP {
        1 => {
            let x = &x[at..at + L];
            return std::array::from_fn(|l| x[l]);
        }
        // Whole registers, of which every second element is taken. What follows the last
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
