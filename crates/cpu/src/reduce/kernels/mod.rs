//! Reduction kernels in vector registers.

pub(crate) mod block;
#[cfg(target_arch = "x86_64")]
pub(crate) mod f16_sums;
