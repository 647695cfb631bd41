//! Vector registers of AVX2 and AVX-512, with bf16 dot products (`vdpbf16ps`), and masked loads and
//! stores of the tail of a loop.
#![allow(unsafe_code, reason = "instructions that not every processor has")]

use super::quad::{Float16, GatherVector};
use super::vector::Vector;
use std::arch::x86_64::*;

/// Select: the bits of `a` where those of the mask are set, else of `b`.
macro_rules! either {
    ($($name:ident($v:ty): |$a:ident, $b:ident, $mask:ident| $either:expr;)*) => {
        $(
            /// # Safety
            /// The processor has the register's instruction set.
            #[inline(always)]
            unsafe fn $name($a: $v, $b: $v, $mask: $v) -> $v {
                // SAFETY: the caller guarantees the instruction set. `vpternlog` of (mask, a, b):
                // 0xca gives a where the mask is 1 and b where it is 0.
                unsafe { $either }
            }
        )*
    };
}
either! {
    either_512(__m512): |a, b, mask| {
        let [a, b, mask] = [_mm512_castps_si512(a), _mm512_castps_si512(b), _mm512_castps_si512(mask)];
        _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0xca>(mask, a, b))
    };
    either_512d(__m512d): |a, b, mask| {
        let [a, b, mask] = [_mm512_castpd_si512(a), _mm512_castpd_si512(b), _mm512_castpd_si512(mask)];
        _mm512_castsi512_pd(_mm512_ternarylogic_epi64::<0xca>(mask, a, b))
    };
    either_256(__m256): |a, b, mask| _mm256_blendv_ps(b, a, mask);
    either_256d(__m256d): |a, b, mask| _mm256_blendv_pd(b, a, mask);
}

/// The AVX2 register itself.
#[inline(always)]
fn all<V>(v: V) -> V {
    v
}

macro_rules! register {
    ($v:ty, $t:ty, $lanes:literal, $rows:literal, $low:ty: $half:ident $splat:ident $load:ident $store:ident $fma:ident $add:ident $sub:ident $mul:ident $and:ident $other:ident $($compress:ident)?) => {
        impl Vector for $v {
            type T = $t;
            const LANES: usize = $lanes;
            const TILE_ROWS: usize = $rows;
            type Low = $low;
            // (One of the two functions is safe.)
            #[allow(unused_unsafe, reason = "a cast that needs its instruction set, or none")]
            #[inline(always)]
            unsafe fn low(self) -> $low {
                // SAFETY: the caller guarantees the instruction set, here and below.
                unsafe { $half(self) }
            }
            #[inline(always)]
            unsafe fn splat(v: $t) -> Self {
                // SAFETY: the caller guarantees the instruction set, here and below.
                unsafe { $splat(v) }
            }
            #[inline(always)]
            unsafe fn load(p: *const $t) -> Self {
                // SAFETY: the caller guarantees the memory, too.
                unsafe { $load(p) }
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $t) {
                // SAFETY: the caller guarantees the memory, too.
                unsafe { $store(p, self) }
            }
            #[inline(always)]
            unsafe fn prefetch_l1(p: *const $t) {
                // SAFETY: a prefetch is a hint; any address is allowed.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
            }
            #[inline(always)]
            unsafe fn prefetch_l2(p: *const u8) {
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
                // SAFETY: as above.
                unsafe { $and(self, mask) }
            }
            #[inline(always)]
            unsafe fn select(self, other: Self, mask: Self) -> Self {
                // SAFETY: as above.
                unsafe { $other(self, other, mask) }
            }
            $(
                #[inline(always)]
                unsafe fn compress(from: *const $t, count: usize, place: u32, places: *mut u32, to: *mut $t) -> usize {
                    // SAFETY: guaranteed by the caller.
                    unsafe { $compress(from, count, place, places, to) }
                }
            )?
        }
    };
}

/// [`Vector::compress`] of f32, sixteen at once.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn pick_512(from: *const f32, count: usize, place: u32, places: *mut u32, to: *mut f32) -> usize {
    // SAFETY: the caller guarantees AVX-512 and the memory. The mask keeps the load inside the
    // `count` elements; not zero is: greater, less, or unordered.
    unsafe {
        let x = _mm512_maskz_loadu_ps(((1u32 << count) - 1) as __mmask16, from);
        let picked = _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(x, _mm512_setzero_ps());
        let numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32(place as i32));
        _mm512_storeu_epi32(places.cast(), _mm512_maskz_compress_epi32(picked, numbers));
        _mm512_storeu_ps(to, _mm512_maskz_compress_ps(picked, x));
        picked.count_ones() as usize
    }
}

// 24 of 32 registers hold accumulators, 12 of 16 with AVX2; the others hold operands.
register!(__m512, f32, 16, 12, __m256: _mm512_castps512_ps256 _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_fmadd_ps _mm512_add_ps _mm512_sub_ps _mm512_mul_ps _mm512_and_ps either_512 pick_512);
register!(__m512d, f64, 8, 12, __m256d: _mm512_castpd512_pd256 _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_fmadd_pd _mm512_add_pd _mm512_sub_pd _mm512_mul_pd _mm512_and_pd either_512d);
register!(__m256, f32, 8, 6, __m256: all _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_fmadd_ps _mm256_add_ps _mm256_sub_ps _mm256_mul_ps _mm256_and_ps either_256);
register!(__m256d, f64, 4, 6, __m256d: all _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_fmadd_pd _mm256_add_pd _mm256_sub_pd _mm256_mul_pd _mm256_and_pd either_256d);

macro_rules! pairs {
    ($name:ident($v:ty, $halves:ty): $dot:ident) => {
        /// Pairs of bf16 in the bits of f32, or sums of f32. `fma` multiplies the numbers of each
        /// pair and adds both products to the sum, with the roundings of `vdpbf16ps`; `add` and
        /// `sub` are of sums; all else moves bits.
        #[derive(Clone, Copy)]
        pub struct $name($v);

        impl Vector for $name {
            type T = f32;
            const LANES: usize = <$v as Vector>::LANES;
            const TILE_ROWS: usize = <$v as Vector>::TILE_ROWS;
            type Low = Self;
            #[inline(always)]
            unsafe fn low(self) -> Self {
                self
            }
            const IS_BF16_PAIRS: bool = true;
            #[inline(always)]
            unsafe fn splat(v: f32) -> Self {
                // SAFETY: the caller guarantees the instruction set, here and below.
                unsafe { $name(<$v as Vector>::splat(v)) }
            }
            #[inline(always)]
            unsafe fn load(p: *const f32) -> Self {
                // SAFETY: the caller guarantees the memory, too.
                unsafe { $name(<$v as Vector>::load(p)) }
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut f32) {
                // SAFETY: the caller guarantees the memory, too.
                unsafe { self.0.store(p) }
            }
            #[inline(always)]
            unsafe fn prefetch_l1(p: *const f32) {
                // SAFETY: as above.
                unsafe { <$v as Vector>::prefetch_l1(p) }
            }
            #[inline(always)]
            unsafe fn prefetch_l2(p: *const u8) {
                // SAFETY: as above.
                unsafe { <$v as Vector>::prefetch_l2(p) }
            }
            #[inline(always)]
            unsafe fn fma(self, b: Self, c: Self) -> Self {
                // SAFETY: as above; both register types are of one size, with any bits.
                unsafe {
                    let [a, b] = [self.0, b.0].map(|x| std::mem::transmute::<$v, $halves>(x));
                    $name($dot(c.0, a, b))
                }
            }
            #[inline(always)]
            unsafe fn add(self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { $name(self.0.add(b.0)) }
            }
            #[inline(always)]
            unsafe fn sub(self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { $name(self.0.sub(b.0)) }
            }
            #[inline(always)]
            unsafe fn mul(self, b: Self) -> Self {
                // SAFETY: as above.
                unsafe { self.fma(b, Self::splat(-0.0)) }
            }
            #[inline(always)]
            unsafe fn and(self, mask: Self) -> Self {
                // SAFETY: as above.
                unsafe { $name(self.0.and(mask.0)) }
            }
            #[inline(always)]
            unsafe fn select(self, other: Self, mask: Self) -> Self {
                // SAFETY: as above.
                unsafe { $name(self.0.select(other.0, mask.0)) }
            }
        }

        impl GatherVector for $name {
            #[inline(always)]
            unsafe fn quad(p: *const f32, step: isize) -> [Self; 4] {
                // SAFETY: guaranteed by the caller.
                unsafe { <$v as GatherVector>::quad(p, step) }.map($name)
            }
            #[inline(always)]
            unsafe fn octet<H: Float16>(p: *const H, step: isize) -> [Self; 8] {
                // SAFETY: guaranteed by the caller.
                unsafe { <$v as GatherVector>::octet(p, step) }.map($name)
            }
            #[inline(always)]
            unsafe fn widen<H: Float16>(p: *const H) -> Self {
                // SAFETY: guaranteed by the caller.
                $name(unsafe { <$v as GatherVector>::widen(p) })
            }
        }
    };
}
pairs!(Pairs(__m512, __m512bh): _mm512_dpbf16_ps);
pairs!(HalfPairs(__m256, __m256bh): _mm256_dpbf16_ps);

/// The tail of a loop: fewer than 16 elements of four bytes, by masked loads and stores. A
/// register-wide load from several narrower stores is not forwarded from the store buffer and has
/// to wait until they reach L1, which costs as much as a cheap formula on a few elements.
pub mod tail_copy {
    use std::arch::x86_64::*;
    use std::mem::MaybeUninit;

    /// Which of 16 lanes are among the first `n`.
    fn lanes(n: usize) -> __mmask16 {
        ((1u32 << n) - 1) as __mmask16
    }
    /// The same for eight lanes from `first` on, as sign bits.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn signs(n: usize, first: i32) -> __m256i {
        let numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32 - first), numbers)
    }
    /// Loads the elements, and zeros after them.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn load_512<T: Copy>(from: &[T], to: &mut [T; 16]) {
        assert!(size_of::<T>() == 4 && from.len() <= 16);
        // SAFETY: the mask keeps the load inside the slice; 16 elements of four bytes are written.
        unsafe {
            let x = _mm512_maskz_loadu_epi32(lanes(from.len()), from.as_ptr().cast());
            _mm512_storeu_epi32(to.as_mut_ptr().cast(), x);
        }
    }
    /// Stores the first of 16 elements.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn store_512<T: Copy>(from: &[MaybeUninit<T>; 16], to: &mut [MaybeUninit<T>]) {
        assert!(size_of::<T>() == 4 && to.len() <= 16);
        // SAFETY: 16 elements of four bytes are read, and the mask keeps the store inside the
        // slice.
        unsafe {
            let x = _mm512_loadu_epi32(from.as_ptr().cast());
            _mm512_mask_storeu_epi32(to.as_mut_ptr().cast(), lanes(to.len()), x);
        }
    }
    /// As [`load_512`].
    #[target_feature(enable = "avx2")]
    #[inline]
    pub fn load_256<T: Copy>(from: &[T], to: &mut [T; 16]) {
        assert!(size_of::<T>() == 4 && from.len() <= 16);
        let (n, from, to) = (from.len(), from.as_ptr().cast::<i32>(), to.as_mut_ptr().cast::<i32>());
        for first in [0, 8] {
            // SAFETY: as above; masked-out elements may be at any address.
            unsafe {
                let x = _mm256_maskload_epi32(from.wrapping_add(first), signs(n, first as i32));
                _mm256_storeu_si256(to.add(first).cast(), x);
            }
        }
    }
    /// As [`store_512`].
    #[target_feature(enable = "avx2")]
    #[inline]
    pub fn store_256<T: Copy>(from: &[MaybeUninit<T>; 16], to: &mut [MaybeUninit<T>]) {
        assert!(size_of::<T>() == 4 && to.len() <= 16);
        let (n, from, to) = (to.len(), from.as_ptr().cast::<i32>(), to.as_mut_ptr().cast::<i32>());
        for first in [0, 8] {
            // SAFETY: as above.
            unsafe {
                let x = _mm256_loadu_si256(from.add(first).cast());
                _mm256_maskstore_epi32(to.wrapping_add(first), signs(n, first as i32), x);
            }
        }
    }
}
