//! Vector registers of WebAssembly's simd128, which has no fused multiply-add.
//!
//! [`F32x4`]'s is built from f64: the product of two f32 is exact there, the sum is rounded to odd
//! (the error of an addition is exact, too: [2Sum]), and f64 has more than two bits more than f32,
//! so the second rounding, to f32, gives what one rounding would ([Boldo and Melquiond, 2008]).
//! [`F64x2`]'s is that of the standard library, number by number.
//!
//! With `-Ctarget-feature=+relaxed-simd` both are one instruction, which an engine may fuse or not:
//! such a module is for engines that were found to fuse it.
//!
//! [2Sum]: https://doi.org/10.1007/978-3-319-76526-6
//! [Boldo and Melquiond, 2008]: https://doi.org/10.1109/TC.2007.70819
#![allow(unsafe_code, reason = "vector loads and stores")]

use super::vector::Vector;
use std::arch::wasm32::*;

/// Four f32.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct F32x4(pub(crate) v128);

/// Two f64.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct F64x2(pub(crate) v128);

macro_rules! register {
    ($v:ident, $t:ty, $lanes:literal, $rows:literal: $splat:ident $add:ident $sub:ident $mul:ident $fma:ident $max:ident $min:ident) => {
        impl Vector for $v {
            type T = $t;
            const LANES: usize = $lanes;
            const TILE_ROWS: usize = $rows;
            type Low = Self;
            #[inline(always)]
            unsafe fn low(self) -> Self {
                self
            }
            #[inline(always)]
            unsafe fn splat(v: $t) -> Self {
                $v($splat(v))
            }
            #[inline(always)]
            unsafe fn load(p: *const $t) -> Self {
                // SAFETY: the caller guarantees that the memory can be read; it need not be
                // aligned.
                $v(unsafe { v128_load(p.cast()) })
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $t) {
                // SAFETY: the caller guarantees that the memory can be written; it need not be
                // aligned.
                unsafe { v128_store(p.cast(), self.0) }
            }
            /// No effect: there is no such instruction.
            #[inline(always)]
            unsafe fn prefetch_l1(_: *const $t) {}
            /// As `prefetch_l1`.
            #[inline(always)]
            unsafe fn prefetch_l2(_: *const u8) {}
            #[inline(always)]
            unsafe fn fma(self, b: Self, c: Self) -> Self {
                $v($fma(self.0, b.0, c.0))
            }
            #[inline(always)]
            unsafe fn add(self, b: Self) -> Self {
                $v($add(self.0, b.0))
            }
            #[inline(always)]
            unsafe fn sub(self, b: Self) -> Self {
                $v($sub(self.0, b.0))
            }
            #[inline(always)]
            unsafe fn mul(self, b: Self) -> Self {
                $v($mul(self.0, b.0))
            }
            #[inline(always)]
            unsafe fn and(self, mask: Self) -> Self {
                $v(v128_and(self.0, mask.0))
            }
            #[inline(always)]
            unsafe fn select(self, other: Self, mask: Self) -> Self {
                $v(v128_bitselect(self.0, other.0, mask.0))
            }
        }

        impl $v {
            /// The larger of each two; of a NaN and a number, and of two zeros, either.
            #[inline(always)]
            pub unsafe fn larger(self, b: Self) -> Self {
                $v($max(self.0, b.0))
            }
            /// The smaller of each two, with the same exceptions.
            #[inline(always)]
            pub unsafe fn smaller(self, b: Self) -> Self {
                $v($min(self.0, b.0))
            }
        }
    };
}
// Engines on x86-64 have sixteen registers: eight accumulators leave room for what an fma needs.
register!(F32x4, f32, 4, 4: f32x4_splat f32x4_add f32x4_sub f32x4_mul fma_f32x4 f32x4_pmax f32x4_pmin);
register!(F64x2, f64, 2, 4: f64x2_splat f64x2_add f64x2_sub f64x2_mul fma_f64x2 f64x2_pmax f64x2_pmin);

impl F32x4 {
    /// All bits where a number is larger, none elsewhere.
    #[inline(always)]
    pub unsafe fn above(self, b: Self) -> Self {
        F32x4(f32x4_gt(self.0, b.0))
    }
    /// The first and third number of both.
    #[inline(always)]
    pub unsafe fn evens(self, b: Self) -> Self {
        F32x4(i32x4_shuffle::<0, 2, 4, 6>(self.0, b.0))
    }
    /// The second and fourth number of both.
    #[inline(always)]
    pub unsafe fn odds(self, b: Self) -> Self {
        F32x4(i32x4_shuffle::<1, 3, 5, 7>(self.0, b.0))
    }
}

// Operand by operand: an array's `map`, inlined into hundreds of fma, took the compiler longer than
// all else in kernels.
#[cfg(not(target_feature = "relaxed-simd"))]
#[inline(always)]
fn fma_f32x4(a: v128, b: v128, c: v128) -> v128 {
    let upper = |x: v128| f64x2_promote_low_f32x4(i64x2_shuffle::<1, 1>(x, x));
    let lower = |x: v128| f64x2_promote_low_f32x4(x);
    let low = f32x4_demote_f64x2_zero(mul_add_to_odd(lower(a), lower(b), lower(c)));
    let high = f32x4_demote_f64x2_zero(mul_add_to_odd(upper(a), upper(b), upper(c)));
    i64x2_shuffle::<0, 2>(low, high)
}

/// a * b + c of numbers that are f32, rounded to odd: to the neighbour whose last bit is set, if it
/// is not exact.
#[cfg(not(target_feature = "relaxed-simd"))]
#[inline(always)]
fn mul_add_to_odd(a: v128, b: v128, c: v128) -> v128 {
    let zero = f64x2_splat(0.0);
    let p = f64x2_mul(a, b);
    let s = f64x2_add(p, c);
    // s + e = p + c exactly.
    let c_of_s = f64x2_sub(s, p);
    let e = f64x2_add(f64x2_sub(p, f64x2_sub(s, c_of_s)), f64x2_sub(c, c_of_s));
    // An infinite or NaN sum has an error that is NaN, which is on neither side of zero.
    let is_below = f64x2_lt(e, zero);
    let is_inexact = v128_or(is_below, f64x2_gt(e, zero));
    // Towards zero if the error has the other sign, which is to add -1 to the bits; then odd.
    let down = v128_and(v128_xor(is_below, f64x2_lt(s, zero)), is_inexact);
    v128_or(i64x2_add(s, down), v128_and(is_inexact, i64x2_splat(1)))
}

#[cfg(not(target_feature = "relaxed-simd"))]
#[inline(always)]
fn fma_f64x2(a: v128, b: v128, c: v128) -> v128 {
    let first = |x: v128| f64x2_extract_lane::<0>(x);
    let second = |x: v128| f64x2_extract_lane::<1>(x);
    f64x2(first(a).mul_add(first(b), first(c)), second(a).mul_add(second(b), second(c)))
}

#[cfg(target_feature = "relaxed-simd")]
#[inline(always)]
fn fma_f32x4(a: v128, b: v128, c: v128) -> v128 {
    f32x4_relaxed_madd(a, b, c)
}

#[cfg(target_feature = "relaxed-simd")]
#[inline(always)]
fn fma_f64x2(a: v128, b: v128, c: v128) -> v128 {
    f64x2_relaxed_madd(a, b, c)
}
