//! In which range are the results of a formula on integers? The formula itself says it, read with ranges for numbers.
//!
//! Indices that are computed (a class that is to be left out is replaced by 0, say) are known to be in range without asking
//! the device for them. What a range is not kept through is [`Range::ANY`]: then the device is asked.

use elinvar_core::DType;
use elinvar_ops::int::Int;
use elinvar_ops::lane::Mask;
use std::cmp::{max, min};
use std::ops::{BitAnd, BitOr, BitXor, Not};

/// Numbers from the first to the second, of i64 (and bool, as 0 and 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range(pub i64, pub i64);

/// A truth value, if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Truth(Option<bool>);

impl Range {
    /// Nothing is known.
    pub const ANY: Range = Range(i64::MIN, i64::MAX);

    /// What is known of an operand.
    pub fn of(dtype: DType, known: Option<[i64; 2]>) -> Range {
        match (dtype, known) {
            (DType::Bool, _) => Range(0, 1),
            (DType::I64, Some([low, high])) => Range(low, high),
            // Narrower integers wrap where these do not.
            _ => Range::ANY,
        }
    }
    /// What is known of a result.
    pub fn known(self, dtype: DType) -> Option<[i64; 2]> {
        (dtype == DType::I64 && self != Range::ANY).then_some([self.0, self.1])
    }

    /// Does it hold all of another one?
    pub fn holds(self, o: Range) -> bool {
        self.0 <= o.0 && o.1 <= self.1
    }
    /// That of numbers that are in this one or in another.
    pub fn or(self, o: Range) -> Range {
        Range(min(self.0, o.0), max(self.1, o.1))
    }
    fn is_any(self) -> bool {
        self == Range::ANY
    }
    /// The range of an operation that is monotonic in each operand: that of its corners. Nothing is known if one of them wraps.
    fn corners(self, o: Range, f: impl Fn(i64, i64) -> Option<i64>) -> Range {
        let all = [(self.0, o.0), (self.0, o.1), (self.1, o.0), (self.1, o.1)].map(|(a, b)| f(a, b));
        let Some(all) = all.into_iter().collect::<Option<Vec<i64>>>() else { return Range::ANY };
        let (low, high) = (all.iter().min(), all.iter().max());
        low.zip(high).map_or(Range::ANY, |(&low, &high)| Range(low, high))
    }
}

impl Int for Range {
    type Mask = Truth;

    fn lit(v: i64) -> Self {
        Range(v, v)
    }
    fn lt(self, o: Self) -> Truth {
        Truth(if self.1 < o.0 {
            Some(true)
        } else if self.0 >= o.1 {
            Some(false)
        } else {
            None
        })
    }
    fn eq(self, o: Self) -> Truth {
        Truth(if self.1 < o.0 || o.1 < self.0 {
            Some(false)
        } else if self.0 == self.1 && self == o {
            Some(true)
        } else {
            None
        })
    }
    fn select(mask: Truth, a: Self, b: Self) -> Self {
        match mask.0 {
            Some(true) => a,
            Some(false) => b,
            None => a.or(b),
        }
    }
    fn within(self, low: Option<i64>, high: Option<i64>) -> Self {
        let cut = |v: i64| min(max(v, low.unwrap_or(i64::MIN)), high.unwrap_or(i64::MAX));
        Range(cut(self.0), cut(self.1))
    }
    fn power(self, _: Self) -> Self {
        Range::ANY
    }
    fn add(self, o: Self) -> Self {
        self.corners(o, i64::checked_add)
    }
    fn sub(self, o: Self) -> Self {
        self.corners(o, i64::checked_sub)
    }
    fn mul(self, o: Self) -> Self {
        self.corners(o, i64::checked_mul)
    }
    fn div_trunc(self, o: Self) -> Self {
        // By numbers above 0 it is monotonic in both, as long as the dividend keeps its sign; its size never grows.
        if o.0 > 0 { self.corners(o, i64::checked_div).select_with_zero(self) } else { Range::ANY }
    }
    fn rem_trunc(self, o: Self) -> Self {
        if o.0 <= 0 || self.is_any() || o.is_any() {
            return Range::ANY;
        }
        let most = o.1 - 1;
        Range(if self.0 < 0 { -most } else { 0 }, if self.1 > 0 { most } else { 0 })
    }
    fn rem_floor(self, o: Self) -> Self {
        if o.0 > 0 { Range(0, o.1 - 1) } else { Range::ANY }
    }
    fn min(self, o: Self) -> Self {
        Range(min(self.0, o.0), min(self.1, o.1))
    }
    fn max(self, o: Self) -> Self {
        Range(max(self.0, o.0), max(self.1, o.1))
    }
    fn and(self, o: Self) -> Self {
        // The bits of numbers that are not negative only become fewer.
        if self.0 >= 0 && o.0 >= 0 { Range(0, min(self.1, o.1)) } else { Range::ANY }
    }
    fn or(self, _: Self) -> Self {
        Range::ANY
    }
    fn xor(self, _: Self) -> Self {
        Range::ANY
    }
    fn not(self) -> Self {
        Range::ANY
    }
    fn shl(self, _: Self) -> Self {
        Range::ANY
    }
    fn shr(self, _: Self) -> Self {
        Range::ANY
    }
}

impl Range {
    /// Joined with 0 if the dividend may be below and above it: a quotient passes through 0 there.
    fn select_with_zero(self, dividend: Range) -> Range {
        if dividend.0 < 0 && dividend.1 > 0 { Range(min(self.0, 0), max(self.1, 0)) } else { self }
    }
}

impl Mask for Truth {
    fn all_lanes(v: bool) -> Self {
        Truth(Some(v))
    }
}
impl Not for Truth {
    type Output = Truth;
    fn not(self) -> Truth {
        Truth(self.0.map(|v| !v))
    }
}
impl BitAnd for Truth {
    type Output = Truth;
    fn bitand(self, o: Truth) -> Truth {
        Truth(match (self.0, o.0) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            (None, Some(true) | None) | (Some(true), None) => None,
        })
    }
}
impl BitOr for Truth {
    type Output = Truth;
    fn bitor(self, o: Truth) -> Truth {
        !(!self & !o)
    }
}
impl BitXor for Truth {
    type Output = Truth;
    fn bitxor(self, o: Truth) -> Truth {
        Truth(self.0.zip(o.0).map(|(a, b)| a != b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number of a small range, through every operation, lies in the range that is told.
    #[test]
    fn results_lie_in_the_range_that_is_told() {
        type Both = (&'static str, fn(i64, i64) -> i64, fn(Range, Range) -> Range);
        macro_rules! of {
            ($($name:ident),+) => {
                [$((stringify!($name), |a, b| Int::$name(a, b), |a, b| Int::$name(a, b))),+]
            };
        }
        let all: [Both; 12] =
            of!(add, sub, mul, div_trunc, rem_trunc, div_floor, rem_floor, min, max, and, or, power);
        let ends = [-3i64, -1, 0, 1, 2, 4];
        let ranges: Vec<Range> = ends
            .iter()
            .flat_map(|&a| ends.iter().filter(move |&&b| a <= b).map(move |&b| Range(a, b)))
            .collect();
        for (name, number, range) in all {
            for &x in &ranges {
                for &y in &ranges {
                    let told = range(x, y);
                    for a in x.0..=x.1 {
                        for b in y.0..=y.1 {
                            let got = number(a, b);
                            assert!(told.0 <= got && got <= told.1, "{name} of {a} and {b}: {got}, {told:?}");
                        }
                    }
                }
            }
        }
        let wrap = Range(1, i64::MAX).add(Range(0, 1));
        assert_eq!((wrap, wrap.known(DType::I64)), (Range::ANY, None));
        // A class that is left out is replaced by 0.
        let target = Range::of(DType::I64, Some([-100, 9]));
        let kept = Int::select(!target.eq(Range::lit(-100)), target, Range::lit(0));
        assert_eq!(kept.known(DType::I64), Some([-100, 9]));
        assert_eq!(Range(0, 9).eq(Range::lit(-100)), Truth(Some(false)));
        assert_eq!(Range::of(DType::I32, Some([0, 3])), Range::ANY);
    }
}
