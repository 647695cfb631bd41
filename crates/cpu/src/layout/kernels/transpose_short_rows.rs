//! Transpose of short rows into lanes and back: element `i` of 64 rows becomes chunk `i`.
//!
//! It works in squares of as many rows as a register has lanes. How it can be wrong: at the ends. A
//! square loads whole registers of each row, which reach into the rows behind; where that would
//! leave the slice, and for rows that fill no square, the caller does the work. Elements stored
//! past the end of a row are overwritten by the next row.
#![allow(unsafe_code, reason = "vector loads and stores")]

use elinvar_simd::isa::{Isa, IsaTargets};
use elinvar_simd::quad::GatherVector;
use elinvar_simd::uninit::UninitSlice;
use elinvar_simd::vector::{SimdElement, VectorKernel, dispatch_vectors, lanes};
use std::ops::Range;

/// Rows of a window.
const ROWS_PER_CHUNK: usize = 64;

/// windows[i][r] = x[r * step + i], for as many of the first `rows` rows as it says then. None of
/// numbers of other sizes than f32 and f64, and on plain x86-64.
///
/// # Panics
/// If there are more rows than a window has.
pub(crate) fn to_lanes<T: Copy>(
    isa: Isa,
    x: &[T],
    step: usize,
    rows: usize,
    chunks: &mut [[T; ROWS_PER_CHUNK]],
) -> usize {
    match size_of::<T>() {
        4 if align_of::<T>() == align_of::<f32>() => values_to_lanes::<T, f32>(isa, x, step, rows, chunks),
        8 if align_of::<T>() == align_of::<f64>() => values_to_lanes::<T, f64>(isa, x, step, rows, chunks),
        _ => 0,
    }
}

/// Writes the first `n` numbers of rows, one row after the other, of as many of the first of these
/// rows as it says then; as [`to_lanes`].
///
/// # Panics
/// If there are no such rows, or the room is too small for them.
pub(crate) fn from_lanes<T: Copy>(
    isa: Isa,
    chunks: &[[T; ROWS_PER_CHUNK]],
    n: usize,
    rows: Range<usize>,
    dst: &mut UninitSlice<'_, T>,
) -> usize {
    match size_of::<T>() {
        4 if align_of::<T>() == align_of::<f32>() => lanes_to_values::<T, f32>(isa, chunks, n, rows, dst),
        8 if align_of::<T>() == align_of::<f64>() => lanes_to_values::<T, f64>(isa, chunks, n, rows, dst),
        _ => 0,
    }
}

/// The side of squares, if there are any. Numbers are moved as numbers of type `N`, which has their
/// size: no bit of them changes.
fn side<N: SimdElement>(isa: Isa) -> Option<usize> {
    Some(lanes::<N>(isa)).filter(|&side| side >= 4 && isa.has_kernels())
}

fn values_to_lanes<T: Copy, N: SimdElement>(
    isa: Isa,
    x: &[T],
    step: usize,
    rows: usize,
    chunks: &mut [[T; ROWS_PER_CHUNK]],
) -> usize {
    assert!(rows <= ROWS_PER_CHUNK, "cpu: more rows than a window has");
    let (Some(side), n) = (side::<N>(isa), chunks.len()) else { return 0 };
    // Rows of which whole registers can be read.
    let readable = match x.len().checked_sub(n.next_multiple_of(side)) {
        Some(behind) if step > 0 => (behind / step + 1).min(rows),
        _ => 0,
    };
    let rows = readable / side * side;
    if rows > 0 {
        let to = chunks.as_mut_ptr().cast();
        dispatch_vectors(isa, ToLanes::<N> { x: x.as_ptr().cast(), step, rows, n, to });
    }
    rows
}

fn lanes_to_values<T: Copy, N: SimdElement>(
    isa: Isa,
    chunks: &[[T; ROWS_PER_CHUNK]],
    n: usize,
    rows: Range<usize>,
    dst: &mut UninitSlice<'_, T>,
) -> usize {
    assert!(rows.start <= rows.end && rows.end <= ROWS_PER_CHUNK, "cpu: more rows than a window has");
    let Some(side) = side::<N>(isa) else { return 0 };
    let (count, slots) = (rows.len() / side * side, dst.unwritten());
    if chunks.len() < n.next_multiple_of(side) {
        return 0;
    }
    assert!(count * n <= slots.len(), "cpu: a room that is too small");
    let (x, to, len) = (chunks.as_ptr().cast::<N>(), slots.as_mut_ptr().cast(), slots.len());
    dispatch_vectors(isa, FromLanes::<N> { x: x.wrapping_add(rows.start), rows: count, n, to, len });
    // SAFETY: `FromLanes` writes `n` numbers of each of `count` rows, one row after the other; the
    // slots were counted above.
    unsafe { dst.count(count * n) };
    count
}

/// Rows to be turned, of each of which so many numbers as are whole registers are behind `x`; and
/// `n` windows. Made above alone.
struct ToLanes<N> {
    x: *const N,
    step: usize,
    /// A multiple of a register's numbers.
    rows: usize,
    n: usize,
    to: *mut N,
}

impl<N: SimdElement> VectorKernel for ToLanes<N> {
    type T = N;
    const TARGETS: IsaTargets = IsaTargets::All;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = N>>(self) {
        let ToLanes { x, step, rows, n, to } = self;
        for row in (0..rows).step_by(V::LANES) {
            for column in (0..n).step_by(V::LANES) {
                // SAFETY: the caller found that whole registers of these rows can be read; a
                // window has 64 rows, and there are as many windows as are written. The
                // instructions are there: our caller's.
                unsafe {
                    let square = V::square(x.add(row * step + column), step as isize);
                    for (i, numbers) in square[..V::LANES].iter().enumerate() {
                        if column + i < n {
                            numbers.store(to.add((column + i) * ROWS_PER_CHUNK + row));
                        }
                    }
                }
            }
        }
    }
}

/// Windows from a row's place on, at least so many as `n` fills of registers; and `len` slots,
/// `rows * n` at least. Made above alone.
struct FromLanes<N> {
    x: *const N,
    /// A multiple of a register's numbers.
    rows: usize,
    n: usize,
    to: *mut N,
    len: usize,
}

impl<N: SimdElement> VectorKernel for FromLanes<N> {
    type T = N;
    const TARGETS: IsaTargets = IsaTargets::All;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = N>>(self) {
        let FromLanes { x, rows, n, to, len } = self;
        for row in (0..rows).step_by(V::LANES) {
            // The last columns first: what a row has too much is where the first columns of the
            // next one go.
            for column in (0..n).step_by(V::LANES).rev() {
                // SAFETY: the caller found so many windows of 64 rows, and room for all
                // rows. The instructions are there: our caller's. No register has more than 16
                // lanes.
                unsafe {
                    let square = V::square(x.add(column * ROWS_PER_CHUNK + row), ROWS_PER_CHUNK as isize);
                    for (i, numbers) in square[..V::LANES].iter().enumerate() {
                        let at = (row + i) * n + column;
                        if at + V::LANES <= len {
                            numbers.store(to.add(at));
                        } else {
                            let mut last = [N::ZERO; 16];
                            numbers.store(last.as_mut_ptr());
                            std::ptr::copy_nonoverlapping(
                                last.as_ptr(),
                                to.add(at),
                                V::LANES.min(n - column),
                            );
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::output::parallel_fill::serial_fill;
    use elinvar_core::Element;

    /// Every number comes to its place and back, whatever the length of rows, how many there are,
    /// and how much is behind them.
    fn all<T: Element + PartialEq>(of: impl Fn(usize) -> T) {
        for isa in Isa::with_kernels() {
            for n in [1, 2, 3, 4, 5, 7, 8, 9, 10, 12, 15, 16, 17, 33] {
                for (rows, step, behind) in [(64, n, 0), (64, n + 3, 40), (37, n, 16), (16, n, 3), (3, n, 0)]
                {
                    let x: Vec<T> = (0..(rows - 1) * step + n + behind).map(&of).collect();
                    let mut chunks = vec![[of(0); ROWS_PER_CHUNK]; n.next_multiple_of(16)];
                    let transposed = to_lanes(isa, &x, step, rows, &mut chunks[..n]);
                    assert!(transposed <= rows, "{isa}");
                    // On all but plain x86-64 there is room for a square, and it is used.
                    let four = size_of::<T>() == 4 && isa.has_kernels() && rows == 64;
                    assert!(!four || transposed >= 32, "{isa}: {transposed} of {rows} rows of {n}");
                    for (i, chunk) in chunks[..n].iter().enumerate() {
                        let right = (0..transposed).all(|row| chunk[row] == x[row * step + i]);
                        assert!(right, "{isa}: element {i} of rows of {n}");
                    }
                    for (i, chunk) in chunks.iter_mut().enumerate() {
                        (0..ROWS_PER_CHUNK).for_each(|row| chunk[row] = of(row * n + i));
                    }
                    for first in [0, 5] {
                        let mut done = 0;
                        let count = rows - first.min(rows);
                        let y = serial_fill(count * n, |dst| {
                            done = from_lanes(isa, &chunks, n, rows - count..rows, dst);
                            dst.extend(dst.remaining(), |_| of(0));
                        });
                        let want = (0..done * n).map(|i| of((rows - count) * n + i));
                        assert!(
                            want.zip(y.unwrap()).all(|(want, y)| want == y),
                            "{isa}: {count} rows of {n}"
                        );
                        assert!(!four || done >= 48, "{isa}: {done} of {count} rows of {n}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_number_comes_to_its_place() {
        all(|i| i as f32);
        all(|i| i as f64);
        all(|i| i as i32);
    }

    #[test]
    fn other_sizes_and_few_windows_are_left_to_others() {
        for isa in Isa::with_kernels() {
            let mut chunks = [[0u8; ROWS_PER_CHUNK]; 16];
            assert_eq!(to_lanes(isa, &[1; 64 * 16], 16, 64, &mut chunks), 0);
            let y = serial_fill(64 * 3, |dst| {
                assert_eq!(from_lanes(isa, &[[0f32; ROWS_PER_CHUNK]; 3], 3, 0..64, dst), 0);
                dst.extend(64 * 3, |_| 0.0);
            });
            assert!(y.is_ok());
        }
    }
}
