//! Work on indices: gather, scatter, sort, and the indices of what is not zero.

pub mod gather;
pub mod nonzero;
pub mod scatter;
pub mod sort;
