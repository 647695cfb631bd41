//! Registers full of numbers, in each instruction set.
#![allow(unsafe_code, reason = "instructions that not every processor has")]

use super::quad::Quad;
use crate::gemm::scratch::Shelf;
use crate::gemm::source::Numbers;
use elinvar_core::{Element, HostData};
use elinvar_ops::lane::Lane;

/// A register of numbers.
///
/// # Safety
/// All functions may be called only on a processor that has the instruction set of the register; `load` and `store` reach
/// `LANES` numbers from the pointer on.
pub(crate) trait Vector: Copy {
    /// The number.
    type T: Real;
    /// How many numbers.
    const LANES: usize;
    /// Rows of a full tile that is two registers wide: as many as there are registers for.
    const ROWS: usize;
    /// Copies of a number.
    unsafe fn splat(v: Self::T) -> Self;
    /// Numbers from memory.
    unsafe fn load(p: *const Self::T) -> Self;
    /// Numbers to memory.
    unsafe fn store(self, p: *mut Self::T);
    /// Has the cache fetch what lies there, if anything does.
    unsafe fn ahead(p: *const Self::T);
    /// self * b + c, rounded once.
    unsafe fn fma(self, b: Self, c: Self) -> Self;
    /// self + b
    unsafe fn add(self, b: Self) -> Self;
}

/// f32 or f64: a type in which contractions are computed.
pub(crate) trait Real: Lane<Mask = bool> + Element + Default {
    /// A register of AVX-512.
    #[cfg(target_arch = "x86_64")]
    type V512: Quad<T = Self>;
    /// A register of AVX2.
    #[cfg(target_arch = "x86_64")]
    type V256: Quad<T = Self>;
    /// Stored numbers that are computed in this type.
    fn numbers(data: &HostData) -> Option<Numbers<'_, Self>>;
    /// Memory of this thread for use in between.
    fn shelf() -> &'static std::thread::LocalKey<Shelf<Self>>;
    /// Turns as many whole squares as fit, with AVX2; gives the side of a square. See `turn`.
    ///
    /// # Safety
    /// The processor has AVX2. Rows of `rows` numbers start at `src + c * step` for each `c < cols`; rows of `cols`
    /// numbers at `dst + r * pitch` for each `r < rows`.
    #[cfg(target_arch = "x86_64")]
    unsafe fn squares(
        src: *const Self,
        step: isize,
        rows: usize,
        cols: usize,
        dst: *mut Self,
        pitch: usize,
    ) -> usize;
}

/// Four numbers, for processors of which nothing is known.
#[derive(Clone, Copy)]
pub(crate) struct Four<T>([T; 4]);

impl<T: Real> Vector for Four<T> {
    type T = T;
    const LANES: usize = 4;
    const ROWS: usize = 4;
    #[inline(always)]
    unsafe fn splat(v: T) -> Self {
        Four([v; 4])
    }
    #[inline(always)]
    unsafe fn load(p: *const T) -> Self {
        // SAFETY: the caller's: four numbers can be read.
        Four(unsafe { p.cast::<[T; 4]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut T) {
        // SAFETY: the caller's: four numbers can be written.
        unsafe { p.cast::<[T; 4]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn ahead(_: *const T) {}
    #[inline(always)]
    unsafe fn fma(self, b: Self, c: Self) -> Self {
        Four(std::array::from_fn(|i| Lane::fma(self.0[i], b.0[i], c.0[i])))
    }
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        Four(std::array::from_fn(|i| self.0[i] + b.0[i]))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Vector;
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
}

impl Real for f32 {
    #[cfg(target_arch = "x86_64")]
    type V512 = std::arch::x86_64::__m512;
    #[cfg(target_arch = "x86_64")]
    type V256 = std::arch::x86_64::__m256;
    fn numbers(data: &HostData) -> Option<Numbers<'_, f32>> {
        match data {
            HostData::F32(v) => Some(Numbers::Own(v)),
            HostData::F16(v) => Some(Numbers::F16(v)),
            HostData::BF16(v) => Some(Numbers::BF16(v)),
            HostData::F64(_) | HostData::I64(_) | HostData::I32(_) | HostData::U8(_) | HostData::Bool(_) => {
                None
            }
        }
    }
    fn shelf() -> &'static std::thread::LocalKey<Shelf<f32>> {
        thread_local! { static SHELF: Shelf<f32> = const { Shelf::new(Vec::new()) } }
        &SHELF
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn squares(
        src: *const f32,
        step: isize,
        rows: usize,
        cols: usize,
        dst: *mut f32,
        pitch: usize,
    ) -> usize {
        // SAFETY: the caller's.
        unsafe { super::turn::squares_f32(src, step, rows, cols, dst, pitch) }
        8
    }
}

impl Real for f64 {
    #[cfg(target_arch = "x86_64")]
    type V512 = std::arch::x86_64::__m512d;
    #[cfg(target_arch = "x86_64")]
    type V256 = std::arch::x86_64::__m256d;
    fn numbers(data: &HostData) -> Option<Numbers<'_, f64>> {
        match data {
            HostData::F64(v) => Some(Numbers::Own(v)),
            HostData::F32(_)
            | HostData::F16(_)
            | HostData::BF16(_)
            | HostData::I64(_)
            | HostData::I32(_)
            | HostData::U8(_)
            | HostData::Bool(_) => None,
        }
    }
    fn shelf() -> &'static std::thread::LocalKey<Shelf<f64>> {
        thread_local! { static SHELF: Shelf<f64> = const { Shelf::new(Vec::new()) } }
        &SHELF
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn squares(
        src: *const f64,
        step: isize,
        rows: usize,
        cols: usize,
        dst: *mut f64,
        pitch: usize,
    ) -> usize {
        // SAFETY: the caller's.
        unsafe { super::turn::squares_f64(src, step, rows, cols, dst, pitch) }
        4
    }
}
