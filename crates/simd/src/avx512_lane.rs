//! The f32 `Lane` on AVX-512: `K` registers, unrolled, that go through each operation together.
//!
//! Several independent registers hide the latency of elementary functions, which are long
//! dependency chains. Every operation has the meaning that [`Lane`] gives it; where an instruction
//! differs (min and max, which ignore NaN), the difference is corrected. How it can be wrong: in
//! such a correction. The tests compare each operation with the scalar lane.
#![allow(unsafe_code, reason = "instructions that not every processor has")]

use super::dispatch::{ReduceLanes, SimdLanes};
use elinvar_lane::formula::Fold;
use elinvar_lane::lane::{Lane, LaneInt, Mask};
use elinvar_lane::math::moderate_bound;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};
use std::sync::atomic::{Ordering, compiler_fence};

/// Elements of a register.
const F32_LANES: usize = 16;

/// `K` registers of f32.
///
/// Values of these three types are created in work that `dispatch::run_lanes` runs, on processors
/// with AVX-512 F and DQ. That is what makes each operation here sound.
#[derive(Clone, Copy)]
pub struct Avx512Lane<const K: usize>([__m512; K]);
/// The bits of these f32, or as many i32.
#[derive(Clone, Copy)]
pub struct Avx512IntLane<const K: usize>([__m512i; K]);
/// A truth value for each.
#[derive(Clone, Copy)]
pub struct Avx512MaskLane<const K: usize>([__mmask16; K]);

/// Most registers in one value.
const MAX_REGISTERS: usize = 6;

/// The body for each register, unrolled: the array stays in registers only if every index is a
/// constant before the compiler decides on their storage. (No closures, which would be compiled
/// without the instruction set.)
macro_rules! each_register {
    ($i:ident => $body:expr) => {
        each_register!(@ $i, $body, 0 1 2 3 4 5)
    };
    (@ $i:ident, $body:expr, $($number:literal)*) => {{
        const { assert!(K <= MAX_REGISTERS) };
        $(if K > $number {
            let $i = $number;
            $body
        })*
    }};
}

/// An operation on register `i` of each operand, for all of them.
macro_rules! each {
    ($out:ident($zero:expr): $i:ident => $body:expr) => {{
        let mut all = [$zero; K];
        // SAFETY: the operands exist only on a processor with AVX-512.
        each_register!($i => all[$i] = unsafe { $body });
        $out(all)
    }};
    // SAFETY: as above.
    (float, $i:ident => $body:expr) => { each!(Avx512Lane(unsafe { _mm512_setzero_ps() }): $i => $body) };
    // SAFETY: as above.
    (int, $i:ident => $body:expr) => { each!(Avx512IntLane(unsafe { _mm512_setzero_si512() }): $i => $body) };
    (mask, $i:ident => $body:expr) => { each!(Avx512MaskLane(0): $i => $body) };
}

impl<const K: usize> SimdLanes<f32> for Avx512Lane<K> {
    const WIDTH: usize = K * F32_LANES;
    #[inline(always)]
    fn load(from: &[f32]) -> Self {
        let from = &from[..K * F32_LANES];
        // SAFETY of the loads: the line above checks the length.
        each!(float, i => in_turn(_mm512_loadu_ps(from.as_ptr().add(i * F32_LANES))))
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        let to = &mut to[..K * F32_LANES];
        // SAFETY: the line above checks the length.
        each_register!(i => unsafe { _mm512_storeu_ps(to.as_mut_ptr().add(i * F32_LANES), self.0[i]) });
    }
    #[inline(always)]
    fn write(self, to: &mut [MaybeUninit<f32>]) {
        let to = &mut to[..K * F32_LANES];
        // SAFETY: as above.
        each_register!(i => unsafe { _mm512_storeu_ps(to.as_mut_ptr().cast::<f32>().add(i * F32_LANES), self.0[i]) });
    }
    #[inline(always)]
    fn splat(v: f32) -> Self {
        each!(float, _i => _mm512_set1_ps(v))
    }
}

/// A register whose load stays behind the loads before it in program order. The compiler may
/// reorder several to descending addresses, which hardware prefetch follows less well.
#[inline(always)]
fn in_turn(x: __m512) -> __m512 {
    compiler_fence(Ordering::SeqCst);
    x
}

/// A register with its elements permuted.
macro_rules! transposed {
    ($x:ident, $($instruction:tt)*) => {
        // SAFETY: the processor has AVX-512, as the register says.
        Avx512Lane([unsafe { $($instruction)*($x.0[0], $x.0[0]) }])
    };
}

impl<const K: usize> ReduceLanes<f32> for Avx512Lane<K> {
    #[inline(always)]
    fn first(self, n: usize, other: f32) -> Self {
        each!(float, i => {
            let mask = (1u32 << n.saturating_sub(i * F32_LANES).min(F32_LANES)) - 1;
            _mm512_mask_blend_ps(mask as u16, _mm512_set1_ps(other), self.0[i])
        })
    }
    #[inline(always)]
    fn combine(f: Fold, a: Self, b: Self) -> Self {
        match f {
            Fold::Sum => a + b,
            Fold::Prod => a * b,
            Fold::Max => each!(float, i => _mm512_range_ps::<RANGE_MAX>(a.0[i], b.0[i])),
            Fold::Min => each!(float, i => _mm512_range_ps::<RANGE_MIN>(a.0[i], b.0[i])),
        }
    }
    type Few = Avx512Lane<1>;
    #[inline(always)]
    fn few(self, f: Fold) -> Avx512Lane<1> {
        const { assert!(K == 1 || K == 2 || K == 4) };
        // An index that is too large belongs to a branch that is not taken.
        let [a, b, c, d] = [
            Avx512Lane([self.0[0]]),
            Avx512Lane([self.0[1 % K]]),
            Avx512Lane([self.0[2 % K]]),
            Avx512Lane([self.0[3 % K]]),
        ];
        match K {
            4 => Avx512Lane::combine(f, Avx512Lane::combine(f, a, c), Avx512Lane::combine(f, b, d)),
            2 => Avx512Lane::combine(f, a, b),
            _ => a,
        }
    }
    #[inline(always)]
    fn folded(x: Avx512Lane<1>, f: Fold) -> f32 {
        // Tree reduction: halves, then quarters, pairs, and single elements.
        let x = Avx512Lane::combine(f, x, transposed!(x, _mm512_shuffle_f32x4::<0x4e>));
        let x = Avx512Lane::combine(f, x, transposed!(x, _mm512_shuffle_f32x4::<0xb1>));
        let x = Avx512Lane::combine(f, x, transposed!(x, _mm512_shuffle_ps::<0x4e>));
        let x = Avx512Lane::combine(f, x, transposed!(x, _mm512_shuffle_ps::<0xb1>));
        // SAFETY: the processor has AVX-512, as the register says.
        unsafe { _mm512_cvtss_f32(x.0[0]) }
    }
    /// Two registers are tested by one comparison: unordered (NaN) in either sets the bit.
    #[inline(always)]
    fn or_nan(self, mut seen: u16) -> u16 {
        // SAFETY: the processor has AVX-512, as the registers say.
        each_register!(i => if i % 2 == 0 {
            seen |= unsafe { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self.0[i], self.0[(i + 1).min(K - 1)]) };
        });
        seen
    }
}

macro_rules! operators {
    ($kind:ident $type:ident: $($operator:ident $name:ident $instruction:ident;)*) => {$(
        impl<const K: usize> $operator for $type<K> {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                each!($kind, i => $instruction(self.0[i], other.0[i]))
            }
        }
    )*};
}
operators! { float Avx512Lane: Add add _mm512_add_ps; Sub sub _mm512_sub_ps; Mul mul _mm512_mul_ps; Div div _mm512_div_ps; }
operators! { int Avx512IntLane: Add add _mm512_add_epi32; Sub sub _mm512_sub_epi32; Mul mul _mm512_mullo_epi32; }
operators! { int Avx512IntLane: BitAnd bitand _mm512_and_si512; BitOr bitor _mm512_or_si512; BitXor bitxor _mm512_xor_si512; }

impl<const K: usize> Neg for Avx512Lane<K> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        each!(float, i => _mm512_xor_ps(self.0[i], _mm512_set1_ps(-0.0)))
    }
}

impl<const K: usize> Not for Avx512IntLane<K> {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        each!(int, i => _mm512_xor_si512(self.0[i], _mm512_set1_epi32(-1)))
    }
}

macro_rules! of_masks {
    ($($operator:ident $name:ident;)*) => {$(
        impl<const K: usize> $operator for Avx512MaskLane<K> {
            type Output = Self;
            #[inline(always)]
            fn $name(mut self, other: Self) -> Self {
                each_register!(i => self.0[i] = self.0[i].$name(other.0[i]));
                self
            }
        }
    )*};
}
of_masks! { BitAnd bitand; BitOr bitor; BitXor bitxor; }

impl<const K: usize> Not for Avx512MaskLane<K> {
    type Output = Self;
    #[inline(always)]
    fn not(mut self) -> Self {
        each_register!(i => self.0[i] = !self.0[i]);
        self
    }
}

impl<const K: usize> Mask for Avx512MaskLane<K> {
    #[inline(always)]
    fn all_lanes(v: bool) -> Self {
        Avx512MaskLane([if v { !0 } else { 0 }; K])
    }
}

impl<const K: usize> LaneInt<Avx512MaskLane<K>> for Avx512IntLane<K> {
    #[inline(always)]
    fn lit(v: i64) -> Self {
        each!(int, _i => _mm512_set1_epi32(v as i32))
    }
    #[inline(always)]
    fn shl(self, n: u32) -> Self {
        self.shl_by(Self::lit(n.into()))
    }
    #[inline(always)]
    fn shr(self, n: u32) -> Self {
        each!(int, i => _mm512_srav_epi32(self.0[i], _mm512_set1_epi32(n as i32)))
    }
    #[inline(always)]
    fn shr_logical(self, n: u32) -> Self {
        self.shr_logical_by(Self::lit(n.into()))
    }
    #[inline(always)]
    fn shl_by(self, n: Self) -> Self {
        each!(int, i => _mm512_sllv_epi32(self.0[i], n.0[i]))
    }
    #[inline(always)]
    fn shr_logical_by(self, n: Self) -> Self {
        each!(int, i => _mm512_srlv_epi32(self.0[i], n.0[i]))
    }
    #[inline(always)]
    fn mul_high_unsigned(self, other: Self) -> Self {
        // Products of 64 bits, of the even elements and of the odd ones.
        each!(int, i => {
            let (a, b) = (self.0[i], other.0[i]);
            let even = _mm512_srli_epi64::<32>(_mm512_mul_epu32(a, b));
            let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(a), _mm512_srli_epi64::<32>(b));
            _mm512_mask_blend_epi32(0xaaaa, even, odd)
        })
    }
    #[inline(always)]
    fn eq(self, other: Self) -> Avx512MaskLane<K> {
        each!(mask, i => _mm512_cmpeq_epi32_mask(self.0[i], other.0[i]))
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Avx512MaskLane<K> {
        each!(mask, i => _mm512_cmplt_epi32_mask(self.0[i], other.0[i]))
    }
    #[inline(always)]
    fn select(mask: Avx512MaskLane<K>, a: Self, b: Self) -> Self {
        each!(int, i => _mm512_mask_blend_epi32(mask.0[i], b.0[i], a.0[i]))
    }
}

/// Remainders of the elements that have no bit in `done`.
///
/// # Safety
/// AVX-512.
#[cold]
#[target_feature(enable = "avx512f")]
unsafe fn one_by_one(made: __m512, done: u16, a: __m512, b: __m512) -> __m512 {
    let [mut y, mut dividends, mut divisors] = [[0.0f32; F32_LANES]; 3];
    // SAFETY: the arrays have as many elements as a register.
    unsafe {
        _mm512_storeu_ps(y.as_mut_ptr(), made);
        _mm512_storeu_ps(dividends.as_mut_ptr(), a);
        _mm512_storeu_ps(divisors.as_mut_ptr(), b);
    }
    for i in (0..F32_LANES).filter(|i| done >> i & 1 == 0) {
        y[i] = dividends[i] % divisors[i];
    }
    // SAFETY: as above.
    unsafe { _mm512_loadu_ps(y.as_ptr()) }
}

/// Ways of rounding to a whole number, for `vrndscaleps`; none raises an exception.
const ROUND_NEAREST: i32 = 8;
const ROUND_DOWN: i32 = 8 | 1;
const ROUND_UP: i32 = 8 | 2;
const ROUND_TOWARDS_ZERO: i32 = 8 | 3;
/// Modes of `vrangeps`, which puts -0 before +0: the sign is that of the operand taken.
const RANGE_MIN: i32 = 0b0100;
const RANGE_MAX: i32 = 0b0101;

impl<const K: usize> Lane for Avx512Lane<K> {
    type Mask = Avx512MaskLane<K>;
    type Int = Avx512IntLane<K>;
    const BITS: u32 = 32;
    const SCALES: bool = true;

    #[inline(always)]
    fn lit(v: f64) -> Self {
        each!(float, _i => _mm512_set1_ps(v as f32))
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        each!(float, i => _mm512_fmadd_ps(self.0[i], b.0[i], c.0[i]))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        each!(float, i => _mm512_sqrt_ps(self.0[i]))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        each!(float, i => _mm512_abs_ps(self.0[i]))
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        // Of a number and a NaN, `vrangeps` gives the number; their sum is NaN.
        each!(float, i => {
            let (a, b) = (self.0[i], other.0[i]);
            let smaller = _mm512_range_ps::<RANGE_MIN>(a, b);
            _mm512_mask_add_ps(smaller, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, b), a, b)
        })
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        each!(float, i => {
            let (a, b) = (self.0[i], other.0[i]);
            let larger = _mm512_range_ps::<RANGE_MAX>(a, b);
            _mm512_mask_add_ps(larger, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, b), a, b)
        })
    }
    #[inline(always)]
    fn round(self) -> Self {
        each!(float, i => _mm512_roundscale_ps::<ROUND_NEAREST>(self.0[i]))
    }
    #[inline(always)]
    fn floor(self) -> Self {
        each!(float, i => _mm512_roundscale_ps::<ROUND_DOWN>(self.0[i]))
    }
    #[inline(always)]
    fn ceil(self) -> Self {
        each!(float, i => _mm512_roundscale_ps::<ROUND_UP>(self.0[i]))
    }
    #[inline(always)]
    fn trunc(self) -> Self {
        each!(float, i => _mm512_roundscale_ps::<ROUND_TOWARDS_ZERO>(self.0[i]))
    }
    #[inline(always)]
    fn with_sign_bit(self, sign: Self) -> Self {
        // `vpternlog` of (mask, a, b): 0xca gives a where the mask is 1 and b where it is 0.
        each!(float, i => {
            let (a, b) = (_mm512_castps_si512(self.0[i]), _mm512_castps_si512(sign.0[i]));
            _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0xca>(_mm512_set1_epi32(i32::MAX), a, b))
        })
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Avx512MaskLane<K> {
        each!(mask, i => _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0[i], other.0[i]))
    }
    #[inline(always)]
    fn le(self, other: Self) -> Avx512MaskLane<K> {
        each!(mask, i => _mm512_cmp_ps_mask::<_CMP_LE_OQ>(self.0[i], other.0[i]))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> Avx512MaskLane<K> {
        each!(mask, i => _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self.0[i], other.0[i]))
    }
    #[inline(always)]
    fn is_nan(self) -> Avx512MaskLane<K> {
        each!(mask, i => _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self.0[i], self.0[i]))
    }
    #[inline(always)]
    fn select(mask: Avx512MaskLane<K>, a: Self, b: Self) -> Self {
        each!(float, i => _mm512_mask_blend_ps(mask.0[i], b.0[i], a.0[i]))
    }
    // If one of the two is NaN, and for two zeros, the instructions give the second operand.
    #[inline(always)]
    fn at_least(self, low: Self) -> Self {
        each!(float, i => _mm512_max_ps(low.0[i], self.0[i]))
    }
    #[inline(always)]
    fn at_most(self, high: Self) -> Self {
        each!(float, i => _mm512_min_ps(high.0[i], self.0[i]))
    }
    #[inline(always)]
    fn to_bits(self) -> Avx512IntLane<K> {
        each!(int, i => _mm512_castps_si512(self.0[i]))
    }
    #[inline(always)]
    fn from_bits(bits: Avx512IntLane<K>) -> Self {
        each!(float, i => _mm512_castsi512_ps(bits.0[i]))
    }
    #[inline(always)]
    fn to_int(self) -> Avx512IntLane<K> {
        each!(int, i => _mm512_cvttps_epi32(self.0[i]))
    }
    #[inline(always)]
    fn from_int(v: Avx512IntLane<K>) -> Self {
        each!(float, i => _mm512_cvtepi32_ps(v.0[i]))
    }
    #[inline(always)]
    fn scaled(self, n: Self) -> Option<Self> {
        Some(each!(float, i => _mm512_scalef_ps(self.0[i], n.0[i])))
    }
    #[inline(always)]
    fn are_moderate(self) -> bool {
        let mut all = !0;
        // SAFETY: the processor has AVX-512, as the registers say.
        each_register!(i => all &= unsafe {
            _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0[i], _mm512_set1_ps(moderate_bound()))
        });
        all == !0
    }
    /// By the whole part of the quotient, as long as it is small enough to be exact, or one too
    /// large: which is so if the quotient was rounded up to it. The remainder is then a multiple of
    /// the last bit of both numbers and less than the divisor, so the fma is exact. Other elements
    /// are computed one at a time.
    #[inline(always)]
    fn fmod(self, other: Self) -> Self {
        each!(float, i => {
            let (a, b) = (self.0[i], other.0[i]);
            let (x, y) = (_mm512_abs_ps(a), _mm512_abs_ps(b));
            let quotient = _mm512_roundscale_ps::<ROUND_TOWARDS_ZERO>(_mm512_div_ps(x, y));
            let left = _mm512_fnmadd_ps(quotient, y, x);
            let too_large = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(left, _mm512_setzero_ps());
            let left = _mm512_mask_add_ps(left, too_large, left, y);
            let sign = _mm512_and_ps(a, _mm512_set1_ps(-0.0));
            let left = _mm512_or_ps(left, sign);
            // Excludes NaN, infinities, and division by zero.
            let exact = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(quotient, _mm512_set1_ps(4_194_304.0))
                & _mm512_cmp_ps_mask::<_CMP_LT_OQ>(y, _mm512_set1_ps(f32::INFINITY));
            if exact == !0 { left } else { one_by_one(left, exact, a, b) }
        })
    }
}

#[cfg(test)]
mod tests;
