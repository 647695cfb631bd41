//! Inverses of triangular matrices: those of a batch, or some of them, on a thread each.

use super::kernels::triangular::{Inverse, Inverses};
use super::plan::{INVERSION_NS, PIECE_ELEMENTS};
use crate::CpuDevice;
use crate::layout::contiguous::ContiguousView;
use crate::reduce::float::{Float, each_float};
use crate::runtime::memory::filled;
use crate::runtime::parallel::try_for_each_piece;
use crate::runtime::scratch::scratch;
use crate::view::View;
use elinvar_core::{HostData, Result};
use elinvar_simd::vector::dispatch_vectors;

/// See [`Fused::TriangularInverse`](elinvar_ops::backend::Fused).
pub(crate) fn triangular_inverse(d: &CpuDevice, x: &View<'_>, unit: bool) -> Result<HostData> {
    each_float!("triangular_inverse", x.dtype, C => inverses::<C>(d, x, unit))
}

fn inverses<C: Float>(d: &CpuDevice, x: &View<'_>, unit: bool) -> Result<HostData> {
    let &[b, n, _] = x.shape().dims() else { unreachable!("matrices") };
    let x = ContiguousView::new(d, x)?;
    let x = x.elements::<C>("triangular_inverse")?;
    let mut y = filled(b * n * n, C::POSITIVE_ZERO)?;
    let piece = n * n * (PIECE_ELEMENTS / (n * n).max(1)).max(1);
    try_for_each_piece(d, &mut y, piece, INVERSION_NS, &|start, y| {
        scratch::<C, _>(Inverse::<C>::elements(), |memory| {
            let (work, x) = (Inverse::new(memory), &x[start..][..y.len()]);
            dispatch_vectors(d.isa(), Inverses { work, x, y, n, unit });
        })
    })?;
    Ok(C::wrap(y))
}
