//! LU factors of a matrix of at most 64 columns, by halves, as the op composes them: the sizes, and
//! the zeros that are multiplied, are those of [`Fused::LuFactor`](elinvar_ops::backend::Fused).
//!
//! Rows are exchanged as a whole at once, so that nothing has to be put in order later.
#![allow(unsafe_code, reason = "products in registers")]

use super::product::{Block, product};
use super::triangular::{COLUMNS, Inverse, LEAF, STRIDE};
use crate::reduce::float::Float;
use elinvar_ops::factor_steps::elimination::{eliminated, factor};
use elinvar_simd::quad::GatherVector;
use elinvar_simd::vector::VectorKernel;

/// Memory for a matrix and what is made on the way.
pub(in crate::linalg) struct Work<'a, C> {
    m: usize,
    n: usize,
    /// The matrix, [m, STRIDE].
    x: &'a mut [C],
    /// A product, [m, STRIDE].
    temporary: &'a mut [C],
    inverse: Inverse<'a, C>,
    /// A few columns, as rows: [8, m].
    columns: &'a mut [C],
}

impl<'a, C: Float> Work<'a, C> {
    /// How many elements this takes.
    pub(in crate::linalg) fn elements(m: usize, n: usize) -> usize {
        debug_assert!(n <= COLUMNS);
        2 * m * STRIDE + LEAF * m + Inverse::<C>::elements()
    }
    /// Of the matrix x [m, n]; `memory` has at least [`Work::elements`] elements.
    pub(in crate::linalg) fn new(memory: &'a mut [C], from: &[C], [m, n]: [usize; 2]) -> Self {
        let (x, rest) = memory.split_at_mut(m * STRIDE);
        let (temporary, rest) = rest.split_at_mut(m * STRIDE);
        let (columns, rest) = rest.split_at_mut(LEAF * m);
        for (to, from) in x.chunks_exact_mut(STRIDE).zip(from.chunks_exact(n)) {
            to[..n].copy_from_slice(from);
            to[n..].fill(C::POSITIVE_ZERO);
        }
        Work { m, n, x, temporary, inverse: Inverse::new(rest), columns }
    }
}

/// Factors a matrix.
pub(in crate::linalg) struct Factor<'a, C> {
    pub(in crate::linalg) work: Work<'a, C>,
    /// The factors: [m, n].
    pub(in crate::linalg) y: &'a mut [C],
    /// The order of rows: [m].
    pub(in crate::linalg) order: &'a mut [i64],
    /// Exchanges, counted from the row: [min(m, n)].
    pub(in crate::linalg) pivots: &'a mut [i64],
}

impl<C: Float> VectorKernel for Factor<'_, C> {
    type T = C;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = C>>(mut self) {
        for (i, row) in self.order.iter_mut().enumerate() {
            *row = i as i64;
        }
        let (m, n) = (self.work.m, self.work.n);
        // What is left to be done, the next last: some columns, or what follows their first half.
        let mut steps = [Step { row: 0, columns: (0, n), half: None }; 2 * COLUMNS / LEAF];
        let mut count = 1;
        while count > 0 {
            count -= 1;
            let Step { row, columns: (start, end), half } = steps[count];
            let (left, wide) = (m - row, end - start);
            match half {
                None if wide <= LEAF => self.leaf(row, start..end),
                None => {
                    let h = if wide > left { left } else { (wide / 2).next_multiple_of(LEAF) };
                    steps[count] = Step { half: Some(h), ..steps[count] };
                    steps[count + 1] = Step { row, columns: (start, start + h), half: None };
                    count += 2;
                }
                Some(h) => {
                    // SAFETY: the processor has the instructions of `V`.
                    unsafe { self.rest::<V>(row, start, end, h) };
                    if h < left {
                        steps[count] = Step { row: row + h, columns: (start + h, end), half: None };
                        count += 1;
                    }
                }
            }
        }
        for (y, x) in self.y.chunks_exact_mut(n).zip(self.work.x.chunks_exact(STRIDE)) {
            y.copy_from_slice(&x[..n]);
        }
    }
}

/// Work on columns, from a row on.
#[derive(Clone, Copy)]
struct Step {
    row: usize,
    columns: (usize, usize),
    /// So many of them are done.
    half: Option<usize>,
}

impl<C: Float> Factor<'_, C> {
    /// A few columns, one after the other, from `row` on.
    #[inline(always)]
    fn leaf(&mut self, row: usize, columns: std::ops::Range<usize>) {
        let Work { m, x, columns: memory, .. } = &mut self.work;
        let left = *m - row;
        for (j, column) in columns.clone().zip(memory.chunks_exact_mut(*m)) {
            for (i, to) in column[..left].iter_mut().enumerate() {
                *to = x[(row + i) * STRIDE + j];
            }
        }
        let wide = columns.len();
        for k in 0..wide.min(left) {
            let p = k + largest(&memory[k * *m..][k..left]);
            self.pivots[row + k] = (p - k) as i64;
            if p != k {
                for column in memory.chunks_exact_mut(*m).take(wide) {
                    column.swap(k, p);
                }
                self.order.swap(row + k, row + p);
                let (first, second) = x.split_at_mut((row + p) * STRIDE);
                first[(row + k) * STRIDE..][..STRIDE].swap_with_slice(&mut second[..STRIDE]);
            }
            let (done, others) = memory.split_at_mut((k + 1) * *m);
            let own = &mut done[k * *m..][k..left];
            let pivot = own[0];
            for l in &mut own[1..] {
                *l = factor(*l, pivot);
            }
            for other in others.chunks_exact_mut(*m).take(wide - k - 1) {
                let other = &mut other[k..left];
                let u = other[0];
                for (x, l) in other[1..].iter_mut().zip(&own[1..]) {
                    *x = eliminated(*x, *l, u);
                }
            }
        }
        for (j, column) in columns.zip(memory.chunks_exact(*m)) {
            for (i, from) in column[..left].iter().enumerate() {
                x[(row + i) * STRIDE + j] = *from;
            }
        }
    }

    /// What follows the first `h` columns from `start` on: the rows of U right of them, and what is
    /// left below.
    ///
    /// # Safety
    /// The processor has the instructions of `V`.
    #[inline(always)]
    unsafe fn rest<V: GatherVector<T = C>>(&mut self, row: usize, start: usize, end: usize, h: usize) {
        let Work { m, x, temporary, inverse, .. } = &mut self.work;
        let l = Block { x: &x[row * STRIDE + start..], stride: STRIDE };
        // SAFETY: as above.
        unsafe { inverse.invert::<V>(l, h, true) };
        let (right, n) = (start + h, end - start - h);
        let first = row * STRIDE + right;
        let b = Block { x: &x[first..], stride: STRIDE };
        // SAFETY: as above.
        unsafe {
            product::<V>(Block { x: inverse.result(), stride: STRIDE }, b, temporary, STRIDE, [h, h, n])
        };
        for (x, top) in x[first..].chunks_mut(STRIDE).zip(temporary.chunks_exact(STRIDE)).take(h) {
            x[..n].copy_from_slice(&top[..n]);
        }
        let below = *m - row - h;
        if below == 0 {
            return;
        }
        let (top, rest) = x.split_at_mut((row + h) * STRIDE);
        let (l, u) =
            (Block { x: &rest[start..], stride: STRIDE }, Block { x: &top[first..], stride: STRIDE });
        // SAFETY: as above.
        unsafe { product::<V>(l, u, temporary, STRIDE, [below, h, n]) };
        for (x, less) in rest.chunks_exact_mut(STRIDE).zip(temporary.chunks_exact(STRIDE)) {
            for (x, less) in x[right..][..n].iter_mut().zip(less) {
                *x = *x - *less;
            }
        }
    }
}

/// Where the element of largest magnitude is: the first NaN, or the first among equals.
#[inline(always)]
fn largest<C: Float>(x: &[C]) -> usize {
    let (mut at, mut best) = (0, x[0].abs());
    for (i, x) in x.iter().enumerate() {
        let x = x.abs();
        if x.is_nan() {
            return i;
        }
        if x > best {
            (at, best) = (i, x);
        }
    }
    at
}
