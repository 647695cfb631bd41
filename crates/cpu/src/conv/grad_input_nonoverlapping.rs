//! Gradient by input of non-overlapping windows (stride >= kernel, as in patch embeddings): one
//! GEMM, and col2im without sums.
//!
//! Each input element is under one tap of one window at most, so the rows of the product are copied
//! to where they belong.

use super::operands::{GroupWeights, matrices};
use super::problem::ConvGeometry;
use crate::CpuDevice;
use crate::elementwise::real::{Real, StoredElements};
use crate::gemm::epilogue::NoEpilogue;
use crate::gemm::{BatchedMatrix, Gemm, PackPlan, TermKind, run_gemm, transpose_block};
use crate::runtime::memory::PooledVec;
use crate::runtime::output::parallel_fill::fill_pieces;
use elinvar_core::{HostVec, Result};

/// dx of g [image, group, o, window] and w [group, o, channel, tap].
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn input_grad<T: Real>(
    d: &CpuDevice,
    window: &ConvGeometry,
    g: &[T],
    w: &[T],
    transposes_rows: bool,
    [images, groups, o, channels]: [usize; 4],
) -> Result<HostVec<T>> {
    let [area, windows, size] =
        [window.taps, window.out, window.plane].map(|n: [usize; 3]| n.iter().product::<usize>());
    let (rows, batch) = (channels * area, images * groups);
    let across = BatchedMatrix {
        data: StoredElements::Native(w),
        offset: 0,
        inner: 1,
        batch: ((o * rows) as isize, 0),
        row: 1,
        col: rows as isize,
        prepacked: None,
    };
    let lhs = GroupWeights { matrix: across, groups };
    let rhs = matrices(g, o, windows);
    let gemm = Gemm {
        batch,
        m: rows,
        k: o,
        n: windows,
        lhs: &lhs,
        rhs: &rhs,
        epilogue: &NoEpilogue,
        pack_plan: PackPlan::SharedA,
        kind: TermKind::Elements,
    };
    let parts = PooledVec::of(run_gemm(d, &gemm)?);
    fill_pieces(d, batch * channels * size, size, 1.0, &|start, dst| {
        let mut plane = start / size;
        while dst.remaining() > 0 {
            let part = &parts[plane * area * windows..][..area * windows];
            scatter_taps(d, window, transposes_rows, part, dst.zeroed(size, T::ZERO));
            plane += 1;
        }
        Ok(())
    })
}

/// Puts sums [tap, window] of a plane where they belong; the elements between windows stay.
fn scatter_taps<T: Real>(
    d: &CpuDevice,
    window: &ConvGeometry,
    transposes_rows: bool,
    part: &[T],
    plane: &mut [T],
) {
    let ([t0, t1, t2], [n0, n1, n2], [_, p1, p2]) = (window.taps, window.out, window.plane);
    let (step, row_stride) = (window.stride, window.dilation);
    let windows = n0 * n1 * n2;
    for (i, j) in (0..n0 * t0).flat_map(|i| (0..n1 * t1).map(move |j| (i, j))) {
        let at = |i: usize, a: usize| i / window.taps[a] * step[a] + i % window.taps[a] * row_stride[a];
        let row = &mut plane[(at(i, 0) * p1 + at(j, 1)) * p2..][..p2];
        let first = (i % t0 * t1 + j % t1) * t2 * windows + (i / t0 * n1 + j / t1) * n2;
        if transposes_rows {
            transpose_block(d.isa(), part, first as isize, windows as isize, n2, t2, row, step[2]);
            continue;
        }
        for t in 0..t2 {
            let from = &part[first + t * windows..][..n2];
            row[t * row_stride[2]..].iter_mut().step_by(step[2]).zip(from).for_each(|(to, from)| *to = *from);
        }
    }
}
