//! slice: every step-th element between two bounds of each axis, as Python's `x[start:stop:step]`.
//! A view.

use super::view::{self, Part};
use crate::prelude::*;
use smallvec::SmallVec;

pub use super::view::Run;

/// `start:stop:step` of Python: bounds may count from the end, are clamped to the axis, and are
/// open if absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// The first index; absent: the end from which the range starts.
    pub start: Option<isize>,
    /// The end of the range, not included; absent: the other end.
    pub stop: Option<isize>,
    /// Distance; negative: descending. Not 0.
    pub step: isize,
}

impl Range {
    /// A whole axis.
    pub const ALL: Range = Range { start: None, stop: None, step: 1 };

    /// The indices of this range in an axis of `size`.
    ///
    /// # Errors
    /// `InvalidArgument` if the step is 0.
    pub fn resolve(self, size: usize) -> Result<Run> {
        if self.step == 0 {
            return Err(Error::argument("slice: a step of 0 never arrives; it must be positive or negative"));
        }
        let n = size as isize;
        // A descending range may end before index 0, which is -1 after negative bounds are
        // resolved.
        let (low, high) = if self.step > 0 { (0, n) } else { (-1, n - 1) };
        let bound = |b: Option<isize>, open: isize| match b {
            None => open,
            Some(b) if b < 0 => b.saturating_add(n).clamp(low, high),
            Some(b) => b.clamp(low, high),
        };
        let (start, stop) = if self.step > 0 {
            (bound(self.start, low), bound(self.stop, high))
        } else {
            (bound(self.start, high), bound(self.stop, low))
        };
        let distance = if self.step > 0 { stop - start } else { start - stop };
        if distance <= 0 {
            return Ok(Run { start: 0, len: 0, step: 1 });
        }
        let len = (distance as usize).div_ceil(self.step.unsigned_abs());
        Ok(Run { start: start as usize, len, step: if len == 1 { 1 } else { self.step } })
    }
}

impl From<std::ops::Range<isize>> for Range {
    fn from(r: std::ops::Range<isize>) -> Self {
        Range { start: Some(r.start), stop: Some(r.end), step: 1 }
    }
}

/// The elements of `x` that a run of each axis reaches; axes without a run stay whole. A view.
///
/// # Errors
/// `InvalidArgument` if there are more runs than axes, or one leaves its axis.
pub fn runs<V: Value>(x: &V, runs: &[Run]) -> Result<V> {
    let shape = x.shape();
    if runs.len() > shape.rank() {
        return Err(Error::argument(format!(
            "slice: {} ranges for shape {shape}, which has {} axes",
            runs.len(),
            shape.rank()
        )));
    }
    for (axis, (r, &size)) in runs.iter().zip(shape.iter()).enumerate() {
        let last = isize::try_from(r.len.saturating_sub(1))
            .ok()
            .and_then(|n| n.checked_mul(r.step))
            .and_then(|d| r.start.checked_add_signed(d));
        let inside = r.len == 0 || r.start < size && last.is_some_and(|l| l < size);
        if !inside || r.step == 0 && r.len > 1 {
            return Err(Error::argument(format!("slice: {r:?} leaves axis {axis} of shape {shape}")));
        }
    }
    let all: SmallVec<[Run; 4]> =
        (0..shape.rank()).map(|i| runs.get(i).copied().unwrap_or(Run::all(shape[i]))).collect();
    if all.iter().zip(shape.iter()).all(|(r, &n)| r.is_all(n)) {
        return Ok(x.clone());
    }
    view::take(x, Part::Slice(all))
}

/// `x[ranges[0], ranges[1], ..]` as in Python; axes without a range stay whole. A view.
///
/// # Errors
/// `InvalidArgument` if there are more ranges than axes, or a step is 0.
pub fn slice<V: Value>(x: &V, ranges: &[Range]) -> Result<V> {
    let sizes = x.shape().iter().copied().chain(std::iter::repeat(0));
    let all = ranges.iter().zip(sizes).map(|(r, n)| r.resolve(n)).collect::<Result<Vec<_>>>()?;
    runs(x, &all)
}

/// A range as an attribute: null, or [start, stop, step] with nulls.
///
/// # Errors
/// `InvalidArgument` if it is something else.
pub(super) fn range(op: &str, s: &Attr) -> Result<Range> {
    let wrong = || {
        Error::argument(format!("{op}: {s:?} is not null or [start, stop, step] of integers and nulls"))
    };
    match s {
        Attr::Null => Ok(Range::ALL),
        Attr::List(v) if v.len() <= 3 => {
            let part = |i: usize| match v.get(i) {
                None | Some(Attr::Null) => Ok(None),
                Some(Attr::Int(n)) => Ok(Some(*n as isize)),
                Some(_) => Err(wrong()),
            };
            Ok(Range { start: part(0)?, stop: part(1)?, step: part(2)?.unwrap_or(1) })
        }
        _ => Err(wrong()),
    }
}

/// The attribute slices: a range per axis.
pub(super) fn ranges<V: Value>(a: &Args<V>) -> Result<Vec<Range>> {
    a.list("slices")?.iter().map(|s| range("slice", s)).collect()
}

/// By name: operand x; attribute slices, per axis null or [start, stop, step] with nulls.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![slice(a.input("x")?, &ranges(a)?)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_name_the_indices_that_python_names() {
        let r = |start, stop, step| Range { start, stop, step };
        let table: [(Range, usize, &[usize]); 16] = [
            (Range::ALL, 3, &[0, 1, 2]),
            (r(Some(1), None, 1), 3, &[1, 2]),
            (r(Some(-2), None, 1), 3, &[1, 2]),
            (r(None, Some(-1), 1), 3, &[0, 1]),
            (r(Some(-9), Some(9), 2), 5, &[0, 2, 4]),
            (r(Some(3), Some(1), 1), 5, &[]),
            (r(Some(7), None, 1), 5, &[]),
            (r(None, None, -1), 4, &[3, 2, 1, 0]),
            (r(None, None, -2), 4, &[3, 1]),
            (r(Some(2), None, -1), 4, &[2, 1, 0]),
            (r(Some(9), Some(0), -1), 4, &[3, 2, 1]),
            (r(Some(-2), Some(-9), -1), 4, &[2, 1, 0]),
            (r(Some(0), Some(2), -1), 4, &[]),
            (r(None, None, isize::MIN), 4, &[3]),
            (r(None, None, isize::MAX), 4, &[0]),
            (r(None, None, -1), 0, &[]),
        ];
        for (range, size, want) in table {
            let run = range.resolve(size).unwrap();
            let got: Vec<usize> =
                (0..run.len).map(|i| run.start.wrapping_add_signed(i as isize * run.step)).collect();
            assert_eq!(got, want, "{range:?} of {size}");
        }
        assert!(r(None, None, 0).resolve(3).is_err());
    }
}
