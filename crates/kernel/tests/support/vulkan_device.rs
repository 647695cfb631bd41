//! A device for which SPIR-V is emitted in tests.

use elinvar_kernel::emit::spirv::Device as SpirvDevice;

/// A Vulkan device without a fault.
pub const FULL: SpirvDevice = SpirvDevice::FULL;
