//! Emitters: from kernels to what devices take, one folder per target.

mod index_analysis;
pub mod llvm;
pub mod msl;
pub mod ptx;
pub mod spirv;
mod statements;
pub mod wgsl;
