//! The language of kernels against its rules: text form, verifier, interpreter, passes, emitters.

#[path = "../support/amd_machine.rs"]
mod amd_machine;
mod async_copy;
#[path = "../support/hip_machine.rs"]
mod hip_machine;
mod interp;
mod llvm;
#[path = "../support/llvm_tools.rs"]
mod llvm_tools;
mod loops;
#[path = "../support/metal.rs"]
mod metal;
mod msl;
#[path = "../support/naga.rs"]
mod naga_compiler;
mod ptx;
#[path = "../support/ptx_machine.rs"]
mod ptx_machine;
#[path = "../support/ptxas.rs"]
mod ptxas;
mod random;
mod spirv;
#[path = "../support/spirv_val.rs"]
mod spirv_val;
mod text;
mod tma_wgmma;
mod verify;
#[path = "../support/vulkan_device.rs"]
mod vulkan_device;
mod wgsl;
#[path = "../support/words.rs"]
mod words;
