//! Vector registers of NEON, which every aarch64 processor has.
#![allow(unsafe_code, reason = "vector loads and stores")]

use super::vector::Vector;
use std::arch::aarch64::*;

macro_rules! register {
    ($v:ty, $t:ty, $lanes:literal, $rows:literal: $splat:ident $load:ident $store:ident $fma:ident $add:ident $sub:ident $mul:ident $and:ident $other:ident $bits:ty) => {
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
                // SAFETY: here and below: NEON is part of the architecture.
                unsafe { $splat(v) }
            }
            #[inline(always)]
            unsafe fn load(p: *const $t) -> Self {
                // SAFETY: the caller guarantees that the memory can be read.
                unsafe { $load(p) }
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $t) {
                // SAFETY: the caller guarantees that the memory can be written.
                unsafe { $store(p, self) }
            }
            /// No effect: a prefetch needs assembly, and its gain has not been measured.
            #[inline(always)]
            unsafe fn prefetch_l1(_: *const $t) {}
            /// As `prefetch_l1`.
            #[inline(always)]
            unsafe fn prefetch_l2(_: *const u8) {}
            #[inline(always)]
            unsafe fn fma(self, b: Self, c: Self) -> Self {
                // SAFETY: as above. `vfma` takes the addend first.
                unsafe { $fma(c, self, b) }
            }
            #[inline(always)]
            unsafe fn add(self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { $add(self, b) }
            }
            #[inline(always)]
            unsafe fn sub(self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { $sub(self, b) }
            }
            #[inline(always)]
            unsafe fn mul(self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { $mul(self, b) }
            }
            #[inline(always)]
            unsafe fn and(self, mask: Self) -> Self {
                // SAFETY: as above; both register types are sixteen bytes with any bits.
                unsafe {
                    let [x, mask] = [self, mask].map(|x| std::mem::transmute::<$v, $bits>(x));
                    std::mem::transmute::<$bits, $v>($and(x, mask))
                }
            }
            #[inline(always)]
            unsafe fn select(self, other: Self, mask: Self) -> Self {
                // SAFETY: as above.
                unsafe { $other(std::mem::transmute::<$v, $bits>(mask), self, other) }
            }
        }
    };
}
// 24 of 32 registers hold accumulators; the others hold operands.
register!(float32x4_t, f32, 4, 12: vdupq_n_f32 vld1q_f32 vst1q_f32 vfmaq_f32 vaddq_f32 vsubq_f32 vmulq_f32 vandq_u32 vbslq_f32 uint32x4_t);
register!(float64x2_t, f64, 2, 12: vdupq_n_f64 vld1q_f64 vst1q_f64 vfmaq_f64 vaddq_f64 vsubq_f64 vmulq_f64 vandq_u64 vbslq_f64 uint64x2_t);
