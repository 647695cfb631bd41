//! The fused multiply-add of a number: one instruction, or built exactly where there is none.

/// a * b + c, rounded once.
#[cfg(not(target_arch = "wasm32"))]
#[inline(always)]
pub(super) fn f32(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

/// a * b + c, rounded once.
#[cfg(not(all(target_arch = "wasm32", target_feature = "relaxed-simd")))]
#[inline(always)]
pub(super) fn f64(a: f64, b: f64, c: f64) -> f64 {
    a.mul_add(b, c)
}

/// Not inlined: formulas have many of them, and what it computes takes longer than the call.
#[cfg(all(target_arch = "wasm32", not(target_feature = "relaxed-simd")))]
#[inline(never)]
pub(super) fn f32(a: f32, b: f32, c: f32) -> f32 {
    from_f64(a, b, c)
}

/// The instruction, of vectors alone. Whether the engine fuses it is found out before a module with
/// relaxed-simd is used.
#[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
#[inline(always)]
pub(super) fn f32(a: f32, b: f32, c: f32) -> f32 {
    use core::arch::wasm32::{f32x4_extract_lane, f32x4_relaxed_madd, f32x4_splat};
    f32x4_extract_lane::<0>(f32x4_relaxed_madd(f32x4_splat(a), f32x4_splat(b), f32x4_splat(c)))
}

/// As for f32.
#[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
#[inline(always)]
pub(super) fn f64(a: f64, b: f64, c: f64) -> f64 {
    use core::arch::wasm32::{f64x2_extract_lane, f64x2_relaxed_madd, f64x2_splat};
    f64x2_extract_lane::<0>(f64x2_relaxed_madd(f64x2_splat(a), f64x2_splat(b), f64x2_splat(c)))
}

/// a * b + c, rounded once, in f64 and without a branch: the product is exact there, and of the sum
/// so is the error (2Sum). The sum is rounded to odd, to the neighbour whose last bit is set; as
/// f64 has more than two bits more than f32, rounding that to f32 gives what one rounding would,
/// also of subnormals (Boldo and Melquiond, <https://doi.org/10.1109/TC.2007.70819>).
///
/// The standard library's function, which is software on such targets, is not relied on.
#[cfg(any(test, all(target_arch = "wasm32", not(target_feature = "relaxed-simd"))))]
#[inline(always)]
fn from_f64(a: f32, b: f32, c: f32) -> f32 {
    let (p, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let s = p + c;
    let c_of_s = s - p;
    let e = (p - (s - c_of_s)) + (c - c_of_s);
    // An infinite or NaN sum has an error that is NaN, which is on neither side of zero.
    let is_inexact = (e < 0.0) | (e > 0.0);
    // Towards zero if the error has the other sign; then odd.
    let down = is_inexact & ((e < 0.0) != (s < 0.0));
    f64::from_bits(s.to_bits().wrapping_sub(u64::from(down)) | u64::from(is_inexact)) as f32
}

#[cfg(test)]
mod tests {
    use super::from_f64;

    /// The fused multiply-add in integers: exact sums of 2^-298, rounded by bits.
    fn same(a: f32, b: f32, c: f32) {
        let (want, got) = (a.mul_add(b, c), from_f64(a, b, c));
        let same = want.to_bits() == got.to_bits() || want.is_nan() && got.is_nan();
        assert!(same, "{a:e} * {b:e} + {c:e} is {want:e}, not {got:e}");
    }

    #[test]
    fn built_from_f64_it_is_rounded_once() {
        let up = f32::from_bits(0x3f80_0001);
        let down = f32::from_bits(0x3f7f_ffff);
        let least = f32::from_bits(1);
        let rows = [
            // Halfway but for the last bits of the product, above and below, of both signs.
            (up, down, f32::EPSILON / 4.0),
            (up, up, f32::EPSILON / 2.0),
            (up, -up, -f32::EPSILON / 2.0),
            (up, down, -f32::EPSILON / 2.0),
            (down, down, 16_777_216.0),
            // Subnormal sums, of which f64 rounds to what is halfway between two f32.
            (up * 2.0f32.powi(-75), down * 2.0f32.powi(-75), f32::from_bits(0x0040_0001)),
            (up * 2.0f32.powi(-75), up * 2.0f32.powi(-75), f32::from_bits(0x0040_0000)),
            (least, 0.5, least),
            (least, least, least),
            (least, least, -least),
            (f32::MIN_POSITIVE, down, 0.0),
            // Cancellation, overflow, zeros of both signs, infinities, NaN.
            (up, up, -1.0),
            (3.0, 1.0 / 3.0, -1.0),
            (f32::MAX, 1.0, f32::MAX),
            (f32::MAX, up, -f32::MAX),
            (f32::MAX, f32::MAX, -f32::INFINITY),
            (0.0, -1.0, 0.0),
            (0.0, -1.0, -0.0),
            (-0.0, 1.0, -0.0),
            (1.0, 1.0, -1.0),
            (f32::INFINITY, 0.0, 1.0),
            (f32::INFINITY, 1.0, f32::NEG_INFINITY),
            (f32::NAN, 1.0, 1.0),
        ];
        for (a, b, c) in rows {
            for (a, b, c) in [(a, b, c), (-a, b, c), (a, b, -c), (-a, b, -c)] {
                same(a, b, c);
            }
        }
    }

    #[test]
    fn random_bits_give_the_instructions_bits() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut word = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 32) as u32
        };
        for _ in 0..20_000 {
            let [a, b, c] = [word(), word(), word()].map(f32::from_bits);
            same(a, b, c);
            // Sums that cancel, that are near in size, and that are subnormal.
            same(a, b, -(a * b));
            same(a, b, f32::from_bits((a * b).to_bits() ^ (word() & 0x81ff_ffff)));
            let low = |x: f32| f32::from_bits(x.to_bits() & 0x803f_ffff | 0x2000_0000);
            same(low(a), low(b), f32::from_bits(c.to_bits() & 0x807f_ffff));
        }
    }
}
