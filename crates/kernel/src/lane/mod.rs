//! The catalogue's formulas as kernel code.
//!
//! [`Float`] is a [`Lane`](elinvar_ops::lane::Lane), [`Integer`] an [`Int`](elinvar_ops::int::Int):
//! running a formula on them writes its instructions into the kernel that their operands belong to.
//! So an op has no GPU code of its own, and cannot differ from what the reference computes.
//!
//! A constant of a formula belongs to no kernel yet. It stays a [`Term::Number`] until it meets a
//! value; two constants are combined at once, by the arithmetic of the interpreter. A value may be
//! a vector: then the formula is vector code, and constants are splatted as they meet it.

mod float;
mod fmod;
mod integer;
mod term;

pub use float::{Float, Truth, W32, W64, Whole, Width};
pub use integer::{IntKind, Integer, KindBool, KindI32, KindI64, KindU8};
pub use term::Term;
