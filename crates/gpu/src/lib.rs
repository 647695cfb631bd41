//! The GPU backend: one for all drivers.
//!
//! [`Gpu<D>`](Gpu) knows tensors' memory and which kernel does a kind of work, and nothing of the
//! device behind the driver `D`.
//!
//! * `backend`: each kind of work, as launches of the library's kernels. `machine`: a device as
//!   plans see it (`elinvar_gpu_kernels::*::plan`), which say which kernel is taken.
//! * `device`: an opened device and its compiled kernels, by key. `buffer`: what a tensor holds:
//!   memory, or a deferred map.
//! * `allocator`: the caching allocator. `fusion`: elementwise fusion of deferred maps. `capture`:
//!   recorded work, as CUDA graphs. `submit`: work for a queue. `queues`: streams, and what orders
//!   them. `uses`: what memory was used for.
//! * `gemm_fast`: GEMM on tensor cores. `vendor_gemm`: GEMM by the vendor's library.
//!   `probe_f64_mma`: is DMMA exact here?
//! * `tune`: autotuning of GEMM and convolution. `update`: optimiser steps, all parameters in few
//!   launches. `range`: ranges of indices. `timeline`: the device's part in a profile.
//!
//! Work is given to a queue of the device; only reads synchronise with the device: downloads,
//! counts of elements, and checks of indices whose range is not known ([`buffer`](GpuBuffer) keeps
//! what is known of them).
//!
//! What depends on the driver, and not on a formula, is `#[inline(never)]` where it is large: then
//! it is compiled once, in the crate that names the drivers, and not again in each program that
//! uses it.

#![forbid(unsafe_code)]

mod allocator;
mod backend;
mod buffer;
mod capture;
mod device;
mod fusion;
mod gemm_fast;
mod machine;
mod probe_f64_mma;
mod queues;
mod range;
mod submit;
mod timeline;
mod tune;
mod update;
mod uses;
mod vendor_gemm;

pub use buffer::GpuBuffer;
pub use capture::Graph;
pub use device::GpuDevice;

use elinvar_driver::Driver;
use std::fmt;
use std::marker::PhantomData;

/// The backend of a driver's devices.
pub struct Gpu<D>(PhantomData<fn() -> D>);

/// The backend of NVIDIA's devices.
#[cfg(not(target_arch = "wasm32"))]
pub type Cuda = Gpu<elinvar_driver::Cuda>;
/// The backend of AMD's devices, by HIP.
#[cfg(not(target_arch = "wasm32"))]
pub type Rocm = Gpu<elinvar_driver::Hip>;
/// The backend of Vulkan's devices.
#[cfg(not(target_arch = "wasm32"))]
pub type Vulkan = Gpu<elinvar_driver::Vulkan>;
/// The backend of WebGPU's devices.
#[cfg(feature = "webgpu")]
pub type WebGpu = Gpu<elinvar_driver::WebGpu>;
/// The backend of Metal's devices.
#[cfg(all(feature = "metal", target_vendor = "apple"))]
pub type Metal = Gpu<elinvar_driver::Metal>;

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
