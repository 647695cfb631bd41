//! Registers of AVX2 and AVX-512.
#![allow(unsafe_code, reason = "instructions that not every processor has")]

use super::vector::{Square, Vector};
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

impl Square for __m256 {
    #[inline(always)]
    unsafe fn turn(src: *const f32, step: isize, dst: *mut f32, pitch: usize) {
        // SAFETY: the caller's, for the instructions and for the memory.
        unsafe {
            // The halves of columns i and i + 4 in one register save eight shuffles.
            let pair = |i: isize, half: usize| {
                let low = _mm256_castps128_ps256(_mm_loadu_ps(src.offset(i * step).add(half)));
                _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(src.offset((i + 4) * step).add(half)))
            };
            for half in [0, 4] {
                let (a, b, c, d) = (pair(0, half), pair(1, half), pair(2, half), pair(3, half));
                let (ab0, ab1) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                let (cd0, cd1) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
                let out = |i: usize, v: __m256| _mm256_storeu_ps(dst.add((half + i) * pitch), v);
                out(0, _mm256_shuffle_ps::<0x44>(ab0, cd0));
                out(1, _mm256_shuffle_ps::<0xee>(ab0, cd0));
                out(2, _mm256_shuffle_ps::<0x44>(ab1, cd1));
                out(3, _mm256_shuffle_ps::<0xee>(ab1, cd1));
            }
        }
    }
}

impl Square for __m256d {
    #[inline(always)]
    unsafe fn turn(src: *const f64, step: isize, dst: *mut f64, pitch: usize) {
        // SAFETY: the caller's, for the instructions and for the memory.
        unsafe {
            let load = |i: isize| _mm256_loadu_pd(src.offset(i * step));
            let (a, b, c, d) = (load(0), load(1), load(2), load(3));
            let (ab0, ab1) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
            let (cd0, cd1) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
            let out = |i: usize, v: __m256d| _mm256_storeu_pd(dst.add(i * pitch), v);
            out(0, _mm256_permute2f128_pd::<0x20>(ab0, cd0));
            out(1, _mm256_permute2f128_pd::<0x20>(ab1, cd1));
            out(2, _mm256_permute2f128_pd::<0x31>(ab0, cd0));
            out(3, _mm256_permute2f128_pd::<0x31>(ab1, cd1));
        }
    }
}
