//! The catalogue: every operation of elinvar, each in one file, written once for all backends.
//!
//! From the bottom up:
//! * [`lane`] and [`math`]: formulas over scalars, and the elementary functions.
//! * [`map`], [`rows`], [`mod@update`]: elementwise ops, row-wise ops, and steps of an optimiser.
//! * [`backend`]: the kinds of work (primitives) of a backend. [`fold`], [`casting`]: its folds and
//!   conversions as types.
//! * [`mod@array`]: a strided tensor on a backend, without gradients.
//! * [`op`], [`value`]: the ops that the tape records, and the abstraction over "with tape" and
//!   "without tape" in which every op and every gradient is written.
//! * [`random`]: what may be drawn, and the formula of a uniform number.
//! * [`factor_steps`]: formulas of the steps of factorisations, for fused forms too.
//! * [`autocast`]: the type in which each op runs in a scope of mixed precision.
//! * [`recording`]: restrictions on a function whose work is captured.
//! * [`catalogue`]: the ops. [`args`]: calling them by name.
//! * [`door`]: the ops as functions of a backend, `B::add(&x, &y)`.

pub mod args;
pub mod array;
pub mod autocast;
pub mod backend;
pub mod casting;
pub mod catalogue;
pub mod door;
pub mod factor_steps;
pub mod fold;
pub mod map;
pub mod op;
pub mod prelude;
pub mod random;
pub mod recording;
pub mod rows;
pub mod trace;
pub mod update;
pub mod value;

pub use array::Array;
#[doc(hidden)]
pub use backend::delegate::types as t;
pub use backend::{Backend, DeviceOf, View};
pub use door::Door;
pub use elinvar_lane::{int, lane, math, recorded};
pub use elinvar_simd::{
    compile_columns, compile_epilogue, compile_int_map, compile_map, compile_rows, compile_update,
};
pub use value::Value;
