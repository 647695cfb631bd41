//! AVX2. A truth value is a number of which all bits are set, or none.
#![allow(unsafe_code, reason = "instructions that not every processor has")]

use super::register::{
    FloatRegister, RegisterMaskLane, each_register, initial, instructions, operand, part, result,
};
use std::arch::x86_64::*;

type Ints = __m256i;
type Truths = __m256;

/// The bits of truth values as integers.
macro_rules! ints {
    ($truths:expr) => {
        _mm256_castps_si256($truths)
    };
}
/// Integers of which all bits are set, or none, as truth values.
macro_rules! truths {
    ($ints:expr) => {
        _mm256_castsi256_ps($ints)
    };
}

// Of two zeros, and of a number and a NaN, the instructions give the second operand. In both
// orders: results differ only then.

/// The smaller zero, and NaN, have more bits set.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn smaller_of_all(a: __m256, b: __m256) -> __m256 {
    _mm256_or_ps(_mm256_min_ps(a, b), _mm256_min_ps(b, a))
}

/// The larger zero has fewer bits set, but NaN more.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn larger_of_numbers(a: __m256, b: __m256) -> __m256 {
    _mm256_and_ps(_mm256_max_ps(a, b), _mm256_max_ps(b, a))
}

impl FloatRegister for __m256 {
    type Int = Ints;
    type Mask = Truths;
    const LANES: usize = 8;
    // SAFETY: any bits are a register's.
    const ZERO: Self = unsafe { std::mem::transmute([0.0f32; 8]) };
    // SAFETY: as above.
    const INT_ZERO: Ints = unsafe { std::mem::transmute([0i32; 8]) };
    const MASK_FALSE: Truths = Self::ZERO;
    const SCALES: bool = false;

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn bits_of_mask(a: &RegisterMaskLane<Self, 1>) -> u16 {
        _mm256_movemask_ps(a.0[0]) as u16
    }

    instructions! { "avx2,fma";
        splat(v: f32) -> float { _mm256_set1_ps(v) }
        swap[N: usize](a: float) -> float {
            match N {
                4 => _mm256_permute2f128_ps::<1>(a, a),
                2 => _mm256_permute_ps::<0x4e>(a),
                _ => _mm256_permute_ps::<0xb1>(a),
            }
        }

        add(a: float, b: float) -> float { _mm256_add_ps(a, b) }
        sub(a: float, b: float) -> float { _mm256_sub_ps(a, b) }
        mul(a: float, b: float) -> float { _mm256_mul_ps(a, b) }
        div(a: float, b: float) -> float { _mm256_div_ps(a, b) }
        fma(a: float, b: float, c: float) -> float { _mm256_fmadd_ps(a, b, c) }
        sqrt(a: float) -> float { _mm256_sqrt_ps(a) }
        neg(a: float) -> float { _mm256_xor_ps(a, _mm256_set1_ps(-0.0)) }
        abs(a: float) -> float { _mm256_andnot_ps(_mm256_set1_ps(-0.0), a) }
        with_sign_bit(a: float, sign: float) -> float {
            let sign_bit = _mm256_set1_ps(-0.0);
            _mm256_or_ps(_mm256_andnot_ps(sign_bit, a), _mm256_and_ps(sign_bit, sign))
        }
        round[DIRECTION: i32](a: float) -> float { _mm256_round_ps::<DIRECTION>(a) }
        min(a: float, b: float) -> float { smaller_of_all(a, b) }
        max(a: float, b: float) -> float {
            _mm256_or_ps(larger_of_numbers(a, b), _mm256_cmp_ps::<_CMP_UNORD_Q>(a, b))
        }
        min_of_numbers(a: float, b: float) -> float { smaller_of_all(a, b) }
        max_of_numbers(a: float, b: float) -> float { larger_of_numbers(a, b) }
        smaller(a: float, b: float) -> float { _mm256_min_ps(a, b) }
        larger(a: float, b: float) -> float { _mm256_max_ps(a, b) }
        scaled(_a: float, _n: float) -> float { unreachable!("AVX2 has no instruction for it") }

        lt(a: float, b: float) -> mask { _mm256_cmp_ps::<_CMP_LT_OQ>(a, b) }
        le(a: float, b: float) -> mask { _mm256_cmp_ps::<_CMP_LE_OQ>(a, b) }
        eq(a: float, b: float) -> mask { _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b) }
        unordered(a: float, b: float) -> mask { _mm256_cmp_ps::<_CMP_UNORD_Q>(a, b) }
        select(mask: mask, a: float, b: float) -> float { _mm256_blendv_ps(b, a, mask) }

        to_bits(a: float) -> int { _mm256_castps_si256(a) }
        from_bits(a: int) -> float { _mm256_castsi256_ps(a) }
        to_int(a: float) -> int { _mm256_cvttps_epi32(a) }
        from_int(a: int) -> float { _mm256_cvtepi32_ps(a) }

        int_splat(v: i32) -> int { _mm256_set1_epi32(v) }
        int_add(a: int, b: int) -> int { _mm256_add_epi32(a, b) }
        int_sub(a: int, b: int) -> int { _mm256_sub_epi32(a, b) }
        int_mul(a: int, b: int) -> int { _mm256_mullo_epi32(a, b) }
        int_and(a: int, b: int) -> int { _mm256_and_si256(a, b) }
        int_or(a: int, b: int) -> int { _mm256_or_si256(a, b) }
        int_xor(a: int, b: int) -> int { _mm256_xor_si256(a, b) }
        int_shl(a: int, n: int) -> int { _mm256_sllv_epi32(a, n) }
        int_shr(a: int, n: int) -> int { _mm256_srav_epi32(a, n) }
        int_shr_logical(a: int, n: int) -> int { _mm256_srlv_epi32(a, n) }
        // Products of 64 bits, of the even elements and of the odd ones.
        int_mul_high(a: int, b: int) -> int {
            let even = _mm256_srli_epi64::<32>(_mm256_mul_epu32(a, b));
            let odd = _mm256_mul_epu32(_mm256_srli_epi64::<32>(a), _mm256_srli_epi64::<32>(b));
            _mm256_blend_epi32::<0xaa>(even, odd)
        }
        int_eq(a: int, b: int) -> mask { truths!(_mm256_cmpeq_epi32(a, b)) }
        int_lt(a: int, b: int) -> mask { truths!(_mm256_cmpgt_epi32(b, a)) }
        int_select(mask: mask, a: int, b: int) -> int { _mm256_blendv_epi8(b, a, ints!(mask)) }

        mask_splat(v: bool) -> mask { truths!(_mm256_set1_epi32(if v { -1 } else { 0 })) }
        mask_of_first(n: count) -> mask {
            let numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            truths!(_mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), numbers))
        }
        mask_and(a: mask, b: mask) -> mask { _mm256_and_ps(a, b) }
        mask_or(a: mask, b: mask) -> mask { _mm256_or_ps(a, b) }
        mask_xor(a: mask, b: mask) -> mask { _mm256_xor_ps(a, b) }
        mask_not(a: mask) -> mask { _mm256_xor_ps(a, truths!(_mm256_set1_epi32(-1))) }
    }
}
