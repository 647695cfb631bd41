//! Operands of convolutions as GEMM reads them: weights, gradients and planes, in memory or as
//! copies.

use super::bf16;
use super::im2col::images;
use super::plan::TRANSPOSE_WEIGHTS_TASK_CHANNELS;
use crate::CpuDevice;
use crate::elementwise::real::{Real, StoredElements, stored_elements};
use crate::gemm::operand::copy_block;
use crate::gemm::{BatchedMatrix, OperandA, OperandB, PrepackedPanels, RowsA, TermKind, nr, transpose_block};
use crate::layout::copy::{ContiguousElements, elements, to_contiguous};
use crate::runtime::memory::{PooledData, PooledVec, filled};
use crate::runtime::output::parallel_fill::fill_pieces;
use crate::runtime::parallel::for_each_piece;
use crate::view::View;
use elinvar_core::order::CHUNK;
use elinvar_core::{HostData, HostVec, Layout, Result, Shape};
use elinvar_simd::isa::Isa;
use std::ops::{Deref, Range};

/// The weights of a group as the left factor, the same for all images.
pub(super) struct GroupWeights<'a, T> {
    pub(super) matrix: BatchedMatrix<'a, T>,
    pub(super) groups: usize,
}

impl<T: Real> OperandA<T> for GroupWeights<'_, T> {
    fn distinct_batches(&self) -> usize {
        self.groups
    }
    fn pack(&self, isa: Isa, batch: usize, rows: Range<usize>, terms: Range<usize>, out: &mut [T]) {
        self.matrix.pack_a(isa, batch % self.groups, rows, terms, out);
    }
    fn rows_in_place(&self, batch: usize, rows: Range<usize>) -> Option<RowsA<'_, T>> {
        self.matrix.rows_in_place(batch % self.groups, rows)
    }
}

/// Contiguous matrices, one after the other.
pub(super) fn matrices<T>(data: &[T], rows: usize, cols: usize) -> BatchedMatrix<'_, T> {
    let batch = ((rows * cols) as isize, 0);
    BatchedMatrix {
        data: StoredElements::Native(data),
        offset: 0,
        inner: 1,
        batch,
        row: cols as isize,
        col: 1,
        prepacked: None,
    }
}

/// Where the weights of a convolution come from. All but the first are for an implicit GEMM alone.
#[derive(Clone, Copy)]
pub(super) enum Weights<'a, T> {
    /// [group, o, (channel, tap)]
    InPlace(&'a [T]),
    /// [group, channel, o, tap]: those of the convolution whose gradient by x this one is.
    Transposed(&'a [T]),
    /// Panels of one group.
    Prepacked(PrepackedPanels<'a, T>),
}

/// g of all images of a group: rows are terms (image, position), columns output channels.
pub(super) struct GradPlanes<'a, T> {
    pub(super) data: &'a [T],
    pub(super) groups: usize,
    pub(super) o: usize,
    pub(super) positions: usize,
}

impl<T: Real> OperandB<T> for GradPlanes<'_, T> {
    fn pack(&self, isa: Isa, group: usize, terms: Range<usize>, cols: Range<usize>, out: &mut [T]) {
        let w = nr::<T>(isa);
        let data = StoredElements::Native(self.data);
        for (panel, j) in out.chunks_exact_mut(w * terms.len()).zip(cols.clone().step_by(w)) {
            let n = w.min(cols.end - j);
            if n < w {
                panel.fill(T::ZERO);
            }
            for (image, positions, at) in images(terms.clone(), self.positions) {
                let plane = (image * self.groups + group) * self.o + j;
                let from = (plane * self.positions + positions.start) as isize;
                let step = (1, self.positions as isize);
                copy_block(isa, &data, from, step, positions.len(), n, &mut panel[at * w..], w);
            }
        }
    }
}

/// w[group, c, (o, tap)] of w[group, o, c, tap], for some of the taps.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn transpose_weights<T: Real>(
    d: &CpuDevice,
    w: &[T],
    [groups, o, channels, area]: [usize; 4],
    which: &[usize],
) -> Result<HostVec<T>> {
    let row = o * which.len();
    fill_pieces(d, groups * channels * row, TRANSPOSE_WEIGHTS_TASK_CHANNELS * row, 0.5, &|start, dst| {
        let mut line = start / row;
        while dst.remaining() > 0 {
            let (group, first) = (line / channels, line % channels);
            let some = (channels - first).min(dst.remaining() / row);
            let to = dst.zeroed(some * row, T::ZERO);
            let from = &w[group * o * channels * area..][..o * channels * area];
            if area == 1 {
                transpose_block(d.isa(), from, first as isize, channels as isize, some, o, to, row);
            } else {
                for (o, from) in from.chunks_exact(channels * area).enumerate() {
                    let from = from.chunks_exact(area).skip(first);
                    for (to, from) in to.chunks_exact_mut(row).zip(from) {
                        let to = &mut to[o * which.len()..][..which.len()];
                        to.iter_mut().zip(which).for_each(|(to, t)| *to = from[*t]);
                    }
                }
            }
            line += some;
        }
        Ok(())
    })
}

/// A view as another shape; its elements are copied if strides cannot say that.
pub(super) fn flattened<'a>(
    d: &CpuDevice,
    v: &View<'a>,
    shape: &Shape,
) -> Result<(BorrowedOrCopied<&'a HostData, PooledData>, Layout)> {
    Ok(match v.layout.reshape(shape) {
        Some(l) => (BorrowedOrCopied::InPlace(v.buffer), l),
        None => (
            BorrowedOrCopied::Copied(PooledData::new(to_contiguous(d, v)?)),
            Layout::contiguous(shape.clone()),
        ),
    })
}

/// Numbers that are in memory as they are wanted, or a copy, whose memory goes back to the cache.
pub(super) enum BorrowedOrCopied<A, B> {
    InPlace(A),
    Copied(B),
}

impl<T: ?Sized, A: Deref<Target = T>, B: Deref<Target = T>> Deref for BorrowedOrCopied<A, B> {
    type Target = T;
    fn deref(&self) -> &T {
        match self {
            BorrowedOrCopied::InPlace(a) => a,
            BorrowedOrCopied::Copied(b) => b,
        }
    }
}

/// The elements of a view, row-major, in the type in which is computed.
pub(super) fn load<'a, T: Real>(
    d: &CpuDevice,
    v: &View<'a>,
) -> Result<BorrowedOrCopied<&'a [T], PooledVec<T>>> {
    let l = &v.layout;
    let copied = |v: HostVec<T>| BorrowedOrCopied::Copied(PooledVec::of(v));
    Ok(match stored_elements::<T>(v.buffer)? {
        StoredElements::Native(data) => match elements(d, data, l)? {
            ContiguousElements::InPlace(data) => BorrowedOrCopied::InPlace(data),
            ContiguousElements::Copied(data) => copied(data),
        },
        StoredElements::F16(data) => copied(widened(d, StoredElements::F16(&elements(d, data, l)?), l)?),
        StoredElements::BF16(data) => copied(widened(d, StoredElements::BF16(&elements(d, data, l)?), l)?),
    })
}

/// The elements of a view, batches of planes, as they are multiplied: as [`load`], or in pairs of
/// planes.
pub(super) fn load_planes<'a, T: Real>(
    d: &CpuDevice,
    v: &View<'a>,
    kind: TermKind,
    planes: usize,
    size: usize,
) -> Result<BorrowedOrCopied<&'a [T], PooledVec<T>>> {
    match kind {
        TermKind::Elements => load(d, v),
        TermKind::Bf16Pairs => bf16::of_view(d, v, planes, size).map(BorrowedOrCopied::Copied),
    }
}

/// All elements of 16 bits, of this layout's number, as what is computed in.
fn widened<T: Real>(d: &CpuDevice, halves: StoredElements<'_, T>, l: &Layout) -> Result<HostVec<T>> {
    let mut all = filled(l.shape().numel(), T::ZERO)?;
    for_each_piece(d, &mut all, 16 * CHUNK, 0.2, &|at, piece| {
        for (i, line) in piece.chunks_mut(CHUNK).enumerate() {
            let n = line.len();
            copy_block(d.isa(), &halves, (at + i * CHUNK) as isize, (0, 1), 1, n, line, n);
        }
    });
    Ok(all)
}
