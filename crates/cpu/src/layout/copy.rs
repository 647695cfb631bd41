//! Strided copies: a view as contiguous elements of its own dtype; transposed views go by tiles.

use super::strided_iter::{StridedIter, gather_runs};
use crate::layout::kernels::transpose::{TransposeBlocks, transpose_blocks};
use crate::runtime::output::parallel_fill::parallel_fill;
use crate::view::View;
use crate::{CpuDevice, Isa};
use elinvar_core::{DType, Element, HostData, HostVec, Layout, Result, Scalar, each_data, each_dtype};
use elinvar_reference::Cell;
use elinvar_simd::uninit::{BLOCK_ELEMENTS, CopyBits, UninitSlice, copy_as_bits};
use std::ops::Deref;

/// `len` copies of a value.
pub(crate) fn fill(d: &CpuDevice, value: Scalar, dtype: DType, len: usize) -> Result<HostData> {
    fn one<T: Element>(d: &CpuDevice, value: T, len: usize) -> Result<HostData> {
        Ok(T::wrap(parallel_fill(d, len, BLOCK_ELEMENTS, &|_, dst| {
            dst.extend(dst.remaining(), |_| value);
            Ok(())
        })?))
    }
    each_dtype!(dtype, T => one::<T>(d, T::nearest(value), len))
}

/// Are the strides of the kind that is expensive row by row?
pub(crate) fn is_transposed(layout: &Layout) -> bool {
    !layout.is_contiguous() && TransposedView::find(&StridedIter::new(layout)).is_some()
}

/// The elements of a view, row-major, in their own type.
pub(crate) fn to_contiguous(d: &CpuDevice, x: &View<'_>) -> Result<HostData> {
    fn one<T: Element>(d: &CpuDevice, v: &[T], layout: &Layout) -> Result<HostData> {
        Ok(T::wrap(straight(d, v, layout)?))
    }
    each_data!(x.buffer, v => one(d, v, x.layout))
}

/// Elements one after the other: in place, or a copy.
pub(crate) enum ContiguousElements<'a, T> {
    InPlace(&'a [T]),
    Copied(HostVec<T>),
}

impl<T> Deref for ContiguousElements<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match self {
            ContiguousElements::InPlace(x) => x,
            ContiguousElements::Copied(x) => x,
        }
    }
}

/// The elements of a view, row-major.
pub(crate) fn elements<'a, T: Element>(
    d: &CpuDevice,
    v: &'a [T],
    layout: &Layout,
) -> Result<ContiguousElements<'a, T>> {
    let n = layout.shape().numel();
    Ok(if n > 0 && layout.is_contiguous() {
        ContiguousElements::InPlace(&v[layout.offset()..layout.offset() + n])
    } else {
        ContiguousElements::Copied(straight(d, v, layout)?)
    })
}

/// The elements of a view, row-major.
pub(crate) fn straight<T: Element>(d: &CpuDevice, v: &[T], layout: &Layout) -> Result<HostVec<T>> {
    let len = layout.shape().numel();
    let walk = StridedIter::new(layout);
    match TransposedView::find(&walk) {
        // A strip of no elements has no size.
        Some(transposed) if len > 0 => transposed.copy(d, v, len),
        _ => parallel_fill(d, len, BLOCK_ELEMENTS, &|start, dst| {
            gather_runs(v, &walk, start, dst.remaining(), dst);
            Ok(())
        }),
    }
}

/// A view whose neighbours in memory are neighbours along another axis than the last: a transpose.
///
/// Read row by row, it would fetch a cache line for each element. It is copied in tiles instead:
/// some neighbours along `near_axis`, the axis of step 1, times some along the last axis.
struct TransposedView<'a> {
    walk: &'a StridedIter,
    near_axis: usize,
}

/// Sides of a tile: a cache line of f32 is read at once, and a line is written.
const TILE_SIDE: usize = 16;
/// Neighbours along the near axis that are copied while the lines beside each other are being
/// fetched.
const TILE_HEIGHT: usize = 4 * TILE_SIDE;

impl<'a> TransposedView<'a> {
    /// Is it worth it?
    fn find(walk: &'a StridedIter) -> Option<Self> {
        let last = walk.dims.len() - 1;
        let (n, step) = walk.inner();
        // A short near axis has too few neighbours to gain; a small step along the last axis reads
        // whole lines anyway.
        let near_axis = (0..last).rev().find(|&a| walk.strides[0][a] == 1 && walk.dims[a] >= 8)?;
        (n > 1 && step.unsigned_abs() >= 8 || n > 1 && n < 8 && step != 1)
            .then_some(TransposedView { walk, near_axis })
    }
    fn copy<T: Element>(&self, d: &CpuDevice, v: &[T], len: usize) -> Result<HostVec<T>> {
        let (strips, unit) = self.strips(d.isa());
        parallel_fill(d, len, unit, &|start, dst: &mut UninitSlice<'_, T>| {
            copy_as_bits(v, dst, CopyStrip { strips: &strips, at: start / strips.row });
            Ok(())
        })
    }
    /// How it is cut, and elements of the result that are not cut. It stands here for all types.
    fn strips(&self, isa: Isa) -> (CopyStrips<'_>, usize) {
        let dims = &self.walk.dims;
        // A strip is what some neighbours make of the result: contiguous, as the near axis is the
        // outermost in it.
        let row: usize = dims[self.near_axis + 1..].iter().product();
        let near_axis = dims[self.near_axis];
        let outer = dims[..self.near_axis].iter().product::<usize>();
        // Tall ones have few edges.
        let tile_height =
            if near_axis >= 16 * TILE_HEIGHT { 2 * TILE_HEIGHT } else { TILE_HEIGHT.min(near_axis) };
        let unit = if outer == 1 || near_axis.is_multiple_of(tile_height) {
            tile_height * row
        } else {
            near_axis * row
        };
        let (n, _) = self.walk.inner();
        let middles = self.near_axis + 1..dims.len() - 1;
        let starts = (0..row / n).map(|middle| self.place(middle, middles.clone())).collect();
        (CopyStrips { transposed: self, isa, row, tile_height, starts }, unit)
    }
    /// How far from the first element the one number `flat` of these axes is.
    fn place(&self, mut flat: usize, axes: std::ops::Range<usize>) -> isize {
        let (dims, strides) = (&self.walk.dims, &self.walk.strides[0]);
        let mut at = 0isize;
        for a in axes.rev() {
            at += (flat % dims[a]) as isize * strides[a];
            flat /= dims[a];
        }
        at
    }
}

/// Strips that are copied one after the other.
struct CopyStrips<'a> {
    transposed: &'a TransposedView<'a>,
    isa: Isa,
    /// Elements of the result that one neighbour makes.
    row: usize,
    /// Neighbours of a strip.
    tile_height: usize,
    /// Where the blocks of a strip start.
    starts: Vec<isize>,
}

/// Are tiles of 4 and 8 bytes compiled with sizes that are known? On x86-64 they go by registers.
const FIXED_SIZE_TILES: bool = cfg!(not(target_arch = "x86_64"));

/// Strips from neighbour number `at` on.
struct CopyStrip<'a> {
    strips: &'a CopyStrips<'a>,
    at: usize,
}

impl CopyBits for CopyStrip<'_> {
    #[inline(never)]
    fn run<B: Copy>(self, v: &[B], dst: &mut UninitSlice<'_, B>) {
        let (CopyStrips { transposed, isa, row, tile_height, starts }, mut at) = (self.strips, self.at);
        let (isa, row, tile_height) = (*isa, *row, *tile_height);
        let (near_axis, (n, step)) = (transposed.walk.dims[transposed.near_axis], transposed.walk.inner());
        // Anything, for it is written over.
        let Some(&any) = v.first() else { return };
        let mut tile = [[any; TILE_SIDE]; TILE_SIDE];
        while dst.remaining() > 0 {
            let rows = tile_height.min(near_axis - at % near_axis).min(dst.remaining() / row);
            let slab = transposed.place(at / near_axis, 0..transposed.near_axis);
            let at_first = transposed.walk.offset[0].wrapping_add_signed(slab) + at % near_axis;
            let blocks = TransposeBlocks { at: at_first, starts, rows, cols: n, step };
            dst.part(rows * row, |dst| {
                if !transpose_blocks(isa, v, blocks, dst) {
                    strip(v, blocks, dst.zeroed(rows * row, any), &mut tile);
                }
            });
            at += rows;
        }
    }
}

/// Blocks of any kind of numbers, and of any size.
fn strip<T: Copy>(
    v: &[T],
    blocks: TransposeBlocks<'_>,
    out: &mut [T],
    tile: &mut [[T; TILE_SIDE]; TILE_SIDE],
) {
    let TransposeBlocks { at: corner, starts, rows: count, cols: n, step } = blocks;
    let row = starts.len() * n;
    for (middle, start) in starts.iter().enumerate() {
        let start = corner.wrapping_add_signed(*start);
        for from in (0..n).step_by(TILE_SIDE) {
            let wide = TILE_SIDE.min(n - from);
            let at = |i: usize| start.wrapping_add_signed((from + i) as isize * step);
            let to = |a: usize| a * row + middle * n + from;
            for low in (0..count).step_by(TILE_SIDE) {
                let tile_height = TILE_SIDE.min(count - low);
                if const { FIXED_SIZE_TILES || size_of::<T>() < 4 }
                    && (tile_height, wide) == (TILE_SIDE, TILE_SIDE)
                {
                    // The same with sizes that the compiler knows.
                    for i in 0..TILE_SIDE {
                        let line = v[at(i) + low..].first_chunk::<TILE_SIDE>().expect("inside of the buffer");
                        for a in 0..TILE_SIDE {
                            tile[a][i] = line[a];
                        }
                    }
                    for a in 0..TILE_SIDE {
                        out[to(low + a)..][..TILE_SIDE].copy_from_slice(&tile[a]);
                    }
                } else {
                    for i in 0..wide {
                        for (a, &x) in v[at(i) + low..][..tile_height].iter().enumerate() {
                            out[to(low + a) + i] = x;
                        }
                    }
                }
            }
        }
    }
}
