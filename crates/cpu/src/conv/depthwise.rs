//! Depthwise convolution of 3 x 3 taps with stride 1: planes are read in place.

use super::im2col::Im2col;
use crate::CpuDevice;
use crate::conv::kernels::depthwise3x3::{DepthwisePlanes, DepthwiseWindows, TAPS_PER_AXIS};
use crate::gemm::{Real, TileEpilogue};
use crate::runtime::output::parallel_fill::fill_pieces;
use elinvar_core::{HostVec, Result};

/// Elements of a piece of work: 256 KiB of f32.
const PIECE_ELEMENTS: usize = 1 << 16;

/// The windows of a convolution, if it is one of these.
pub(super) fn of<T: Real>(p: &Im2col<'_, T>) -> Option<DepthwiseWindows> {
    let taps: &[[isize; 3]; TAPS_PER_AXIS * TAPS_PER_AXIS] = p.taps[..].try_into().ok()?;
    let flat = p.plane[0] == 1 && p.grid[0] == 1;
    if p.channels != 1 || !flat || p.step != [1; 3] || p.data.is_empty() || p.positions() == 0 {
        return None;
    }
    let row = taps[0][1];
    let up = taps[TAPS_PER_AXIS][1] < row;
    let columns = [taps[0][2], taps[1][2], taps[2][2]];
    let is_grid = taps.iter().enumerate().all(|(t, tap)| {
        let (i, j) = ((t / TAPS_PER_AXIS) as isize, t % TAPS_PER_AXIS);
        *tap == [0, if up { row - i } else { row + i }, columns[j]]
    });
    // Columns far beside the plane would need as much room beside it.
    let in_reach = columns.iter().all(|c| c.unsigned_abs() <= p.plane[2]);
    let out = [p.grid[1], p.grid[2]];
    (is_grid && in_reach).then_some(DepthwiseWindows {
        plane: [p.plane[1], p.plane[2]],
        out,
        row,
        up,
        columns,
    })
}

/// y[batch, o, positions]; weights [groups, o, tap], where batch `b` is of group `b % groups`.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn depthwise<T: Real>(
    d: &CpuDevice,
    patches: &Im2col<'_, T>,
    windows: DepthwiseWindows,
    batch: usize,
    groups: usize,
    o: usize,
    w: &[T],
    epilogue: &dyn TileEpilogue<T>,
) -> Result<HostVec<T>> {
    let (n, area) = (patches.positions(), patches.plane.iter().product::<usize>());
    let planes = DepthwisePlanes::new(d.isa(), windows);
    let (weights, _) = w.as_chunks();
    let results = (PIECE_ELEMENTS / n).clamp(1, (batch * o / (4 * d.threads())).max(1));
    fill_pieces(d, batch * o * n, results * n, 0.5, &|start, dst| {
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
