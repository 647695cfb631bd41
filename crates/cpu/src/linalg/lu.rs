//! LU factors of few columns: a matrix of a batch on a thread each.

use super::kernels::lu::{Factor, Work};
use super::plan::ELIMINATION_NS;
use crate::CpuDevice;
use crate::layout::contiguous::ContiguousView;
use crate::reduce::float::{Float, each_float};
use crate::runtime::memory::filled;
use crate::runtime::parallel::try_for_each_task;
use crate::runtime::scratch::scratch;
use crate::view::View;
use elinvar_core::{HostData, Result};
use elinvar_simd::vector::dispatch_vectors;

/// See [`Fused::LuFactor`](elinvar_ops::backend::Fused): the factors, the order of rows, the
/// exchanges.
pub(crate) fn lu_factor(d: &CpuDevice, x: &View<'_>) -> Result<[HostData; 3]> {
    each_float!("lu_factor", x.dtype, C => factors::<C>(d, x))
}

fn factors<C: Float>(d: &CpuDevice, x: &View<'_>) -> Result<[HostData; 3]> {
    let &[b, m, n] = x.shape().dims() else { unreachable!("matrices") };
    let k = m.min(n);
    let x = ContiguousView::new(d, x)?;
    let x = x.elements::<C>("lu_factor")?;
    let mut y = filled(b * m * n, C::POSITIVE_ZERO)?;
    let (mut order, mut pivots) = (filled(b * m, 0)?, filled(b * k, 0)?);
    if k > 0 {
        let results = y.chunks_mut(m * n).zip(order.chunks_mut(m)).zip(pivots.chunks_mut(k));
        let tasks: Vec<_> = x.chunks(m * n).zip(results).collect();
        let ns = (b * m * n * n) as f64 * ELIMINATION_NS;
        try_for_each_task(d, tasks, ns, &|(x, ((y, order), pivots))| {
            scratch::<C, _>(Work::<C>::elements(m, n), |memory| {
                let work = Work::new(memory, x, [m, n]);
                dispatch_vectors(d.isa(), Factor { work, y, order, pivots });
            })
        })?;
    }
    Ok([C::wrap(y), HostData::I64(order), HostData::I64(pivots)])
}
