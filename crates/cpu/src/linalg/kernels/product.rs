//! Products of small matrices that lie in larger ones.
#![allow(unsafe_code, reason = "vector loads and stores")]

use elinvar_simd::quad::GatherVector;
use elinvar_simd::vector::Vector;

/// The widest register: rows have so many more elements, which may be read and written.
pub(super) const SLACK: usize = 16;

/// Rows of a result that are computed at once.
const ROWS: usize = 8;

/// A matrix from the first element of these on, and from a row to the next.
#[derive(Clone, Copy)]
pub(super) struct Block<'a, C> {
    pub(super) x: &'a [C],
    pub(super) stride: usize,
}

/// to = a b, each element a chain of fma from 0: a is [m, k], b [k, n]. Of `to`, and of b, elements
/// up to a register beyond n are touched.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn product<V: GatherVector>(
    a: Block<'_, V::T>,
    b: Block<'_, V::T>,
    to: &mut [V::T],
    stride: usize,
    [m, k, n]: [usize; 3],
) {
    for j in (0..n).step_by(V::LANES) {
        let mut i = 0;
        // SAFETY: as above.
        unsafe {
            while i + ROWS <= m {
                rows::<V, ROWS>(a, b, to, stride, [i, k, j]);
                i += ROWS;
            }
            for i in i..m {
                rows::<V, 1>(a, b, to, stride, [i, k, j]);
            }
        }
    }
}

/// `R` rows from i on of a register of columns.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn rows<V: Vector, const R: usize>(
    a: Block<'_, V::T>,
    b: Block<'_, V::T>,
    to: &mut [V::T],
    stride: usize,
    [i, k, j]: [usize; 3],
) {
    let mut row = [&[][..]; R];
    for (r, row) in row.iter_mut().enumerate() {
        *row = &a.x[(i + r) * a.stride..][..k];
    }
    // SAFETY: the slices have a register's elements; the instructions are our caller's.
    unsafe {
        let mut sums = [V::splat(V::T::default()); R];
        for (t, b) in (0..k).map(|t| (t, &b.x[t * b.stride + j..])) {
            let b = V::load(b[..V::LANES].as_ptr());
            for r in 0..R {
                sums[r] = V::splat(row[r][t]).fma(b, sums[r]);
            }
        }
        for (r, sum) in sums.into_iter().enumerate() {
            sum.store(to[(i + r) * stride + j..][..V::LANES].as_mut_ptr());
        }
    }
}
