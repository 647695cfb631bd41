//! Transposing loads for NEON.
#![allow(unsafe_code, reason = "vector loads and shuffles")]

use super::{Float16, GatherVector, gather_one};
use std::arch::aarch64::*;

/// Elements 0 to 3, of 32 bits, of 4 rows.
///
/// # Safety
/// 16 bytes of each row can be read.
#[inline(always)]
unsafe fn square<S>(p: *const S, step: isize) -> [float32x4_t; 4] {
    // SAFETY: the caller guarantees the memory; NEON is part of the architecture.
    unsafe {
        let load = |i: isize| vld1q_f32(p.wrapping_offset(i * step).cast());
        let (a, b, c, d) = (load(0), load(1), load(2), load(3));
        // Pairs of two rows, then pairs of pairs.
        let pairs = |x: float32x4_t| vreinterpretq_f64_f32(x);
        let (ab0, ab1) = (pairs(vzip1q_f32(a, b)), pairs(vzip2q_f32(a, b)));
        let (cd0, cd1) = (pairs(vzip1q_f32(c, d)), pairs(vzip2q_f32(c, d)));
        [vzip1q_f64(ab0, cd0), vzip2q_f64(ab0, cd0), vzip1q_f64(ab1, cd1), vzip2q_f64(ab1, cd1)]
            .map(|x| vreinterpretq_f32_f64(x))
    }
}

/// 16-bit floats in the lower bits of each lane, widened; the upper bits are ignored.
///
/// The instruction for f16 needs assembly, so it is done by arithmetic.
#[inline(always)]
fn widened<H: Float16>(bits: uint32x4_t) -> float32x4_t {
    // SAFETY: NEON is part of the architecture.
    unsafe {
        if H::IS_BF16 {
            return vreinterpretq_f32_u32(vshlq_n_u32::<16>(bits));
        }
        let sign = vshlq_n_u32::<16>(vandq_u32(bits, vdupq_n_u32(0x8000)));
        let size = vshlq_n_u32::<13>(vandq_u32(bits, vdupq_n_u32(0x7fff)));
        // The bits are in place, and the exponent is 127 - 15 too small; multiplying by a power of
        // two corrects it exactly, also for f16 subnormals.
        let finite = vmulq_f32(vreinterpretq_f32_u32(size), vdupq_n_f32(f32::from_bits((127 + 112) << 23)));
        // Exponent all ones: infinity or NaN.
        let other = vorrq_u32(size, vdupq_n_u32(0xff << 23));
        let is_finite = vcltq_u32(size, vdupq_n_u32(0x7c00 << 13));
        let size = vbslq_u32(is_finite, vreinterpretq_u32_f32(finite), other);
        vreinterpretq_f32_u32(vorrq_u32(size, sign))
    }
}

impl GatherVector for float32x4_t {
    #[inline(always)]
    unsafe fn quad(p: *const f32, step: isize) -> [Self; 4] {
        // SAFETY: guaranteed by the caller.
        unsafe { square(p, step) }
    }
    #[inline(always)]
    unsafe fn octet<H: Float16>(p: *const H, step: isize) -> [Self; 8] {
        // SAFETY: the caller guarantees 8 16-bit floats of each row: 16 bytes, pairs of them 32
        // bits.
        unsafe {
            let pairs = square(p, step).map(|x| vreinterpretq_u32_f32(x));
            std::array::from_fn(|t| {
                let pair = pairs[t / 2];
                widened::<H>(if t % 2 == 0 { pair } else { vshrq_n_u32::<16>(pair) })
            })
        }
    }
    #[inline(always)]
    unsafe fn widen<H: Float16>(p: *const H) -> Self {
        // SAFETY: the caller guarantees 4 16-bit floats: 8 bytes.
        unsafe { widened::<H>(vmovl_u16(vld1_u16(p.cast()))) }
    }
}

impl GatherVector for float64x2_t {
    #[inline(always)]
    unsafe fn quad(p: *const f64, step: isize) -> [Self; 4] {
        // SAFETY: the caller guarantees the memory; NEON is part of the architecture.
        unsafe {
            let load = |i: isize, t: usize| vld1q_f64(p.wrapping_offset(i * step).add(t));
            let (a, b, c, d) = (load(0, 0), load(1, 0), load(0, 2), load(1, 2));
            [vzip1q_f64(a, b), vzip2q_f64(a, b), vzip1q_f64(c, d), vzip2q_f64(c, d)]
        }
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
