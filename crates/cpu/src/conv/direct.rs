//! Direct convolution for few output channels in a group: depthwise ones, and gradients by the
//! input of convolutions with few input channels.
//!
//! Packing a patch would cost more than multiplying it, so fma chains run over padded planes, a
//! band of a few rows at a time.

use super::im2col::Im2col;
use super::pad::PaddedPlanes;
use crate::CpuDevice;
use crate::conv::kernels::direct::{
    CHAINS_PER_UNIT, DirectWindows, MAX_RESULTS_PER_POSITION, PositionUnit, direct_windows,
};
use crate::gemm::{Real, TileEpilogue};
use crate::runtime::output::parallel_fill::fill_pieces;
use crate::runtime::scratch::scratch;
use elinvar_core::order::CHUNK;
use elinvar_core::{HostVec, Result};

/// Padded elements that are made at once, if a row takes no more: 256 KiB of f32, a part of a second-level cache.
const BAND_ELEMENTS: usize = 1 << 16;
/// Rows that take more than this go another way: the memory would be worth more than the time.
const MAX_ROW_ELEMENTS: usize = 1 << 22;

/// Output channels of a group, of which several passes are made over a band that is padded: few enough that packing patches, and tiles of
/// so few rows, cost more.
const MAX_OUTPUT_CHANNELS: usize = 16;

/// Is a convolution with `o` output channels in a group one of these?
pub(super) fn is_direct<T: Real>(patches: &Im2col<'_, T>, o: usize) -> bool {
    let terms = patches.channels * patches.taps.len();
    if !(1..=MAX_OUTPUT_CHANNELS).contains(&o) || terms == 0 || patches.positions() == 0 {
        return false;
    }
    // Planes that are the matrix themselves need no packing.
    let cheap = terms <= 16 && o < MAX_RESULTS_PER_POSITION || !patches.is_identity();
    // A unit that reaches far beyond a row is computed for nothing.
    let row = patches.grid[2];
    let cheap =
        cheap && (o < MAX_RESULTS_PER_POSITION || 4 * row >= 3 * row.next_multiple_of(CHAINS_PER_UNIT));
    cheap && PaddedPlanes::new(patches, 0..1).size().saturating_mul(patches.channels) <= MAX_ROW_ELEMENTS
}

/// y[batch, o, positions]; weights [groups, o, (channel, tap)], where batch `b` is of group `b % groups`.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn conv_direct<T: Real>(
    d: &CpuDevice,
    patches: &Im2col<'_, T>,
    batch: usize,
    groups: usize,
    o: usize,
    w: &[T],
    epilogue: &dyn TileEpilogue<T>,
) -> Result<HostVec<T>> {
    let (terms, n) = (patches.channels * patches.taps.len(), patches.positions());
    let bands = bands(patches);
    // Passes that are alike.
    let together = o.div_ceil(o.div_ceil(MAX_RESULTS_PER_POSITION));
    // Planes of a piece share what is zero around them.
    let planes = ((1 << 16) / (o * n)).clamp(1, (batch / (4 * d.threads())).max(1));
    // Nanoseconds for an element: a tenth of one for a term, less where what is loaded serves several results.
    let ns = terms as f64 * if o < MAX_RESULTS_PER_POSITION { 0.1 } else { 0.02 } + 0.3;
    fill_pieces(d, batch * o * n, planes * o * n, ns, &|start, dst| {
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
                    for (pass, y) in y.chunks_mut(together * n).enumerate() {
                        let (o, w) = (y.len() / n, &w[(b % groups * o + pass * together) * terms..]);
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

/// Rows of positions, or a part of a long one, that are made together; they lie in one plane along the first axis.
struct Band {
    padded: PaddedPlanes,
    /// Where each term's element lies at the first position.
    places: Vec<usize>,
    units: Vec<PositionUnit>,
}

fn bands<T: Real>(patches: &Im2col<'_, T>) -> Vec<Band> {
    let [g0, g1, g2] = patches.grid;
    let row = PaddedPlanes::new(patches, 0..g2).size() * patches.channels;
    let together = (BAND_ELEMENTS / row).clamp(1, g1);
    let cut = if row <= BAND_ELEMENTS {
        g2
    } else {
        (g2 / (row / BAND_ELEMENTS + 1)).next_multiple_of(16 * CHAINS_PER_UNIT)
    };
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
