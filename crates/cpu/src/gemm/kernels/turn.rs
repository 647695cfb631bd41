//! Turns a block of numbers on its side: what lay along columns comes to lie along rows.
//!
//! Whole squares, as wide as a register, are turned in registers; the rest one by one.
#![allow(unsafe_code, reason = "vector loads and stores")]

use crate::gemm::Real;
use crate::isa::{Isa, Kernel, Level, dispatch};
use crate::simd::vector::{Four, Square};

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
    let block = Turn { src, at, step, rows, cols, dst, pitch };
    match isa.level() {
        Level::Plain => dispatch(isa, Squares::<Four<T>>(block)),
        // The squares of AVX2 do for both.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => dispatch(isa, Squares::<T::V256>(block)),
        #[cfg(target_arch = "aarch64")]
        Level::Neon => dispatch(isa, Squares::<T::V128>(block)),
    }
}

struct Turn<'a, T> {
    src: &'a [T],
    at: isize,
    step: isize,
    rows: usize,
    cols: usize,
    dst: &'a mut [T],
    pitch: usize,
}

impl<T: Real> Turn<'_, T> {
    /// What is left when the whole squares of so many numbers are done.
    #[inline(always)]
    fn rest(self, side: usize) {
        let Turn { src, at, step, rows, cols, dst, pitch } = self;
        let (done_rows, done_cols) = (rows / side * side, cols / side * side);
        for r in 0..rows {
            for c in if r < done_rows { done_cols } else { 0 }..cols {
                dst[r * pitch + c] = src[(at + r as isize + c as isize * step) as usize];
            }
        }
    }
}

/// A block that lies in both of its slices, made by `turn` alone, which checked that and knows that the processor has the
/// registers.
struct Squares<'a, V: Square>(Turn<'a, V::T>);

impl<V: Square<T: Real>> Kernel for Squares<'_, V> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Turn { src, at, step, rows, cols, pitch, .. } = self.0;
        let dst = self.0.dst.as_mut_ptr();
        let side = V::LANES;
        // Along the source first: long runs, which the hardware foresees.
        for c in (0..cols / side * side).step_by(side) {
            for r in (0..rows / side * side).step_by(side) {
                // SAFETY: the square r..r + side, c..c + side lies in the block, and `turn` checked that the block lies in
                // both slices; it knows that the processor has the instructions.
                unsafe {
                    let src = src.as_ptr().offset(at + r as isize + c as isize * step);
                    V::turn(src, step, dst.add(r * pitch + c), pitch);
                }
            }
        }
        self.0.rest(side);
    }
}
