//! What a convolution computes, without its numbers: sizes, steps and types. Plans are made of this
//! alone.

use elinvar_core::{DType, Precision};
use elinvar_ops::backend::Conv;
use std::ops::Range;

/// Positions of a row from which on a tile is cut at its end: several times what is packed at once,
/// so that padding the rest of a row would take long.
const LONG_ROW_POSITIONS: usize = 2048;

/// Up to three numbers, one for each axis; missing axes stand in front and have `rest`.
fn three_axes<T: Copy>(x: &[T], rest: T) -> [T; 3] {
    let mut all = [rest; 3];
    all[3 - x.len()..].copy_from_slice(x);
    all
}

/// All indices of a shape, row-major.
pub(super) fn grid(n: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    (0..n[0]).flat_map(move |i| (0..n[1]).flat_map(move |j| (0..n[2]).map(move |k| [i, j, k])))
}

/// Input elements along each axis that are `residue`, `residue + stride`, ...
pub(super) fn residue_grid(w: &ConvGeometry, residue: [usize; 3]) -> [usize; 3] {
    std::array::from_fn(|a| (w.plane[a] - residue[a]).div_ceil(w.stride[a]))
}

/// Sizes and steps along three axes.
#[derive(Clone, Debug)]
pub(crate) struct ConvGeometry {
    pub(super) plane: [usize; 3],
    pub(super) taps: [usize; 3],
    pub(super) out: [usize; 3],
    pub(super) stride: [usize; 3],
    pub(super) padding: [usize; 3],
    pub(super) dilation: [usize; 3],
}

impl ConvGeometry {
    pub(super) fn new(c: &Conv, plane: &[usize], taps: &[usize], out: &[usize]) -> ConvGeometry {
        ConvGeometry {
            plane: three_axes(plane, 1),
            taps: three_axes(taps, 1),
            out: three_axes(out, 1),
            stride: three_axes(&c.stride, 1),
            padding: three_axes(&c.padding, 0),
            dilation: three_axes(&c.dilation, 1),
        }
    }
    /// The windows of the convolution over `channels` planes of each batch.
    pub(super) fn patches(&self, channels: usize) -> PatchGeometry {
        let offset = |a: usize, t: usize| (t * self.dilation[a]) as isize - self.padding[a] as isize;
        let taps = grid(self.taps).map(|t| std::array::from_fn(|a| offset(a, t[a]))).collect();
        PatchGeometry { channels, plane: self.plane, grid: self.out, step: self.stride, taps }.merge_axes()
    }
}

/// The type in which a convolution is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComputeType {
    F32,
    F64,
}

impl ComputeType {
    /// f32, or f64.
    pub(super) fn of<T>() -> ComputeType {
        if size_of::<T>() > size_of::<f32>() { ComputeType::F64 } else { ComputeType::F32 }
    }
    pub(super) fn bytes(self) -> usize {
        match self {
            ComputeType::F32 => size_of::<f32>(),
            ComputeType::F64 => size_of::<f64>(),
        }
    }
}

/// A convolution or one of its gradients: x [image, (group, channel), plane], w [(group, output),
/// channel, tap], y [image, (group, output), window].
#[derive(Clone, Debug)]
pub(crate) struct ConvProblem {
    pub(super) compute: ComputeType,
    /// [`Precision::Fast`] of operands that both are stored as bf16.
    pub(super) is_fast_bf16: bool,
    pub(super) images: usize,
    pub(super) groups: usize,
    /// Channels of a group.
    pub(super) channels: usize,
    /// Output channels of a group.
    pub(super) outputs: usize,
    pub(super) window: ConvGeometry,
    /// Are the weights one after the other?
    pub(super) is_weight_contiguous: bool,
}

impl ConvProblem {
    /// Of x [n, groups * channels, ..] and w [groups * outputs, channels, ..], where `dtypes` are
    /// those of both operands.
    pub(super) fn new<T>(
        c: &Conv,
        [x, w]: [&[usize]; 2],
        out: &[usize],
        dtypes: [DType; 2],
        is_weight_contiguous: bool,
    ) -> ConvProblem {
        ConvProblem {
            compute: ComputeType::of::<T>(),
            is_fast_bf16: c.precision == Precision::Fast && dtypes == [DType::BF16; 2],
            images: x[0],
            groups: c.groups,
            channels: w[1],
            outputs: w[0] / c.groups,
            window: ConvGeometry::new(c, &x[2..], &w[2..], out),
            is_weight_contiguous,
        }
    }
}

/// Windows over planes, as sizes and places. There are always three axes; missing ones have size 1.
#[derive(Clone, Debug)]
pub(crate) struct PatchGeometry {
    /// Planes of a batch.
    pub(super) channels: usize,
    /// Sizes of a plane, and of the grid of positions.
    pub(super) plane: [usize; 3],
    pub(super) grid: [usize; 3],
    /// How far the window moves from one position to the next.
    pub(super) step: [usize; 3],
    /// Where each tap is in the plane at position 0.
    pub(super) taps: Vec<[isize; 3]>,
}

impl PatchGeometry {
    /// Number of positions.
    pub(super) fn positions(&self) -> usize {
        self.grid.iter().product()
    }
    /// Elements of a plane.
    pub(super) fn size(&self) -> usize {
        self.plane.iter().product()
    }
    /// Rows (channel, tap) of the matrix.
    pub(super) fn terms(&self) -> usize {
        self.channels * self.taps.len()
    }
    /// If the matrix is the planes themselves: one tap that covers each element once.
    pub(super) fn is_identity(&self) -> bool {
        self.taps.len() == 1 && self.taps[0] == [0; 3] && self.step == [1; 3] && self.grid == self.plane
    }
    /// The nearest tap and the farthest along an axis.
    pub(super) fn reach(&self, axis: usize) -> (isize, isize) {
        let along = || self.taps.iter().map(|tap| tap[axis]);
        (along().min().unwrap_or(0), along().max().unwrap_or(0))
    }
    /// Rows of positions: all but the last axis.
    pub(super) fn rows(&self) -> usize {
        self.grid[0] * self.grid[1]
    }
    /// Are windows one step apart over planes of two axes, and taps rows of `N` neighbours?
    pub(super) fn has_taps_in_rows_of<const N: usize>(&self) -> bool {
        let (rows, rest) = self.taps.as_chunks::<N>();
        let are_neighbours =
            |row: &[[isize; 3]; N]| (0..).zip(row).all(|(i, t)| *t == [row[0][0], row[0][1], row[0][2] + i]);
        let is_flat = self.grid[0] == 1 && self.step == [1; 3] && self.taps.iter().all(|t| t[0] == 0);
        is_flat && rest.is_empty() && rows.iter().all(are_neighbours)
    }
    /// The same windows over other planes.
    pub(super) fn with_channels(self, channels: usize) -> Self {
        PatchGeometry { channels, ..self }
    }
    /// Axes taken together if nothing tells them apart.
    pub(super) fn merge_axes(mut self) -> Self {
        if self.is_identity() {
            self.plane = [1, 1, self.size()];
            self.grid = self.plane;
        }
        self
    }
    /// Positions cut at the ends of rows, if rows are long.
    pub(super) fn pieces(&self, positions: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let row = if self.grid[2] < LONG_ROW_POSITIONS { usize::MAX } else { self.grid[2] };
        let mut at = positions.start;
        std::iter::from_fn(move || {
            let end = positions.end.min((at / row).saturating_add(1).saturating_mul(row));
            let piece = at..end;
            at = end;
            (!piece.is_empty()).then_some(piece)
        })
    }
}
