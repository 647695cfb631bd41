//! GEMV and small-M kernel: a few rows times columns whose terms are contiguous, as in a linear
//! layer's `x * w^T`, without packing.
//!
//! Every element of w is used only as often as there are rows, so w is transposed on its way into
//! registers and read once, front to back. A register holds one term of as many columns as it has
//! lanes; each column's chain runs through its chunks as everywhere.
#![allow(unsafe_code, reason = "vector loads and stores without a check for each")]

use super::a_rows::each_row;
use super::blocks::{ColumnsB, RowsA, TermKind};
use super::stored_operand::{FEW_PAIRS, StoredAs, StoredFloat16, StoredNative, assert_in_bounds, few_dots};
use crate::elementwise::real::{Real, StoredElements};
use elinvar_core::{Element, bf16, f16, order::CHUNK};
use elinvar_simd::isa::{Isa, IsaTargets};
use elinvar_simd::quad::{Float16, GatherVector};
use elinvar_simd::vector::{VectorKernel, dispatch_half_bf16_pairs, dispatch_half_vectors};

/// A product of few rows.
pub(super) struct Gemv<'a, T> {
    pub(super) a: RowsA<'a, T>,
    pub(super) b: ColumnsB<'a, T>,
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) k: usize,
    /// Where the result starts, and how far apart its rows are.
    pub(super) c: *mut T,
    pub(super) step: usize,
    pub(super) kind: TermKind,
}

/// Columns that fewer are not multiplied in registers, but one by one.
pub(crate) const GEMV_MIN_COLUMNS: usize = 8;

/// Multiplies and stores all terms.
///
/// # Safety
/// `c` points to `rows` rows of `cols` numbers, `step` apart, that no other thread reads or writes
/// meanwhile.
///
/// # Panics
/// If a factor is shorter than it should be, or there are fewer than [`GEMV_MIN_COLUMNS`] columns
/// of pairs.
pub(super) unsafe fn gemv<T: Real>(isa: Isa, s: Gemv<'_, T>) {
    if s.rows == 0 || s.cols == 0 {
        return;
    }
    assert!(s.k > 0 && (s.rows - 1) * s.a.step + s.k <= s.a.data.len(), "the left factor is too short");
    assert!(assert_in_bounds(&s.b, s.cols, s.k), "columns leave their buffer");
    assert!(
        s.kind == TermKind::Elements || s.cols >= GEMV_MIN_COLUMNS,
        "pairs are multiplied in registers only"
    );
    let at = s.b.at;
    match s.b.data {
        StoredElements::Native(b) if s.kind == TermKind::Bf16Pairs => {
            dispatch_half_bf16_pairs(
                isa,
                GemvKernel::<T, StoredNative<T>> { s, b: b.as_ptr().wrapping_offset(at) },
            );
        }
        StoredElements::Native(b) => dispatch_half_vectors(
            isa,
            GemvKernel::<T, StoredNative<T>> { s, b: b.as_ptr().wrapping_offset(at) },
        ),
        StoredElements::F16(b) => gemv_f16::<T, f16>(isa, s, b.as_ptr().wrapping_offset(at)),
        StoredElements::BF16(b) => gemv_f16::<T, bf16>(isa, s, b.as_ptr().wrapping_offset(at)),
    }
}

/// A product whose columns are of halves, from `b` on.
fn gemv_f16<T: Real, H: Float16>(isa: Isa, s: Gemv<'_, T>, b: *const H) {
    if const { T::WIDENS_F16 } {
        dispatch_half_vectors(isa, GemvKernel::<T, StoredFloat16<H>> { s, b });
    } else {
        unreachable!("f64 is not computed from halves");
    }
}

/// A product whose lengths have been checked, by `gemv` alone.
struct GemvKernel<'a, T, S: StoredAs<T>> {
    s: Gemv<'a, T>,
    /// The first term of the first column.
    b: *const S::Number,
}

impl<T: Real, S: StoredAs<T>> VectorKernel for GemvKernel<'_, T, S> {
    type T = T;
    const TARGETS: IsaTargets = IsaTargets::UpToAvx2;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(self) {
        let Gemv { a, b, rows, cols, k, c, step, .. } = self.s;
        let mut j = 0;
        while j < cols {
            // Two registers of columns, one chain of which waits while the other goes on; of eight
            // rows one is chains enough. The last columns, which fill no register, are computed
            // together with some before them, a second time.
            let wide = const { V::TILE_ROWS >= 6 } && rows <= 4 && cols >= 2 * V::LANES;
            let width = if wide { 2 * V::LANES } else { V::LANES };
            j = j.min(cols.saturating_sub(width));
            let mut i = 0;
            while i < rows {
                // SAFETY: rows i.. and columns j.. are there, as many as each case says; `gemv`
                // checked the factors, and its caller vouches for the result. The instructions are
                // there: our caller's.
                unsafe {
                    let p = GemvTile::<V, S> {
                        a: a.data.as_ptr().add(i * a.step),
                        a_step: a.step,
                        rows: rows - i,
                        b: self.b.wrapping_offset(j as isize * b.step),
                        b_step: b.step,
                        k,
                        c: c.add(i * step + j),
                        step,
                    };
                    // There are few kinds to compile: three rows take as long as four, which is
                    // less than two and one take.
                    i += match rows - i {
                        _ if cols < V::LANES => p.single(cols),
                        _ if const { V::TILE_ROWS == 1 } => p.run::<1, 1>(),
                        n if const { V::TILE_ROWS >= 6 } && !wide && n > 2 => p.run::<8, 1>(),
                        n if const { V::TILE_ROWS >= 6 } && wide && n > 2 => p.run::<4, 2>(),
                        n if const { V::TILE_ROWS >= 6 } && wide && n == 2 => p.run::<2, 2>(),
                        _ if const { V::TILE_ROWS >= 6 } && wide => p.run::<1, 2>(),
                        n if const { V::TILE_ROWS < 6 } && n > 2 => p.run::<4, 1>(),
                        _ => p.run::<1, 1>(),
                    };
                }
            }
            j += width;
        }
    }
}

/// Some rows and columns.
struct GemvTile<V: GatherVector, S: StoredAs<V::T>> {
    a: *const V::T,
    a_step: usize,
    /// So many rows are left: one at least.
    rows: usize,
    b: *const S::Number,
    b_step: isize,
    k: usize,
    c: *mut V::T,
    step: usize,
}

/// How far ahead of what is read columns are fetched, in bytes: into the second level, for columns
/// a power of two apart share a few lines of the first.
const PREFETCH_DISTANCE_BYTES: usize = 1024;
/// How many lines the second register of columns is behind the first; with fewer than three, 1024
/// rows of 1024 terms took a tenth longer. Of few lines too little would overlap, and only what
/// does hides how long an fma takes.
const SECOND_PREFETCH_BEHIND_LINES: usize = 4;

impl<V: GatherVector, S: StoredAs<V::T>> GemvTile<V, S> {
    /// One row, and fewer columns than a register has lanes.
    ///
    /// # Safety
    /// They are there.
    #[inline(always)]
    unsafe fn single(&self, cols: usize) -> usize {
        for j in (0..cols).step_by(FEW_PAIRS) {
            let b = self.b.wrapping_offset(j as isize * self.b_step);
            for from in (0..self.k).step_by(CHUNK) {
                let mut sums = [V::T::ZERO; FEW_PAIRS];
                let sums = &mut sums[..FEW_PAIRS.min(cols - j)];
                // SAFETY: the caller's.
                unsafe {
                    let at = (self.a.add(from), b.wrapping_add(from));
                    few_dots::<_, StoredNative<V::T>, S>(
                        at,
                        [0, self.b_step],
                        CHUNK.min(self.k - from),
                        sums,
                    );
                    for (i, sum) in sums.iter().enumerate() {
                        let c = self.c.add(j + i);
                        c.write(if from == 0 { *sum } else { c.read() + *sum });
                    }
                }
            }
        }
        1
    }

    /// `R` rows, or as many as are left, and `G` registers of columns; gives `R`. In the place of
    /// rows that are not there stands the last one; what comes of it is not stored.
    ///
    /// # Safety
    /// They are there, and the processor has the instructions.
    #[inline(always)]
    unsafe fn run<const R: usize, const G: usize>(&self) -> usize {
        let line = 64 / size_of::<S::Number>();
        let terms = S::TERMS_PER_LOAD;
        let at: [usize; R] = std::array::from_fn(|r| r.min(self.rows - 1) * self.a_step);
        // SAFETY: row r < `rows`, column j < G * LANES and term t < k are there.
        unsafe {
            let zero = V::splat(V::T::ZERO);
            let across = V::LANES as isize * self.b_step;
            for from in (0..self.k).step_by(CHUNK) {
                let end = self.k.min(from + CHUNK);
                let mut sums = [[zero; G]; R];
                // The second register of columns follows some lines behind: rows that are a power
                // of two apart share a set of the first-level cache, which has room for a line of
                // eight of them.
                let lines = (end - from) / line;
                let behind =
                    if lines < 4 * SECOND_PREFETCH_BEHIND_LINES { 0 } else { SECOND_PREFETCH_BEHIND_LINES };
                for step in 0..lines + (G - 1) * behind {
                    for part in (0..line).step_by(terms) {
                        each_row!(G, up to 2, g => {
                            let number = step.wrapping_sub(g * behind);
                            if number < lines {
                                let t = from + number * line + part;
                                let b = self.b.wrapping_offset(g as isize * across).wrapping_add(t);
                                if part == 0 {
                                    for lane in 0..V::LANES {
                                        let ahead = b.wrapping_offset(lane as isize * self.b_step);
                                        V::prefetch_l2(ahead.cast::<u8>().wrapping_add(PREFETCH_DISTANCE_BYTES));
                                    }
                                }
                                let rhs = S::terms::<V>(b, self.b_step);
                                let a = self.a.add(t);
                                each_row!(S::TERMS_PER_LOAD, up to 8, u => {
                                    each_row!(R, up to 8, r => {
                                        let lhs = V::splat(*a.add(at[r] + u));
                                        sums[r][g] = lhs.fma(rhs[u % 8], sums[r][g]);
                                    });
                                });
                            }
                        });
                    }
                }
                let mut t = from + lines * line;
                while t < end {
                    each_row!(G, up to 2, g => {
                        let b = self.b.wrapping_offset(g as isize * across);
                        let rhs = S::term::<V>(b, self.b_step, t);
                        each_row!(R, up to 8, r => {
                            let lhs = V::splat(*self.a.add(at[r] + t));
                            sums[r][g] = lhs.fma(rhs, sums[r][g]);
                        });
                    });
                    t += 1;
                }
                each_row!(R, up to 8, r => {
                    if r < self.rows {
                        for (g, sum) in sums[r].iter().enumerate() {
                            let c = self.c.add(r * self.step + g * V::LANES);
                            let sum = if from == 0 { *sum } else { V::load(c).add(*sum) };
                            sum.store(c);
                        }
                    }
                });
            }
        }
        R
    }
}
