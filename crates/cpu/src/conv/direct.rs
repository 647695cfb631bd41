//! Direct convolution for few output channels in a group: depthwise ones, and gradients by the
//! input of convolutions with few input channels.
//!
//! Packing a patch would cost more than multiplying it, so fma chains run over padded planes, a
//! band of a few rows at a time.

use super::im2col::Im2col;
use super::pad::PaddedPlanes;
use super::plan::DirectPlan;
use super::problem::PatchGeometry;
use crate::CpuDevice;
use crate::conv::kernels::direct::{
    CHAINS_PER_UNIT, DirectWindows, MAX_RESULTS_PER_POSITION, PositionUnit, direct_windows,
};
use crate::elementwise::real::Real;
use crate::gemm::TileEpilogue;
use crate::runtime::output::parallel_fill::fill_pieces;
use crate::runtime::scratch::scratch;
use elinvar_core::order::CHUNK;
use elinvar_core::{HostVec, Result};

/// y[batch, o, positions]; weights [groups, o, (channel, tap)], where batch `b` is of group
/// `b % groups`.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn conv_direct<T: Real>(
    d: &CpuDevice,
    patches: &Im2col<'_, T>,
    plan: DirectPlan,
    (batch, groups, o): (usize, usize, usize),
    w: &[T],
    epilogue: &dyn TileEpilogue<T>,
) -> Result<HostVec<T>> {
    let (terms, n) = (patches.channels * patches.taps.len(), patches.positions());
    let DirectPlan { outputs_per_pass, batches_per_task, band } = plan;
    let bands = bands(patches, band);
    // Nanoseconds for an element: a tenth of one for a term, less where what is loaded serves
    // several results.
    let ns = terms as f64 * if o < MAX_RESULTS_PER_POSITION { 0.1 } else { 0.02 } + 0.3;
    fill_pieces(d, batch * o * n, batches_per_task * o * n, ns, &|start, dst| {
        let largest = bands.iter().map(|b| b.padded.size()).max().unwrap_or(0);
        // A unit may reach over the end of the last row.
        scratch(patches.channels * largest + CHAINS_PER_UNIT, |x| {
            let first = start / (o * n);
            for b in first..first + dst.remaining() / (o * n) {
                let y = dst.zeroed(o * n, T::ZERO);
                for band in &bands {
                    let size = band.padded.size();
                    if b == first || bands.len() > 1 {
                        x[..patches.channels * size].fill(T::ZERO);
                    }
                    let planes = patches.planes(b, 0..patches.channels);
                    band.padded.fill(d.isa(), patches.plane, planes, x, size);
                    for (pass, y) in y.chunks_mut(outputs_per_pass * n).enumerate() {
                        let (o, w) = (y.len() / n, &w[(b % groups * o + pass * outputs_per_pass) * terms..]);
                        for (chunk, places) in band.places.chunks(CHUNK).enumerate() {
                            let w = &w[chunk * CHUNK..];
                            let (x, units, y, first) = (&*x, &band.units[..], &mut *y, chunk == 0);
                            let all =
                                DirectWindows { x, places, w, across: terms, units, o, y, plane: n, first };
                            direct_windows(d.isa(), all);
                        }
                    }
                }
                if !epilogue.is_empty() {
                    for (i, y) in y.chunks_exact_mut(n).enumerate() {
                        epilogue.apply_to_row(d.isa(), b, i, 0, y);
                    }
                }
            }
        })
    })
}

/// Rows of positions, or a part of a long one, that are made together; they are in one plane along
/// the first axis.
struct Band {
    padded: PaddedPlanes,
    /// Where each term's element is at the first position.
    places: Vec<usize>,
    units: Vec<PositionUnit>,
}

fn bands(patches: &PatchGeometry, [together, cut]: [usize; 2]) -> Vec<Band> {
    let [g0, g1, g2] = patches.grid;
    let mut bands = Vec::new();
    for outer in 0..g0 {
        for inner in (0..g1).step_by(together) {
            for k in (0..g2).step_by(cut) {
                let rows = outer * g1 + inner..outer * g1 + (inner + together).min(g1);
                let across = k..g2.min(k + cut);
                let padded =
                    PaddedPlanes::new(patches, rows.start * g2 + k..(rows.end - 1) * g2 + across.end);
                let size = padded.size();
                let places =
                    (0..patches.channels).flat_map(|c| padded.places.iter().map(move |p| c * size + p));
                let places = places.collect();
                let unit = |row: usize, k: usize| {
                    let count = CHAINS_PER_UNIT.min(across.end - k);
                    PositionUnit { from: padded.position(row, k), to: row * g2 + k, count }
                };
                let starts = || across.clone().step_by(CHAINS_PER_UNIT);
                let units =
                    rows.flat_map(|row| starts().map(move |k| (row, k))).map(|(r, k)| unit(r, k)).collect();
                bands.push(Band { padded, places, units });
            }
        }
    }
    bands
}
