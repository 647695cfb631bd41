//! AVX-512 F and DQ. A truth value is a bit of a mask register.
#![allow(unsafe_code, reason = "instructions that not every processor has")]

use super::register::{
    FloatRegister, RegisterMaskLane, each_register, initial, instructions, operand, part, result,
};
use std::arch::x86_64::*;

/// Modes of `vrangeps`, which puts -0 before +0: the sign is that of the operand taken.
const RANGE_MIN: i32 = 0b0100;
const RANGE_MAX: i32 = 0b0101;

type Ints = __m512i;
type Truths = __mmask16;

impl FloatRegister for __m512 {
    type Int = Ints;
    type Mask = Truths;
    const LANES: usize = 16;
    // SAFETY: any bits are a register's.
    const ZERO: Self = unsafe { std::mem::transmute([0.0f32; 16]) };
    // SAFETY: as above.
    const INT_ZERO: Ints = unsafe { std::mem::transmute([0i32; 16]) };
    const MASK_FALSE: Truths = 0;
    const SCALES: bool = true;

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn bits_of_mask(a: &RegisterMaskLane<Self, 1>) -> u16 {
        a.0[0]
    }

    instructions! { "avx512f,avx512dq";
        splat(v: f32) -> float { _mm512_set1_ps(v) }
        swap[N: usize](a: float) -> float {
            match N {
                8 => _mm512_shuffle_f32x4::<0x4e>(a, a),
                4 => _mm512_shuffle_f32x4::<0xb1>(a, a),
                2 => _mm512_shuffle_ps::<0x4e>(a, a),
                _ => _mm512_shuffle_ps::<0xb1>(a, a),
            }
        }

        add(a: float, b: float) -> float { _mm512_add_ps(a, b) }
        sub(a: float, b: float) -> float { _mm512_sub_ps(a, b) }
        mul(a: float, b: float) -> float { _mm512_mul_ps(a, b) }
        div(a: float, b: float) -> float { _mm512_div_ps(a, b) }
        fma(a: float, b: float, c: float) -> float { _mm512_fmadd_ps(a, b, c) }
        sqrt(a: float) -> float { _mm512_sqrt_ps(a) }
        neg(a: float) -> float { _mm512_xor_ps(a, _mm512_set1_ps(-0.0)) }
        abs(a: float) -> float { _mm512_abs_ps(a) }
        // `vpternlog` of (mask, a, b): 0xca gives a where the mask is 1 and b where it is 0.
        with_sign_bit(a: float, sign: float) -> float {
            let (a, sign) = (_mm512_castps_si512(a), _mm512_castps_si512(sign));
            _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0xca>(_mm512_set1_epi32(i32::MAX), a, sign))
        }
        round[DIRECTION: i32](a: float) -> float { _mm512_roundscale_ps::<DIRECTION>(a) }
        // Of a number and a NaN, `vrangeps` gives the number; their sum is NaN.
        min(a: float, b: float) -> float {
            _mm512_mask_add_ps(_mm512_range_ps::<RANGE_MIN>(a, b), _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, b), a, b)
        }
        max(a: float, b: float) -> float {
            _mm512_mask_add_ps(_mm512_range_ps::<RANGE_MAX>(a, b), _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, b), a, b)
        }
        min_of_numbers(a: float, b: float) -> float { _mm512_range_ps::<RANGE_MIN>(a, b) }
        max_of_numbers(a: float, b: float) -> float { _mm512_range_ps::<RANGE_MAX>(a, b) }
        // If one of the two is NaN, and for two zeros, the instructions give the second operand.
        smaller(a: float, b: float) -> float { _mm512_min_ps(a, b) }
        larger(a: float, b: float) -> float { _mm512_max_ps(a, b) }
        scaled(a: float, n: float) -> float { _mm512_scalef_ps(a, n) }

        lt(a: float, b: float) -> mask { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b) }
        le(a: float, b: float) -> mask { _mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b) }
        eq(a: float, b: float) -> mask { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b) }
        unordered(a: float, b: float) -> mask { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, b) }
        select(mask: mask, a: float, b: float) -> float { _mm512_mask_blend_ps(mask, b, a) }

        to_bits(a: float) -> int { _mm512_castps_si512(a) }
        from_bits(a: int) -> float { _mm512_castsi512_ps(a) }
        to_int(a: float) -> int { _mm512_cvttps_epi32(a) }
        from_int(a: int) -> float { _mm512_cvtepi32_ps(a) }

        int_splat(v: i32) -> int { _mm512_set1_epi32(v) }
        int_add(a: int, b: int) -> int { _mm512_add_epi32(a, b) }
        int_sub(a: int, b: int) -> int { _mm512_sub_epi32(a, b) }
        int_mul(a: int, b: int) -> int { _mm512_mullo_epi32(a, b) }
        int_and(a: int, b: int) -> int { _mm512_and_si512(a, b) }
        int_or(a: int, b: int) -> int { _mm512_or_si512(a, b) }
        int_xor(a: int, b: int) -> int { _mm512_xor_si512(a, b) }
        int_shl(a: int, n: int) -> int { _mm512_sllv_epi32(a, n) }
        int_shr(a: int, n: int) -> int { _mm512_srav_epi32(a, n) }
        int_shr_logical(a: int, n: int) -> int { _mm512_srlv_epi32(a, n) }
        // Products of 64 bits, of the even elements and of the odd ones.
        int_mul_high(a: int, b: int) -> int {
            let even = _mm512_srli_epi64::<32>(_mm512_mul_epu32(a, b));
            let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(a), _mm512_srli_epi64::<32>(b));
            _mm512_mask_blend_epi32(0xaaaa, even, odd)
        }
        int_eq(a: int, b: int) -> mask { _mm512_cmpeq_epi32_mask(a, b) }
        int_lt(a: int, b: int) -> mask { _mm512_cmplt_epi32_mask(a, b) }
        int_select(mask: mask, a: int, b: int) -> int { _mm512_mask_blend_epi32(mask, b, a) }

        mask_splat(v: bool) -> mask { if v { !0 } else { 0 } }
        mask_of_first(n: count) -> mask { ((1u32 << n) - 1) as u16 }
        mask_and(a: mask, b: mask) -> mask { a & b }
        mask_or(a: mask, b: mask) -> mask { a | b }
        mask_xor(a: mask, b: mask) -> mask { a ^ b }
        mask_not(a: mask) -> mask { !a }
    }
}
