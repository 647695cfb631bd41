//! Products of bf16 on processors that multiply pairs of them: `Precision::Fast`.
//!
//! Two terms that follow one another are packed into the bits of an f32, and from there on a pair is a term: the same blocks,
//! tiles and threads as everywhere, with a register whose fma takes both terms of a pair. So here, too, each element of the
//! result is a chain of its own, whose order is a function of how many terms it has; a chunk has twice as many.
//!
//! A processor with AMX multiplies such blocks in registers that are matrices (`kernels/amx.rs`), which sum in an order of their own.
//!
//! How it can be wrong: a last term without a partner gets zeros, and whoever reads beside a row would pair it with the next.

use super::kernels::as_pairs;
use super::{
    AsTaps, Columns, Finish, Job, Left, Lines, Matrix, Numbers, PITCH, Panels, Real, Right, TermKind,
    Windows, product, turn, width,
};
use crate::CpuDevice;
use crate::simd::isa::{Isa, IsaTargets, Kernel, dispatch};
use elinvar_core::{HostVec, Result, bf16};
use elinvar_ops::lane::{Lane, LaneInt};
use std::ops::Range;

/// The products, if both factors are of bf16 and the processor multiplies pairs of them.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn products(
    d: &CpuDevice,
    [batch, m, k, n]: [usize; 4],
    left: &Matrix<'_, f32>,
    right: &Matrix<'_, f32>,
    finish: &dyn Finish<f32>,
) -> Result<Option<HostVec<f32>>> {
    let (Some(x), Some(w)) = (Paired::new(left, k), Paired::new(right, k)) else { return Ok(None) };
    if !are_multiplied(d.isa()) {
        return Ok(None);
    }
    let (left, right) = (x.turned().in_place(), w.in_place());
    // The first factor's terms lie along its rows, so it was looked at from the side.
    let left = left.map(Matrix::turned);
    let left: &dyn Left<f32> = left.as_ref().map_or(&x, |m| m);
    let right: &dyn Right<f32> = right.as_ref().map_or(&w, |m| m);
    let share = super::share::<f32>(d, [batch, m, k.div_ceil(2), n]);
    let job = Job { batch, m, k: k.div_ceil(2), n, left, right, finish, share, kind: TermKind::Bf16Pairs };
    product_of_pairs(d, &job).map(Some)
}

/// Does the processor multiply pairs, in registers of one kind or another?
pub(crate) fn are_multiplied(isa: Isa) -> bool {
    isa.has_pairs() || isa.has_amx()
}

/// The product of factors that may be of pairs.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn product_of_pairs<T: Real>(d: &CpuDevice, job: &Job<'_, T>) -> Result<HostVec<T>> {
    if const { !T::WIDENS_F16 } || job.kind == TermKind::Elements || !d.isa().has_amx() {
        return product(d, job);
    }
    product(d, &Job { left: &Packing(job.left), right: &Packing(job.right), ..*job })
}

/// A factor that is packed whatever it could do otherwise: AMX sums in an order of its own, so it does all products, and it reads panels alone.
struct Packing<F>(F);

impl<T: Real> Left<T> for Packing<&dyn Left<T>> {
    fn distinct(&self) -> usize {
        self.0.distinct()
    }
    fn pack(&self, isa: Isa, batch: usize, rows: Range<usize>, terms: Range<usize>, out: &mut [T]) {
        self.0.pack(isa, batch, rows, terms, out);
    }
    fn lines(&self, _: usize, _: Range<usize>) -> Option<Lines<'_, T>> {
        None
    }
    fn taps(&self) -> Option<&dyn AsTaps<T>> {
        None
    }
}

impl<T: Real> Right<T> for Packing<&dyn Right<T>> {
    fn pack(&self, isa: Isa, batch: usize, terms: Range<usize>, cols: Range<usize>, out: &mut [T]) {
        self.0.pack(isa, batch, terms, cols, out);
    }
    fn direct(&self, _: Isa, _: usize, _: Range<usize>, _: Range<usize>) -> Option<Panels<'_, T>> {
        None
    }
    fn kept(&self, _: Range<usize>, _: Range<usize>) -> Option<Panels<'_, T>> {
        None
    }
    fn windows(&self, _: Isa) -> Option<&dyn Windows<T>> {
        None
    }
    fn columns(&self, _: usize, _: Range<usize>) -> Option<Columns<'_, T>> {
        None
    }
}

/// A batch of matrices of bf16.
struct Paired<'a> {
    data: &'a [bf16],
    at: Matrix<'a, f32>,
    /// Terms.
    k: usize,
}

impl<'a> Paired<'a> {
    fn new(m: &Matrix<'a, f32>, k: usize) -> Option<Paired<'a>> {
        match m.data {
            Numbers::BF16(data) => Some(Paired { data, at: *m, k }),
            Numbers::Own(_) | Numbers::F16(_) => None,
        }
    }
    fn turned(&self) -> Paired<'a> {
        Paired { at: self.at.turned(), ..*self }
    }
    /// The pairs as a matrix of f32, if they lie in memory as such: terms are neighbours down the columns, and every column
    /// begins with a pair.
    fn in_place(&self) -> Option<Matrix<'a, f32>> {
        let Matrix { offset, inner, batch, row, col, .. } = self.at;
        let even = |x: isize| x % 2 == 0;
        let lies = row == 1 && even(col) && even(batch.0) && even(batch.1) && even(offset as isize);
        if !lies || !self.k.is_multiple_of(2) {
            return None;
        }
        let data = Numbers::Own(as_pairs(self.data)?);
        let batch = (batch.0 / 2, batch.1 / 2);
        Some(Matrix { data, offset: offset / 2, inner, batch, row: 1, col: col / 2, kept: None })
    }
}

/// The first term in the lower half.
#[inline(always)]
fn pair_of(first: bf16, second: bf16) -> f32 {
    f32::from_bits(u32::from(first.to_bits()) | u32::from(second.to_bits()) << 16)
}

/// The same of numbers that are bf16, or whose upper halves are.
#[inline(always)]
pub(crate) fn pair<T: Lane>(first: T, second: T) -> T {
    let upper: T::Int = LaneInt::lit(0xffff << 16);
    T::from_bits(first.to_bits().shr_logical(16) | (second.to_bits() & upper))
}

/// dst[r * pitch + c] = the pair of the terms at `at + r * down + c * across` and `apart` further on. What is not `whole` lacks
/// the second: the last row, or the last column, whichever way the terms lie.
struct Pack<'a> {
    src: &'a [bf16],
    at: isize,
    down: isize,
    across: isize,
    apart: isize,
    rows: usize,
    cols: usize,
    /// Rows and columns of whole pairs.
    whole: (usize, usize),
    dst: &'a mut [f32],
    pitch: usize,
}

impl Kernel for Pack<'_> {
    type Out = ();
    const TARGETS: IsaTargets = IsaTargets::Avx512Bf16;
    #[inline(always)]
    fn run(self) {
        let Pack { src, at, down, across, apart, rows, cols, whole, dst, pitch } = self;
        for (r, line) in dst.chunks_mut(pitch).take(rows).enumerate() {
            let from = at + r as isize * down;
            let paired = if r < whole.0 { whole.1 } else { 0 };
            let (pairs, singles) = line[..cols].split_at_mut(paired);
            if pairs.is_empty() {
            } else if across == 1 {
                let (first, second) = (from as usize, (from + apart) as usize);
                let n = pairs.len();
                for ((to, a), b) in pairs.iter_mut().zip(&src[first..first + n]).zip(&src[second..second + n])
                {
                    *to = pair_of(*a, *b);
                }
            } else if across == 2 && apart == 1 {
                let (both, _) = src[from as usize..from as usize + 2 * pairs.len()].as_chunks::<2>();
                for (to, [a, b]) in pairs.iter_mut().zip(both) {
                    *to = pair_of(*a, *b);
                }
            } else {
                let mut place = from;
                for to in pairs {
                    *to = pair_of(src[place as usize], src[(place + apart) as usize]);
                    place += across;
                }
            }
            for (c, to) in singles.iter_mut().enumerate() {
                let place = from + (paired + c) as isize * across;
                *to = pair_of(src[place as usize], bf16::ZERO);
            }
        }
    }
}

/// Rows that are turned together, a line of f32, and how many pairs of each: 8 KiB.
const SIDE: usize = 16;
const DEEP: usize = 128;

impl Left<f32> for Paired<'_> {
    fn distinct(&self) -> usize {
        usize::MAX
    }
    fn pack(&self, isa: Isa, batch: usize, rows: Range<usize>, pairs: Range<usize>, out: &mut [f32]) {
        let at = self.at.at(batch, rows.start, 2 * pairs.start);
        let whole = (rows.len(), pairs.end.min(self.k / 2).saturating_sub(pairs.start));
        let (down, across, apart) = (self.at.row, 2 * self.at.col, self.at.col);
        let (rows, cols) = (rows.len(), pairs.len());
        if down != 1 || rows < SIDE {
            let whole =
                Pack { src: self.data, at, down, across, apart, rows, cols, whole, dst: out, pitch: PITCH };
            return dispatch(isa, whole);
        }
        // Neighbours are rows: some of them are packed as columns, and turned.
        let mut room = [0.0; SIDE * DEEP];
        for r in (0..rows).step_by(SIDE) {
            let n = SIDE.min(rows - r);
            for c in (0..cols).step_by(DEEP) {
                let some = DEEP.min(cols - c);
                let at = at + r as isize + c as isize * across;
                let whole = (whole.1.saturating_sub(c).min(some), n);
                let dst = &mut room[..some * SIDE];
                let (src, down, across) = (self.data, across, 1);
                let block =
                    Pack { src, at, down, across, apart, rows: some, cols: n, whole, dst, pitch: SIDE };
                dispatch(isa, block);
                turn(isa, &room, 0, SIDE as isize, n, some, &mut out[r * PITCH + c..], PITCH);
            }
        }
    }
    fn lines(&self, _: usize, _: Range<usize>) -> Option<Lines<'_, f32>> {
        None
    }
    fn taps(&self) -> Option<&dyn AsTaps<f32>> {
        None
    }
}

impl Right<f32> for Paired<'_> {
    fn pack(&self, isa: Isa, batch: usize, pairs: Range<usize>, cols: Range<usize>, out: &mut [f32]) {
        let w = width::<f32>(isa);
        let whole = pairs.end.min(self.k / 2).saturating_sub(pairs.start);
        for (panel, j) in out.chunks_exact_mut(w * pairs.len().max(1)).zip(cols.clone().step_by(w)) {
            let n = w.min(cols.end - j);
            if n < w {
                panel.fill(0.0);
            }
            let at = self.at.at(batch, 2 * pairs.start, j);
            let (down, across, apart) = (2 * self.at.row, self.at.col, self.at.row);
            let rows = pairs.len();
            let whole = (whole, n);
            dispatch(
                isa,
                Pack { src: self.data, at, down, across, apart, rows, cols: n, whole, dst: panel, pitch: w },
            );
        }
    }
    fn direct(&self, _: Isa, _: usize, _: Range<usize>, _: Range<usize>) -> Option<Panels<'_, f32>> {
        None
    }
    fn kept(&self, _: Range<usize>, _: Range<usize>) -> Option<Panels<'_, f32>> {
        None
    }
    fn windows(&self, _: Isa) -> Option<&dyn Windows<f32>> {
        None
    }
    fn columns(&self, _: usize, _: Range<usize>) -> Option<Columns<'_, f32>> {
        None
    }
}
