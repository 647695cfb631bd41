//! One result per element: maps, updates in place, constants and random numbers.

pub mod fill;
pub mod map;
pub mod random;
pub mod update;
