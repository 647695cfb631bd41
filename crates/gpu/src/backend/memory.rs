//! Memory of a GPU as the backend knows it: allocation, copies, reads, limits.

use super::{GpuView, converted, filled};
use crate::Gpu;
use crate::buffer::GpuBuffer;
use crate::device::GpuDevice;
use crate::range::IntRange;
use elinvar_core::{DType, HostData, Layout, MemoryStats, Result, Scalar, Shape};
use elinvar_driver::Driver;
use elinvar_gpu_kernels::layout::copy;
use elinvar_ops::backend::*;
use elinvar_ops::casting::Casting;

impl<D: Driver> Memory for Gpu<D> {
    type Device = GpuDevice<D>;
    type Buffer = GpuBuffer<D>;
    const NAME: &'static str = D::NAME;
    fn upload(d: &Self::Device, data: HostData) -> Result<Self::Buffer> {
        GpuBuffer::upload(d, &data)
    }
    fn download(d: &Self::Device, x: GpuView<'_, D>) -> Result<HostData> {
        let len = x.shape().numel();
        if x.layout.offset() == 0 && x.layout.is_contiguous() {
            return x.buffer.download(d, len);
        }
        Self::copy(d, x)?.download(d, len)
    }
    fn receive(d: &Self::Device, from: &Self::Device, x: GpuView<'_, D>) -> Result<Option<Self::Buffer>> {
        if d == from {
            return Ok(None);
        }
        d.may_wait()?;
        let copied;
        let whole = if x.buffer.node.is_whole(x.layout) {
            x.buffer
        } else {
            copied = Self::copy(from, x)?;
            &copied
        };
        let y = GpuBuffer::uninit(d, x.dtype, x.shape().numel())?;
        let there = d.receive(from, whole.part()?, y.part()?)?;
        Ok(there.then(|| y.within(x.buffer.node.range)))
    }
    fn finish(d: &Self::Device, buffer: &Self::Buffer) -> Result<()> {
        d.wait_for(buffer.part()?)
    }
    fn synchronize(d: &Self::Device) -> Result<()> {
        d.opened()?.wait()
    }
    fn memory_stats(d: &Self::Device) -> Result<MemoryStats> {
        d.stats()
    }
    fn set_memory_limit(d: &Self::Device, limit: Option<u64>) -> Result<()> {
        d.set_limit(limit)
    }
    fn release_memory(d: &Self::Device) -> Result<()> {
        d.release()
    }
    fn prepack(_: &Self::Device, _: GpuView<'_, D>) -> Result<bool> {
        // Kernels read any strides at one speed, so there is nothing to gain from a copy.
        Ok(false)
    }
    fn fill(d: &Self::Device, value: Scalar, dtype: DType, len: usize) -> Result<Self::Buffer> {
        let make = || Ok(filled(d, value, dtype, len)?.within(IntRange::of_number(value).known(dtype)));
        if len == 1 { d.number(value, dtype, make) } else { make() }
    }
    fn copy(d: &Self::Device, x: GpuView<'_, D>) -> Result<Self::Buffer> {
        Ok(converted(d, x, x.dtype)?.within(x.buffer.node.range))
    }
    fn cast<C: Casting>(d: &Self::Device, x: GpuView<'_, D>, to: DType) -> Result<Self::Buffer> {
        // A kernel is built for the types at hand, whichever they are.
        if x.dtype == to { Self::copy(d, x) } else { converted(d, x, to) }
    }
    fn assemble(
        d: &Self::Device,
        fill: Scalar,
        dtype: DType,
        shape: &Shape,
        parts: &[(GpuView<'_, D>, Layout)],
    ) -> Result<Self::Buffer> {
        let len = shape.numel();
        // What is filled does not matter if the parts cover all of it.
        let covered: usize = parts.iter().map(|(v, _)| v.shape().numel()).sum();
        let y = match parts {
            [(_, to)] if covered == len && to.is_contiguous() => GpuBuffer::uninit(d, dtype, len)?,
            _ => filled(d, fill, dtype, len)?,
        };
        let gap = (covered < len).then(|| IntRange::of_number(fill));
        let parts_ranges = parts.iter().map(|(v, _)| IntRange::of(dtype, v.buffer.node.range));
        let range = parts_ranges.chain(gap).reduce(IntRange::or).and_then(|all| all.known(dtype));
        let y = y.within(range);
        for (part, to) in parts {
            if let Some(work) = copy::copy_into(part.layout, dtype, to) {
                d.run(&work, &[part.buffer.part()?, y.part()?])?;
            }
        }
        Ok(y)
    }
    fn write(d: &Self::Device, to: &mut Self::Buffer, at: &Layout, x: GpuView<'_, D>) -> Result<()> {
        let Some(work) = copy::copy_into(x.layout, x.dtype, at) else { return Ok(()) };
        // First the elements: while they are put off, what they are computed from may be `to`,
        // which would then be copied.
        let from = x.buffer.part()?;
        to.make_unique(d)?;
        to.forget_values();
        d.run(&work, &[from, to.part()?])
    }
}
