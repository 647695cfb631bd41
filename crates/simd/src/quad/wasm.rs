//! Transposing loads for WebAssembly's simd128.
#![allow(unsafe_code, reason = "vector loads and shuffles")]

use super::{Float16, GatherVector, gather_one};
use crate::wasm::{F32x4, F64x2};
use std::arch::wasm32::*;

/// Elements 0 to 3, of 32 bits, of 4 rows.
///
/// # Safety
/// 16 bytes of each row can be read.
#[inline(always)]
unsafe fn square<S>(p: *const S, step: isize) -> [v128; 4] {
    // SAFETY: the caller guarantees the memory; loads need not be aligned.
    let [a, b, c, d] = [0, 1, 2, 3].map(|i| unsafe { v128_load(p.wrapping_offset(i * step).cast()) });
    let (ab, cd) = (i32x4_shuffle::<0, 4, 1, 5>(a, b), i32x4_shuffle::<0, 4, 1, 5>(c, d));
    let (ab_high, cd_high) = (i32x4_shuffle::<2, 6, 3, 7>(a, b), i32x4_shuffle::<2, 6, 3, 7>(c, d));
    [
        i64x2_shuffle::<0, 2>(ab, cd),
        i64x2_shuffle::<1, 3>(ab, cd),
        i64x2_shuffle::<0, 2>(ab_high, cd_high),
        i64x2_shuffle::<1, 3>(ab_high, cd_high),
    ]
}

/// 16-bit floats in the lower halves of the lanes, widened; what the upper halves hold is ignored.
#[inline(always)]
fn widened<H: Float16>(x: v128) -> v128 {
    if H::IS_BF16 {
        return i32x4_shl(x, 16);
    }
    let sign = i32x4_shl(v128_and(x, i32x4_splat(0x8000)), 16);
    let size = i32x4_shl(v128_and(x, i32x4_splat(0x7fff)), 13);
    // The exponents' biases differ by 112. A product by 2^112 corrects that, of subnormals too, and
    // is exact.
    let finite = f32x4_mul(size, f32x4_splat(f32::from_bits((127 + 112) << 23)));
    // Exponent all ones: infinity or NaN.
    let other = v128_or(size, i32x4_splat(0xff << 23));
    let is_finite = i32x4_lt(size, i32x4_splat(0x7c00 << 13));
    v128_or(v128_bitselect(finite, other, is_finite), sign)
}

impl GatherVector for F32x4 {
    #[inline(always)]
    unsafe fn quad(p: *const f32, step: isize) -> [Self; 4] {
        // SAFETY: guaranteed by the caller.
        unsafe { square(p, step) }.map(F32x4)
    }
    #[inline(always)]
    unsafe fn octet<H: Float16>(p: *const H, step: isize) -> [Self; 8] {
        // SAFETY: the caller guarantees 8 16-bit floats of each row: 16 bytes, pairs of them 32
        // bits.
        let pairs = unsafe { square(p, step) };
        std::array::from_fn(|t| {
            let pair = pairs[t / 2];
            F32x4(widened::<H>(if t % 2 == 0 { pair } else { u32x4_shr(pair, 16) }))
        })
    }
    #[inline(always)]
    unsafe fn widen<H: Float16>(p: *const H) -> Self {
        // SAFETY: the caller guarantees 4 16-bit floats: 8 bytes.
        F32x4(widened::<H>(unsafe { i32x4_load_extend_u16x4(p.cast()) }))
    }
}

impl GatherVector for F64x2 {
    #[inline(always)]
    unsafe fn quad(p: *const f64, step: isize) -> [Self; 4] {
        // SAFETY: the caller guarantees four elements of both rows.
        let load = |i: isize, t: usize| unsafe { v128_load(p.wrapping_offset(i * step).add(t).cast()) };
        let (a, b, c, d) = (load(0, 0), load(1, 0), load(0, 2), load(1, 2));
        [
            i64x2_shuffle::<0, 2>(a, b),
            i64x2_shuffle::<1, 3>(a, b),
            i64x2_shuffle::<0, 2>(c, d),
            i64x2_shuffle::<1, 3>(c, d),
        ]
        .map(F64x2)
    }
    #[inline(always)]
    unsafe fn octet<H: Float16>(p: *const H, step: isize) -> [Self; 8] {
        // SAFETY: guaranteed by the caller.
        std::array::from_fn(|t| unsafe { gather_one(p, step, t, H::wide::<f64>) })
    }
    #[inline(always)]
    unsafe fn widen<H: Float16>(p: *const H) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { gather_one(p, 1, 0, H::wide::<f64>) }
    }
}
