//! Pooling over the last one to three axes: plane by plane, with windows clipped to the plane
//! beforehand.

mod average;
mod average_grad;
mod kernels;
mod max;
mod plan;
mod windows;

pub(crate) use average_grad::avg_pool_grad;

use crate::lazy::buffer::CpuBuffer;
use crate::reduce::float::{Float, each_float};
use crate::reduce::source::StagedView;
use crate::view::View;
use crate::view::host_view;
use crate::{Cpu, CpuDevice};
use elinvar_core::Result;
use elinvar_ops::backend::{self, Pool, PoolKind};
use windows::PoolPlane;

/// y[.., s'] from x[.., s], and for a maximum the winner's row-major index in its plane, which is
/// computed when it is read: a gradient does, and hardly anything else.
pub(crate) fn pool(
    d: &CpuDevice,
    p: &Pool,
    x: &backend::View<'_, Cpu>,
) -> Result<(CpuBuffer, Option<CpuBuffer>)> {
    let look = host_view(x)?;
    let dims = look.shape().dims();
    let (lead, spatial) = dims.split_at(dims.len() - p.axes.len());
    let (planes, plane) = (lead.iter().product(), PoolPlane::new(p, spatial)?);
    let dtype = look.buffer.dtype();
    if p.kind == PoolKind::Avg {
        return each_float!("an average pool", dtype, C => {
            let y = average::average::<C>(d, &StagedView::new("an average pool", &look)?, planes, &plane)?;
            Ok((CpuBuffer::new(C::stored(d, y, dtype)?), None))
        });
    }
    let y = max::of_dtype(d, &look, planes, &plane, false)?;
    let places = match x.buffer.node() {
        Err(_) => CpuBuffer::new(max::of_dtype(d, &look, planes, &plane, true)?),
        Ok(node) => {
            let (d, node, layout) = (d.clone(), node.clone(), x.layout.clone());
            let later = move || {
                let x = View { buffer: node.data()?, layout: &layout, dtype };
                max::of_dtype(&d, &x, planes, &plane, true)
            };
            CpuBuffer::deferred(y.len(), later)
        }
    };
    Ok((CpuBuffer::new(y), Some(places)))
}
