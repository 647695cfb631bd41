//! Depthwise convolution of 3 x 3 taps with stride 1: planes are read in place.

use super::im2col::Im2col;
use crate::CpuDevice;
use crate::conv::kernels::depthwise3x3::{DepthwisePlanes, DepthwiseWindows};
use crate::elementwise::real::Real;
use crate::gemm::TileEpilogue;
use crate::runtime::output::parallel_fill::fill_pieces;
use elinvar_core::{HostVec, Result};

/// y[batch, o, positions]; weights [groups, o, tap], where batch `b` is of group `b % groups`.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn depthwise<T: Real>(
    d: &CpuDevice,
    patches: &Im2col<'_, T>,
    (windows, planes_per_task): (DepthwiseWindows, usize),
    (batch, groups): (usize, usize),
    o: usize,
    w: &[T],
    epilogue: &dyn TileEpilogue<T>,
) -> Result<HostVec<T>> {
    let (n, area) = (patches.positions(), patches.size());
    let planes = DepthwisePlanes::new(d.isa(), windows);
    let (weights, _) = w.as_chunks();
    fill_pieces(d, batch * o * n, planes_per_task * n, 0.5, &|start, dst| {
        let first = start / n;
        for y in first..first + dst.remaining() / n {
            let (b, i) = (y / o, y % o);
            dst.write_then(
                |dst| planes.fill(patches.data, b * area, &weights[b % groups * o + i], dst),
                |y| {
                    if !epilogue.is_empty() {
                        epilogue.apply_to_row(d.isa(), b, i, 0, y);
                    }
                },
            );
        }
        Ok(())
    })
}
