//! Emitters: from kernels to what devices take, one folder per target.

pub mod msl;
pub mod ptx;
pub mod spirv;
pub mod wgsl;
