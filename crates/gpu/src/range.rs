//! Interval analysis of integer formulas: the range of a result, by running the formula on ranges.
//!
//! Indices that are computed (a class to be left out is replaced by 0, say) are so known to be in
//! range without asking the device for them. Where the range is lost it is [`IntRange::ANY`]: then
//! the device is asked.

use elinvar_core::{DType, Scalar};
use elinvar_ops::int::Int;
use elinvar_ops::lane::Mask;
use std::cmp::{max, min};
use std::ops::{BitAnd, BitOr, BitXor, Not};

/// Numbers from the first to the second, of i64 (and bool, as 0 and 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IntRange(pub i64, pub i64);

/// A truth value, if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownBool(Option<bool>);

impl IntRange {
    /// Nothing is known.
    pub const ANY: IntRange = IntRange(i64::MIN, i64::MAX);

    /// What is known of an operand.
    pub fn of(dtype: DType, known: Option<[i64; 2]>) -> IntRange {
        match (dtype, known) {
            (DType::Bool, _) => IntRange(0, 1),
            (DType::I64, Some([low, high])) => IntRange(low, high),
            // Narrower integers wrap where these do not.
            _ => IntRange::ANY,
        }
    }
    /// What is known of a number.
    pub fn of_number(v: Scalar) -> IntRange {
        match v {
            Scalar::Int(v) => IntRange(v, v),
            Scalar::Float(_) | Scalar::Bool(_) => IntRange::ANY,
        }
    }
    /// What is known of a result.
    pub fn known(self, dtype: DType) -> Option<[i64; 2]> {
        (dtype == DType::I64 && self != IntRange::ANY).then_some([self.0, self.1])
    }

    /// Does it hold all of another one?
    pub fn holds(self, o: IntRange) -> bool {
        self.0 <= o.0 && o.1 <= self.1
    }
    /// That of numbers that are in this one or in another.
    pub fn or(self, o: IntRange) -> IntRange {
        IntRange(min(self.0, o.0), max(self.1, o.1))
    }
    fn is_any(self) -> bool {
        self == IntRange::ANY
    }
    /// The range of an operation that is monotonic in each operand: that of its corners. Nothing is
    /// known if one of them wraps.
    fn corners(self, o: IntRange, f: impl Fn(i64, i64) -> Option<i64>) -> IntRange {
        let all = [(self.0, o.0), (self.0, o.1), (self.1, o.0), (self.1, o.1)].map(|(a, b)| f(a, b));
        let Some(all) = all.into_iter().collect::<Option<Vec<i64>>>() else { return IntRange::ANY };
        let (low, high) = (all.iter().min(), all.iter().max());
        low.zip(high).map_or(IntRange::ANY, |(&low, &high)| IntRange(low, high))
    }
}

impl Int for IntRange {
    type Mask = KnownBool;

    fn lit(v: i64) -> Self {
        IntRange(v, v)
    }
    fn lt(self, o: Self) -> KnownBool {
        KnownBool(if self.1 < o.0 {
            Some(true)
        } else if self.0 >= o.1 {
            Some(false)
        } else {
            None
        })
    }
    fn eq(self, o: Self) -> KnownBool {
        KnownBool(if self.1 < o.0 || o.1 < self.0 {
            Some(false)
        } else if self.0 == self.1 && self == o {
            Some(true)
        } else {
            None
        })
    }
    fn select(mask: KnownBool, a: Self, b: Self) -> Self {
        match mask.0 {
            Some(true) => a,
            Some(false) => b,
            None => a.or(b),
        }
    }
    fn within(self, low: Option<i64>, high: Option<i64>) -> Self {
        let cut = |v: i64| min(max(v, low.unwrap_or(i64::MIN)), high.unwrap_or(i64::MAX));
        IntRange(cut(self.0), cut(self.1))
    }
    fn power(self, _: Self) -> Self {
        IntRange::ANY
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
        // By numbers above 0 it is monotonic in both, as long as the dividend keeps its sign; its
        // size never grows.
        if o.0 > 0 { self.corners(o, i64::checked_div).select_with_zero(self) } else { IntRange::ANY }
    }
    fn rem_trunc(self, o: Self) -> Self {
        if o.0 <= 0 || self.is_any() || o.is_any() {
            return IntRange::ANY;
        }
        let most = o.1 - 1;
        IntRange(if self.0 < 0 { -most } else { 0 }, if self.1 > 0 { most } else { 0 })
    }
    fn rem_floor(self, o: Self) -> Self {
        if o.0 > 0 { IntRange(0, o.1 - 1) } else { IntRange::ANY }
    }
    fn min(self, o: Self) -> Self {
        IntRange(min(self.0, o.0), min(self.1, o.1))
    }
    fn max(self, o: Self) -> Self {
        IntRange(max(self.0, o.0), max(self.1, o.1))
    }
    fn and(self, o: Self) -> Self {
        // The bits of numbers that are not negative only become fewer.
        if self.0 >= 0 && o.0 >= 0 { IntRange(0, min(self.1, o.1)) } else { IntRange::ANY }
    }
    fn or(self, _: Self) -> Self {
        IntRange::ANY
    }
    fn xor(self, _: Self) -> Self {
        IntRange::ANY
    }
    fn not(self) -> Self {
        IntRange::ANY
    }
    fn shl(self, _: Self) -> Self {
        IntRange::ANY
    }
    fn shr(self, _: Self) -> Self {
        IntRange::ANY
    }
}

impl IntRange {
    /// Joined with 0 if the dividend may be below and above it: a quotient passes through 0 there.
    fn select_with_zero(self, dividend: IntRange) -> IntRange {
        if dividend.0 < 0 && dividend.1 > 0 { IntRange(min(self.0, 0), max(self.1, 0)) } else { self }
    }
}

impl Mask for KnownBool {
    fn all_lanes(v: bool) -> Self {
        KnownBool(Some(v))
    }
}
impl Not for KnownBool {
    type Output = KnownBool;
    fn not(self) -> KnownBool {
        KnownBool(self.0.map(|v| !v))
    }
}
impl BitAnd for KnownBool {
    type Output = KnownBool;
    fn bitand(self, o: KnownBool) -> KnownBool {
        KnownBool(match (self.0, o.0) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            (None, Some(true) | None) | (Some(true), None) => None,
        })
    }
}
impl BitOr for KnownBool {
    type Output = KnownBool;
    fn bitor(self, o: KnownBool) -> KnownBool {
        !(!self & !o)
    }
}
impl BitXor for KnownBool {
    type Output = KnownBool;
    fn bitxor(self, o: KnownBool) -> KnownBool {
        KnownBool(self.0.zip(o.0).map(|(a, b)| a != b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number of a small range, through every operation, is in the range that is told.
    #[test]
    fn results_lie_in_the_range_that_is_told() {
        type Both = (&'static str, fn(i64, i64) -> i64, fn(IntRange, IntRange) -> IntRange);
        macro_rules! of {
            ($($name:ident),+) => {
                [$((stringify!($name), |a, b| Int::$name(a, b), |a, b| Int::$name(a, b))),+]
            };
        }
        let all: [Both; 12] =
            of!(add, sub, mul, div_trunc, rem_trunc, div_floor, rem_floor, min, max, and, or, power);
        let ends = [-3i64, -1, 0, 1, 2, 4];
        let ranges: Vec<IntRange> = ends
            .iter()
            .flat_map(|&a| ends.iter().filter(move |&&b| a <= b).map(move |&b| IntRange(a, b)))
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
        let wrap = IntRange(1, i64::MAX).add(IntRange(0, 1));
        assert_eq!((wrap, wrap.known(DType::I64)), (IntRange::ANY, None));
        // A class that is left out is replaced by 0.
        let target = IntRange::of(DType::I64, Some([-100, 9]));
        let kept = Int::select(!target.eq(IntRange::lit(-100)), target, IntRange::lit(0));
        assert_eq!(kept.known(DType::I64), Some([-100, 9]));
        assert_eq!(IntRange(0, 9).eq(IntRange::lit(-100)), KnownBool(Some(false)));
        assert_eq!(IntRange::of(DType::I32, Some([0, 3])), IntRange::ANY);
    }
}
