//! Layouts: strided copies and casts, and the arithmetic from an element's number to its offset.

pub mod copy;
pub mod indexing;
