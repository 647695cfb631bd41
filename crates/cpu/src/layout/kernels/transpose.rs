//! Transpose of blocks of memory by vector registers, in tiles whose sides are one cache line.
//!
//! Each line is read once and written whole: rows a power of two apart share few cache sets, so a
//! line that is touched twice would have been evicted. Tiles are aligned to the lines of the
//! output: the first tile of a row or column is followed by one that starts on a line, and the last
//! ends with the block. So some elements are written twice, with the same value.
#![allow(unsafe_code, reason = "vector loads and stores")]

use elinvar_simd::LINE;
use elinvar_simd::isa::{Isa, IsaTargets};
use elinvar_simd::quad::GatherVector;
use elinvar_simd::uninit::UninitSlice;
use elinvar_simd::vector::{SimdElement, VectorKernel, dispatch_vectors, lanes};

/// Blocks of one size, side by side in the result.
#[derive(Clone, Copy)]
pub(crate) struct TransposeBlocks<'a> {
    /// Where the first block starts.
    pub(crate) at: usize,
    /// From there to where each starts.
    pub(crate) starts: &'a [isize],
    /// Rows of the result: neighbours in memory.
    pub(crate) rows: usize,
    /// Numbers that each block has in a row of the result, and how far apart they are in memory.
    pub(crate) cols: usize,
    pub(crate) step: isize,
}

/// Fills the room: y[r, i, c] = x[at + starts[i] + r + c * step]; or says that it does not, of
/// numbers of other sizes than f32 and f64, of blocks that are smaller than a tile, and on plain
/// x86-64.
///
/// # Panics
/// If a block leaves its buffer, or the room has another size.
pub(crate) fn transpose_blocks<T: Copy>(
    isa: Isa,
    x: &[T],
    blocks: TransposeBlocks<'_>,
    dst: &mut UninitSlice<'_, T>,
) -> bool {
    match size_of::<T>() {
        4 if align_of::<T>() == align_of::<f32>() => as_numbers::<T, f32>(isa, x, blocks, dst),
        8 if align_of::<T>() == align_of::<f64>() => as_numbers::<T, f64>(isa, x, blocks, dst),
        _ => false,
    }
}

/// The same of numbers that are moved as numbers of type `N`, which has the same size: no bit of
/// them changes.
fn as_numbers<T: Copy, N: SimdElement>(
    isa: Isa,
    x: &[T],
    blocks: TransposeBlocks<'_>,
    dst: &mut UninitSlice<'_, T>,
) -> bool {
    let TransposeBlocks { at, starts, rows, cols, step } = blocks;
    let side = LINE / size_of::<N>();
    if rows.min(cols) < side || lanes::<N>(isa) < 4 || !isa.has_kernels() {
        return false;
    }
    let y = dst.unwritten();
    let len = y.len();
    assert_eq!(len, rows * starts.len() * cols, "cpu: a room of another size");
    // Both ends of the first and of the last column: all others are between them.
    let last = (cols as isize - 1) * step;
    for start in starts {
        let first = at as isize + start;
        let (low, high) = (first + last.min(0), first + last.max(0) + rows as isize);
        assert!(low >= 0 && high as usize <= x.len(), "cpu: a block leaves its buffer");
    }
    dispatch_vectors(isa, TransposeKernel::<N> { x: x.as_ptr().cast(), blocks, y: y.as_mut_ptr().cast() });
    // SAFETY: `TransposeKernel` writes all rows of all blocks, which are `len` numbers.
    unsafe { dst.count(len) };
    true
}

/// Blocks that are in their buffer, of at least a tile, and room for them: made by `as_numbers`
/// alone.
struct TransposeKernel<'a, T> {
    x: *const T,
    blocks: TransposeBlocks<'a>,
    y: *mut T,
}

/// Where the tile after the one at `at` starts, of `len` numbers, `head` of which are before the
/// first line.
#[inline(always)]
fn next(at: usize, len: usize, side: usize, head: usize) -> Option<usize> {
    let then = if at == 0 && head > 0 { head } else { at + side };
    (at + side < len).then(|| then.min(len - side))
}

/// Numbers before the first line, if the other rows' lines begin as the first one's do.
fn head<T>(p: *const T, step: usize) -> usize {
    let side = LINE / size_of::<T>();
    if step.is_multiple_of(side) { Some(p.align_offset(LINE)).filter(|&n| n < side).unwrap_or(0) } else { 0 }
}

impl<T: SimdElement> VectorKernel for TransposeKernel<'_, T> {
    type T = T;
    const TARGETS: IsaTargets = IsaTargets::All;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(self) {
        let TransposeKernel { x, blocks: TransposeBlocks { at, starts, rows, cols, step }, y } = self;
        let (side, pitch) = (LINE / size_of::<T>(), starts.len() * cols);
        for (i, start) in starts.iter().enumerate() {
            let x = x.wrapping_add(at).wrapping_offset(*start);
            let y = y.wrapping_add(i * cols);
            let (across, down) = (head(y, pitch), head(x, step.unsigned_abs()));
            let mut row = Some(0);
            while let Some(r) = row {
                let mut col = Some(0);
                while let Some(c) = col {
                    for b in (0..side).step_by(V::LANES) {
                        for a in (0..side).step_by(V::LANES) {
                            // SAFETY: `next` gives places up to `side` before the end, so rows
                            // r..r + side and columns c..c + side are there; `side` is a multiple
                            // of LANES, which is 4 at least. The instructions are there: our
                            // caller's.
                            unsafe {
                                let from = x.wrapping_add(r + a).wrapping_offset((c + b) as isize * step);
                                let square = V::square(from, step);
                                for (u, v) in square[..V::LANES].iter().enumerate() {
                                    v.store(y.add((r + a + u) * pitch + c + b));
                                }
                            }
                        }
                    }
                    col = next(c, cols, side, across);
                }
                row = next(r, rows, side, down);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::output::parallel_fill::serial_fill;
    use elinvar_core::Element;

    /// Every number is where it should be, and no other is read: sizes around tiles, steps of all
    /// kinds, lines that begin anywhere.
    fn all<T: Element + PartialEq>(of: impl Fn(usize) -> T) {
        let side = LINE / size_of::<T>();
        for isa in Isa::with_kernels() {
            for (rows, cols) in
                [(0, 0), (0, 5), (1, 1), (3, 2), (5, 0)].map(|(r, c)| (side + r, side + c)).into_iter().chain(
                    [(2 * side + 3, 4 * side), (5 * side, 3 * side + 1), (side - 1, side), (side, side - 1)],
                )
            {
                for step in [rows as isize, (2 * side) as isize * 4, 70, -(rows as isize), -128] {
                    for (from, starts) in [(0, &[0][..]), (1, &[0, 3]), (5, &[2, 0, 9])] {
                        let span = (cols - 1) * step.unsigned_abs();
                        let at = from + if step < 0 { span } else { 0 };
                        let x: Vec<T> = (0..from + span + rows + 9).map(&of).collect();
                        let blocks = TransposeBlocks { at, starts, rows, cols, step };
                        let mut done = false;
                        let y = serial_fill(rows * starts.len() * cols, |dst| {
                            done = transpose_blocks(isa, &x, blocks, dst);
                            dst.extend(dst.remaining(), |_| of(0));
                        });
                        // NEON has two numbers of 8 bytes in a register, which make no square.
                        let lanes = if size_of::<T>() == 8 { lanes::<f64>(isa) } else { lanes::<f32>(isa) };
                        let may = isa.has_kernels() && lanes >= 4;
                        assert_eq!(done, may && rows.min(cols) >= side, "{isa}: {rows} x {cols}");
                        let want = (0..rows).flat_map(|r| {
                            starts.iter().flat_map(move |s| {
                                (0..cols).map(move |c| at as isize + s + r as isize + c as isize * step)
                            })
                        });
                        let same = want.zip(y.unwrap()).all(|(i, y)| x[i as usize] == y);
                        assert!(
                            !done || same,
                            "{isa}: {rows} x {cols}, {step} apart, {starts:?} from {from}"
                        );
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
    fn other_sizes_are_left_to_others() {
        for isa in Isa::with_kernels() {
            let blocks = TransposeBlocks { at: 0, starts: &[0], rows: 64, cols: 64, step: 64 };
            let y = serial_fill(64 * 64, |dst| {
                assert!(!transpose_blocks(isa, &[0u8; 64 * 64], blocks, dst));
                dst.extend(64 * 64, |_| 0);
            });
            assert!(y.is_ok());
        }
    }
}
