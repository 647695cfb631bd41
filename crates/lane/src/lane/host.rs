//! `f32` and `f64` as lanes: plain arithmetic, one element at a time.
//!
//! This reading defines all others, and the CPU's vector code is made from it: a plain loop over
//! these functions, compiled for an instruction set, is autovectorised. So nothing here, except the
//! elementary functions, may branch or call: choices are selects, and operations for which the
//! standard library has only a call (a minimum that propagates NaN, the upper half of a 64-bit
//! product) are written in operations that every instruction set has. Integers are `Wrapping`:
//! overflow is intended, in debug builds too.

use super::{Lane, LaneInt, Mask, fma};
use crate::math;
use core::num::Wrapping;

impl Mask for bool {
    #[inline(always)]
    fn all_lanes(v: bool) -> Self {
        v
    }
}

/// The upper half of a 32-bit product, by one widening multiplication.
#[inline(always)]
fn mul_high_32(a: i32, b: i32) -> i32 {
    ((u64::from(a as u32) * u64::from(b as u32)) >> 32) as i32
}

/// The upper half of a 64-bit product, by four 32-bit ones: no vector unit has the wide product,
/// and a product in `u128` would keep the loop around it from being vectorised.
#[inline(always)]
fn mul_high_64(a: i64, b: i64) -> i64 {
    const LOW: u64 = 0xffff_ffff;
    let (a, b) = (a as u64, b as u64);
    let (a_low, a_high, b_low, b_high) = (a & LOW, a >> 32, b & LOW, b >> 32);
    // Neither sum overflows: (2^32 - 1)^2 + 2 * (2^32 - 1) = 2^64 - 1.
    let middle = a_high * b_low + ((a_low * b_low) >> 32);
    let middle_low = a_low * b_high + (middle & LOW);
    (a_high * b_high + (middle >> 32) + (middle_low >> 32)) as i64
}

/// The elementary functions as calls of a copy that is compiled in this crate.
macro_rules! outlined {
    ($float:ident: $($unary:ident)*; $($binary:ident)*) => {
        $(
            #[inline(always)]
            fn $unary(self) -> Self {
                #[inline(never)]
                fn compiled(x: $float) -> $float {
                    math::$unary(x)
                }
                compiled(self)
            }
        )*
        $(
            #[inline(always)]
            fn $binary(self, other: Self) -> Self {
                #[inline(never)]
                fn compiled(x: $float, y: $float) -> $float {
                    math::$binary(x, y)
                }
                compiled(self, other)
            }
        )*
    };
}

macro_rules! host_lane {
    ($float:ident, $int:ident, $uint:ident, $bits:literal, $mul_high:ident) => {
        impl LaneInt<bool> for Wrapping<$int> {
            #[inline(always)]
            fn lit(v: i64) -> Self {
                Wrapping(v as $int)
            }
            #[inline(always)]
            fn shl(self, n: u32) -> Self {
                Wrapping(self.0.wrapping_shl(n))
            }
            #[inline(always)]
            fn shr(self, n: u32) -> Self {
                Wrapping(self.0.wrapping_shr(n))
            }
            #[inline(always)]
            fn shr_logical(self, n: u32) -> Self {
                Wrapping((self.0 as $uint).wrapping_shr(n) as $int)
            }
            #[inline(always)]
            fn shl_by(self, n: Self) -> Self {
                Wrapping(self.0.wrapping_shl(n.0 as u32))
            }
            #[inline(always)]
            fn shr_logical_by(self, n: Self) -> Self {
                Wrapping((self.0 as $uint).wrapping_shr(n.0 as u32) as $int)
            }
            #[inline(always)]
            fn mul_high_unsigned(self, other: Self) -> Self {
                Wrapping($mul_high(self.0, other.0))
            }
            #[inline(always)]
            fn eq(self, other: Self) -> bool {
                self.0 == other.0
            }
            #[inline(always)]
            fn lt(self, other: Self) -> bool {
                self.0 < other.0
            }
            #[inline(always)]
            fn select(mask: bool, a: Self, b: Self) -> Self {
                if mask { a } else { b }
            }
        }

        impl Lane for $float {
            type Mask = bool;
            type Int = Wrapping<$int>;
            const BITS: u32 = $bits;

            #[inline(always)]
            fn lit(v: f64) -> Self {
                v as $float
            }
            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                fma::$float(self, b, c)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $float::sqrt(self)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $float::abs(self)
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                let smaller = if self < other { self } else { other };
                // Equal values have equal bits, except zeros: there, the or of the signs is the
                // smaller.
                let tie = $float::from_bits($float::to_bits(self) | $float::to_bits(other));
                let number = if self == other { tie } else { smaller };
                if self != self { self } else { number }
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                let larger = if self > other { self } else { other };
                let tie = $float::from_bits($float::to_bits(self) & $float::to_bits(other));
                let number = if self == other { tie } else { larger };
                if self != self { self } else { number }
            }
            #[inline(always)]
            fn round(self) -> Self {
                self.round_ties_even()
            }
            #[inline(always)]
            fn floor(self) -> Self {
                $float::floor(self)
            }
            #[inline(always)]
            fn ceil(self) -> Self {
                $float::ceil(self)
            }
            #[inline(always)]
            fn trunc(self) -> Self {
                $float::trunc(self)
            }
            #[inline(always)]
            fn with_sign_bit(self, sign: Self) -> Self {
                $float::copysign(self, sign)
            }
            #[inline(always)]
            fn lt(self, other: Self) -> bool {
                self < other
            }
            #[inline(always)]
            fn le(self, other: Self) -> bool {
                self <= other
            }
            #[inline(always)]
            fn eq(self, other: Self) -> bool {
                self == other
            }
            #[inline(always)]
            fn select(mask: bool, a: Self, b: Self) -> Self {
                if mask { a } else { b }
            }
            #[inline(always)]
            fn to_bits(self) -> Self::Int {
                Wrapping($float::to_bits(self) as $int)
            }
            #[inline(always)]
            fn from_bits(bits: Self::Int) -> Self {
                $float::from_bits(bits.0 as $uint)
            }
            #[inline(always)]
            fn to_int(self) -> Self::Int {
                Wrapping(self as $int)
            }
            #[inline(always)]
            fn from_int(v: Self::Int) -> Self {
                v.0 as $float
            }
            // One compiled copy of each function for all formulas: a program has hundreds of
            // formulas, and inlined into each the elementary functions would be nearly all of its
            // code. Readings that need them inlined (vectors) use the generic functions of `math`.
            outlined!($float: exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh erf phi sigmoid rsqrt
                asinh acosh atanh erfc erfcx erfinv ndtr log_ndtr ndtri lgamma digamma;
                pow atan2);

            #[inline(always)]
            fn fmod(self, other: Self) -> Self {
                self % other
            }
        }
    };
}

host_lane!(f32, i32, u32, 32, mul_high_32);
host_lane!(f64, i64, u64, 64, mul_high_64);

#[cfg(test)]
mod tests {
    use super::*;

    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;

    /// The same value, zeros with the same sign, any NaN like any other.
    fn same(a: f32, b: f32) -> bool {
        (a.is_nan() && b.is_nan()) || f32::to_bits(a) == f32::to_bits(b)
    }

    #[test]
    fn minimum_and_maximum() {
        // a, b, smaller, larger
        let rows = [
            (1.0, 2.0, 1.0, 2.0),
            (-1.0, 1.0, -1.0, 1.0),
            (0.0, -0.0, -0.0, 0.0), // zeros are ordered by sign
            (-0.0, -0.0, -0.0, -0.0),
            (INF, -INF, -INF, INF),
            (NAN, 1.0, NAN, NAN), // a NaN is never swallowed
            (NAN, NAN, NAN, NAN),
            (3.5, 3.5, 3.5, 3.5),
        ];
        for (a, b, smaller, larger) in rows {
            for (a, b) in [(a, b), (b, a)] {
                assert!(same(Lane::min(a, b), smaller), "min({a}, {b}) = {}", Lane::min(a, b));
                assert!(same(Lane::max(a, b), larger), "max({a}, {b}) = {}", Lane::max(a, b));
                let (wide_min, wide_max) =
                    (Lane::min(f64::from(a), f64::from(b)), Lane::max(f64::from(a), f64::from(b)));
                assert!(same(wide_min as f32, smaller) && same(wide_max as f32, larger), "f64 at ({a}, {b})");
            }
        }
    }

    #[test]
    fn rounding() {
        // x, round, floor, ceil, trunc
        let rows = [
            (0.5, 0.0, 0.0, 1.0, 0.0), // halves go to the even neighbour
            (1.5, 2.0, 1.0, 2.0, 1.0),
            (-0.5, -0.0, -1.0, -0.0, -0.0), // the sign stays on a zero
            (-2.5, -2.0, -3.0, -2.0, -2.0),
            (8388609.0, 8388609.0, 8388609.0, 8388609.0, 8388609.0), // no fraction left
            (-INF, -INF, -INF, -INF, -INF),
            (NAN, NAN, NAN, NAN, NAN),
        ];
        for (x, round, floor, ceil, trunc) in rows {
            assert!(same(Lane::round(x), round), "round({x})");
            assert!(same(Lane::floor(x), floor), "floor({x})");
            assert!(same(Lane::ceil(x), ceil), "ceil({x})");
            assert!(same(Lane::trunc(x), trunc), "trunc({x})");
        }
    }

    #[test]
    fn remainders() {
        let rows = [
            (5.5, 2.0, 1.5),
            (-5.5, 2.0, -1.5), // the sign of the dividend
            (5.5, -2.0, 1.5),
            (-4.0, 2.0, -0.0), // also on a zero
            (1e30, 3.0, 1e30 % 3.0),
            (1.0, INF, 1.0),
            (INF, 1.0, NAN),
            (1.0, 0.0, NAN),
        ];
        for (x, y, want) in rows {
            assert!(same(Lane::fmod(x, y), want), "fmod({x}, {y}) = {}", Lane::fmod(x, y));
        }
    }

    #[test]
    fn integers() {
        type Narrow = Wrapping<i32>;
        assert_eq!(Narrow::lit(0xffff_ffff), Wrapping(-1)); // a literal is truncated to the width
        assert_eq!(Wrapping(i32::MAX) + Wrapping(1), Wrapping(i32::MIN));
        assert_eq!(Wrapping(-8i32).shr(1), Wrapping(-4));
        assert_eq!(Wrapping(-8i32).shr_logical(1), Wrapping(0x7fff_fffc));
        assert_eq!(Wrapping(3i32).shl_by(Wrapping(4)), Wrapping(48));
        assert_eq!(Wrapping(-1i64).shr_logical_by(Wrapping(60)), Wrapping(15));
        assert_eq!(Wrapping(-1i32).mul_high_unsigned(Wrapping(-1)), Wrapping(-2));
        // The product by parts against the wide one, with carries out of every part.
        let samples = [0u64, 1, 2, 0xffff_ffff, 0x1_0000_0000, 0xdead_beef_cafe_f00d, u64::MAX - 1, u64::MAX];
        for a in samples {
            for b in samples {
                let want = ((u128::from(a) * u128::from(b)) >> 64) as i64;
                let got = Wrapping(a as i64).mul_high_unsigned(Wrapping(b as i64));
                assert_eq!(got, Wrapping(want), "{a:x} * {b:x}");
            }
        }
    }
}
