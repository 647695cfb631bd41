//! Elementwise kernels: the vector loop, and conversion of 16-bit floats.

#[cfg(target_arch = "x86_64")]
pub(crate) mod convert_f16;
pub(crate) mod vector_loop;
