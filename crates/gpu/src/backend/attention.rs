//! Attention of a GPU and its gradient: each has a plan, and the launches of its path.

use super::{GpuView, parts, steps};
use crate::Gpu;
use crate::buffer::GpuBuffer;
use crate::device::GpuDevice;
use elinvar_core::explain::explain;
use elinvar_core::{Layout, Result};
use elinvar_driver::Driver;
use elinvar_gpu_kernels::attention::plan::{self, BackwardPath, ForwardPath};
use elinvar_gpu_kernels::attention::{
    self, AttentionPath, BackwardInputs, mma_backward, mma_forward, split_kv, wgmma_backward, wgmma_forward,
};
use elinvar_ops::backend::{Attention, Memory};

/// The result, and the statistics of its rows.
pub(super) fn forward<D: Driver>(
    d: &GpuDevice<D>,
    a: &Attention,
    [q, k, v]: [GpuView<'_, D>; 3],
    mask: Option<GpuView<'_, D>>,
) -> Result<(GpuBuffer<D>, GpuBuffer<D>)> {
    let (machine, dtype, layouts) = (d.machine()?, q.dtype, [q.layout, k.layout, v.layout]);
    let plan = plan::forward(a, dtype, layouts, mask.is_some(), &machine);
    explain(|| format!("attention {} by {} {dtype} on {d}, {machine}: {plan}", q.shape(), k.shape()));
    let all = match plan.path {
        ForwardPath::Wgmma => wgmma_forward::steps(a, dtype, layouts),
        ForwardPath::Mma => mma_forward::steps(a, dtype, layouts),
        ForwardPath::SplitKv => split_kv::steps(a, dtype, layouts),
        ForwardPath::Exact(path) => return exact(d, a, [q, k, v], mask, path),
    };
    let [y, lse] = steps(d, &all, &[q, k, v])?;
    Ok((y, lse))
}

fn exact<D: Driver>(
    d: &GpuDevice<D>,
    a: &Attention,
    [q, k, v]: [GpuView<'_, D>; 3],
    mask: Option<GpuView<'_, D>>,
    path: AttentionPath,
) -> Result<(GpuBuffer<D>, GpuBuffer<D>)> {
    let rows: usize = q.shape()[..3].iter().product();
    let y = GpuBuffer::uninit(d, q.dtype, rows * v.shape()[3])?;
    let lse = GpuBuffer::uninit(d, q.dtype.compute(), rows)?;
    let of_mask = mask.map(|m| (m.layout, m.dtype));
    let work = attention::attention(a, q.dtype, [q.layout, k.layout, v.layout], of_mask, path);
    if let Some(work) = work {
        let operands: Vec<GpuView<'_, D>> = [q, k, v].into_iter().chain(mask).collect();
        let mut buffers = parts(&operands)?;
        buffers.extend([y.part()?, lse.part()?]);
        d.run(&work, &buffers)?;
    }
    Ok((y, lse))
}

/// The gradients by q, k and v. Operands: q, k, v, the result, its statistics, its gradient.
pub(super) fn backward<D: Driver>(
    d: &GpuDevice<D>,
    a: &Attention,
    [q, k, v, o, lse, g]: [GpuView<'_, D>; 6],
    mask: Option<GpuView<'_, D>>,
) -> Result<[GpuBuffer<D>; 3]> {
    let given = BackwardInputs {
        q: q.layout,
        k: k.layout,
        v: v.layout,
        o: o.layout,
        lse: lse.layout,
        g: g.layout,
        mask: mask.map(|m| (m.layout, m.dtype)),
    };
    let (machine, dtype) = (d.machine()?, q.dtype);
    let plan = plan::backward(a, dtype, &given, &machine);
    explain(|| format!("attention_grad {} by {} {dtype} on {d}, {machine}: {plan}", q.shape(), k.shape()));
    let copied;
    let whole = Layout::contiguous(g.shape().clone());
    let (g, given) = match plan.path {
        BackwardPath::Wgmma { copies_g: true } | BackwardPath::Mma { copies_g: true } => {
            copied = Gpu::<D>::copy(d, g)?;
            (GpuView { buffer: &copied, layout: &whole, ..g }, BackwardInputs { g: &whole, ..given })
        }
        BackwardPath::Wgmma { copies_g: false }
        | BackwardPath::Mma { copies_g: false }
        | BackwardPath::Exact(_) => (g, given),
    };
    let all = match plan.path {
        BackwardPath::Wgmma { .. } => wgmma_backward::attention_grad(a, dtype, &given),
        BackwardPath::Mma { .. } => mma_backward::attention_grad(a, dtype, &given),
        BackwardPath::Exact(path) => attention::attention_grad(a, dtype, given, path),
    };
    let operands: Vec<GpuView<'_, D>> = [q, k, v, o, lse, g].into_iter().chain(mask).collect();
    steps(d, &all, &operands)
}
