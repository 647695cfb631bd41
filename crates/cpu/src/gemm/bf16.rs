//! GEMM of bf16 on processors with bf16 dot products (`vdpbf16ps`) or AMX: `Precision::Fast`.
//!
//! Two terms that follow one another are packed into the bits of an f32, and from there on a pair
//! is a term: the same blocks, tiles and threads as everywhere, with a register whose fma takes
//! both terms of a pair. So here, too, each element of the result is a chain of its own, whose
//! order is a function of how many terms it has; a chunk has twice as many.
//!
//! A processor with AMX multiplies such blocks in registers that are matrices (`kernels/amx.rs`),
//! which sum in an order of their own.
//!
//! How it can be wrong: a last term without a partner gets zeros; a read beyond a row
//! would pair it with the next.

use super::kernels::as_pairs;
use super::loops::run_planned;
use super::plan::GemmPlan;
use super::plan::thresholds::{BF16_TRANSPOSE_PAIRS, BF16_TRANSPOSE_ROWS};
use super::planned::PlannedGemm;
use super::{BatchedMatrix, OperandA, OperandB, PACKED_A_PITCH, TermKind, TileEpilogue, nr, transpose_block};
use crate::CpuDevice;
use crate::elementwise::real::StoredElements;
use elinvar_core::{HostVec, Result, bf16};
use elinvar_ops::lane::{Lane, LaneInt};
use elinvar_simd::isa::{Isa, IsaTargets, Kernel, dispatch};
use std::ops::Range;

/// The products of factors of bf16, sizes b, m, k, n, as pairs.
///
/// # Errors
/// `OutOfMemory`.
///
/// # Panics
/// If a factor is not of bf16, or the plan reads pairs that are not in place. No plan is made so.
pub(super) fn run_bf16(
    d: &CpuDevice,
    [batch, m, k, n]: [usize; 4],
    lhs: &BatchedMatrix<'_, f32>,
    rhs: &BatchedMatrix<'_, f32>,
    epilogue: &dyn TileEpilogue<f32>,
    (a_in_place, b_in_place): (bool, bool),
    plan: GemmPlan,
) -> Result<HostVec<f32>> {
    let pairs = |m| Bf16PairMatrix::new(m, k).expect("the plan is for bf16");
    let (x, w) = (pairs(lhs), pairs(rhs));
    // The first factor's terms are along its rows, so it is looked at from the side.
    let lhs = a_in_place.then(|| x.transposed().in_place().transposed());
    let rhs = b_in_place.then(|| w.in_place());
    let lhs: &dyn OperandA<f32> = lhs.as_ref().map_or(&x, |m| m);
    let rhs: &dyn OperandB<f32> = rhs.as_ref().map_or(&w, |m| m);
    let (k, kind) = (k.div_ceil(2), TermKind::Bf16Pairs);
    run_planned(d, &PlannedGemm { batch, m, k, n, lhs, rhs, epilogue, kind, plan })
}

/// A batch of matrices of bf16.
struct Bf16PairMatrix<'a> {
    data: &'a [bf16],
    at: BatchedMatrix<'a, f32>,
    /// Terms.
    k: usize,
}

impl<'a> Bf16PairMatrix<'a> {
    fn new(m: &BatchedMatrix<'a, f32>, k: usize) -> Option<Bf16PairMatrix<'a>> {
        match m.data {
            StoredElements::BF16(data) => Some(Bf16PairMatrix { data, at: *m, k }),
            StoredElements::Native(_) | StoredElements::F16(_) => None,
        }
    }
    fn transposed(&self) -> Bf16PairMatrix<'a> {
        Bf16PairMatrix { at: self.at.transposed(), ..*self }
    }
    /// The pairs as a matrix of f32, which are in memory as such: terms are neighbours down the
    /// columns, and every column begins with a pair.
    fn in_place(&self) -> BatchedMatrix<'a, f32> {
        let BatchedMatrix { offset, inner, batch, col, .. } = self.at;
        let data = StoredElements::Native(as_pairs(self.data).expect("pairs lie as f32 have to"));
        let batch = (batch.0 / 2, batch.1 / 2);
        BatchedMatrix { data, offset: offset / 2, inner, batch, row: 1, col: col / 2, prepacked: None }
    }
}

/// The first term in the lower half.
#[inline(always)]
fn pair_of(first: bf16, second: bf16) -> f32 {
    f32::from_bits(u32::from(first.to_bits()) | u32::from(second.to_bits()) << 16)
}

/// The same of numbers that are bf16, or whose upper halves are.
#[inline(always)]
pub(crate) fn bf16_pair<T: Lane>(first: T, second: T) -> T {
    let upper: T::Int = LaneInt::lit(0xffff << 16);
    T::from_bits(first.to_bits().shr_logical(16) | (second.to_bits() & upper))
}

/// dst[r * pitch + c] = the pair of the terms at `at + r * down + c * across` and `row_stride`
/// further on. What is not `whole` lacks the second: the last row, or the last column, whichever
/// way the terms are.
struct PackPairs<'a> {
    src: &'a [bf16],
    at: isize,
    down: isize,
    across: isize,
    row_stride: isize,
    rows: usize,
    cols: usize,
    /// Rows and columns of whole pairs.
    whole: (usize, usize),
    dst: &'a mut [f32],
    pitch: usize,
}

impl Kernel for PackPairs<'_> {
    type Out = ();
    const TARGETS: IsaTargets = IsaTargets::Avx512Bf16;
    #[inline(always)]
    fn run(self) {
        let PackPairs { src, at, down, across, row_stride, rows, cols, whole, dst, pitch } = self;
        for (r, line) in dst.chunks_mut(pitch).take(rows).enumerate() {
            let from = at + r as isize * down;
            let paired = if r < whole.0 { whole.1 } else { 0 };
            let (pairs, singles) = line[..cols].split_at_mut(paired);
            if pairs.is_empty() {
            } else if across == 1 {
                let (first, second) = (from as usize, (from + row_stride) as usize);
                let n = pairs.len();
                for ((to, a), b) in pairs.iter_mut().zip(&src[first..first + n]).zip(&src[second..second + n])
                {
                    *to = pair_of(*a, *b);
                }
            } else if across == 2 && row_stride == 1 {
                let (both, _) = src[from as usize..from as usize + 2 * pairs.len()].as_chunks::<2>();
                for (to, [a, b]) in pairs.iter_mut().zip(both) {
                    *to = pair_of(*a, *b);
                }
            } else {
                let mut place = from;
                for to in pairs {
                    *to = pair_of(src[place as usize], src[(place + row_stride) as usize]);
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

impl OperandA<f32> for Bf16PairMatrix<'_> {
    fn distinct_batches(&self) -> usize {
        usize::MAX
    }
    fn pack(&self, isa: Isa, batch: usize, rows: Range<usize>, pairs: Range<usize>, out: &mut [f32]) {
        let at = self.at.at(batch, rows.start, 2 * pairs.start);
        let whole = (rows.len(), pairs.end.min(self.k / 2).saturating_sub(pairs.start));
        let (down, across, row_stride) = (self.at.row, 2 * self.at.col, self.at.col);
        let (rows, cols) = (rows.len(), pairs.len());
        if down != 1 || rows < BF16_TRANSPOSE_ROWS {
            let whole = PackPairs {
                src: self.data,
                at,
                down,
                across,
                row_stride,
                rows,
                cols,
                whole,
                dst: out,
                pitch: PACKED_A_PITCH,
            };
            return dispatch(isa, whole);
        }
        // Neighbours are rows: some of them are packed as columns, and turned.
        let mut buffer = [0.0; BF16_TRANSPOSE_ROWS * BF16_TRANSPOSE_PAIRS];
        for r in (0..rows).step_by(BF16_TRANSPOSE_ROWS) {
            let n = BF16_TRANSPOSE_ROWS.min(rows - r);
            for c in (0..cols).step_by(BF16_TRANSPOSE_PAIRS) {
                let some = BF16_TRANSPOSE_PAIRS.min(cols - c);
                let at = at + r as isize + c as isize * across;
                let whole = (whole.1.saturating_sub(c).min(some), n);
                let dst = &mut buffer[..some * BF16_TRANSPOSE_ROWS];
                let (src, down, across) = (self.data, across, 1);
                let block = PackPairs {
                    src,
                    at,
                    down,
                    across,
                    row_stride,
                    rows: some,
                    cols: n,
                    whole,
                    dst,
                    pitch: BF16_TRANSPOSE_ROWS,
                };
                dispatch(isa, block);
                transpose_block(
                    isa,
                    &buffer,
                    0,
                    BF16_TRANSPOSE_ROWS as isize,
                    n,
                    some,
                    &mut out[r * PACKED_A_PITCH + c..],
                    PACKED_A_PITCH,
                );
            }
        }
    }
}

impl OperandB<f32> for Bf16PairMatrix<'_> {
    fn pack(&self, isa: Isa, batch: usize, pairs: Range<usize>, cols: Range<usize>, out: &mut [f32]) {
        let w = nr::<f32>(isa);
        let whole = pairs.end.min(self.k / 2).saturating_sub(pairs.start);
        for (panel, j) in out.chunks_exact_mut(w * pairs.len().max(1)).zip(cols.clone().step_by(w)) {
            let n = w.min(cols.end - j);
            if n < w {
                panel.fill(0.0);
            }
            let at = self.at.at(batch, 2 * pairs.start, j);
            let (down, across, row_stride) = (2 * self.at.row, self.at.col, self.at.row);
            let rows = pairs.len();
            let whole = (whole, n);
            dispatch(
                isa,
                PackPairs {
                    src: self.data,
                    at,
                    down,
                    across,
                    row_stride,
                    rows,
                    cols: n,
                    whole,
                    dst: panel,
                    pitch: w,
                },
            );
        }
    }
}
