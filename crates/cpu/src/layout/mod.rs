//! Copies and transposes of strided views, and concatenation.

pub(crate) mod concat;
pub(crate) mod copy;
pub(crate) mod kernels;
pub(crate) mod strided_iter;
