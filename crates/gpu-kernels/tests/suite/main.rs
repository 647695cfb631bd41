//! The kernels of the library against the reference.

#[path = "../../../kernel/tests/support/amd_machine.rs"]
mod amd_machine;
mod attention_mma;
mod attention_mma_backward;
mod attention_smem;
mod attention_wgmma;
mod attention_wgmma_backward;
mod backend;
mod conv_mma;
mod dawn;
mod edges;
mod equal;
mod gemm;
mod gemm_f64_tensor_core;
mod gemm_in_block_split_k;
mod gemm_mma_sync;
mod gemm_tma_wgmma;
#[path = "../../../kernel/tests/support/hip_machine.rs"]
mod hip_machine;
mod llvm;
#[path = "../../../kernel/tests/support/llvm_tools.rs"]
mod llvm_tools;
#[path = "../../../kernel/tests/support/metal.rs"]
mod metal;
mod msl;
mod mutations;
#[path = "../../../kernel/tests/support/naga.rs"]
mod naga_compiler;
mod neighbours;
mod plans;
mod ptx;
#[path = "../../../kernel/tests/support/ptx_machine.rs"]
mod ptx_machine;
#[path = "../../../kernel/tests/support/ptxas.rs"]
mod ptxas;
mod spirv;
#[path = "../../../kernel/tests/support/spirv_val.rs"]
mod spirv_val;
mod text;
#[path = "../../../kernel/tests/support/vulkan_device.rs"]
mod vulkan_device;
mod wgsl;
#[path = "../../../kernel/tests/support/words.rs"]
mod words;
