//! Registers of AVX2 and AVX-512.
#![allow(unsafe_code, reason = "instructions that not every processor has")]

use super::vector::Vector;
use std::arch::x86_64::*;

macro_rules! register {
    ($v:ty, $t:ty, $lanes:literal, $rows:literal: $splat:ident $load:ident $store:ident $fma:ident $add:ident) => {
        impl Vector for $v {
            type T = $t;
            const LANES: usize = $lanes;
            const ROWS: usize = $rows;
            #[inline(always)]
            unsafe fn splat(v: $t) -> Self {
                // SAFETY: the caller's, here and below: the processor has the instruction.
                unsafe { $splat(v) }
            }
            #[inline(always)]
            unsafe fn load(p: *const $t) -> Self {
                // SAFETY: the caller's, also for the memory.
                unsafe { $load(p) }
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $t) {
                // SAFETY: the caller's, also for the memory.
                unsafe { $store(p, self) }
            }
            #[inline(always)]
            unsafe fn ahead(p: *const $t) {
                // SAFETY: a hint; any address will do.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
            }
            #[inline(always)]
            unsafe fn soon(p: *const u8) {
                // SAFETY: as above.
                unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) }
            }
            #[inline(always)]
            unsafe fn fma(self, b: Self, c: Self) -> Self {
                // SAFETY: as above.
                unsafe { $fma(self, b, c) }
            }
            #[inline(always)]
            unsafe fn add(self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { $add(self, b) }
            }
        }
    };
}
// 24 of 32 registers hold sums, 12 of 16 with AVX2; the others feed them.
register!(__m512, f32, 16, 12: _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_fmadd_ps _mm512_add_ps);
register!(__m512d, f64, 8, 12: _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_fmadd_pd _mm512_add_pd);
register!(__m256, f32, 8, 6: _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_fmadd_ps _mm256_add_ps);
register!(__m256d, f64, 4, 6: _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_fmadd_pd _mm256_add_pd);

/// Sixteen pairs of bf16 in the bits of f32, or sixteen sums of f32. `fma` multiplies the numbers of each pair and adds both
/// products to the sum, with the roundings of `vdpbf16ps`.
#[derive(Clone, Copy)]
pub(crate) struct Pairs(__m512);

impl Vector for Pairs {
    type T = f32;
    const LANES: usize = 16;
    const ROWS: usize = 12;
    #[inline(always)]
    unsafe fn splat(v: f32) -> Self {
        // SAFETY: the caller's, here and below: the processor has the instruction.
        unsafe { Pairs(_mm512_set1_ps(v)) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller's, also for the memory.
        unsafe { Pairs(_mm512_loadu_ps(p)) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller's, also for the memory.
        unsafe { _mm512_storeu_ps(p, self.0) }
    }
    #[inline(always)]
    unsafe fn ahead(p: *const f32) {
        // SAFETY: a hint; any address will do.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
    #[inline(always)]
    unsafe fn soon(p: *const u8) {
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) }
    }
    #[inline(always)]
    unsafe fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: as above; both kinds of register are 64 bytes of any bits.
        unsafe {
            let [a, b] = [self.0, b.0].map(|x| std::mem::transmute::<__m512, __m512bh>(x));
            Pairs(_mm512_dpbf16_ps(c.0, a, b))
        }
    }
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        // SAFETY: as above.
        unsafe { Pairs(_mm512_add_ps(self.0, b.0)) }
    }
}
