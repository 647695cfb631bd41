//! The attention microkernel: `c[i, j] = fma(a[i, p], b[p, j], c[i, j])` for ascending p, in
//! register tiles.
//!
//! Each element of `c` is one fma chain, whatever the tile; register width and tile size change
//! only how many chains run at once.

#![allow(unsafe_code, reason = "vector loads and stores, in matrices whose sizes are checked once")]

use crate::gemm::kernels::a_rows::{ColumnMajorA, RowMajorA, RowsOfA, TERMS_PER_STEP, each_row};
use elinvar_core::Element;
use elinvar_simd::isa::Isa;
use elinvar_simd::vector::{SimdElement, TermKind, Vector, VectorKernel, dispatch_vectors_of};

/// Columns of `b` and `c` come in multiples of this: one AVX-512 register of f32, two of f64.
pub(crate) const COLUMN_MULTIPLE: usize = 16;

/// A matrix in memory: element (i, j) is at `i * row + j * column`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StridedMatrix<'a, C> {
    pub data: &'a [C],
    pub row: usize,
    pub column: usize,
}

/// A chain of products, checked by `tile_product` alone: pointers into matrices that are
/// large enough.
#[derive(Clone, Copy)]
struct TileProduct<C> {
    m: usize,
    n: usize,
    k: usize,
    a: *const C,
    a_row: usize,
    a_column: usize,
    b: *const C,
    b_row: usize,
    c: *mut C,
    c_row: usize,
    /// Start from +0, not from what is in `c`.
    fresh: bool,
}

impl<T: SimdElement> VectorKernel for TileProduct<T> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: Vector<T = T>>(self) {
        // Sums of sixteen registers, of twelve where there are no more than sixteen: enough chains
        // to hide how long an fma takes.
        // SAFETY: the caller's, for the instructions; `tile_product` checked the sizes.
        unsafe {
            let mut j = 0;
            if const { V::TILE_ROWS >= 12 } {
                j = self.strips::<V, 4, 4>(j);
                j = self.strips::<V, 8, 2>(j);
                self.strips::<V, 8, 1>(j);
            } else {
                self.strips::<V, 6, 2>(j);
            }
        }
    }
}

impl<T: SimdElement> TileProduct<T> {
    /// As many columns from `j` on as `W` registers divide, in tiles of `R` rows as far as there
    /// are so many; gives where they end.
    ///
    /// # Safety
    /// The matrices have the sizes; the processor has the instruction set of `V`.
    #[inline(always)]
    unsafe fn strips<V: Vector<T = T>, const R: usize, const W: usize>(self, mut j: usize) -> usize {
        while j + W * V::LANES <= self.n {
            let mut i = 0;
            // SAFETY: rows i.. and columns j.. of `b` and `c` are as many as the tile has, each
            // time.
            unsafe {
                while i + R <= self.m {
                    self.tile::<V, R, W>(i, j);
                    i += R;
                }
                if const { R > 4 } && i + 4 <= self.m {
                    self.tile::<V, 4, W>(i, j);
                    i += 4;
                }
                while i < self.m {
                    self.tile::<V, 1, W>(i, j);
                    i += 1;
                }
            }
            j += W * V::LANES;
        }
        j
    }
    /// # Safety
    /// As for `strips`, and there are `R` rows from `i` on and `W` registers of columns from `j`
    /// on.
    #[inline(always)]
    unsafe fn tile<V: Vector<T = T>, const R: usize, const W: usize>(self, i: usize, j: usize) {
        let first = self.a.wrapping_add(i * self.a_row);
        // SAFETY: the caller's; of rows, or of terms, neighbours are side by side.
        unsafe {
            if self.a_column == 1 {
                self.sum::<V, _, R, W>(RowMajorA::new(first, self.a_row), i, j);
            } else {
                self.sum::<V, _, R, W>(ColumnMajorA::new(first, self.a_column), i, j);
            }
        }
    }
    /// # Safety
    /// As for `tile`; `a` are the rows.
    #[inline(always)]
    unsafe fn sum<V: Vector<T = T>, A: RowsOfA<V>, const R: usize, const W: usize>(
        self,
        mut a: A,
        i: usize,
        j: usize,
    ) {
        // SAFETY: all places are inside of the matrices, by the caller's promises.
        unsafe {
            let c = self.c.add(i * self.c_row + j);
            let mut b = self.b.wrapping_add(j);
            let mut sums = [[V::splat(T::ZERO); W]; R];
            if !self.fresh {
                each_row!(R, up to 8, r => {
                    for (v, sum) in sums[r].iter_mut().enumerate() {
                        *sum = V::load(c.add(r * self.c_row + v * V::LANES));
                    }
                });
            }
            let mut left = self.k;
            while left >= TERMS_PER_STEP {
                each_row!(TERMS_PER_STEP, up to 4, t => {
                    let right: [V; W] = registers(b);
                    b = b.wrapping_add(self.b_row);
                    each_row!(R, up to 8, r => {
                        let left = V::splat(a.element(r, if A::CONST_STRIDE { t } else { 0 }));
                        for (sum, right) in sums[r].iter_mut().zip(right) {
                            *sum = left.fma(right, *sum);
                        }
                    });
                    if !A::CONST_STRIDE {
                        a.advance(1);
                    }
                });
                if A::CONST_STRIDE {
                    a.advance(TERMS_PER_STEP);
                }
                left -= TERMS_PER_STEP;
            }
            for _ in 0..left {
                let right: [V; W] = registers(b);
                b = b.wrapping_add(self.b_row);
                each_row!(R, up to 8, r => {
                    let left = V::splat(a.element(r, 0));
                    for (sum, right) in sums[r].iter_mut().zip(right) {
                        *sum = left.fma(right, *sum);
                    }
                });
                a.advance(1);
            }
            each_row!(R, up to 8, r => {
                for (v, sum) in sums[r].iter().enumerate() {
                    sum.store(c.add(r * self.c_row + v * V::LANES));
                }
            });
        }
    }
}

/// Registers side by side.
///
/// # Safety
/// The processor has them, and as many numbers can be read.
#[inline(always)]
unsafe fn registers<V: Vector, const W: usize>(from: *const V::T) -> [V; W] {
    // SAFETY: the caller's.
    unsafe {
        let mut all = [V::splat(V::T::ZERO); W];
        for (v, register) in all.iter_mut().enumerate() {
            *register = V::load(from.add(v * V::LANES));
        }
        all
    }
}

/// `c[i, j] = fma(a[i, p], b[p, j], c[i, j])` for p in `0..k`, ascending, which are numbers or
/// pairs; from +0 if `fresh`. `n` is a multiple of [`COLUMN_MULTIPLE`]; `b` and `c` have
/// columns side by side, `a` has columns or rows so.
///
/// # Panics
/// If a matrix is smaller than that or of another layout, or the processor multiplies no pairs.
pub(super) fn tile_product<T: SimdElement>(
    isa: Isa,
    kind: TermKind,
    [m, n, k]: [usize; 3],
    a: StridedMatrix<'_, T>,
    (b, b_row): (&[T], usize),
    (c, c_row): (&mut [T], usize),
    fresh: bool,
) {
    if m == 0 || n == 0 {
        return;
    }
    assert!(n.is_multiple_of(COLUMN_MULTIPLE) && (m - 1) * c_row + n <= c.len());
    assert!(k == 0 || ((m - 1) * a.row + (k - 1) * a.column < a.data.len()));
    assert!(k == 0 || ((k - 1) * b_row + n <= b.len()));
    assert!(a.row == 1 || a.column == 1, "rows or terms lie side by side");
    let (a_row, a_column) = (a.row, a.column);
    let (a, b, c) = (a.data.as_ptr(), b.as_ptr(), c.as_mut_ptr());
    dispatch_vectors_of(kind, isa, TileProduct { m, n, k, a, a_row, a_column, b, b_row, c, c_row, fresh });
}
