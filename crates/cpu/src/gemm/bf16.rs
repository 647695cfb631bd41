//! GEMM of bf16 on processors with bf16 dot products (`vdpbf16ps`) or AMX: `Precision::Fast`.
//!
//! Two successive terms are packed as a pair into the bits of an f32, and from there on a pair is a
//! term: the same blocks, tiles and threads, with a register whose fma takes both terms. So each
//! element of the result is still one chain, whose order is a function of the number of terms; a
//! chunk has twice as many. AMX multiplies the same blocks (`kernels/amx.rs`), in the order of its
//! hardware.
//!
//! How it can be wrong: at an odd number of terms. The last one is paired with zero; a read past
//! the end of a row would pair it with the next row.

use super::kernels::as_pairs;
use super::{
    BatchedMatrix, ColumnsB, Gemm, OperandA, OperandB, PACKED_A_PITCH, PanelsB, Real, RowsA, StoredElements,
    TapRows, TermKind, TileEpilogue, WindowColumns, nr, run_gemm, transpose_block,
};
use crate::CpuDevice;
use elinvar_core::{HostVec, Result, bf16};
use elinvar_ops::lane::{Lane, LaneInt};
use elinvar_simd::isa::{Isa, IsaTargets, Kernel, dispatch};
use std::ops::Range;

/// The products, if both factors are of bf16 and the processor multiplies pairs of them.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn try_gemm_bf16(
    d: &CpuDevice,
    [batch, m, k, n]: [usize; 4],
    lhs: &BatchedMatrix<'_, f32>,
    rhs: &BatchedMatrix<'_, f32>,
    epilogue: &dyn TileEpilogue<f32>,
) -> Result<Option<HostVec<f32>>> {
    let (Some(x), Some(w)) = (Bf16PairMatrix::new(lhs, k), Bf16PairMatrix::new(rhs, k)) else {
        return Ok(None);
    };
    if !has_bf16_dot(d.isa()) {
        return Ok(None);
    }
    let (lhs, rhs) = (x.transposed().in_place(), w.in_place());
    // The first factor's terms lie along its rows, so it was looked at from the side.
    let lhs = lhs.map(BatchedMatrix::transposed);
    let lhs: &dyn OperandA<f32> = lhs.as_ref().map_or(&x, |m| m);
    let rhs: &dyn OperandB<f32> = rhs.as_ref().map_or(&w, |m| m);
    let pack_plan = super::pack_plan::<f32>(d, [batch, m, k.div_ceil(2), n]);
    let gemm =
        Gemm { batch, m, k: k.div_ceil(2), n, lhs, rhs, epilogue, pack_plan, kind: TermKind::Bf16Pairs };
    run_gemm_of_pairs(d, &gemm).map(Some)
}

/// Does the processor multiply pairs, in registers of one kind or another?
pub(crate) fn has_bf16_dot(isa: Isa) -> bool {
    isa.has_pairs() || isa.has_amx()
}

/// The product of factors that may be of pairs.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn run_gemm_of_pairs<T: Real>(d: &CpuDevice, gemm: &Gemm<'_, T>) -> Result<HostVec<T>> {
    if const { !T::WIDENS_F16 } || gemm.kind == TermKind::Elements || !d.isa().has_amx() {
        return run_gemm(d, gemm);
    }
    run_gemm(d, &Gemm { lhs: &AlwaysPacked(gemm.lhs), rhs: &AlwaysPacked(gemm.rhs), ..*gemm })
}

/// A factor that is packed whatever it could do otherwise: AMX sums in an order of its own, so it does all products, and it reads panels alone.
struct AlwaysPacked<F>(F);

impl<T: Real> OperandA<T> for AlwaysPacked<&dyn OperandA<T>> {
    fn distinct_batches(&self) -> usize {
        self.0.distinct_batches()
    }
    fn pack(&self, isa: Isa, batch: usize, rows: Range<usize>, terms: Range<usize>, out: &mut [T]) {
        self.0.pack(isa, batch, rows, terms, out);
    }
    fn rows_in_place(&self, _: usize, _: Range<usize>) -> Option<RowsA<'_, T>> {
        None
    }
    fn as_taps(&self) -> Option<&dyn TapRows<T>> {
        None
    }
}

impl<T: Real> OperandB<T> for AlwaysPacked<&dyn OperandB<T>> {
    fn pack(&self, isa: Isa, batch: usize, terms: Range<usize>, cols: Range<usize>, out: &mut [T]) {
        self.0.pack(isa, batch, terms, cols, out);
    }
    fn panels_in_place(&self, _: Isa, _: usize, _: Range<usize>, _: Range<usize>) -> Option<PanelsB<'_, T>> {
        None
    }
    fn prepacked_panels(&self, _: Range<usize>, _: Range<usize>) -> Option<PanelsB<'_, T>> {
        None
    }
    fn as_windows(&self, _: Isa) -> Option<&dyn WindowColumns<T>> {
        None
    }
    fn columns_in_place(&self, _: usize, _: Range<usize>) -> Option<ColumnsB<'_, T>> {
        None
    }
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
    /// The pairs as a matrix of f32, if they lie in memory as such: terms are neighbours down the columns, and every column
    /// begins with a pair.
    fn in_place(&self) -> Option<BatchedMatrix<'a, f32>> {
        let BatchedMatrix { offset, inner, batch, row, col, .. } = self.at;
        let even = |x: isize| x % 2 == 0;
        let is_contiguous = row == 1 && even(col) && even(batch.0) && even(batch.1) && even(offset as isize);
        if !is_contiguous || !self.k.is_multiple_of(2) {
            return None;
        }
        let data = StoredElements::Native(as_pairs(self.data)?);
        let batch = (batch.0 / 2, batch.1 / 2);
        Some(BatchedMatrix { data, offset: offset / 2, inner, batch, row: 1, col: col / 2, prepacked: None })
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

/// dst[r * pitch + c] = the pair of the terms at `at + r * down + c * across` and `row_stride` further on. What is not `whole` lacks
/// the second: the last row, or the last column, whichever way the terms lie.
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

/// Rows that are turned together, a line of f32, and how many pairs of each: 8 KiB.
const TRANSPOSE_ROWS: usize = 16;
const TRANSPOSE_PAIRS: usize = 128;

impl OperandA<f32> for Bf16PairMatrix<'_> {
    fn distinct_batches(&self) -> usize {
        usize::MAX
    }
    fn pack(&self, isa: Isa, batch: usize, rows: Range<usize>, pairs: Range<usize>, out: &mut [f32]) {
        let at = self.at.at(batch, rows.start, 2 * pairs.start);
        let whole = (rows.len(), pairs.end.min(self.k / 2).saturating_sub(pairs.start));
        let (down, across, row_stride) = (self.at.row, 2 * self.at.col, self.at.col);
        let (rows, cols) = (rows.len(), pairs.len());
        if down != 1 || rows < TRANSPOSE_ROWS {
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
        let mut buffer = [0.0; TRANSPOSE_ROWS * TRANSPOSE_PAIRS];
        for r in (0..rows).step_by(TRANSPOSE_ROWS) {
            let n = TRANSPOSE_ROWS.min(rows - r);
            for c in (0..cols).step_by(TRANSPOSE_PAIRS) {
                let some = TRANSPOSE_PAIRS.min(cols - c);
                let at = at + r as isize + c as isize * across;
                let whole = (whole.1.saturating_sub(c).min(some), n);
                let dst = &mut buffer[..some * TRANSPOSE_ROWS];
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
                    pitch: TRANSPOSE_ROWS,
                };
                dispatch(isa, block);
                transpose_block(
                    isa,
                    &buffer,
                    0,
                    TRANSPOSE_ROWS as isize,
                    n,
                    some,
                    &mut out[r * PACKED_A_PITCH + c..],
                    PACKED_A_PITCH,
                );
            }
        }
    }
    fn rows_in_place(&self, _: usize, _: Range<usize>) -> Option<RowsA<'_, f32>> {
        None
    }
    fn as_taps(&self) -> Option<&dyn TapRows<f32>> {
        None
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
    fn panels_in_place(
        &self,
        _: Isa,
        _: usize,
        _: Range<usize>,
        _: Range<usize>,
    ) -> Option<PanelsB<'_, f32>> {
        None
    }
    fn prepacked_panels(&self, _: Range<usize>, _: Range<usize>) -> Option<PanelsB<'_, f32>> {
        None
    }
    fn as_windows(&self, _: Isa) -> Option<&dyn WindowColumns<f32>> {
        None
    }
    fn columns_in_place(&self, _: usize, _: Range<usize>) -> Option<ColumnsB<'_, f32>> {
        None
    }
}
