//! The GPU backend: one for all drivers.
//!
//! [`Gpu<D>`](Gpu) knows tensors' memory, which kernel does a kind of work, and nothing of the device behind the driver `D`.
//!
//! * `device.rs`: a device, opened once; its compiled kernels, by their keys.
//! * `allocator.rs`: memory, counted, limited, and kept for the next tensor.
//! * `buffer.rs`: what a tensor holds: memory, or what it will be computed from. `fusion.rs`: maps in a row are one kernel.
//! * `tune`: how products are cut into pieces, found out by trying.
//! * `capture.rs`: work that is done again without the program that asked for it.
//! * `update.rs`: optimiser steps, all parameters in few launches.
//! * `cublaslt.rs`: products by the library of the device's vendor, where that is allowed and faster.
//! * `backend.rs`: each kind of work, as launches of the library's kernels.
//!
//! Work is given to the device's queue, and nobody waits for it but who reads numbers: downloads, counts of elements, and
//! indices of which it is not known that they are in range ([`buffer`](GpuBuffer) keeps what is known of them).
//!
//! What depends on the driver, and not on a formula, is `#[inline(never)]` where it is large: then it is compiled once, in the crate that
//! names the drivers, and not a second time in the program that multiplies with them.

#![forbid(unsafe_code)]

mod allocator;
mod backend;
mod buffer;
mod capture;
mod cublaslt;
mod device;
mod fusion;
mod gemm_fast;
mod probe_f64_mma;
mod range;
mod strategy;
mod tune;
mod update;

pub use buffer::GpuBuffer;
pub use capture::Graph;
pub use device::GpuDevice;

use elinvar_driver::Driver;
use std::fmt;
use std::marker::PhantomData;

/// The backend of a driver's devices.
pub struct Gpu<D>(PhantomData<fn() -> D>);

/// The backend of NVIDIA's devices.
pub type Cuda = Gpu<elinvar_driver::Cuda>;
/// The backend of Vulkan's devices.
pub type Vulkan = Gpu<elinvar_driver::Vulkan>;

impl<D> Clone for Gpu<D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<D> Copy for Gpu<D> {}
impl<D> Default for Gpu<D> {
    fn default() -> Self {
        Gpu(PhantomData)
    }
}
impl<D: Driver> fmt::Debug for Gpu<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gpu({})", D::NAME)
    }
}
