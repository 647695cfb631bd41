//! The language of formulas: what an elementwise or row-wise op computes, written once for every
//! device.
//!
//! * [`lane`]: [`Lane`](lane::Lane), the operations on floats from which formulas are built;
//!   [`int`]: those on integers.
//! * [`formula`]: elementwise formulas, steps of optimisers, epilogues of products.
//! * [`math`]: the elementary functions over them, with their error bounds.
//! * [`recorded`]: formulas as data, replayed in any reading.

pub mod formula;
pub mod int;
pub mod lane;
pub mod math;
pub mod recorded;
