//! Reductions of a GPU: each has a plan, and the launches of its path.

use super::{GpuView, layouts, steps};
use crate::buffer::GpuBuffer;
use crate::device::GpuDevice;
use elinvar_core::explain::explain;
use elinvar_core::{DType, Result};
use elinvar_driver::Driver;
use elinvar_gpu_kernels::reduce::rowwise::CatalogueRows;
use elinvar_gpu_kernels::reduce::{arg_fold, fold, multi_block_rowwise, plan, scan};
use elinvar_ops::backend::{ArgFold, Fold, Scan};
use elinvar_ops::rows::RowObject;

/// How many rows there are, and elements of each.
fn sizes<D: Driver>(x: &GpuView<'_, D>, kept: usize) -> [usize; 2] {
    [&x.shape()[..kept], &x.shape()[kept..]].map(|axes| axes.iter().product())
}

pub(super) fn fold<D: Driver>(
    d: &GpuDevice<D>,
    f: Fold,
    x: GpuView<'_, D>,
    kept: usize,
    to: DType,
) -> Result<GpuBuffer<D>> {
    let (machine, [rows, n]) = (d.machine()?, sizes(&x, kept));
    let plan = plan::fold(rows, n, &machine);
    explain(|| format!("fold {} from axis {kept} {} on {d}, {machine}: {plan}", x.shape(), x.dtype));
    let all = fold::steps(f, x.layout, x.dtype, kept, to, plan.path, machine.registers);
    let [y] = steps(d, &all, &[x])?;
    Ok(y)
}

pub(super) fn arg_fold<D: Driver>(
    d: &GpuDevice<D>,
    f: ArgFold,
    x: GpuView<'_, D>,
    kept: usize,
) -> Result<GpuBuffer<D>> {
    let (machine, [rows, n]) = (d.machine()?, sizes(&x, kept));
    let plan = plan::arg_fold(rows, n, &machine);
    explain(|| format!("arg_fold {} from axis {kept} {} on {d}, {machine}: {plan}", x.shape(), x.dtype));
    let [y] = steps(d, &arg_fold::arg_fold(f, x.layout, x.dtype, kept, plan.path), &[x])?;
    Ok(y.within(Some([0, n as i64 - 1])))
}

pub(super) fn scan<D: Driver>(
    d: &GpuDevice<D>,
    f: Scan,
    x: GpuView<'_, D>,
    to: DType,
) -> Result<GpuBuffer<D>> {
    let (machine, [rows, n]) = (d.machine()?, sizes(&x, x.shape().rank().saturating_sub(1)));
    let plan = plan::scan(rows, n, &machine);
    explain(|| format!("scan {} {} on {d}, {machine}: {plan}", x.shape(), x.dtype));
    let [y] = steps(d, &scan::steps(f, x.layout, x.dtype, to, plan.path), &[x])?;
    Ok(y)
}

pub(super) fn rows<D: Driver>(
    d: &GpuDevice<D>,
    f: &dyn RowObject,
    x: &[GpuView<'_, D>],
    kept: usize,
    dtype: DType,
) -> Result<GpuBuffer<D>> {
    let (machine, [count, n]) = (d.machine()?, sizes(&x[0], kept));
    let plan = plan::rowwise(count, n, &machine);
    explain(|| format!("{} {} from axis {kept} {dtype} on {d}, {machine}: {plan}", f.name(), x[0].shape()));
    let f = CatalogueRows(f.boxed());
    let all = multi_block_rowwise::steps(&f, dtype, &layouts(x), kept, plan.path, machine.registers);
    let [y] = steps(d, &all, x)?;
    Ok(y)
}
