//! A flag in device memory that kernels raise for an index out of range.

use super::GpuView;
use crate::Gpu;
use crate::buffer::GpuBuffer;
use crate::device::GpuDevice;
use elinvar_core::{HostData, Result};
use elinvar_driver::Driver;
use elinvar_ops::backend::*;

/// Where a kernel says that an index was out of range.
pub(super) struct OutOfRangeFlag<D: Driver> {
    pub(super) buffer: GpuBuffer<D>,
    /// No check is needed: the indices are known to be in range.
    pub(super) known: bool,
}

impl<D: Driver> OutOfRangeFlag<D> {
    pub(super) fn new(d: &GpuDevice<D>, index: &GpuView<'_, D>, size: usize) -> Result<Self> {
        Ok(OutOfRangeFlag::seen(GpuBuffer::upload(d, &HostData::I32([0].into()))?, index, size))
    }
    pub(super) fn seen(buffer: GpuBuffer<D>, index: &GpuView<'_, D>, size: usize) -> Self {
        let known = index.buffer.node.range.is_some_and(|[low, high]| low >= 0 && high < size as i64);
        OutOfRangeFlag { buffer, known }
    }
    /// # Errors
    /// `InvalidArgument` if an index was out of range.
    pub(super) fn check(
        self,
        d: &GpuDevice<D>,
        op: &str,
        index: &GpuView<'_, D>,
        axis: usize,
        size: usize,
    ) -> Result<()> {
        if self.known || self.buffer.download(d, 1)? == HostData::I32([0].into()) {
            return Ok(());
        }
        let HostData::I64(all) = Gpu::<D>::download(d, *index)? else { unreachable!("indices are i64") };
        let bad = all.iter().position(|&i| i < 0 || i >= size as i64).expect("the kernel has met one");
        let mut rest = bad;
        let mut position: Vec<usize> = Vec::new();
        for &n in index.shape().iter().rev() {
            position.insert(0, rest % n);
            rest /= n;
        }
        Err(out_of_range(op, all[bad], &position, axis, size))
    }
}
