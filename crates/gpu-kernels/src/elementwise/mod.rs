//! Elementwise kernels: maps, updates in place, constants and random numbers. One result per
//! element.

pub mod fill;
pub mod map;
pub mod plan;
pub mod random;
pub mod update;
