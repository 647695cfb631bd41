//! Transposing loads for AVX2 and AVX-512.
//!
//! Pieces of 16 bytes of rows that are four apart are inserted into one register while they are
//! loaded; the squares that are left inside of these pieces take two shuffles per register.
#![allow(unsafe_code, reason = "vector loads and shuffles")]

use super::{Float16, GatherVector, gather_one, quads};
use std::arch::x86_64::*;

/// 16 bytes of the rows 0, 4, 8 and 12 from `p` on.
///
/// # Safety
/// They can be read; AVX-512.
#[inline(always)]
unsafe fn four<S>(p: *const S, step: isize) -> __m512 {
    // SAFETY: the caller guarantees the memory and AVX-512. The other rows are loaded by a
    // broadcast of their piece, of which the mask keeps one place.
    unsafe {
        let at = |i: isize| _mm_loadu_ps(p.wrapping_offset(4 * i * step).cast());
        let all = _mm512_castps128_ps512(at(0));
        let all = _mm512_mask_broadcast_f32x4(all, 0x00f0, at(1));
        let all = _mm512_mask_broadcast_f32x4(all, 0x0f00, at(2));
        _mm512_mask_broadcast_f32x4(all, 0xf000, at(3))
    }
}

/// 16 bytes of the rows 0 and 4 from `p` on.
///
/// # Safety
/// They can be read; AVX2.
#[inline(always)]
unsafe fn two<S>(p: *const S, step: isize) -> __m256 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let low = _mm256_castps128_ps256(_mm_loadu_ps(p.cast()));
        _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(p.wrapping_offset(4 * step).cast()))
    }
}

/// Pairs of 16-bit floats as 32-bit integers: the first of each, widened, and the second.
///
/// # Safety
/// AVX-512.
#[inline(always)]
unsafe fn pairs512<H: Float16>(x: __m512) -> [__m512; 2] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let bits = _mm512_castps_si512(x);
        if H::IS_BF16 {
            let second = _mm512_and_si512(bits, _mm512_set1_epi32(0xffff_0000_u32 as i32));
            [_mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits)), _mm512_castsi512_ps(second)]
        } else {
            let second = _mm512_srli_epi32::<16>(bits);
            [_mm512_cvtph_ps(_mm512_cvtepi32_epi16(bits)), _mm512_cvtph_ps(_mm512_cvtepi32_epi16(second))]
        }
    }
}

/// As `pairs512`.
///
/// # Safety
/// AVX2 and F16C.
#[inline(always)]
unsafe fn pairs256<H: Float16>(x: __m256) -> [__m256; 2] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let bits = _mm256_castps_si256(x);
        if H::IS_BF16 {
            let second = _mm256_and_si256(bits, _mm256_set1_epi32(0xffff_0000_u32 as i32));
            [_mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits)), _mm256_castsi256_ps(second)]
        } else {
            let first = _mm256_and_si256(bits, _mm256_set1_epi32(0xffff));
            let second = _mm256_srli_epi32::<16>(bits);
            // Within each 16 bytes, the four elements of either operand to one half; then the
            // halves of one operand together.
            let packed = _mm256_permute4x64_epi64::<0xd8>(_mm256_packus_epi32(first, second));
            [
                _mm256_cvtph_ps(_mm256_castsi256_si128(packed)),
                _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(packed)),
            ]
        }
    }
}

/// Pairs, one after the other.
#[inline(always)]
fn joined<V>(x: [[V; 2]; 4]) -> [V; 8] {
    let [[a, b], [c, d], [e, f], [g, h]] = x;
    [a, b, c, d, e, f, g, h]
}

/// Elements 0 to 15 of 16 rows, each row read whole: rows a power of two apart map to the same set
/// of L1, which cannot hold a line of each.
///
/// # Safety
/// They can be read; AVX-512.
#[inline(always)]
unsafe fn whole512(p: *const f32, step: isize) -> [__m512; 16] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        // Squares inside of 16 bytes, of four rows each.
        let mut fours = [_mm512_setzero_ps(); 16];
        let mut i = 0;
        while i < 16 {
            let row = |r: isize| _mm512_loadu_ps(p.wrapping_offset((i as isize + r) * step));
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (ab0, ab1) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
            let (cd0, cd1) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
            fours[i] = _mm512_shuffle_ps::<0x44>(ab0, cd0);
            fours[i + 1] = _mm512_shuffle_ps::<0xee>(ab0, cd0);
            fours[i + 2] = _mm512_shuffle_ps::<0x44>(ab1, cd1);
            fours[i + 3] = _mm512_shuffle_ps::<0xee>(ab1, cd1);
            i += 4;
        }
        // Then the pieces of 16 bytes are exchanged.
        let mut all = fours;
        let mut t = 0;
        while t < 4 {
            let even = |i: usize| _mm512_shuffle_f32x4::<0x88>(fours[t + i], fours[t + i + 4]);
            let odd = |i: usize| _mm512_shuffle_f32x4::<0xdd>(fours[t + i], fours[t + i + 4]);
            let (a, b, c, d) = (even(0), even(8), odd(0), odd(8));
            all[t] = _mm512_shuffle_f32x4::<0x88>(a, b);
            all[t + 4] = _mm512_shuffle_f32x4::<0x88>(c, d);
            all[t + 8] = _mm512_shuffle_f32x4::<0xdd>(a, b);
            all[t + 12] = _mm512_shuffle_f32x4::<0xdd>(c, d);
            t += 1;
        }
        all
    }
}

/// Rounds to bf16, to nearest even: adds just below a half, and the last bit that is kept. A NaN
/// stays one if its first bit is set.
///
/// # Safety
/// AVX-512.
#[inline(always)]
unsafe fn upper512(x: __m512) -> __m256i {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let bits = _mm512_castps_si512(x);
        let upper = _mm512_srli_epi32::<16>(bits);
        let even = _mm512_and_si512(upper, _mm512_set1_epi32(1));
        let near = _mm512_add_epi32(bits, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff)));
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
        let near = _mm512_mask_or_epi32(_mm512_srli_epi32::<16>(near), nan, upper, _mm512_set1_epi32(0x40));
        _mm512_cvtepi32_epi16(near)
    }
}

/// The same with AVX2.
///
/// # Safety
/// AVX2.
#[inline(always)]
unsafe fn upper256(x: __m256) -> __m128i {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let bits = _mm256_castps_si256(x);
        let upper = _mm256_srli_epi32::<16>(bits);
        let even = _mm256_and_si256(upper, _mm256_set1_epi32(1));
        let near = _mm256_add_epi32(bits, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff)));
        let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
        let quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
        let near = _mm256_blendv_epi8(_mm256_srli_epi32::<16>(near), quiet, nan);
        // Each half has its elements twice.
        let both = _mm256_packus_epi32(near, near);
        _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(both))
    }
}

/// `register: name, its pieces, its pairs, whole squares, low, high, shuffle, half as many bits:
/// load, widen, cast, shift, from f16, to f16, to bf16, store;`
macro_rules! quads {
    ($($v:ty: $square:ident $pieces:ident $pairs:ident $whole:ident
        $low:ident $high:ident $shuffle:ident
        $load:ident $widen:ident $cast:ident $shift:ident $from_f16:ident $to_f16:ident $upper:ident $store:ident;)*) => {$(
        /// Elements 0 to 3, of 32 bits, of as many rows as the register has elements.
        ///
        /// # Safety
        /// 16 bytes of each row can be read; the register's instruction set.
        #[inline(always)]
        unsafe fn $square<S>(p: *const S, step: isize) -> [$v; 4] {
            // SAFETY: guaranteed by the caller.
            unsafe {
                let at = |i: isize| $pieces(p.wrapping_offset(i * step), step);
                let (a, b, c, d) = (at(0), at(1), at(2), at(3));
                let (ab0, ab1) = ($low(a, b), $high(a, b));
                let (cd0, cd1) = ($low(c, d), $high(c, d));
                [
                    $shuffle::<0x44>(ab0, cd0),
                    $shuffle::<0xee>(ab0, cd0),
                    $shuffle::<0x44>(ab1, cd1),
                    $shuffle::<0xee>(ab1, cd1),
                ]
            }
        }

        impl GatherVector for $v {
            #[inline(always)]
            unsafe fn widen<H: Float16>(p: *const H) -> Self {
                // SAFETY: the caller guarantees as many 16-bit floats as the register has elements:
                // half of its bytes.
                unsafe {
                    let x = $load(p.cast());
                    if H::IS_BF16 { $cast($shift::<16>($widen(x))) } else { $from_f16(x) }
                }
            }
            #[inline(always)]
            unsafe fn narrow<H: Float16>(self, p: *mut H) {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    $store(p.cast(), if H::IS_BF16 { $upper(self) } else { $to_f16::<_MM_FROUND_TO_NEAREST_INT>(self) });
                }
            }
            #[inline(always)]
            unsafe fn quad(p: *const f32, step: isize) -> [Self; 4] {
                // SAFETY: guaranteed by the caller.
                unsafe { $square(p, step) }
            }
            #[inline(always)]
            unsafe fn square(p: *const f32, step: isize) -> [Self; 16] {
                // SAFETY: guaranteed by the caller.
                unsafe { $whole(p, step) }
            }
            #[inline(always)]
            unsafe fn octet<H: Float16>(p: *const H, step: isize) -> [Self; 8] {
                // SAFETY: the caller guarantees 8 16-bit floats of each row: 16 bytes, pairs of
                // them 32 bits.
                unsafe {
                    let [a, b, c, d] = $square(p, step);
                    joined([$pairs::<H>(a), $pairs::<H>(b), $pairs::<H>(c), $pairs::<H>(d)])
                }
            }
        }
    )*};
}
quads! {
    __m512: square512 four pairs512 whole512
        _mm512_unpacklo_ps _mm512_unpackhi_ps _mm512_shuffle_ps
        _mm256_loadu_si256 _mm512_cvtepu16_epi32 _mm512_castsi512_ps _mm512_slli_epi32 _mm512_cvtph_ps _mm512_cvtps_ph upper512 _mm256_storeu_si256;
    __m256: square256 two pairs256 quads
        _mm256_unpacklo_ps _mm256_unpackhi_ps _mm256_shuffle_ps
        _mm_loadu_si128 _mm256_cvtepu16_epi32 _mm256_castsi256_ps _mm256_slli_epi32 _mm256_cvtph_ps _mm256_cvtps_ph upper256 _mm_storeu_si128;
}

impl GatherVector for __m512d {
    #[inline(always)]
    unsafe fn widen<H: Float16>(p: *const H) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { gather_one(p, 1, 0, H::wide::<f64>) }
    }
    #[inline(always)]
    unsafe fn quad(p: *const f64, step: isize) -> [Self; 4] {
        // SAFETY: guaranteed by the caller.
        unsafe {
            // Elements t and t + 1 of the rows r, r + 2, r + 4 and r + 6.
            let at = |r: isize, t: usize| {
                let at = |i: isize| _mm_loadu_pd(p.wrapping_offset((r + 2 * i) * step).add(t));
                let all = _mm512_castpd128_pd512(at(0));
                let all = _mm512_mask_broadcast_f64x2(all, 0x0c, at(1));
                let all = _mm512_mask_broadcast_f64x2(all, 0x30, at(2));
                _mm512_mask_broadcast_f64x2(all, 0xc0, at(3))
            };
            let (a, b, c, d) = (at(0, 0), at(1, 0), at(0, 2), at(1, 2));
            [
                _mm512_unpacklo_pd(a, b),
                _mm512_unpackhi_pd(a, b),
                _mm512_unpacklo_pd(c, d),
                _mm512_unpackhi_pd(c, d),
            ]
        }
    }
    #[inline(always)]
    unsafe fn octet<H: Float16>(p: *const H, step: isize) -> [Self; 8] {
        // SAFETY: guaranteed by the caller.
        std::array::from_fn(|t| unsafe { gather_one(p, step, t, H::wide::<f64>) })
    }
}

impl GatherVector for __m256d {
    #[inline(always)]
    unsafe fn widen<H: Float16>(p: *const H) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { gather_one(p, 1, 0, H::wide::<f64>) }
    }
    #[inline(always)]
    unsafe fn quad(p: *const f64, step: isize) -> [Self; 4] {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let at = |r: isize, t: usize| {
                let at = |i: isize| _mm_loadu_pd(p.wrapping_offset((r + 2 * i) * step).add(t));
                _mm256_insertf128_pd::<1>(_mm256_castpd128_pd256(at(0)), at(1))
            };
            let (a, b, c, d) = (at(0, 0), at(1, 0), at(0, 2), at(1, 2));
            [
                _mm256_unpacklo_pd(a, b),
                _mm256_unpackhi_pd(a, b),
                _mm256_unpacklo_pd(c, d),
                _mm256_unpackhi_pd(c, d),
            ]
        }
    }
    #[inline(always)]
    unsafe fn octet<H: Float16>(p: *const H, step: isize) -> [Self; 8] {
        // SAFETY: guaranteed by the caller.
        std::array::from_fn(|t| unsafe { gather_one(p, step, t, H::wide::<f64>) })
    }
}
