//! AVX-512 F and DQ. A truth value is a bit of a mask register.
#![allow(unsafe_code, reason = "instructions that not every processor has")]

use super::register::{FloatRegister, instructions};
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

    instructions! {
        load(p: *const f32) -> Self { _mm512_loadu_ps(p) }
        store(a: Self, p: *mut f32) -> () { _mm512_storeu_ps(p, a) }
        splat(v: f32) -> Self { _mm512_set1_ps(v) }
        get_first(a: Self) -> f32 { _mm512_cvtss_f32(a) }
        swap[N: usize](a: Self) -> Self {
            match N {
                8 => _mm512_shuffle_f32x4::<0x4e>(a, a),
                4 => _mm512_shuffle_f32x4::<0xb1>(a, a),
                2 => _mm512_shuffle_ps::<0x4e>(a, a),
                _ => _mm512_shuffle_ps::<0xb1>(a, a),
            }
        }

        add(a: Self, b: Self) -> Self { _mm512_add_ps(a, b) }
        sub(a: Self, b: Self) -> Self { _mm512_sub_ps(a, b) }
        mul(a: Self, b: Self) -> Self { _mm512_mul_ps(a, b) }
        div(a: Self, b: Self) -> Self { _mm512_div_ps(a, b) }
        fma(a: Self, b: Self, c: Self) -> Self { _mm512_fmadd_ps(a, b, c) }
        sqrt(a: Self) -> Self { _mm512_sqrt_ps(a) }
        neg(a: Self) -> Self { _mm512_xor_ps(a, _mm512_set1_ps(-0.0)) }
        abs(a: Self) -> Self { _mm512_abs_ps(a) }
        // `vpternlog` of (mask, a, b): 0xca gives a where the mask is 1 and b where it is 0.
        with_sign_bit(a: Self, sign: Self) -> Self {
            let (a, sign) = (_mm512_castps_si512(a), _mm512_castps_si512(sign));
            _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0xca>(_mm512_set1_epi32(i32::MAX), a, sign))
        }
        round[DIRECTION: i32](a: Self) -> Self { _mm512_roundscale_ps::<DIRECTION>(a) }
        // Of a number and a NaN, `vrangeps` gives the number; their sum is NaN.
        min(a: Self, b: Self) -> Self {
            _mm512_mask_add_ps(Self::min_of_numbers(a, b), Self::unordered(a, b), a, b)
        }
        max(a: Self, b: Self) -> Self {
            _mm512_mask_add_ps(Self::max_of_numbers(a, b), Self::unordered(a, b), a, b)
        }
        min_of_numbers(a: Self, b: Self) -> Self { _mm512_range_ps::<RANGE_MIN>(a, b) }
        max_of_numbers(a: Self, b: Self) -> Self { _mm512_range_ps::<RANGE_MAX>(a, b) }
        // If one of the two is NaN, and for two zeros, the instructions give the second operand.
        smaller(a: Self, b: Self) -> Self { _mm512_min_ps(a, b) }
        larger(a: Self, b: Self) -> Self { _mm512_max_ps(a, b) }
        scaled(a: Self, n: Self) -> Self { _mm512_scalef_ps(a, n) }

        lt(a: Self, b: Self) -> Truths { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b) }
        le(a: Self, b: Self) -> Truths { _mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b) }
        eq(a: Self, b: Self) -> Truths { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b) }
        unordered(a: Self, b: Self) -> Truths { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, b) }
        select(mask: Truths, a: Self, b: Self) -> Self { _mm512_mask_blend_ps(mask, b, a) }

        to_bits(a: Self) -> Ints { _mm512_castps_si512(a) }
        from_bits(a: Ints) -> Self { _mm512_castsi512_ps(a) }
        to_int(a: Self) -> Ints { _mm512_cvttps_epi32(a) }
        from_int(a: Ints) -> Self { _mm512_cvtepi32_ps(a) }

        int_splat(v: i32) -> Ints { _mm512_set1_epi32(v) }
        int_add(a: Ints, b: Ints) -> Ints { _mm512_add_epi32(a, b) }
        int_sub(a: Ints, b: Ints) -> Ints { _mm512_sub_epi32(a, b) }
        int_mul(a: Ints, b: Ints) -> Ints { _mm512_mullo_epi32(a, b) }
        int_and(a: Ints, b: Ints) -> Ints { _mm512_and_si512(a, b) }
        int_or(a: Ints, b: Ints) -> Ints { _mm512_or_si512(a, b) }
        int_xor(a: Ints, b: Ints) -> Ints { _mm512_xor_si512(a, b) }
        int_shl(a: Ints, n: Ints) -> Ints { _mm512_sllv_epi32(a, n) }
        int_shr(a: Ints, n: Ints) -> Ints { _mm512_srav_epi32(a, n) }
        int_shr_logical(a: Ints, n: Ints) -> Ints { _mm512_srlv_epi32(a, n) }
        // Products of 64 bits, of the even elements and of the odd ones.
        int_mul_high(a: Ints, b: Ints) -> Ints {
            let even = _mm512_srli_epi64::<32>(_mm512_mul_epu32(a, b));
            let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(a), _mm512_srli_epi64::<32>(b));
            _mm512_mask_blend_epi32(0xaaaa, even, odd)
        }
        int_eq(a: Ints, b: Ints) -> Truths { _mm512_cmpeq_epi32_mask(a, b) }
        int_lt(a: Ints, b: Ints) -> Truths { _mm512_cmplt_epi32_mask(a, b) }
        int_select(mask: Truths, a: Ints, b: Ints) -> Ints { _mm512_mask_blend_epi32(mask, b, a) }

        mask_splat(v: bool) -> Truths { if v { !0 } else { 0 } }
        mask_of_first(n: usize) -> Truths { ((1u32 << n) - 1) as u16 }
        mask_and(a: Truths, b: Truths) -> Truths { a & b }
        mask_or(a: Truths, b: Truths) -> Truths { a | b }
        mask_xor(a: Truths, b: Truths) -> Truths { a ^ b }
        mask_not(a: Truths) -> Truths { !a }
        mask_bits(a: Truths) -> u16 { a }
        all(a: Truths) -> bool { a == !0 }
    }
}
