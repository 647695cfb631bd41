//! Gradients of convolutions by numbers most of which are zero, as what a max pool gives back is:
//! for each window one number, and three or more zeros. A product with a zero is a zero, and adding
//! it changes a sum no more than padding does (see [`super::border`]): so the others alone are
//! multiplied, if a sample says that there are few, what they are multiplied with is finite, and no
//! sum comes out as -0.
//!
//! A product with zero is zero, and adding it changes a sum no more than padding does (see
//! [`super::border`]). So zeros are skipped if the other factor is finite and no sum comes out as
//! -0. The path is chosen by a sample of the data; the bits are the same either way.
//!
//! Channels are the lanes of a register. For the gradient by weight, an element's products go to
//! accumulators of nine taps in registers; for the gradient by input, to nine pixels in memory.

use super::im2col::Im2col;
use super::pad::PaddedPlanes;
use super::problem::PatchGeometry;
use crate::CpuDevice;
use crate::conv::kernels::grad_sparse::{NonzeroLists, PixelLine, TAPS_PER_ROW, gather, scatter};
use crate::elementwise::real::Real;
use crate::gemm::{are_finite, has_negative_zero, transpose_block};
use crate::runtime::output::parallel_fill::fill_pieces;
use crate::runtime::scratch::scratch;
use elinvar_core::explain::explain;
use elinvar_core::order::CHUNK;
use elinvar_core::{HostVec, Result};
use elinvar_simd::isa::{Isa, Kernel, dispatch};
use elinvar_simd::vector::lanes;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Windows whose taps are threes of neighbours, one step apart over planes of two axes.
pub(super) struct SparseGrad {
    padded: PaddedPlanes,
    plane: [usize; 3],
    /// Rows of positions, and positions of a row.
    rows: usize,
    row: usize,
    taps: usize,
    /// Where the first of each three taps is.
    threes: Vec<usize>,
}

impl SparseGrad {
    /// If windows are such.
    pub(super) fn of(p: &PatchGeometry) -> Option<SparseGrad> {
        if !p.has_taps_in_rows_of::<TAPS_PER_ROW>() || p.taps.is_empty() || p.positions() == 0 {
            return None;
        }
        let padded = PaddedPlanes::new(p, 0..p.positions());
        let firsts = padded.places.iter().copied().step_by(TAPS_PER_ROW).collect();
        let (rows, row) = (p.grid[1], p.grid[2]);
        Some(SparseGrad { padded, plane: p.plane, rows, row, taps: p.taps.len(), threes: firsts })
    }
    /// Elements of a padded plane.
    pub(super) fn padded_size(&self) -> usize {
        self.padded.size()
    }
    /// Some positions, as lines of their pixels.
    fn lines(&self, positions: Range<usize>) -> Vec<PixelLine> {
        let mut lines = Vec::new();
        self.padded.runs(positions, |at, pixel, count| lines.push(PixelLine { at, pixel, count }));
        lines
    }
    fn positions(&self) -> usize {
        self.rows * self.row
    }
    /// Writes the planes of an image to padded ones, of a register's channels each, side by side.
    /// What surrounds them is not written.
    fn turn<T: Real>(&self, p: &Im2col<'_, T>, image: usize, to: &mut [T]) {
        let (n, area) = (lanes::<T>(p.isa), self.plane.iter().product::<usize>());
        for (block, to) in to.chunks_exact_mut(self.padded.size() * n).enumerate() {
            let (channel, count) = (block * n, n.min(p.channels - block * n));
            let from = (image * p.channels + channel) * area;
            for (at, len, pixel) in self.padded.lines(self.plane) {
                let to = &mut to[pixel * n..(pixel + len) * n];
                transpose_block(p.isa, p.data, (from + at) as isize, area as isize, len, count, to, n);
            }
        }
    }
}

/// The plan of a sparse gradient by x.
pub(super) struct SparseInputGrad {
    pub(super) grad: SparseGrad,
    pub(super) channels_per_task: usize,
    /// Nonzero elements of a hundred of the gradient, at most.
    pub(super) max_nonzero_percent: usize,
}

/// The plan of a sparse gradient by w.
pub(super) struct SparseWeightGrad {
    pub(super) grad: SparseGrad,
    pub(super) outputs_per_task: usize,
    /// Nonzero elements of a hundred of the gradient, at most.
    pub(super) max_nonzero_percent: usize,
}

/// Are there so few numbers that are not zero? A sixteenth of them is looked at, and of many
/// numbers fewer.
pub(super) fn is_sparse<T: Real>(numbers: &[T], percent: usize) -> bool {
    /// Numbers of a cache line, which take no longer than one.
    const SAMPLE_LINE_ELEMENTS: usize = 16;
    /// Lines from all over: by chance it comes out otherwise only where it hardly matters.
    const SAMPLE_LINES: usize = 256;
    let step = numbers.len()
        / (numbers.len() / (SAMPLE_LINE_ELEMENTS * SAMPLE_LINE_ELEMENTS)).clamp(1, SAMPLE_LINES);
    let (mut count, mut others) = (0, 0);
    for (i, some) in numbers.chunks(step).enumerate() {
        // Anywhere in its part: parts may begin where planes do.
        let at = i * 7919 % (some.len().saturating_sub(SAMPLE_LINE_ELEMENTS) + 1);
        let line = &some[at..some.len().min(at + SAMPLE_LINE_ELEMENTS)];
        count += line.len();
        others += line.iter().filter(|x| **x != T::lit(0.0)).count();
    }
    others * 100 <= count * percent
}

/// total = chain of the first chunk, or total + chain; and chain = 0.
struct AddChunk<'a, T> {
    total: &'a mut [T],
    chain: &'a mut [T],
    first: bool,
}

impl<T: Real> Kernel for AddChunk<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for (total, chain) in self.total.iter_mut().zip(self.chain) {
            *total = if self.first { *chain } else { *total + *chain };
            *chain = T::lit(0.0);
        }
    }
}

/// dw[o, channel, tap] of patches of all images, and g[image, o, position]; nothing if that is no
/// gain, or is not certain to have the right bits.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn weight_grad<T: Real>(
    d: &CpuDevice,
    plan: &SparseWeightGrad,
    p: &Im2col<'_, T>,
    g: &[T],
    images: usize,
    o: usize,
) -> Result<Option<HostVec<T>>> {
    if !is_sparse(g, plan.max_nonzero_percent) {
        return Ok(None);
    }
    explain(|| String::from("  the sample of g is sparse: its zeros are skipped"));
    let (isa, channels, n) = (d.isa(), p.channels, lanes::<T>(d.isa()));
    let (s, some) = (&plan.grad, plan.outputs_per_task);
    let (each, blocks) = (channels * s.taps, channels.div_ceil(n));
    // Padded planes of all channels.
    let x_len = blocks * s.padded.size() * n;
    let spoilt = AtomicBool::new(false);
    let ns = (images * s.positions()) as f64 * 0.03;
    let dw = fill_pieces(d, o * each, some * each, ns, &|start, dst| {
        let outs = start / each..(start + dst.remaining()) / each;
        let wide = s.taps * n;
        let sums = outs.len() * blocks * wide;
        scratch(x_len + 2 * sums, |all| {
            all.fill(T::lit(0.0));
            let (x, rest) = all.split_at_mut(x_len);
            let (chain, total) = rest.split_at_mut(sums);
            let mut found = NonzeroLists::new();
            let (mut terms, mut first) = (0, true);
            for image in 0..images {
                if spoilt.load(Relaxed) {
                    break;
                }
                s.turn(p, image, x);
                if !are_finite(isa, x) {
                    spoilt.store(true, Relaxed);
                }
                let mut at = 0;
                while at < s.positions() {
                    let end = s.positions().min(at + CHUNK - terms);
                    let lines = s.lines(at..end);
                    found.clear();
                    for out in outs.clone() {
                        let plane = &g[(image * o + out) * s.positions()..][..s.positions()];
                        found.find(isa, plane, &lines)?;
                    }
                    for (block, x) in x.chunks_exact(x_len / blocks).enumerate() {
                        for out in 0..outs.len() {
                            let sums = &mut chain[(out * blocks + block) * wide..][..wide];
                            gather(isa, (&found, out), x, &s.threes, sums);
                        }
                    }
                    terms += end - at;
                    at = end;
                    if terms == CHUNK || image + 1 == images && at == s.positions() {
                        dispatch(isa, AddChunk { total, chain, first });
                        (terms, first) = (0, false);
                    }
                }
            }
            if has_negative_zero(isa, total) {
                spoilt.store(true, Relaxed);
            }
            let dw = dst.zeroed(outs.len() * each, T::lit(0.0));
            for (i, dw) in dw.iter_mut().enumerate() {
                let (out, channel, tap) = (i / each, i % each / s.taps, i % s.taps);
                *dw = total[((out * blocks + channel / n) * s.taps + tap) * n + channel % n];
            }
            Ok(())
        })?
    })?;
    Ok((!spoilt.into_inner()).then_some(dw))
}

/// dx[image, channel, pixel] of g[image, o, position] and w[o, channel, tap]; nothing if that is no
/// gain, or is not certain to have the right bits.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn input_grad<T: Real>(
    d: &CpuDevice,
    plan: &SparseInputGrad,
    g: &[T],
    w: &[T],
    [images, o, channels]: [usize; 3],
) -> Result<Option<HostVec<T>>> {
    let (isa, n, s) = (d.isa(), lanes::<T>(d.isa()), &plan.grad);
    if !is_sparse(g, plan.max_nonzero_percent) || !are_finite(isa, w) {
        return Ok(None);
    }
    explain(|| String::from("  the sample of g is sparse: its zeros are skipped"));
    let (size, area) = (s.padded.size(), s.plane.iter().product::<usize>());
    let (blocks, wide) = (channels.div_ceil(n), s.taps * n);
    let spoilt = AtomicBool::new(false);
    let lines = s.lines(0..s.positions());
    let dx = scratch(o * blocks * wide, |transposed| {
        transposed.fill(T::lit(0.0));
        for (out, transposed) in transposed.chunks_exact_mut(blocks * wide).enumerate() {
            for (channel, w) in w[out * channels * s.taps..].chunks_exact(s.taps).take(channels).enumerate() {
                for (tap, w) in w.iter().enumerate() {
                    transposed[(channel / n * s.taps + tap) * n + channel % n] = *w;
                }
            }
        }
        let transposed = &*transposed;
        let ns = (o * s.taps) as f64 * 0.015;
        fill_pieces(d, images * channels * area, plan.channels_per_task * area, ns, &|start, dst| {
            scratch(2 * size * n, |all| {
                let (chain, total) = all.split_at_mut(size * n);
                let mut found = NonzeroLists::new();
                let mut piece = start / area;
                while dst.remaining() > 0 {
                    let (image, channel) = (piece / channels, piece % channels);
                    found.clear();
                    for out in 0..o {
                        let plane = &g[(image * o + out) * s.positions()..][..s.positions()];
                        found.find(isa, plane, &lines)?;
                    }
                    let end = channels.min(channel + dst.remaining() / area);
                    for from in (channel..end).step_by(n) {
                        let weights = |out: usize| &transposed[(out * blocks + from / n) * wide..][..wide];
                        sums(isa, s, (&found, o), &weights, chain, total);
                        if has_negative_zero(isa, total) {
                            spoilt.store(true, Relaxed);
                        }
                        let count = n.min(end - from);
                        let dx = dst.zeroed(count * area, T::lit(0.0));
                        for (at, len, pixel) in s.padded.lines(s.plane) {
                            let to = &mut dx[at..];
                            transpose_block(
                                isa,
                                total,
                                (pixel * n) as isize,
                                n as isize,
                                count,
                                len,
                                to,
                                area,
                            );
                        }
                    }
                    piece += end - channel;
                }
                Ok(())
            })?
        })
    })??;
    Ok((!spoilt.into_inner()).then_some(dx))
}

/// The sums of all terms of a register's channels, in padded planes: `weights` gives those of an
/// output channel.
fn sums<'w, T: Real + 'w>(
    isa: Isa,
    s: &SparseGrad,
    (found, o): (&NonzeroLists<T>, usize),
    weights: &dyn Fn(usize) -> &'w [T],
    chain: &mut [T],
    total: &mut [T],
) {
    chain.fill(T::lit(0.0));
    let terms = o * s.taps;
    for chunk in (0..terms).step_by(CHUNK) {
        // A chunk may end within the taps of an output channel.
        let end = terms.min(chunk + CHUNK);
        for out in chunk / s.taps..end.div_ceil(s.taps) {
            let before = out * s.taps;
            let taps = chunk.saturating_sub(before)..s.taps.min(end - before);
            scatter(isa, (found, out), weights(out), &s.threes, taps, chain);
        }
        dispatch(isa, AddChunk { total, chain, first: chunk == 0 });
    }
}
