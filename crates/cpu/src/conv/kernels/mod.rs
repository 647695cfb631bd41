//! Convolution kernels: implicit-GEMM operands, direct, depthwise and sparse-gradient kernels.

pub(crate) mod a_pixels;
pub(crate) mod a_taps;
pub(crate) mod b_windows;
pub(crate) mod depthwise3x3;
pub(crate) mod direct;
pub(crate) mod grad_sparse;
