//! Memory layout: copies and transposes of strided views, iteration over strides, concatenation and
//! padding.

pub(crate) mod concat;
pub(crate) mod contiguous;
pub(crate) mod copy;
pub(crate) mod kernels;
mod plan;
pub(crate) mod strided_iter;
