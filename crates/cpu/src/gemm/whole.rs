//! Products of whole numbers, which wrap: any order of the terms gives the same bits.
//!
//! Columns of the right factor are packed as panels, whatever their strides; a tile of sums stays in registers over all
//! terms. The loops are plain, and compiled for each instruction set.

use crate::isa::{Kernel, dispatch};
use crate::parallel::pieces;
use crate::{Cpu, CpuDevice};
use elinvar_core::host::filled;
use elinvar_core::{Element, Error, Layout, Result};
use elinvar_ops::backend::View;
use std::ops::Range;

/// Columns of a panel.
const WIDTH: usize = 32;
/// Rows of a tile: with a panel's columns, sums of i64 are 16 of the 32 registers of AVX-512.
const HEIGHT: usize = 4;

/// A type that wraps.
pub(crate) trait Whole: Element {
    /// sum + a * b
    fn chain(sum: Self, a: Self, b: Self) -> Self;
}
macro_rules! whole {
    ($($t:ty),*) => {$(
        impl Whole for $t {
            #[inline(always)]
            fn chain(sum: $t, a: $t, b: $t) -> $t {
                sum.wrapping_add(a.wrapping_mul(b))
            }
        }
    )*};
}
whole!(i64, i32, u8);

/// y[b, m, n] = sum over k of x[b, m, k] * w[b, k, n]
///
/// # Errors
/// `OutOfMemory`; `DTypeMismatch` if the views are not of this type, which the op sees to.
pub(crate) fn contract<I: Whole>(d: &CpuDevice, x: &View<'_, Cpu>, w: &View<'_, Cpu>) -> Result<Vec<I>> {
    let (xs, n) = (x.shape(), w.shape()[2]);
    let (b, m, k) = (xs[0], xs[1], xs[2]);
    let (left, right) = (numbers::<I>(x)?, numbers::<I>(w)?);
    let isa = d.isa();
    let mut y = filled(b * m * n, I::ZERO)?;
    if m * n == 0 {
        return Ok(y);
    }
    let (mut a, mut panels) = (filled(m * k, I::ZERO)?, filled(k * n.next_multiple_of(WIDTH), I::ZERO)?);
    // Nanoseconds for an element of the result: a guess, for it only decides about threads.
    let ns = k as f64 / 8.0;
    let rows = m.div_ceil(2 * d.threads()).next_multiple_of(HEIGHT);
    for (batch, y) in y.chunks_exact_mut(m * n).enumerate() {
        // What a stride of 0 repeats is packed once.
        if batch == 0 || x.layout.strides()[0] != 0 {
            for (i, row) in a.chunks_exact_mut(k.max(1)).enumerate() {
                fetch(left, &x.layout, [batch, i, 0], 2, row);
            }
        }
        if batch == 0 || w.layout.strides()[0] != 0 {
            for (panel, j) in panels.chunks_exact_mut((WIDTH * k).max(1)).zip((0..n).step_by(WIDTH)) {
                let cols = j..n.min(j + WIDTH);
                pack(right, &w.layout, batch, cols, panel);
            }
        }
        let (a, panels) = (&a, &panels);
        pieces(d, y, rows * n, ns, |at, part| {
            let i = at / n;
            dispatch(isa, Rows { a: &a[i * k..], panels, k, n, y: part });
        });
    }
    Ok(y)
}

/// What a buffer holds.
fn numbers<'a, I: Element>(v: &View<'a, Cpu>) -> Result<&'a [I]> {
    I::slice(v.buffer).ok_or_else(|| {
        Error::dtype(format!("cpu: a contraction in {} has an operand of {}", I::DTYPE, v.buffer.dtype()))
    })
}

/// Elements from `at` on, along an axis.
fn fetch<I: Copy>(data: &[I], l: &Layout, at: [usize; 3], axis: usize, to: &mut [I]) {
    let s = l.strides();
    let start = l.offset() as isize + (0..3).map(|i| at[i] as isize * s[i]).sum::<isize>();
    if s[axis] == 1 {
        to.copy_from_slice(&data[start as usize..][..to.len()]);
    } else {
        for (i, to) in to.iter_mut().enumerate() {
            *to = data[(start + i as isize * s[axis]) as usize];
        }
    }
}

/// Columns as a panel: `WIDTH` numbers for each term. What is past the last column stays as it is: nobody stores its sums.
fn pack<I: Copy>(data: &[I], l: &Layout, batch: usize, cols: Range<usize>, panel: &mut [I]) {
    let (n, s) = (cols.len(), l.strides());
    if s[1] == 1 && s[2] != 1 {
        let start = l.offset() as isize + batch as isize * s[0];
        for (c, j) in cols.enumerate() {
            let from = (start + j as isize * s[2]) as usize;
            for (t, x) in data[from..from + panel.len() / WIDTH].iter().enumerate() {
                panel[t * WIDTH + c] = *x;
            }
        }
    } else {
        for (t, line) in panel.chunks_exact_mut(WIDTH).enumerate() {
            fetch(data, l, [batch, t, cols.start], 2, &mut line[..n]);
        }
    }
}

struct Rows<'a, I> {
    a: &'a [I],
    panels: &'a [I],
    k: usize,
    n: usize,
    y: &'a mut [I],
}

impl<I: Whole> Kernel for Rows<'_, I> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Rows { a, panels, k, n, y } = self;
        if k == 0 {
            return;
        }
        for (panel, j) in panels.chunks_exact(WIDTH * k).zip((0..n).step_by(WIDTH)) {
            let cols = WIDTH.min(n - j);
            for (i, y) in y.chunks_mut(HEIGHT * n).enumerate() {
                let rows = y.len() / n;
                // Rows past the last one are computed as the last one.
                let a: [&[I]; HEIGHT] =
                    std::array::from_fn(|r| &a[(i * HEIGHT + r.min(rows - 1)) * k..][..k]);
                let mut sums = [[I::ZERO; WIDTH]; HEIGHT];
                for (t, b) in panel.as_chunks::<WIDTH>().0.iter().enumerate().take(k) {
                    for (sums, a) in sums.iter_mut().zip(&a) {
                        let a = a[t];
                        for (sum, b) in sums.iter_mut().zip(b) {
                            *sum = I::chain(*sum, a, *b);
                        }
                    }
                }
                for (y, sums) in y.chunks_exact_mut(n).zip(&sums) {
                    y[j..j + cols].copy_from_slice(&sums[..cols]);
                }
            }
        }
    }
}
