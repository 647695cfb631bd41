//! The text form of kernels: for people, golden files and failures.
//!
//! ```text
//! kernel square group 64 1 1 {
//!   buffer x f32 read
//!   buffer y f32 write
//!   param n u32
//!   %0: u32 = param n
//!   %1: u32 = group_id.x
//!   ...
//!   if %6 {
//!     %7: f32 = load x[%5]
//!     %8: f32 = mul %7, %7
//!     store y[%5] = %8
//!   }
//! }
//! ```
//!
//! The type of a result stands behind its name, and tells what the instruction makes: a `convert`
//! its target, a `load` its width, a `const` its type. Floats are written with as many digits as
//! tell them apart from their neighbours. Reading what was printed from a valid kernel gives the
//! same data.

mod parse;
mod print;
mod words;

pub use parse::{ParseError, parse};
pub use print::{print, print_inst};
