//! Fourier transforms: whole rows in cache, the same arithmetic as composed of maps and products.
//!
//! A row is read into planes of real and imaginary parts, transformed there, and written once.

mod kernels;
mod plan;
mod tables;

use crate::CpuDevice;
use crate::reduce::float::each_float;
use crate::runtime::output::parallel_fill::fill_pieces;
use crate::runtime::scratch::scratch;
use crate::view::{View, misuse_error};
use elinvar_core::{HostData, Result};
use elinvar_ops::backend::FourierKind;
use elinvar_simd::vector::{dispatch_vectors, lanes};
use kernels::job::{Job, Source};
use kernels::lines::{Memory, plane, sizes};
use kernels::rows::RowsKernel;
use plan::{MIN_PIECE, NS_PER_LEVEL};
use tables::Planned;

/// See [`Fused::Fourier`](elinvar_ops::backend::Fused).
pub(crate) fn fourier(
    d: &CpuDevice,
    kind: FourierKind,
    n: usize,
    scale: f64,
    x: &View<'_>,
) -> Result<HostData> {
    each_float!("a Fourier transform", x.dtype, C => transform::<C>(d, kind, n, scale, x))
}

fn transform<T: Planned>(
    d: &CpuDevice,
    kind: FourierKind,
    n: usize,
    scale: f64,
    x: &View<'_>,
) -> Result<HostData> {
    let all = T::slice(x.buffer).ok_or_else(|| misuse_error("a Fourier transform", x.dtype))?;
    let [before, after] = [x.shape()[0], x.shape()[1]];
    let (outer, row, element, part) = match *x.layout.strides() {
        [outer, row, element] => (outer, row, element, 0),
        [outer, row, element, part] => (outer, row, element, part),
        _ => unreachable!("the op passes rows of numbers or pairs"),
    };
    let (inner, strides) = if after == 1 {
        (usize::MAX, [0, outer, element, part])
    } else if before == 1 || outer == row * after as isize {
        (usize::MAX, [0, row, element, part])
    } else {
        (after, [outer, row, element, part])
    };
    let is_halved = !matches!(kind, FourierKind::Complex(_)) && n.is_multiple_of(2);
    let plan = T::transform(if is_halved { n / 2 } else { n });
    let half = is_halved.then(|| T::half(n, kind == FourierKind::InverseReal));
    let scale = if is_halved && kind == FourierKind::Real { scale * 0.5 } else { scale };
    let (lanes, rows) = (lanes::<T>(d.isa()), before * after);
    let job = Job {
        isa: d.isa(),
        kind,
        n,
        scale: (scale != 1.0).then(|| T::from_f64(scale)),
        source: Source { x: all, offset: x.layout.offset(), inner, strides },
        transform: &plan,
        half: half.as_deref(),
        cut: plan::cut(&plan.levels, lanes, rows),
    };
    let len = job.row_len();
    // Whole registers of lines, or lines that are read together.
    let unit = if job.is_abreast() { lanes } else { 1 };
    let sizes = sizes(plan.levels.n, job.cut, [lanes, unit]);
    let spare = if kind == FourierKind::InverseReal { 2 * plane(n / 2 + 1) } else { 0 };
    let piece = MIN_PIECE.div_ceil(len).next_multiple_of(unit) * len;
    let ns = NS_PER_LEVEL * plan.levels.n.ilog2().max(1) as f64 * plan.levels.n as f64 / plan.n as f64;
    let y = fill_pieces::<T>(d, rows * len, piece, ns, &|start, dst| {
        // In three buffers, so that long ones are kept for the next transform, too.
        scratch(sizes[0], |lines: &mut [T]| {
            scratch(sizes[1], |between: &mut [T]| {
                scratch(sizes[2] + sizes[3] + spare, |rest: &mut [T]| {
                    let (a, rest) = rest.split_at_mut(sizes[2]);
                    let (b, spare) = rest.split_at_mut(sizes[3]);
                    let memory = Memory { lines, between, lanes: [a, b] };
                    let first = start / len;
                    dispatch_vectors(d.isa(), RowsKernel { job: &job, first, memory, spare, dst });
                })
            })
        })
        .flatten()
        .flatten()
    })?;
    Ok(T::wrap(y))
}
