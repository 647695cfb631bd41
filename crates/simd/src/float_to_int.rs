//! Saturating conversion of floats to integers, rounding towards zero, in steps that the compiler
//! vectorises.
//!
//! The result is that of `as`, whose saturating conversion the compiler does one element at a time.
//! How it can be wrong: at the ends of the integer range, and for NaN. The tests compare both
//! there.
#![allow(unsafe_code, reason = "a conversion that is not defined for what does not fit")]

/// Conversion of a float to an integer: truncated towards zero, saturating out of range, 0 for NaN.
pub trait SaturatingToInt<I>: Copy {
    /// The converted value.
    fn cut(self) -> I;
}

macro_rules! cut {
    ($($float:ident $int:ident;)*) => {$(
        impl SaturatingToInt<$int> for $float {
            #[inline(always)]
            fn cut(self) -> $int {
                // A power of two, so exact as a float; its negation less one is the largest
                // integer, which may not be a float.
                let least = $int::MIN as $float;
                let fits = (least <= self) & (self < -least);
                let number = if fits { self } else { 0.0 };
                // SAFETY: the value is in the integer's range, and not NaN.
                let whole: $int = unsafe { number.to_int_unchecked() };
                let end = if self > 0.0 { $int::MAX } else { $int::MIN };
                let other = if self.is_nan() { 0 } else { end };
                if fits { whole } else { other }
            }
        }
    )*};
}
cut! { f32 i32; f32 i64; f64 i32; f64 i64; }

macro_rules! cut_to_bytes {
    ($($float:ident)*) => {$(
        impl SaturatingToInt<u8> for $float {
            #[inline(always)]
            fn cut(self) -> u8 {
                // NaN fails the first comparison.
                let number = if self > 0.0 { self } else { 0.0 };
                let number = if number < 255.0 { number } else { 255.0 };
                // SAFETY: from 0 to 255, and not NaN. (There is an instruction for i32, and none
                // for bytes.)
                let whole: i32 = unsafe { number.to_int_unchecked() };
                whole as u8
            }
        }
    )*};
}
cut_to_bytes! { f32 f64 }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_as_gives() {
        // The ends of all ranges, and their neighbours in both types; halves; subnormals;
        // infinities and NaN.
        let ends = [
            0.0,
            0.5,
            1.0,
            1.5,
            254.5,
            255.0,
            256.0,
            2f64.powi(31),
            2f64.powi(32),
            2f64.powi(63),
            2f64.powi(64),
            1e300,
        ];
        let specials = [f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, f64::from(f32::MIN_POSITIVE) / 2.0];
        for x in ends.into_iter().chain(specials) {
            for x in [x, x.next_up(), x.next_down(), x - 1.0, x + 1.0].into_iter().flat_map(|x| [x, -x]) {
                assert_eq!(SaturatingToInt::<u8>::cut(x), x as u8, "{x:e}");
                assert_eq!(SaturatingToInt::<i32>::cut(x), x as i32, "{x:e}");
                assert_eq!(SaturatingToInt::<i64>::cut(x), x as i64, "{x:e}");
                let near = x as f32;
                for x in [near, near.next_up(), near.next_down()] {
                    assert_eq!(SaturatingToInt::<u8>::cut(x), x as u8, "{x:e}");
                    assert_eq!(SaturatingToInt::<i32>::cut(x), x as i32, "{x:e}");
                    assert_eq!(SaturatingToInt::<i64>::cut(x), x as i64, "{x:e}");
                }
            }
        }
    }
}
