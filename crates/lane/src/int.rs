//! `Int`: the integer reading of an elementwise formula, for i64, i32, u8 and bool.
//!
//! Arithmetic wraps. For bool: `add` and `max` are or, `mul` and `min` are and, `sub` is exclusive
//! or. Formulas choose by [`Int::select`], not by `if`: when a GPU kernel is built, the formula
//! runs before any value is known.

use crate::lane::Mask;
use std::fmt::Debug;

/// An integer or a truth value.
pub trait Int: Copy + Debug {
    /// The result of a comparison.
    type Mask: Mask;
    /// The constant `v`, truncated to the width; for bool, `v != 0`.
    fn lit(v: i64) -> Self;
    /// Signed (for u8 and bool: unsigned) less than?
    fn lt(self, o: Self) -> Self::Mask;
    /// Equal?
    fn eq(self, o: Self) -> Self::Mask;
    /// `a` where the mask is true, else `b`.
    fn select(mask: Self::Mask, a: Self, b: Self) -> Self;
    /// The value clamped to a range, ends included, compared as i64: a bound may be outside the
    /// range of the type. Where the lower bound is above the upper, the upper one, truncated to the
    /// width.
    fn within(self, min: Option<i64>, max: Option<i64>) -> Self;
    /// To the power of `n`, by repeated squaring. A negative exponent gives 0, but for 1 and -1.
    fn power(self, n: Self) -> Self;
    /// Sum, wrapping.
    fn add(self, o: Self) -> Self;
    /// Difference, wrapping.
    fn sub(self, o: Self) -> Self;
    /// Product, wrapping.
    fn mul(self, o: Self) -> Self;
    /// Quotient rounded towards zero. By zero: 0. The smallest number by -1 wraps.
    fn div_trunc(self, o: Self) -> Self;
    /// Remainder of [`Int::div_trunc`], with the sign of `self`. By zero: 0.
    fn rem_trunc(self, o: Self) -> Self;
    /// Quotient rounded down. By zero: 0.
    fn div_floor(self, o: Self) -> Self {
        let (q, r) = (self.div_trunc(o), self.rem_trunc(o));
        Self::select(other_side(r, o), q.sub(Self::lit(1)), q)
    }
    /// Remainder of [`Int::div_floor`], with the sign of `o`. By zero: 0.
    fn rem_floor(self, o: Self) -> Self {
        let r = self.rem_trunc(o);
        Self::select(other_side(r, o), r.add(o), r)
    }
    /// The smaller.
    fn min(self, o: Self) -> Self {
        Self::select(o.lt(self), o, self)
    }
    /// The larger.
    fn max(self, o: Self) -> Self {
        Self::select(self.lt(o), o, self)
    }
    /// Bitwise and.
    fn and(self, o: Self) -> Self;
    /// Bitwise or.
    fn or(self, o: Self) -> Self;
    /// Bitwise exclusive or.
    fn xor(self, o: Self) -> Self;
    /// Bitwise not; logical not for bool.
    fn not(self) -> Self;
    /// Shift left; 0 if `n` is the width or more, or negative.
    fn shl(self, n: Self) -> Self;
    /// Shift right, arithmetic for signed types; 0 or -1 if `n` is the width or more, or negative.
    fn shr(self, n: Self) -> Self;
    /// 1 or true where the mask is true, else 0 or false.
    fn from_mask(c: Self::Mask) -> Self {
        Self::select(c, Self::lit(1), Self::lit(0))
    }
    /// Not zero?
    fn is_true(self) -> Self::Mask {
        !self.eq(Self::lit(0))
    }
}

/// Is the remainder `r` not zero, and of the opposite sign to the divisor?
fn other_side<I: Int>(r: I, divisor: I) -> I::Mask {
    let zero = I::lit(0);
    r.is_true() & (r.lt(zero) ^ divisor.lt(zero))
}

/// The methods that all host types share. All are `#[inline]`, so that the loop over a formula
/// vectorises without cross-crate optimisation: a call per operation would prevent it.
macro_rules! host {
    ($t:ty) => {
        type Mask = bool;
        #[inline]
        fn lt(self, o: Self) -> bool {
            self < o
        }
        #[inline]
        fn eq(self, o: Self) -> bool {
            self == o
        }
        #[inline]
        fn select(mask: bool, a: Self, b: Self) -> Self {
            if mask { a } else { b }
        }
        #[inline]
        fn within(self, min: Option<i64>, max: Option<i64>) -> Self {
            let x = self as i64;
            let above = min.map_or(x, |m| Ord::max(x, m));
            Self::lit(max.map_or(above, |m| Ord::min(above, m)))
        }
        #[inline]
        fn power(self, n: Self) -> Self {
            let (mut n, mut square, mut product) = (n as i64, self, Self::lit(1));
            if n < 0 {
                // 1 / x^-n, rounded towards zero: not zero for 1 and -1 only.
                let minus_one = Self::lit(0).sub(Self::lit(1));
                let odd = if self == minus_one { self } else { Self::lit(0) };
                let is_one = self == Self::lit(1) || (self == minus_one && n & 1 == 0);
                return if is_one { Self::lit(1) } else { odd };
            }
            while n > 0 {
                if n & 1 == 1 {
                    product = product.mul(square);
                }
                square = square.mul(square);
                n >>= 1;
            }
            product
        }
    };
}

macro_rules! int {
    ($($t:ty),*) => {$(
        impl Int for $t {
            host!($t);
            #[inline]
            fn lit(v: i64) -> Self { v as $t }
            #[inline]
            fn add(self, o: Self) -> Self { self.wrapping_add(o) }
            #[inline]
            fn sub(self, o: Self) -> Self { self.wrapping_sub(o) }
            #[inline]
            fn mul(self, o: Self) -> Self { self.wrapping_mul(o) }
            #[inline]
            fn div_trunc(self, o: Self) -> Self { if o == 0 { 0 } else { self.wrapping_div(o) } }
            #[inline]
            fn rem_trunc(self, o: Self) -> Self { if o == 0 { 0 } else { self.wrapping_rem(o) } }
            #[inline]
            fn and(self, o: Self) -> Self { self & o }
            #[inline]
            fn or(self, o: Self) -> Self { self | o }
            #[inline]
            fn xor(self, o: Self) -> Self { self ^ o }
            #[inline]
            fn not(self) -> Self { !self }
            #[inline]
            fn shl(self, n: Self) -> Self {
                u32::try_from(n).ok().and_then(|n| self.checked_shl(n)).unwrap_or(0)
            }
            #[inline]
            fn shr(self, n: Self) -> Self {
                // Shifting twice by half of the width leaves only copies of the sign.
                let gone = self >> (<$t>::BITS / 2) >> (<$t>::BITS / 2);
                u32::try_from(n).ok().and_then(|n| self.checked_shr(n)).unwrap_or(gone)
            }
        }
    )*};
}
int!(i64, i32, u8);

impl Int for bool {
    host!(bool);
    #[inline]
    fn lit(v: i64) -> Self {
        v != 0
    }
    #[inline]
    fn add(self, o: Self) -> Self {
        self | o
    }
    #[inline]
    fn sub(self, o: Self) -> Self {
        self ^ o
    }
    #[inline]
    fn mul(self, o: Self) -> Self {
        self & o
    }
    #[inline]
    fn div_trunc(self, o: Self) -> Self {
        self & o
    }
    #[inline]
    fn rem_trunc(self, _: Self) -> Self {
        false
    }
    #[inline]
    fn and(self, o: Self) -> Self {
        self & o
    }
    #[inline]
    fn or(self, o: Self) -> Self {
        self | o
    }
    #[inline]
    fn xor(self, o: Self) -> Self {
        self ^ o
    }
    #[inline]
    fn not(self) -> Self {
        !self
    }
    #[inline]
    fn shl(self, n: Self) -> Self {
        self & !n
    }
    #[inline]
    fn shr(self, n: Self) -> Self {
        self & !n
    }
}
