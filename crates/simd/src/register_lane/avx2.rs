//! AVX2. A truth value is a number of which all bits are set, or none.
#![allow(unsafe_code, reason = "instructions that not every processor has")]

use super::register::{FloatRegister, instructions};
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

    instructions! {
        load(p: *const f32) -> Self { _mm256_loadu_ps(p) }
        store(a: Self, p: *mut f32) -> () { _mm256_storeu_ps(p, a) }
        splat(v: f32) -> Self { _mm256_set1_ps(v) }
        get_first(a: Self) -> f32 { _mm256_cvtss_f32(a) }
        swap[N: usize](a: Self) -> Self {
            match N {
                4 => _mm256_permute2f128_ps::<1>(a, a),
                2 => _mm256_permute_ps::<0x4e>(a),
                _ => _mm256_permute_ps::<0xb1>(a),
            }
        }

        add(a: Self, b: Self) -> Self { _mm256_add_ps(a, b) }
        sub(a: Self, b: Self) -> Self { _mm256_sub_ps(a, b) }
        mul(a: Self, b: Self) -> Self { _mm256_mul_ps(a, b) }
        div(a: Self, b: Self) -> Self { _mm256_div_ps(a, b) }
        fma(a: Self, b: Self, c: Self) -> Self { _mm256_fmadd_ps(a, b, c) }
        sqrt(a: Self) -> Self { _mm256_sqrt_ps(a) }
        neg(a: Self) -> Self { _mm256_xor_ps(a, _mm256_set1_ps(-0.0)) }
        abs(a: Self) -> Self { _mm256_andnot_ps(_mm256_set1_ps(-0.0), a) }
        with_sign_bit(a: Self, sign: Self) -> Self {
            _mm256_or_ps(Self::abs(a), _mm256_and_ps(sign, _mm256_set1_ps(-0.0)))
        }
        round[DIRECTION: i32](a: Self) -> Self { _mm256_round_ps::<DIRECTION>(a) }
        // Of two zeros, and of a number and a NaN, the instruction gives the second operand. In
        // both orders: results differ only then, and the smaller zero, and NaN, have more bits set.
        min(a: Self, b: Self) -> Self { _mm256_or_ps(_mm256_min_ps(a, b), _mm256_min_ps(b, a)) }
        // The larger zero has fewer bits set, but NaN more.
        max(a: Self, b: Self) -> Self {
            _mm256_or_ps(Self::max_of_numbers(a, b), Self::unordered(a, b))
        }
        min_of_numbers(a: Self, b: Self) -> Self { Self::min(a, b) }
        max_of_numbers(a: Self, b: Self) -> Self {
            _mm256_and_ps(_mm256_max_ps(a, b), _mm256_max_ps(b, a))
        }
        smaller(a: Self, b: Self) -> Self { _mm256_min_ps(a, b) }
        larger(a: Self, b: Self) -> Self { _mm256_max_ps(a, b) }
        scaled(_a: Self, _n: Self) -> Self { unreachable!("AVX2 has no instruction for it") }

        lt(a: Self, b: Self) -> Truths { _mm256_cmp_ps::<_CMP_LT_OQ>(a, b) }
        le(a: Self, b: Self) -> Truths { _mm256_cmp_ps::<_CMP_LE_OQ>(a, b) }
        eq(a: Self, b: Self) -> Truths { _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b) }
        unordered(a: Self, b: Self) -> Truths { _mm256_cmp_ps::<_CMP_UNORD_Q>(a, b) }
        select(mask: Truths, a: Self, b: Self) -> Self { _mm256_blendv_ps(b, a, mask) }

        to_bits(a: Self) -> Ints { _mm256_castps_si256(a) }
        from_bits(a: Ints) -> Self { _mm256_castsi256_ps(a) }
        to_int(a: Self) -> Ints { _mm256_cvttps_epi32(a) }
        from_int(a: Ints) -> Self { _mm256_cvtepi32_ps(a) }

        int_splat(v: i32) -> Ints { _mm256_set1_epi32(v) }
        int_add(a: Ints, b: Ints) -> Ints { _mm256_add_epi32(a, b) }
        int_sub(a: Ints, b: Ints) -> Ints { _mm256_sub_epi32(a, b) }
        int_mul(a: Ints, b: Ints) -> Ints { _mm256_mullo_epi32(a, b) }
        int_and(a: Ints, b: Ints) -> Ints { _mm256_and_si256(a, b) }
        int_or(a: Ints, b: Ints) -> Ints { _mm256_or_si256(a, b) }
        int_xor(a: Ints, b: Ints) -> Ints { _mm256_xor_si256(a, b) }
        int_shl(a: Ints, n: Ints) -> Ints { _mm256_sllv_epi32(a, n) }
        int_shr(a: Ints, n: Ints) -> Ints { _mm256_srav_epi32(a, n) }
        int_shr_logical(a: Ints, n: Ints) -> Ints { _mm256_srlv_epi32(a, n) }
        // Products of 64 bits, of the even elements and of the odd ones.
        int_mul_high(a: Ints, b: Ints) -> Ints {
            let even = _mm256_srli_epi64::<32>(_mm256_mul_epu32(a, b));
            let odd = _mm256_mul_epu32(_mm256_srli_epi64::<32>(a), _mm256_srli_epi64::<32>(b));
            _mm256_blend_epi32::<0xaa>(even, odd)
        }
        int_eq(a: Ints, b: Ints) -> Truths { truths!(_mm256_cmpeq_epi32(a, b)) }
        int_lt(a: Ints, b: Ints) -> Truths { truths!(_mm256_cmpgt_epi32(b, a)) }
        int_select(mask: Truths, a: Ints, b: Ints) -> Ints { _mm256_blendv_epi8(b, a, ints!(mask)) }

        mask_splat(v: bool) -> Truths { truths!(_mm256_set1_epi32(if v { -1 } else { 0 })) }
        mask_of_first(n: usize) -> Truths {
            let numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            truths!(_mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), numbers))
        }
        mask_and(a: Truths, b: Truths) -> Truths { _mm256_and_ps(a, b) }
        mask_or(a: Truths, b: Truths) -> Truths { _mm256_or_ps(a, b) }
        mask_xor(a: Truths, b: Truths) -> Truths { _mm256_xor_ps(a, b) }
        mask_not(a: Truths) -> Truths { _mm256_xor_ps(a, Self::mask_splat(true)) }
        mask_bits(a: Truths) -> u16 { _mm256_movemask_ps(a) as u16 }
        all(a: Truths) -> bool { _mm256_movemask_ps(a) == 0xff }
    }
}
