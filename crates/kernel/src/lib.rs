//! The kernel language: IR, builder, text form, verifier, passes, interpreter and emitters (PTX,
//! SPIR-V, WGSL, LLVM IR) of elinvar's GPU kernels.
//!
//! A kernel is written once, as plain data ([`ir`]), and translated for each kind of device. Its
//! meaning is exact to the bit: what an instruction rounds to, what it does with NaN, with a shift
//! beyond the width, with a division by zero is written on [`ir::Op`], and [`interp`] runs it. An
//! emitter is right if a device gives what the interpreter gives; a kernel is right if the
//! interpreter gives what the reference backend gives.
//!
//! From the bottom up:
//! * [`ir`]: the data. [`arith`]: the arithmetic of scalars. [`text`]: the text form, printed and
//!   parsed.
//! * [`builder`]: writing kernels in Rust. [`lane`]: the catalogue's formulas as kernel code.
//! * [`verify`]: what an emitter can rely on. [`interp`]: the definition, executed; it also finds
//!   races.
//! * [`pass`]: optimisation and lowering without changing a bit.
//! * [`loops`]: how many passes loops take at most, and launches that take a part of them.
//! * [`emit`]: translation, a folder per target.
//!
//! Decisions:
//! * **Memory has more types than arithmetic.** Storage floats and bytes are widened by loads and
//!   rounded or truncated by stores, so no emitter needs 16-bit arithmetic, and rounding happens
//!   where a reader sees it.
//! * **Control flow is a tree.** Branches and counted loops own their bodies, so that every target
//!   can express them, all loops end, and uniformity can be derived. There is no other loop, no
//!   break, no call.
//! * **Nothing is left to a device** but what says so: the order inside of a matrix fragment,
//!   integers from floats that do not fit ([`ir::Op::FpToSi`]), the bits of NaN. Sums of floats
//!   over a subgroup do not exist, because their order is not promised; sums are written as trees.
//! * **A division, a square root, an fma is exact.** Where a device has only an approximate one,
//!   its emitter builds the exact one from what it has; the kernel does not change. The interpreter
//!   can imitate such devices ([`interp::Quirks`]).
//! * **A subgroup has the size that the kernel says**, or the kernel does not use subgroups.
//! * **Sizes are parameters, shapes of loops are not**: a kernel serves all lengths and strides,
//!   and is built anew for another tile, rank or dtype.

#![forbid(unsafe_code)]

pub mod arith;
pub mod builder;
pub mod emit;
pub mod interp;
pub mod ir;
pub mod lane;
pub mod loops;

pub mod pass;
pub mod text;
pub mod verify;

pub use ir::Kernel;
