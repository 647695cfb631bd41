//! Packing with transpose: a block whose columns are contiguous is written as rows.
//!
//! Where registers have 16 lanes, squares of 16 x 16 are transposed in registers: each line is read
//! once and written whole. What is left beside such squares goes by four rows of eight columns, and
//! the rest element by element.
#![allow(unsafe_code, reason = "vector loads and stores")]

use crate::elementwise::real::Real;
use elinvar_simd::LINE;
use elinvar_simd::isa::{Isa, IsaTargets};
use elinvar_simd::quad::GatherVector;
use elinvar_simd::vector::{VectorKernel, dispatch_half_vectors, dispatch_vectors, lanes};

/// dst[r * pitch + c] = src[at + r + c * step] for r in 0..rows, c in 0..cols
///
/// # Panics
/// If that leaves either slice.
pub(crate) fn transpose_block<T: Real>(
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
    assert!(cols <= pitch && (rows - 1) * pitch + cols <= dst.len(), "a block leaves its panel");
    // SAFETY: the rows and columns are in the slice, by the line above.
    unsafe { transpose_block_to(isa, src, at, step, rows, cols, dst.as_mut_ptr(), pitch) };
}

/// The same, to memory in which the rows are, but not what is between them.
///
/// # Safety
/// No other thread reads or writes `cols` numbers of each of the rows, `pitch` apart, meanwhile.
///
/// # Panics
/// If the block leaves its buffer.
pub(super) unsafe fn transpose_block_to<T: Real>(
    isa: Isa,
    src: &[T],
    at: isize,
    step: isize,
    rows: usize,
    cols: usize,
    dst: *mut T,
    pitch: usize,
) {
    if rows == 0 || cols == 0 {
        return;
    }
    // Both ends of the first and the last column: all others are between them.
    let last = at + (cols as isize - 1) * step;
    let (low, high) = (at.min(last), at.max(last) + rows as isize);
    assert!(low >= 0 && high as usize <= src.len(), "a block leaves its buffer");
    let block = TransposeBlock { src, at, step, rows, cols, dst, pitch };
    let far = cols > NO_SQUARES_MAX_COLUMNS
        && step.unsigned_abs() * size_of::<T>() >= SQUARES_MIN_STRIDE_BYTES
        && lanes::<T>(isa) == SQUARE_SIDE;
    let whole = |n: usize| if far { n / SQUARE_SIDE * SQUARE_SIDE } else { 0 };
    let (down, across) = (whole(rows), whole(cols));
    if down > 0 && across > 0 {
        dispatch_vectors(isa, TransposeSquares(TransposeBlock { rows: down, cols: across, ..block }));
        dispatch_half_vectors(isa, TransposeBlock { cols: cols - across, ..block.from(0, across) });
        dispatch_half_vectors(isa, TransposeBlock { rows: rows - down, cols: across, ..block.from(down, 0) });
    } else {
        // Eight columns at once, not sixteen: a set of the first-level cache has eight lines, which
        // columns a power of two apart share.
        dispatch_half_vectors(isa, block);
    }
}

/// Rows of the result that are written together: 16 KiB of panels, which stay in the first-level
/// cache until they are whole.
const ROWS_TOGETHER: usize = 128;
/// How far ahead a column is fetched, in bytes.
const PREFETCH_DISTANCE_BYTES: usize = 512;

/// How far ahead rows of the result are fetched, in columns: what is written is in many rows,
/// which no hardware foresees. Panels have fewer columns.
const PREFETCH_OUTPUT_COLUMNS: usize = 64;

/// Columns up to which there are no squares, as in panels: there is nothing to gain.
const NO_SQUARES_MAX_COLUMNS: usize = 32;
/// Bytes between columns from which squares are turned: lines of nearer ones stay in the
/// first-level cache until all that is in them was read, and four rows at a time take fewer
/// shuffles.
const SQUARES_MIN_STRIDE_BYTES: usize = 512;
/// Rows and columns of a square.
const SQUARE_SIDE: usize = 16;

/// A block that is in its buffer, and rows that may be written: made by `transpose_block_to`
/// alone.
#[derive(Clone, Copy)]
struct TransposeBlock<'a, T> {
    src: &'a [T],
    at: isize,
    step: isize,
    rows: usize,
    cols: usize,
    dst: *mut T,
    pitch: usize,
}

impl<T> TransposeBlock<'_, T> {
    /// The block from a row and a column on. Its size is to be changed, too.
    fn from(self, row: usize, col: usize) -> Self {
        let at = self.at + row as isize + col as isize * self.step;
        TransposeBlock { at, dst: self.dst.wrapping_add(row * self.pitch + col), ..self }
    }
}

/// Such a block of whole squares, where registers have as many lanes.
struct TransposeSquares<'a, T>(TransposeBlock<'a, T>);

impl<T: Real> VectorKernel for TransposeSquares<'_, T> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(self) {
        let TransposeBlock { src, at, step, rows, cols, dst, pitch } = self.0;
        if const { V::LANES != SQUARE_SIDE } {
            unreachable!("squares are for registers of as many lanes");
        }
        let prefetch_at = PREFETCH_DISTANCE_BYTES / size_of::<T>();
        for c in (0..cols).step_by(SQUARE_SIDE) {
            for r in (0..rows).step_by(SQUARE_SIDE) {
                // What is read some squares later: of the next columns, or farther along, as what
                // follows the block often is.
                let is_end = r + prefetch_at >= rows && c + SQUARE_SIDE < cols;
                let (row, col) = if is_end { (r, c + SQUARE_SIDE) } else { (r + prefetch_at, c) };
                // SAFETY: the square is in the block, which is in its buffer and may be
                // written, see `transpose_block_to`; the instructions are there: our caller's. What
                // is fetched ahead may be anywhere.
                unsafe {
                    let prefetch_from = src.as_ptr().wrapping_offset(at + row as isize + col as isize * step);
                    for lane in 0..SQUARE_SIDE as isize {
                        V::prefetch_l2(prefetch_from.wrapping_offset(lane * step).cast());
                    }
                    if c + PREFETCH_OUTPUT_COLUMNS < cols {
                        for i in 0..SQUARE_SIDE {
                            V::prefetch_l2(
                                dst.wrapping_add((r + i) * pitch + c + PREFETCH_OUTPUT_COLUMNS).cast(),
                            );
                        }
                    }
                    let square = V::square(src.as_ptr().offset(at + r as isize + c as isize * step), step);
                    for (i, v) in square.into_iter().enumerate() {
                        v.store(dst.add((r + i) * pitch + c));
                    }
                }
            }
        }
    }
}

impl<T: Real> VectorKernel for TransposeBlock<'_, T> {
    type T = T;
    const TARGETS: IsaTargets = IsaTargets::UpToAvx2;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(self) {
        let TransposeBlock { src, at, step, rows, cols, dst, pitch } = self;
        let line = LINE / size_of::<V::T>();
        let (down, across) = (rows / 4 * 4, cols / V::LANES * V::LANES);
        // Along the source first: a line of it is used up before the next is touched, for columns
        // that are a power of two apart push each other out of the first level.
        for from in (0..down).step_by(ROWS_TOGETHER) {
            for c in (0..across).step_by(V::LANES) {
                for r in (from..down.min(from + ROWS_TOGETHER)).step_by(4) {
                    let at = at + r as isize + c as isize * step;
                    // SAFETY: rows r..r + 4 and columns c..c + LANES are in the block, which is
                    // in its buffer and may be written, see `transpose_block_to`; the instructions
                    // are there: our caller's. What is fetched ahead may be anywhere.
                    unsafe {
                        let place = src.as_ptr().offset(at);
                        if r % line == 0 {
                            for lane in 0..V::LANES {
                                let prefetch_at = place.wrapping_offset(lane as isize * step).cast::<u8>();
                                V::prefetch_l2(prefetch_at.wrapping_add(PREFETCH_DISTANCE_BYTES));
                            }
                        }
                        if c % line == 0 && c + PREFETCH_OUTPUT_COLUMNS < cols {
                            for i in 0..4 {
                                V::prefetch_l2(
                                    dst.wrapping_add((r + i) * pitch + c + PREFETCH_OUTPUT_COLUMNS).cast(),
                                );
                            }
                        }
                        for (i, v) in V::quad(place, step).into_iter().enumerate() {
                            v.store(dst.add((r + i) * pitch + c));
                        }
                    }
                }
            }
        }
        let one = |r: usize, c: usize| {
            let v = src[(at + r as isize + c as isize * step) as usize];
            // SAFETY: row r and column c are in the block, which may be written.
            unsafe { dst.add(r * pitch + c).write(v) }
        };
        for c in across..cols {
            (0..down).for_each(|r| one(r, c));
        }
        for r in down..rows {
            (0..cols).for_each(|c| one(r, c));
        }
    }
}
