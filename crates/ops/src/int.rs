//! `Int`: the integer reading of an elementwise formula, for i64, i32, u8 and bool.
//!
//! Arithmetic wraps. For bool: `add` and `max` are or, `mul` and `min` are and, `sub` is exclusive or.

use std::fmt::Debug;

/// An integer or a truth value.
pub trait Int: Copy + Debug + PartialEq + PartialOrd + Send + Sync + 'static {
    /// Width in bits; 1 for bool.
    const BITS: u32;
    /// The constant `v`, cut to the width; for bool, `v != 0`.
    fn lit(v: i64) -> Self;
    /// The value as i64.
    fn to_i64(self) -> i64;
    /// Sum, wrapping.
    fn add(self, o: Self) -> Self;
    /// Difference, wrapping.
    fn sub(self, o: Self) -> Self;
    /// Product, wrapping.
    fn mul(self, o: Self) -> Self;
    /// Quotient cut towards zero. By zero: 0. The smallest number by -1 wraps.
    fn div_trunc(self, o: Self) -> Self;
    /// Remainder of [`Int::div_trunc`], with the sign of `self`. By zero: 0.
    fn rem_trunc(self, o: Self) -> Self;
    /// Quotient rounded down. By zero: 0.
    fn div_floor(self, o: Self) -> Self {
        let (q, r) = (self.div_trunc(o), self.rem_trunc(o));
        let zero = Self::lit(0);
        if r != zero && ((r < zero) != (o < zero)) { q.sub(Self::lit(1)) } else { q }
    }
    /// Remainder of [`Int::div_floor`], with the sign of `o`. By zero: 0.
    fn rem_floor(self, o: Self) -> Self {
        let r = self.rem_trunc(o);
        let zero = Self::lit(0);
        if r != zero && ((r < zero) != (o < zero)) { r.add(o) } else { r }
    }
    /// The smaller.
    fn min(self, o: Self) -> Self {
        if o < self { o } else { self }
    }
    /// The larger.
    fn max(self, o: Self) -> Self {
        if o > self { o } else { self }
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
    /// 1 or true if `c`, else 0 or false.
    fn from_bool(c: bool) -> Self {
        Self::lit(c as i64)
    }
    /// Not zero?
    fn is_true(self) -> bool {
        self != Self::lit(0)
    }
}

macro_rules! int {
    ($($t:ty),*) => {$(
        impl Int for $t {
            const BITS: u32 = <$t>::BITS;
            fn lit(v: i64) -> Self { v as $t }
            fn to_i64(self) -> i64 { self as i64 }
            fn add(self, o: Self) -> Self { self.wrapping_add(o) }
            fn sub(self, o: Self) -> Self { self.wrapping_sub(o) }
            fn mul(self, o: Self) -> Self { self.wrapping_mul(o) }
            fn div_trunc(self, o: Self) -> Self { if o == 0 { 0 } else { self.wrapping_div(o) } }
            fn rem_trunc(self, o: Self) -> Self { if o == 0 { 0 } else { self.wrapping_rem(o) } }
            fn and(self, o: Self) -> Self { self & o }
            fn or(self, o: Self) -> Self { self | o }
            fn xor(self, o: Self) -> Self { self ^ o }
            fn not(self) -> Self { !self }
            fn shl(self, n: Self) -> Self {
                u32::try_from(n).ok().and_then(|n| self.checked_shl(n)).unwrap_or(0)
            }
            fn shr(self, n: Self) -> Self {
                // Shifting twice by half of the width leaves only copies of the sign.
                let gone = self >> (Self::BITS / 2) >> (Self::BITS / 2);
                u32::try_from(n).ok().and_then(|n| self.checked_shr(n)).unwrap_or(gone)
            }
        }
    )*};
}
int!(i64, i32, u8);

impl Int for bool {
    const BITS: u32 = 1;
    fn lit(v: i64) -> Self {
        v != 0
    }
    fn to_i64(self) -> i64 {
        self as i64
    }
    fn add(self, o: Self) -> Self {
        self | o
    }
    fn sub(self, o: Self) -> Self {
        self ^ o
    }
    fn mul(self, o: Self) -> Self {
        self & o
    }
    fn div_trunc(self, o: Self) -> Self {
        self & o
    }
    fn rem_trunc(self, _: Self) -> Self {
        false
    }
    fn and(self, o: Self) -> Self {
        self & o
    }
    fn or(self, o: Self) -> Self {
        self | o
    }
    fn xor(self, o: Self) -> Self {
        self ^ o
    }
    fn not(self) -> Self {
        !self
    }
    fn shl(self, n: Self) -> Self {
        self & !n
    }
    fn shr(self, n: Self) -> Self {
        self & !n
    }
}
