//! A device for which SPIR-V is emitted in tests.

use elinvar_kernel::emit::spirv::Device as SpirvDevice;

/// A Vulkan device without a fault.
pub const FULL: SpirvDevice = SpirvDevice {
    fused: true,
    wide: true,
    division: [true; 2],
    square_root: [true; 2],
    compares_subnormals: [true; 2],
    keeps_zeros: true,
    keeps_nan: [true; 2],
    rounds_to_even: [true; 3],
    keeps_subnormals: [true; 2],
};
