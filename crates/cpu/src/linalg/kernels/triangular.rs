//! Inverses of lower triangular matrices of at most 64 rows, from blocks of 8 on: the sizes, and
//! the zeros that are multiplied, are those of
//! [`Fused::TriangularInverse`](elinvar_ops::backend::Fused).
#![allow(unsafe_code, reason = "products in registers")]

use super::product::{Block, SLACK, product};
use crate::reduce::float::Float;
use elinvar_ops::factor_steps::elimination::substituted;
use elinvar_simd::quad::GatherVector;
use elinvar_simd::vector::VectorKernel;

/// Columns that are taken one after the other.
pub(super) const LEAF: usize = 8;
/// Columns of a matrix, at most.
pub(super) const COLUMNS: usize = 64;
/// From a row to the next of a matrix in the making: no power of two, as a cache has few places for
/// a column of rows that are powers of two apart.
pub(super) const STRIDE: usize = COLUMNS + SLACK;

/// Memory for an inverse: each part is [64, STRIDE].
pub(in crate::linalg) struct Inverse<'a, C> {
    lower: &'a mut [C],
    inverse: &'a mut [C],
    /// Two products, of half the rows each.
    temporary: &'a mut [C],
}

impl<'a, C: Float> Inverse<'a, C> {
    /// How many elements this takes.
    pub(in crate::linalg) const fn elements() -> usize {
        3 * COLUMNS * STRIDE
    }
    /// In memory of at least [`Inverse::elements`] elements.
    pub(in crate::linalg) fn new(memory: &'a mut [C]) -> Self {
        let (lower, rest) = memory.split_at_mut(COLUMNS * STRIDE);
        let (inverse, rest) = rest.split_at_mut(COLUMNS * STRIDE);
        Inverse { lower, inverse, temporary: &mut rest[..COLUMNS * STRIDE] }
    }
    /// What was made last: rows are `STRIDE` apart.
    pub(super) fn result(&self) -> &[C] {
        self.inverse
    }

    /// Inverts the lower triangle of n rows, whose diagonal is ones if `unit`.
    ///
    /// # Safety
    /// The processor has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn invert<V: GatherVector<T = C>>(&mut self, x: Block<'_, C>, n: usize, unit: bool) {
        let Inverse { lower, inverse, temporary } = self;
        let mut size = LEAF;
        while size < n {
            size *= 2;
        }
        inverse[..size * STRIDE].fill(C::POSITIVE_ZERO);
        // Rows beyond n are 0: they are multiplied, by what may be infinite.
        lower[..size * STRIDE].fill(C::POSITIVE_ZERO);
        for (to, from) in lower.chunks_exact_mut(STRIDE).zip(x.x.chunks(x.stride)).take(n) {
            to[..n].copy_from_slice(&from[..n]);
        }
        let pivot = |i: usize, lower: &[C]| {
            if unit || i >= n { C::lit(1.0) } else { lower[i * STRIDE + i] }
        };
        for first in (0..size).step_by(LEAF) {
            let mut block = [[C::POSITIVE_ZERO; LEAF]; LEAF];
            for (i, row) in block.iter_mut().enumerate() {
                row[i] = C::lit(1.0);
            }
            for k in 0..LEAF {
                let (done, p) = (block[k], pivot(first + k, lower));
                for (i, row) in block.iter_mut().enumerate().skip(k + 1) {
                    let l = lower[(first + i) * STRIDE + first + k];
                    for (x, r) in row.iter_mut().zip(done) {
                        *x = substituted(*x, l, r, p);
                    }
                }
            }
            for (i, row) in block.iter().enumerate() {
                let to = &mut inverse[(first + i) * STRIDE + first..][..LEAF];
                let p = pivot(first + i, lower);
                for (to, x) in to.iter_mut().zip(row) {
                    *to = if unit { *x } else { *x / p };
                }
            }
        }
        let mut s = LEAF;
        while s < size {
            for first in (0..size).step_by(2 * s) {
                let (top, bottom) = inverse.split_at_mut((first + s) * STRIDE);
                let a = Block { x: &top[first * STRIDE + first..], stride: STRIDE };
                let c = Block { x: &lower[(first + s) * STRIDE + first..], stride: STRIDE };
                // SAFETY: as above.
                unsafe { product::<V>(c, a, temporary, STRIDE, [s, s, s]) };
                let (inner, outer) = temporary.split_at_mut(s * STRIDE);
                let d = Block { x: &bottom[first + s..], stride: STRIDE };
                // SAFETY: as above.
                unsafe { product::<V>(d, Block { x: inner, stride: STRIDE }, outer, STRIDE, [s, s, s]) };
                for (to, corner) in bottom.chunks_mut(STRIDE).zip(outer.chunks_exact(STRIDE)).take(s) {
                    for (to, corner) in to[first..][..s].iter_mut().zip(corner) {
                        *to = -*corner;
                    }
                }
            }
            s *= 2;
        }
    }
}

/// Inverts matrices [n, n], one after the other.
pub(in crate::linalg) struct Inverses<'a, C> {
    pub(in crate::linalg) work: Inverse<'a, C>,
    pub(in crate::linalg) x: &'a [C],
    pub(in crate::linalg) y: &'a mut [C],
    pub(in crate::linalg) n: usize,
    pub(in crate::linalg) unit: bool,
}

impl<C: Float> VectorKernel for Inverses<'_, C> {
    type T = C;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = C>>(mut self) {
        let n = self.n;
        for (x, y) in self.x.chunks_exact(n * n).zip(self.y.chunks_exact_mut(n * n)) {
            // SAFETY: the processor has the instructions of `V`.
            unsafe { self.work.invert::<V>(Block { x, stride: n }, n, self.unit) };
            for (y, row) in y.chunks_exact_mut(n).zip(self.work.result().chunks_exact(STRIDE)) {
                y.copy_from_slice(&row[..n]);
            }
        }
    }
}
