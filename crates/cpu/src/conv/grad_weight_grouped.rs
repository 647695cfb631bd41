//! Gradient by weight for many groups of few channels, depthwise above all: groups are the lanes of
//! a register, as one group alone has too few chains.
//!
//! Planes of sixteen groups are interleaved, and each tap's chain runs over them in the order of
//! terms: (image, position), in chunks.

use super::im2col::Im2col;
use super::pad::PaddedPlanes;
use crate::CpuDevice;
use crate::conv::kernels::direct::{CHAINS_PER_UNIT, DirectGroups, direct_groups as chains};
use crate::elementwise::real::Real;
use crate::gemm::transpose_block;
use crate::runtime::memory::filled;
use crate::runtime::parallel::try_for_each_piece;
use crate::runtime::scratch::scratch;
use elinvar_core::order::CHUNK;
use elinvar_core::{Error, HostVec, Result};

/// dw[group, o, channel, tap] of patches of all images, and g[image, group, o, position].
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn weight_grad<T: Real>(
    d: &CpuDevice,
    patches: &Im2col<'_, T>,
    g: &[T],
    images: usize,
    groups: usize,
    o: usize,
) -> Result<HostVec<T>> {
    let (channels, taps, n) = (patches.channels, patches.taps.len(), patches.positions());
    let each = o * channels * taps;
    let mut dw = filled(groups * each, T::ZERO)?;
    let g2 = patches.grid[2];
    let area = patches.size();
    let padded = PaddedPlanes::new(patches, 0..patches.positions());
    let size = padded.size();
    // Nanoseconds for a weight: a sixteenth of one for a term, and for each plane the turning.
    let ns = (images * n) as f64 * 0.06;
    try_for_each_piece(d, &mut dw, CHAINS_PER_UNIT * each, ns, &|at, dw| {
        let (group, some) = (at / each, dw.len() / each);
        scratch((channels * size + g2) * CHAINS_PER_UNIT + 2 * each * CHAINS_PER_UNIT, |all| {
            all.fill(T::ZERO);
            let (x, rest) = all.split_at_mut(channels * size * CHAINS_PER_UNIT);
            let (row, rest) = rest.split_at_mut(g2 * CHAINS_PER_UNIT);
            // Chains of the chunk, and the sums of the chunks before.
            let (chain, total) = rest.split_at_mut(each * CHAINS_PER_UNIT);
            let (mut terms, mut first) = (0, true);
            for image in 0..images {
                for c in 0..channels {
                    let from = ((image * groups + group) * channels + c) * area;
                    let step = (channels * area) as isize;
                    padded.fill_wide(
                        patches.plane,
                        CHAINS_PER_UNIT,
                        &mut x[c * size * CHAINS_PER_UNIT..],
                        |at, count, to| {
                            transpose_block(
                                d.isa(),
                                patches.data,
                                (from + at) as isize,
                                step,
                                count,
                                some,
                                to,
                                CHAINS_PER_UNIT,
                            );
                        },
                    );
                }
                for line in 0..patches.rows() {
                    // A chunk may end within a line.
                    let mut k = 0;
                    while k < g2 {
                        let count = (g2 - k).min(CHUNK - terms);
                        for i in 0..o {
                            let from = ((image * groups + group) * o + i) * n + line * g2 + k;
                            transpose_block(
                                d.isa(),
                                g,
                                from as isize,
                                (o * n) as isize,
                                count,
                                some,
                                row,
                                CHAINS_PER_UNIT,
                            );
                            for c in 0..channels {
                                let start = (c * size + padded.position(line, k)) * CHAINS_PER_UNIT;
                                let sums = &mut chain[(i * channels + c) * taps * CHAINS_PER_UNIT..];
                                let (x, g) = (&x[start..], &row[..count * CHAINS_PER_UNIT]);
                                chains(d.isa(), DirectGroups { x, places: &padded.places, g, sums });
                            }
                        }
                        (k, terms) = (k + count, terms + count);
                        let last = image + 1 == images && line + 1 == patches.rows() && k == g2;
                        if terms == CHUNK || last {
                            for (total, chain) in total.iter_mut().zip(&mut *chain) {
                                *total = if first { *chain } else { *total + *chain };
                                *chain = T::ZERO;
                            }
                            (terms, first) = (0, false);
                        }
                    }
                }
            }
            for (l, dw) in dw.chunks_exact_mut(each).enumerate() {
                dw.iter_mut().enumerate().for_each(|(i, dw)| *dw = total[i * CHAINS_PER_UNIT + l]);
            }
        })?;
        Ok::<(), Error>(())
    })?;
    Ok(dw)
}
