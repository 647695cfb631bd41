//! Memory of the CPU backend: uploads, copies, casts, limits.

use super::{BackendView, for_reference, into_buffer};
use crate::elementwise::cast;
use crate::layout::{concat, copy};
use crate::lazy::buffer::CpuBuffer;
use crate::runtime::{memory, memory_limit};
use crate::view::{View, host_view, reference_view};
use crate::{Cpu, CpuDevice, gemm};
use elinvar_core::{DType, HostData, Layout, MemoryStats, Result, Scalar, Shape};
use elinvar_ops::backend::Memory;
use elinvar_ops::casting::Casting;
use elinvar_reference::{Reference, ReferenceDevice};

impl Memory for Cpu {
    type Device = CpuDevice;
    type Buffer = CpuBuffer;
    const NAME: &'static str = "cpu";
    fn upload(_: &CpuDevice, data: HostData) -> Result<CpuBuffer> {
        memory::adopt(data).map(CpuBuffer::new)
    }
    fn download(d: &CpuDevice, x: BackendView<'_>) -> Result<HostData> {
        if !d.isa().has_kernels() {
            return Reference::copy(&ReferenceDevice, for_reference(&x)?);
        }
        copy::to_contiguous(d, &host_view(&x)?)
    }
    fn receive(_: &CpuDevice, _: &CpuDevice, _: BackendView<'_>) -> Result<Option<CpuBuffer>> {
        // All of its devices are the host.
        Ok(None)
    }
    fn finish(_: &CpuDevice, buffer: &CpuBuffer) -> Result<()> {
        buffer.data().map(drop)
    }
    fn synchronize(_: &CpuDevice) -> Result<()> {
        Reference::synchronize(&ReferenceDevice)
    }
    fn memory_stats(_: &CpuDevice) -> Result<MemoryStats> {
        Ok(memory::stats())
    }
    fn set_memory_limit(_: &CpuDevice, limit: Option<u64>) -> Result<()> {
        memory_limit::set(limit);
        Ok(())
    }
    fn release_memory(_: &CpuDevice) -> Result<()> {
        memory::release();
        Ok(())
    }
    fn prepack(d: &CpuDevice, w: BackendView<'_>) -> Result<bool> {
        w.buffer.prepack(d, gemm::MatrixPlace::of(w.layout))
    }
    fn fill(d: &CpuDevice, value: Scalar, dtype: DType, len: usize) -> Result<CpuBuffer> {
        into_buffer(copy::fill(d, value, dtype, len))
    }
    fn copy(d: &CpuDevice, x: BackendView<'_>) -> Result<CpuBuffer> {
        if !d.isa().has_kernels() {
            return into_buffer(Reference::copy(&ReferenceDevice, for_reference(&x)?));
        }
        into_buffer(copy::to_contiguous(d, &host_view(&x)?))
    }
    fn cast<C: Casting>(d: &CpuDevice, x: BackendView<'_>, dtype: DType) -> Result<CpuBuffer> {
        if !d.isa().has_kernels() {
            return into_buffer(Reference::cast::<C>(&ReferenceDevice, for_reference(&x)?, dtype));
        }
        let x = host_view(&x)?;
        into_buffer(if const { C::ALL } { cast::cast(d, &x, dtype) } else { cast::cast_halves(d, &x, dtype) })
    }
    fn assemble(
        d: &CpuDevice,
        fill: Scalar,
        dtype: DType,
        shape: &Shape,
        parts: &[(BackendView<'_>, Layout)],
    ) -> Result<CpuBuffer> {
        if !d.isa().has_kernels() {
            let parts: Vec<_> =
                parts.iter().map(|(v, l)| Ok((for_reference(v)?, l.clone()))).collect::<Result<_>>()?;
            return into_buffer(Reference::assemble(&ReferenceDevice, fill, dtype, shape, &parts));
        }
        let parts: Vec<(View<'_>, Layout)> =
            parts.iter().map(|(v, l)| Ok((host_view(v)?, l.clone()))).collect::<Result<_>>()?;
        into_buffer(concat::assemble(d, fill, dtype, shape, &parts))
    }
    fn write(d: &CpuDevice, to: &mut CpuBuffer, at: &Layout, x: BackendView<'_>) -> Result<()> {
        // First the elements: while they are put off, what they are computed from may be `to`,
        // which would then be copied.
        let x = host_view(&x)?;
        if !d.isa().has_kernels() {
            return Reference::write(&ReferenceDevice, to.data_mut()?, at, reference_view(x));
        }
        concat::write_into(d, to.data_mut()?, at, &x)
    }
}
