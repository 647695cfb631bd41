//! Turns a block of numbers on its side: what lay along columns comes to lie along rows.
//!
//! Squares of eight (four for f64) are turned in registers; the rest one by one.
#![allow(unsafe_code, reason = "vector loads and stores")]

use super::Real;
#[cfg(target_arch = "x86_64")]
use super::quad::Quad;
#[cfg(target_arch = "x86_64")]
use super::vector::Vector;
use crate::isa::{Isa, Kernel, Level, dispatch};

/// dst[r * pitch + c] = src[at + r + c * step] for r in 0..rows, c in 0..cols
///
/// # Panics
/// If that leaves either slice.
pub(crate) fn turn<T: Real>(
    isa: Isa,
    src: &[T],
    at: isize,
    step: isize,
    rows: usize,
    cols: usize,
    dst: &mut [T],
    pitch: usize,
) {
    if rows == 0 || cols == 0 {
        return;
    }
    // Both ends of the first and the last column: all others lie between them.
    let last = at + (cols as isize - 1) * step;
    let (low, high) = (at.min(last), at.max(last) + rows as isize);
    assert!(low >= 0 && high as usize <= src.len(), "a block leaves its buffer");
    assert!(cols <= pitch && (rows - 1) * pitch + cols <= dst.len(), "a block leaves its panel");
    dispatch(isa, Turn { isa, src, at, step, rows, cols, dst, pitch });
}

struct Turn<'a, T> {
    isa: Isa,
    src: &'a [T],
    at: isize,
    step: isize,
    rows: usize,
    cols: usize,
    dst: &'a mut [T],
    pitch: usize,
}

impl<T: Real> Kernel for Turn<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Turn { isa, src, at, step, rows, cols, dst, pitch } = self;
        // Whole lines of as many columns as the widest register has.
        #[cfg(target_arch = "x86_64")]
        if isa.level() == Level::Avx512 && cols >= T::V512::LANES && rows >= 64 / size_of::<T>() {
            let line = 64 / size_of::<T>();
            let (down, across) = (rows / line * line, cols / T::V512::LANES * T::V512::LANES);
            // SAFETY: the processor has the instructions. `turn` made sure that the block lies in both slices, of which
            // this is a part, and so are the two that are left.
            unsafe {
                let (from, to) = (src.as_ptr().offset(at), dst.as_mut_ptr());
                lines::<T::V512>(from, step, down, across, to, pitch);
            }
            for c in across..cols {
                for r in 0..down {
                    dst[r * pitch + c] = src[(at + r as isize + c as isize * step) as usize];
                }
            }
            for r in down..rows {
                for c in 0..cols {
                    dst[r * pitch + c] = src[(at + r as isize + c as isize * step) as usize];
                }
            }
            return;
        }
        // Rows and columns that whole squares have done.
        let (done_rows, done_cols) = match isa.level() {
            Level::Plain => (0, 0),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 => {
                // SAFETY: both levels have AVX2. `turn` made sure that the block lies in both slices.
                let side =
                    unsafe { T::squares(src.as_ptr().offset(at), step, rows, cols, dst.as_mut_ptr(), pitch) };
                (rows / side * side, cols / side * side)
            }
        };
        for r in 0..rows {
            for c in if r < done_rows { done_cols } else { 0 }..cols {
                dst[r * pitch + c] = src[(at + r as isize + c as isize * step) as usize];
            }
        }
    }
}

/// How far ahead a column is fetched, in bytes.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 512;

/// Whole cache lines of whole registers of columns: a line is used up before the next is touched, for columns that lie a
/// power of two apart push each other out of the first level.
///
/// # Safety
/// The processor has the instructions; `rows` and `cols` are whole lines and registers of the block, which lies in memory.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn lines<V: Quad>(
    src: *const V::T,
    step: isize,
    rows: usize,
    cols: usize,
    dst: *mut V::T,
    pitch: usize,
) {
    let line = 64 / size_of::<V::T>();
    for c in (0..cols).step_by(V::LANES) {
        for r in (0..rows).step_by(line) {
            for lane in 0..V::LANES {
                let ahead = src.wrapping_offset((c + lane) as isize * step).wrapping_add(r);
                // SAFETY: a hint; the processor has it.
                unsafe { V::soon(ahead.cast::<u8>().wrapping_add(AHEAD)) };
            }
            for r in (r..r + line).step_by(4) {
                // SAFETY: the caller's.
                unsafe {
                    let all = V::quad(src.offset(r as isize + c as isize * step), step);
                    for (i, v) in all.iter().enumerate() {
                        v.store(dst.add((r + i) * pitch + c));
                    }
                }
            }
        }
    }
}

/// The whole squares of eight.
///
/// # Safety
/// As `Real::squares`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn squares_f32(
    src: *const f32,
    step: isize,
    rows: usize,
    cols: usize,
    dst: *mut f32,
    pitch: usize,
) {
    use std::arch::x86_64::*;
    // Along the source first: eight long runs, which the hardware foresees.
    for c in (0..cols / 8 * 8).step_by(8) {
        for r in (0..rows / 8 * 8).step_by(8) {
            // SAFETY: the square r..r + 8, c..c + 8 lies in the block, which the caller vouches for.
            unsafe {
                let at = |i: isize| src.offset(r as isize + (c as isize + i) * step);
                // The halves of columns i and i + 4 in one register save eight shuffles.
                let pair = |i: isize, half: usize| {
                    let low = _mm256_castps128_ps256(_mm_loadu_ps(at(i).add(half)));
                    _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(at(i + 4).add(half)))
                };
                for half in [0, 4] {
                    let (a, b, c2, d) = (pair(0, half), pair(1, half), pair(2, half), pair(3, half));
                    let (ab0, ab1) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                    let (cd0, cd1) = (_mm256_unpacklo_ps(c2, d), _mm256_unpackhi_ps(c2, d));
                    let out = |i: usize, v: __m256| {
                        _mm256_storeu_ps(dst.add((r + half + i) * pitch + c), v);
                    };
                    out(0, _mm256_shuffle_ps::<0x44>(ab0, cd0));
                    out(1, _mm256_shuffle_ps::<0xee>(ab0, cd0));
                    out(2, _mm256_shuffle_ps::<0x44>(ab1, cd1));
                    out(3, _mm256_shuffle_ps::<0xee>(ab1, cd1));
                }
            }
        }
    }
}

/// The whole squares of four.
///
/// # Safety
/// As `Real::squares`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn squares_f64(
    src: *const f64,
    step: isize,
    rows: usize,
    cols: usize,
    dst: *mut f64,
    pitch: usize,
) {
    use std::arch::x86_64::*;
    for c in (0..cols / 4 * 4).step_by(4) {
        for r in (0..rows / 4 * 4).step_by(4) {
            // SAFETY: the square r..r + 4, c..c + 4 lies in the block, which the caller vouches for.
            unsafe {
                let load = |i: isize| _mm256_loadu_pd(src.offset(r as isize + (c as isize + i) * step));
                let (a, b, c2, d) = (load(0), load(1), load(2), load(3));
                let (ab0, ab1) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
                let (cd0, cd1) = (_mm256_unpacklo_pd(c2, d), _mm256_unpackhi_pd(c2, d));
                let out = |i: usize, v: __m256d| _mm256_storeu_pd(dst.add((r + i) * pitch + c), v);
                out(0, _mm256_permute2f128_pd::<0x20>(ab0, cd0));
                out(1, _mm256_permute2f128_pd::<0x20>(ab1, cd1));
                out(2, _mm256_permute2f128_pd::<0x31>(ab0, cd0));
                out(3, _mm256_permute2f128_pd::<0x31>(ab1, cd1));
            }
        }
    }
}
