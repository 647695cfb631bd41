//! Index kernels: gather, scatter, sort and nonzero.

pub mod gather;
pub mod nonzero;
pub mod scatter;
pub mod sort;
