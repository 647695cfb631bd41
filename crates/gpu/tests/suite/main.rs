//! The GPU backend: on the interpreter and on an emulated CUDA device, which find races and
//! accesses out of bounds, and on the first Vulkan device.

mod capture;
mod decoder;
mod equal;
mod fusion;
mod gemm_fast;
mod loader;
mod long_loops;
mod max_pool_backward;
mod memory;
mod out_of_memory;
mod out_of_range;
mod pool;
mod profile;
mod queue;
mod streams;
mod subnormals;
mod train_step;
mod zeros;

use elinvar_core::ErrorKind;
use elinvar_driver::{Cuda, Driver, Interp, Vulkan, cuda::use_library};
use elinvar_gpu::GpuDevice;

/// A device of its own, interpreted.
pub fn interp() -> GpuDevice<Interp> {
    GpuDevice::new(Interp::open(0).unwrap(), 0)
}

/// The same, but it ends loops after so many passes.
pub fn interp_with_loop_limit(passes: u64) -> GpuDevice<Interp> {
    GpuDevice::new(Interp::open(0).unwrap().with_loop_limit(passes), 0)
}

/// A CUDA device of its own: an emulated one, unless the environment names another library.
pub fn cuda() -> GpuDevice<Cuda> {
    use_library(&emulated_cuda::library().expect("it was built for this test")).unwrap();
    GpuDevice::new(Cuda::open(0).unwrap(), 0)
}

/// A WebGPU device of its own, or `None`, and a line on why.
#[cfg(feature = "webgpu")]
pub fn webgpu() -> Option<GpuDevice<elinvar_driver::WebGpu>> {
    match elinvar_driver::WebGpu::open(0) {
        Ok(driver) => Some(GpuDevice::new(driver, 0)),
        Err(e) if e.kind() == ErrorKind::DriverMissing => {
            println!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// A Metal device of its own, or `None`, and a line on why.
#[cfg(all(feature = "metal", target_vendor = "apple"))]
pub fn metal() -> Option<GpuDevice<elinvar_driver::Metal>> {
    match elinvar_driver::Metal::open(0) {
        Ok(driver) => Some(GpuDevice::new(driver, 0)),
        Err(e) if e.kind() == ErrorKind::DriverMissing => {
            println!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// A Vulkan device of its own, or `None`, and a line on why.
pub fn vulkan() -> Option<GpuDevice<Vulkan>> {
    match Vulkan::open(0) {
        Ok(driver) => Some(GpuDevice::new(driver, 0)),
        Err(e) if e.kind() == ErrorKind::DriverMissing => {
            println!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}
