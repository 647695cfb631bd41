//! Which path a pool takes: functions of a plane's windows and of a type, and all thresholds. They
//! depend neither on the instruction set nor on threads.
//!
//! Some of the largest are found by comparing in another order, which is right only where a plane
//! has no NaN and not zeros of both signs. That depends on numbers: [`MaxPath::Pairs`] and
//! [`MaxPath::Columns`] are for such planes, and any other plane of the same call goes as with
//! [`MaxPath::Windows`].
//!
//! How it can be wrong: by another path than before, which no test of results sees.
//! `tests/plans/pool.tsv` says which path each of several hundred problems takes.

mod display;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

use super::kernels::{self, PoolWindows, TapSpan};
use super::windows::{AxisTaps, EvenWindows, PoolPlane, divisor};
use crate::reduce::INLINE_SUM_MAX_TERMS;
use elinvar_core::order::{BLOCK, LANES};
use elinvar_core::{DType, storage};

/// Windows of a piece of work, if planes have no more; in the gradient, elements.
const TASK_WINDOWS: usize = 4096;

/// Windows two apart, at least, of which most fill registers.
const PAIRS_MIN_WINDOWS: usize = 8;

/// Columns of a row of windows, and lines of a window, at most, for which the largest of each
/// column are kept.
pub(super) const COLUMNS_MAX_SPAN: usize = 512;
pub(super) const COLUMNS_MAX_LINES: usize = 64;
/// Windows that are no wider, or no farther apart, go side by side.
const NEAR_MAX_STEP: usize = 4;

/// Even windows that are averaged at once: a register of the widest, and what is left of rows of
/// few windows.
pub(super) const WIDE_WINDOWS: usize = 16;
pub(super) const NARROW_WINDOWS: usize = 4;
/// Steps up to which a register of windows is read under one tap by whole registers.
const AVERAGE_NEAR_MAX_STEP: usize = 2;
/// Taps of a row, at most, of windows that are farther apart and go side by side.
const AVERAGE_NEAR_MAX_TAPS: usize = 4;

/// Blocks of whole planes that a thread takes.
const WHOLE_PLANE_BLOCKS_PER_TASK: usize = 16;

/// Columns of an average pool's gradient whose sums are in registers.
pub(super) const GRAD_COLUMNS_IN_REGISTERS: usize = 16;

/// How the largest elements are found, or where they are.
pub(super) struct MaxPlan {
    pub(super) path: MaxPath,
    /// Windows that go side by side in the definition's order.
    pub(super) even: EvenWindows,
    pub(super) planes_per_task: usize,
}

pub(super) enum MaxPath {
    /// Windows two apart, two or three wide: pairs of columns by shuffles.
    Pairs(PoolWindows),
    /// Windows wide and far apart: the largest of each column first. How far apart they are.
    Columns { step: usize },
    /// Windows side by side.
    Windows,
}

/// The plan of a max pool.
pub(super) fn max(plane: &PoolPlane, dtype: DType) -> MaxPlan {
    // Places are counted in 32 bits.
    let is_small = i32::try_from(plane.len()).is_ok();
    let even =
        if is_small { EvenWindows::find(&plane.axes[2]) } else { EvenWindows { from: 0, to: 0, step: 1 } };
    let is_f32 = matches!(dtype, DType::F32 | storage!(DType));
    let path = if !is_f32 || !is_small {
        MaxPath::Windows
    } else if let Some(windows) = pairs(plane, even) {
        MaxPath::Pairs(windows)
    } else if let Some(step) = columns_step(plane, even) {
        MaxPath::Columns { step }
    } else {
        MaxPath::Windows
    };
    MaxPlan { path, even, planes_per_task: planes_per_task(plane.windows()) }
}

fn planes_per_task(size: usize) -> usize {
    (TASK_WINDOWS / size.max(1)).max(1)
}

/// The windows of a plane that has one axis or two, and enough of them two apart and two or three
/// wide.
fn pairs(plane: &PoolPlane, even: EvenWindows) -> Option<PoolWindows> {
    let narrow = |taps: &&AxisTaps| matches!(taps.count, 2 | 3);
    let flat = plane.size[0] == 1 && plane.axes[0].len() == 1 && plane.dilation[2] == 1;
    let some = even.step == 2 && even.to - even.from >= PAIRS_MIN_WINDOWS;
    if !(flat && some) || plane.axes[2].get(even.from).filter(narrow).is_none() {
        return None;
    }
    let spans = |taps: &[AxisTaps]| taps.iter().map(|t| TapSpan { first: t.first, count: t.count }).collect();
    Some(PoolWindows {
        width: plane.size[2],
        lines: spans(&plane.axes[1]),
        row_stride: plane.dilation[1],
        columns: spans(&plane.axes[2]),
        even: even.from..even.to,
    })
}

/// Are all windows of a row alike, wide and far apart, as adaptive ones are? How far, if so.
fn columns_step(plane: &PoolPlane, even: EvenWindows) -> Option<usize> {
    let (columns, EvenWindows { from, to, step }) = (&plane.axes[2], even);
    let all = (from, to) == (0, columns.len()) && plane.dilation[2] == 1;
    let count = columns.first()?.count;
    let span = (columns.len() - 1) * step + count;
    let lines = |axis: usize| plane.axes[axis].iter().map(|t| t.count).max();
    let few = lines(0)? * lines(1)? <= COLUMNS_MAX_LINES;
    let fits = (kernels::MAX_LANES..=COLUMNS_MAX_SPAN).contains(&span);
    (all && step > NEAR_MAX_STEP && count > NEAR_MAX_STEP && few && fits).then_some(step)
}

/// How averages are computed.
pub(super) enum AveragePlan {
    /// A window is a plane: sums of rows. Their divisor.
    WholePlanes { divisor: usize, planes_per_read: usize, planes_per_task: usize },
    /// Row by row of windows, as [`average_row`] says.
    Windows { even: EvenWindows, planes_per_task: usize },
}

/// The plan of an average pool, which has windows.
pub(super) fn average(plane: &PoolPlane) -> AveragePlan {
    let n = plane.len();
    if let Some(window) = plane.whole().filter(|_| (1..=BLOCK).contains(&n)) {
        let planes_per_read = BLOCK / n;
        let planes_per_task = WHOLE_PLANE_BLOCKS_PER_TASK * planes_per_read;
        return AveragePlan::WholePlanes { divisor: divisor(&window), planes_per_read, planes_per_task };
    }
    let planes_per_task = planes_per_task(plane.windows());
    AveragePlan::Windows { even: EvenWindows::find(&plane.axes[2]), planes_per_task }
}

/// How the even windows of a row are averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AverageRow {
    /// Windows far apart: the sums of columns first.
    Columns,
    /// [`WIDE_WINDOWS`] or [`NARROW_WINDOWS`] at a time.
    Wide,
    Narrow,
    /// One by one.
    Single,
}

/// Of windows that are `taps` high and `columns` wide.
#[inline(always)]
pub(super) fn average_row(even: EvenWindows, dilation: usize, taps: usize, columns: usize) -> AverageRow {
    if !(1..=LANES).contains(&(taps * columns)) {
        return AverageRow::Single;
    }
    // Of windows that are far apart, a register of neighbours under one tap is read one by one.
    let is_far = even.step > AVERAGE_NEAR_MAX_STEP && columns > AVERAGE_NEAR_MAX_TAPS && dilation == 1;
    if is_far {
        let has_tree = columns.is_power_of_two() && columns <= INLINE_SUM_MAX_TERMS;
        return if has_tree { AverageRow::Columns } else { AverageRow::Single };
    }
    match even.to - even.from {
        WIDE_WINDOWS.. => AverageRow::Wide,
        NARROW_WINDOWS.. => AverageRow::Narrow,
        _ => AverageRow::Single,
    }
}

/// How the gradient of an average pool is computed.
pub(super) struct AverageGradPlan {
    /// A window is a plane: each element gets the same share. Else the shares of a row of windows
    /// are added to the lines they hold.
    pub(super) is_whole: bool,
    pub(super) planes_per_task: usize,
}

/// The plan of an average pool's gradient.
pub(super) fn average_grad(plane: &PoolPlane) -> AverageGradPlan {
    AverageGradPlan { is_whole: plane.whole().is_some(), planes_per_task: planes_per_task(plane.len()) }
}
