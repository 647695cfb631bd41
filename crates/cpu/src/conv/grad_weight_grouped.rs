//! Gradient by weight for many groups of few channels, depthwise above all: groups are the lanes of
//! a register, as one group alone has too few chains.
//!
//! Planes of sixteen groups are interleaved, and each tap's chain runs over them in the order of
//! terms: (image, position), in chunks.

use super::im2col::Im2col;
use super::pad::PaddedPlanes;
use crate::CpuDevice;
use crate::conv::kernels::direct::{CHAINS_PER_UNIT, DirectGroups, direct_groups};
use crate::elementwise::real::Real;
use crate::gemm::transpose_block;
use crate::runtime::memory::filled;
use crate::runtime::parallel::try_for_each_piece;
use crate::runtime::scratch::scratch;
use elinvar_core::order::CHUNK;
use elinvar_core::{HostVec, Result};
use elinvar_simd::isa::Isa;

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
    let each = o * patches.channels * patches.taps.len();
    let mut dw = filled(groups * each, T::ZERO)?;
    let padded = PaddedPlanes::new(patches, 0..patches.positions());
    let walk = GroupWalk { isa: d.isa(), patches, padded, g, images, groups, o };
    // Nanoseconds for a weight: a sixteenth of one for a term, and for each plane the turning.
    let ns = (images * patches.positions()) as f64 * 0.06;
    try_for_each_piece(d, &mut dw, CHAINS_PER_UNIT * each, ns, &|at, dw| walk.run(at / each, dw))?;
    Ok(dw)
}

/// The sums of [`CHAINS_PER_UNIT`] groups, side by side in registers.
struct GroupWalk<'a, T> {
    isa: Isa,
    patches: &'a Im2col<'a, T>,
    padded: PaddedPlanes,
    /// [image, group, o, position]
    g: &'a [T],
    images: usize,
    groups: usize,
    /// Output channels of a group.
    o: usize,
}

impl<T: Real> GroupWalk<'_, T> {
    /// The weights' gradients of groups from number `group` on.
    fn run(&self, group: usize, dw: &mut [T]) -> Result<()> {
        let &GroupWalk { isa, patches, ref padded, g, images, groups, o } = self;
        let (channels, taps, n) = (patches.channels, patches.taps.len(), patches.positions());
        let (each, g2, size) = (o * channels * taps, patches.grid[2], padded.size());
        let some = dw.len() / each;
        scratch((channels * size + g2) * CHAINS_PER_UNIT + 2 * each * CHAINS_PER_UNIT, |all| {
            all.fill(T::ZERO);
            let (x, rest) = all.split_at_mut(channels * size * CHAINS_PER_UNIT);
            let (row, rest) = rest.split_at_mut(g2 * CHAINS_PER_UNIT);
            // Chains of the chunk, and the sums of the chunks before.
            let (chain, total) = rest.split_at_mut(each * CHAINS_PER_UNIT);
            let (mut terms, mut first) = (0, true);
            for image in 0..images {
                self.interleave(image, group, some, x);
                for line in 0..patches.rows() {
                    // A chunk may end within a line.
                    let mut k = 0;
                    while k < g2 {
                        let count = (g2 - k).min(CHUNK - terms);
                        for i in 0..o {
                            let from = (((image * groups + group) * o + i) * n + line * g2 + k) as isize;
                            let step = (o * n) as isize;
                            transpose_block(isa, g, from, step, count, some, row, CHAINS_PER_UNIT);
                            for c in 0..channels {
                                let start = (c * size + padded.position(line, k)) * CHAINS_PER_UNIT;
                                let sums = &mut chain[(i * channels + c) * taps * CHAINS_PER_UNIT..];
                                let (x, g) = (&x[start..], &row[..count * CHAINS_PER_UNIT]);
                                direct_groups(isa, DirectGroups { x, places: &padded.places, g, sums });
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
        })
    }
    /// Writes the planes of an image of `some` groups, padded, element by element of all groups.
    fn interleave(&self, image: usize, group: usize, some: usize, x: &mut [T]) {
        let &GroupWalk { isa, patches, ref padded, groups, .. } = self;
        let (channels, area) = (patches.channels, patches.size());
        for c in 0..channels {
            let from = ((image * groups + group) * channels + c) * area;
            let step = (channels * area) as isize;
            let to = &mut x[c * padded.size() * CHAINS_PER_UNIT..];
            padded.fill_wide(patches.plane, CHAINS_PER_UNIT, to, |at, count, to| {
                let at = (from + at) as isize;
                transpose_block(isa, patches.data, at, step, count, some, to, CHAINS_PER_UNIT);
            });
        }
    }
}
