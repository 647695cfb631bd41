//! The elements that a call reads or writes: runs of neighbours, at two strides.
//!
//! Every operand is one: a matrix by columns is a run for each column, a batch of them has a second
//! stride, and what is contiguous is a single run. Whether two share an element is decided exactly,
//! so that a product may go between the columns of its factors, as in a blocked factorisation.

use elinvar_core::Result;
use elinvar_core::host::with_capacity;

/// Runs of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Runs {
    /// Elements of a run.
    pub len: usize,
    /// How many runs, and the elements from the start of one to that of the next: outer, inner.
    pub axes: [(usize, usize); 2],
}

impl Runs {
    /// One run.
    pub fn one(len: usize) -> Runs {
        Runs { len, axes: [(1, 0), (1, 0)] }
    }
    /// Runs of `len` elements at two strides, outer and inner; of one run a stride is no matter.
    pub fn of(len: usize, axes: [(usize, usize); 2]) -> Runs {
        Runs { len, axes: axes.map(|(n, stride)| if n == 1 { (1, 0) } else { (n, stride) }) }
    }
    /// Are there no elements?
    pub fn is_empty(&self) -> bool {
        self.len == 0 || self.axes.iter().any(|&(n, _)| n == 0)
    }
    /// Elements from the first to behind the last. None if that is no number.
    pub fn reach(&self) -> Option<usize> {
        if self.is_empty() {
            return Some(0);
        }
        self.axes.iter().try_fold(self.len, |reach, &(n, stride)| {
            (n - 1).checked_mul(stride).and_then(|steps| reach.checked_add(steps))
        })
    }
    /// The starts of all runs, ascending. The caller knows that they are addressable.
    fn starts(&self, from: usize) -> Result<Vec<usize>> {
        let [outer, inner] = self.axes.map(|(n, stride)| if stride == 0 { (1, 0) } else { (n, stride) });
        let mut all = with_capacity(outer.0.saturating_mul(inner.0))?;
        for i in 0..outer.0 {
            all.extend((0..inner.0).map(|j| from + i * outer.1 + j * inner.1));
        }
        all.sort_unstable();
        Ok(all)
    }
    /// Is an element reached twice?
    pub fn meets_itself(&self) -> Result<bool> {
        if self.is_empty() {
            return Ok(false);
        }
        let [(outer, outer_stride), (inner, inner_stride)] = self.axes;
        if (outer > 1 && outer_stride == 0) || (inner > 1 && inner_stride == 0) {
            return Ok(true);
        }
        // More elements than places.
        let elements = outer.checked_mul(inner).and_then(|n| n.checked_mul(self.len));
        if elements.is_none_or(|n| self.reach().is_some_and(|reach| n > reach)) {
            return Ok(true);
        }
        // One stride steps over all that the other reaches.
        let steps_over = |(n, stride): (usize, usize), reach: Option<usize>| {
            n == 1 || reach.is_some_and(|reach| stride >= reach)
        };
        let of = |n, stride| Runs { axes: [(1, 0), (n, stride)], ..*self }.reach();
        let (within_inner, within_outer) = (of(inner, inner_stride), of(outer, outer_stride));
        if (steps_over(self.axes[1], Some(self.len)) && steps_over(self.axes[0], within_inner))
            || (steps_over(self.axes[0], Some(self.len)) && steps_over(self.axes[1], within_outer))
        {
            return Ok(false);
        }
        Ok(self.starts(0)?.windows(2).any(|w| w[1] - w[0] < self.len))
    }
    /// Do runs from `at` share an element with others from `other_at`, in one piece of memory?
    pub fn meets(&self, at: usize, other: &Runs, other_at: usize) -> Result<bool> {
        let (Some(reach), Some(other_reach)) = (self.reach(), other.reach()) else { return Ok(true) };
        if self.is_empty() || other.is_empty() || at + reach <= other_at || other_at + other_reach <= at {
            return Ok(false);
        }
        let (x, y) = (self.starts(at)?, other.starts(other_at)?);
        let (mut i, mut j) = (0, 0);
        while let (Some(&a), Some(&b)) = (x.get(i), y.get(j)) {
            if a + self.len <= b {
                i += 1;
            } else if b + other.len <= a {
                j += 1;
            } else {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(len: usize, n: usize, stride: usize) -> Runs {
        Runs { len, axes: [(1, 0), (n, stride)] }
    }

    #[test]
    fn runs_meet_where_they_share_an_element() {
        let rows = [
            // Blocks of one matrix with five rows: above one another, and on one another.
            (matrix(2, 4, 5), 0, matrix(3, 4, 5), 2, false),
            (matrix(3, 4, 5), 0, matrix(3, 4, 5), 2, true),
            // Beside one another, one behind the other.
            (matrix(5, 2, 5), 0, matrix(5, 2, 5), 10, false),
            (matrix(5, 2, 5), 0, matrix(5, 2, 5), 9, true),
            // Other strides: they meet at the last column alone.
            (matrix(1, 4, 7), 0, matrix(1, 4, 5), 6, true),
            (matrix(1, 4, 6), 0, matrix(1, 4, 4), 3, false),
            (Runs::one(0), 3, Runs::one(9), 0, false),
        ];
        for (a, at, b, other, want) in rows {
            assert_eq!(a.meets(at, &b, other).unwrap(), want, "{a:?} {at} {b:?} {other}");
            assert_eq!(b.meets(other, &a, at).unwrap(), want, "{b:?} {other} {a:?} {at}");
        }
    }

    #[test]
    fn runs_meet_themselves_as_counted() {
        // All small cases, against a set.
        for len in 1..3 {
            for (n, s) in [(1, 0), (2, 1), (2, 3), (3, 2), (2, 0)] {
                for (m, t) in [(1, 0), (3, 1), (3, 4), (2, 6), (3, 2)] {
                    let runs = Runs { len, axes: [(n, s), (m, t)] };
                    let mut seen = std::collections::BTreeSet::new();
                    let all = (0..n)
                        .flat_map(|i| (0..m).flat_map(move |j| (0..len).map(move |e| i * s + j * t + e)));
                    let twice = all.filter(|&x| !seen.insert(x)).count() > 0;
                    assert_eq!(runs.meets_itself().unwrap(), twice, "{runs:?}");
                }
            }
        }
    }

    #[test]
    fn a_reach_is_a_number_or_none() {
        assert_eq!(matrix(3, 4, 5).reach(), Some(18));
        assert_eq!(matrix(3, 0, usize::MAX).reach(), Some(0));
        assert_eq!(matrix(3, 3, usize::MAX).reach(), None);
    }
}
