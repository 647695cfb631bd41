//! Registers of NEON, which every aarch64 processor has.
#![allow(unsafe_code, reason = "vector loads and stores")]

use super::vector::{Square, Vector};
use std::arch::aarch64::*;

macro_rules! register {
    ($v:ty, $t:ty, $lanes:literal, $rows:literal: $splat:ident $load:ident $store:ident $fma:ident $add:ident) => {
        impl Vector for $v {
            type T = $t;
            const LANES: usize = $lanes;
            const ROWS: usize = $rows;
            #[inline(always)]
            unsafe fn splat(v: $t) -> Self {
                // SAFETY: here and below: NEON is part of the architecture.
                unsafe { $splat(v) }
            }
            #[inline(always)]
            unsafe fn load(p: *const $t) -> Self {
                // SAFETY: the caller's for the memory.
                unsafe { $load(p) }
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $t) {
                // SAFETY: the caller's for the memory.
                unsafe { $store(p, self) }
            }
            /// There is no hint without assembly, and nobody has measured yet whether one helps.
            #[inline(always)]
            unsafe fn ahead(_: *const $t) {}
            #[inline(always)]
            unsafe fn fma(self, b: Self, c: Self) -> Self {
                // SAFETY: as above. The sum comes first there.
                unsafe { $fma(c, self, b) }
            }
            #[inline(always)]
            unsafe fn add(self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { $add(self, b) }
            }
        }
    };
}
// 24 of 32 registers hold sums; the others feed them.
register!(float32x4_t, f32, 4, 12: vdupq_n_f32 vld1q_f32 vst1q_f32 vfmaq_f32 vaddq_f32);
register!(float64x2_t, f64, 2, 12: vdupq_n_f64 vld1q_f64 vst1q_f64 vfmaq_f64 vaddq_f64);

impl Square for float32x4_t {
    #[inline(always)]
    unsafe fn turn(src: *const f32, step: isize, dst: *mut f32, pitch: usize) {
        // SAFETY: the caller's, for the memory; NEON is part of the architecture.
        unsafe {
            let load = |i: isize| vld1q_f32(src.offset(i * step));
            let (a, b, c, d) = (load(0), load(1), load(2), load(3));
            // Pairs of two columns, then pairs of pairs.
            let pairs = |x: float32x4_t| vreinterpretq_f64_f32(x);
            let (ab0, ab1) = (pairs(vzip1q_f32(a, b)), pairs(vzip2q_f32(a, b)));
            let (cd0, cd1) = (pairs(vzip1q_f32(c, d)), pairs(vzip2q_f32(c, d)));
            let out = |i: usize, v: float64x2_t| vst1q_f32(dst.add(i * pitch), vreinterpretq_f32_f64(v));
            out(0, vzip1q_f64(ab0, cd0));
            out(1, vzip2q_f64(ab0, cd0));
            out(2, vzip1q_f64(ab1, cd1));
            out(3, vzip2q_f64(ab1, cd1));
        }
    }
}

impl Square for float64x2_t {
    #[inline(always)]
    unsafe fn turn(src: *const f64, step: isize, dst: *mut f64, pitch: usize) {
        // SAFETY: the caller's, for the memory; NEON is part of the architecture.
        unsafe {
            let (a, b) = (vld1q_f64(src), vld1q_f64(src.offset(step)));
            vst1q_f64(dst, vzip1q_f64(a, b));
            vst1q_f64(dst.add(pitch), vzip2q_f64(a, b));
        }
    }
}
