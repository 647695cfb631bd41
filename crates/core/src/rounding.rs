//! Rounding to storage floats, once, from types wider than f32.
//!
//! Going through f32 would round twice, and the first rounding can land on the tie of the second:
//! 1 + 2^-11 + 2^-40 is above the middle of two f16, but its f32 is the middle. Double rounding is
//! harmless if the first step rounds to odd: the last bit then is a sticky bit of what was
//! truncated, and f32 has enough bits to spare.

use crate::storage::Storage;
use crate::{DType, match_storage};

/// The neighbour of `x` among the f32 whose last bit is odd; `x` itself if it is an f32.
#[inline]
pub fn odd_f32(x: f64) -> f32 {
    let near = x as f32;
    if x.is_nan() || f64::from(near) == x {
        near
    } else if near.is_infinite() {
        f32::MAX.copysign(near)
    } else if near.to_bits() % 2 == 1 {
        near
    } else if f64::from(near).abs() > x.abs() {
        f32::from_bits(near.to_bits() - 1)
    } else {
        f32::from_bits(near.to_bits() + 1)
    }
}

/// The neighbour of `x` among the f64 whose last bit is odd; `x` itself if it is an f64.
#[inline]
pub fn odd_f64(x: i64) -> f64 {
    /// Truncating 10 bits leaves 53 and a sign.
    const CUT: u32 = 10;
    if x.unsigned_abs() <= 1 << 53 {
        return x as f64;
    }
    let rest = i64::from(x & ((1 << CUT) - 1) != 0);
    ((x >> CUT) | rest) as f64 * f64::from(1 << CUT)
}

/// The nearest storage float, ties to even.
#[inline]
pub fn storage_from_f64<T: Storage>(x: f64) -> T {
    T::from_f32(odd_f32(x))
}

/// The nearest number of a float dtype, ties to even; x itself for other dtypes.
pub fn nearest(x: f64, dtype: DType) -> f64 {
    match_storage!(DType dtype; storage T => f64::from(storage_from_f64::<T>(x).to_f32());
        DType::F32 => f64::from(x as f32),
        DType::F64 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => x,
    )
}

/// The largest number of a float dtype that is less than `x` (of those that are not NaN).
pub fn largest_below(x: f64, dtype: DType) -> f64 {
    let near = nearest(x, dtype);
    if near < x {
        return near;
    }
    match (dtype, dtype.format()) {
        (_, Some(f)) => {
            // Downwards is away from zero below it, and towards zero above.
            let (sign, code) = (1 << (f.bits() - 1), f.encode(odd_f32(x)));
            f64::from(f.decode(match code {
                0 => sign + 1,
                code if code == sign => sign + 1,
                positive if positive < sign => positive - 1,
                // Nothing is below the lowest number of a format without infinities.
                nan if nan == sign + f.nan() => nan,
                negative => negative + 1,
            }))
        }
        (DType::F32, None) => f64::from((near as f32).next_down()),
        (_, None) => near.next_down(),
    }
}

/// The least number of a float dtype that is not less than `x`.
pub fn least_from(x: f64, dtype: DType) -> f64 {
    let near = nearest(x, dtype);
    if near >= x { near } else { -largest_below(-x, dtype) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    fn f16_from_f64(x: f64) -> f16 {
        storage_from_f64(x)
    }
    fn bf16_from_f64(x: f64) -> bf16 {
        storage_from_f64(x)
    }

    #[test]
    fn halves_are_rounded_once() {
        let tiny = 2f64.powi(-40);
        let least = 2f64.powi(-24);
        let rows: [(f64, f64); 13] = [
            (1.0 + 2f64.powi(-11), 1.0),                               // a tie goes to even
            (1.0 + 2f64.powi(-11) + tiny, 1.0 + 2f64.powi(-10)),       // just above: up
            (1.0 + 3.0 * 2f64.powi(-11), 1.0 + 2f64.powi(-9)),         // a tie goes to even, upwards
            (1.0 + 3.0 * 2f64.powi(-11) - tiny, 1.0 + 2f64.powi(-10)), // just below: down
            (65519.999999999, 65504.0),
            (65520.0, f64::INFINITY), // the tie beyond the largest goes to infinity
            (-1e300, f64::NEG_INFINITY),
            (f64::INFINITY, f64::INFINITY),
            (least / 2.0, 0.0),
            (least / 2.0 * (1.0 + tiny), least),
            (1.5 * least, 2.0 * least),
            (1e-300, 0.0),
            (-0.0, 0.0),
        ];
        for (x, want) in rows {
            assert_eq!(f16_from_f64(x).to_f64(), want, "{x:e}");
            assert_eq!(f16_from_f64(x).is_sign_negative(), x.is_sign_negative(), "{x:e}");
        }
        assert!(f16_from_f64(f64::NAN).is_nan() && bf16_from_f64(f64::NAN).is_nan());
    }

    #[test]
    fn brain_floats_are_rounded_once() {
        let tie = 1.0 + 2f64.powi(-8);
        let rows: [(f64, f64); 5] = [
            (tie, 1.0),
            (tie + 2f64.powi(-40), 1.0 + 2f64.powi(-7)),
            (-tie - 2f64.powi(-40), -1.0 - 2f64.powi(-7)),
            (f64::from(f32::MAX), f64::INFINITY),
            (1e300, f64::INFINITY),
        ];
        for (x, want) in rows {
            assert_eq!(bf16_from_f64(x).to_f64(), want, "{x:e}");
        }
    }

    #[test]
    fn every_half_and_every_tie_between_two_comes_out_right() {
        for bits in 0..0x7bffu16 {
            let (low, high) = (f16::from_bits(bits).to_f64(), f16::from_bits(bits + 1).to_f64());
            let tie = (low + high) / 2.0;
            let even = if bits % 2 == 0 { low } else { high };
            for (x, want) in [(low, low), (tie, even), (tie.next_up(), high), (tie.next_down(), low)] {
                assert_eq!(f16_from_f64(x).to_f64(), want, "{x:e}");
                assert_eq!(f16_from_f64(-x).to_f64(), -want, "-{x:e}");
            }
        }
    }

    #[test]
    fn neighbours_of_a_bound() {
        use DType::*;
        let tiny = 2f64.powi(-24);
        // dtype, bound, the largest number below it, the least from it on
        let rows = [
            (F16, 1.0, 1.0 - 2f64.powi(-11), 1.0),
            (BF16, 1.0, 1.0 - 2f64.powi(-8), 1.0),
            (F32, 1.0, 1.0 - 2f64.powi(-24), 1.0),
            (F64, 1.0, 1.0 - 2f64.powi(-53), 1.0),
            (F16, 1.0 + tiny, 1.0, 1.0 + 2f64.powi(-10)),
            (F16, 1.0 - tiny, 1.0 - 2f64.powi(-11), 1.0),
            (F16, -1.0, -1.0 - 2f64.powi(-10), -1.0),
            (F16, 0.0, -tiny, 0.0),
            (F16, -0.0, -tiny, 0.0),
            (F16, tiny, 0.0, tiny),
            (F16, tiny / 4.0, 0.0, tiny),
            (F16, f64::INFINITY, 65504.0, f64::INFINITY),
            (F16, 65519.0, 65504.0, f64::INFINITY),
            (F32, f64::INFINITY, f64::from(f32::MAX), f64::INFINITY),
            (F64, f64::INFINITY, f64::MAX, f64::INFINITY),
            (F32, 0.1, f64::from(0.1f32.next_down()), f64::from(0.1f32)),
        ];
        for (dtype, x, below, from) in rows {
            assert_eq!((largest_below(x, dtype), least_from(x, dtype)), (below, from), "{x:e} in {dtype}");
            let near = nearest(x, dtype);
            assert!(near == below || near == from, "{x:e} in {dtype}");
        }
    }

    #[test]
    fn i64_is_rounded_to_odd() {
        let big = 1i64 << 62;
        let rows = [
            (5, 5.0),
            (-(1 << 53), -9007199254740992.0),
            (big, big as f64),
            (big + 1, (big + 1024) as f64),
            (big + 1023, (big + 1024) as f64),
            (big + 1025, (big + 1024) as f64),
            (-big - 1, -((big + 1024) as f64)),
            (i64::MIN, -9223372036854775808.0),
        ];
        for (x, want) in rows {
            assert_eq!(odd_f64(x), want, "{x}");
        }
    }
}
