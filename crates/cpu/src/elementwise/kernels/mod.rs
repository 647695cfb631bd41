//! Conversions of 16-bit floats.

#[cfg(target_arch = "x86_64")]
pub(crate) mod convert_f16;
