//! What needs `unsafe` for speed, each behind an interface that cannot be used wrongly.
//!
//! * [`isa`]: instruction sets, and the compiled copies of a kernel for each.
//! * [`vector`]: what registers of numbers do, and work that is written once for all of them; `x86` and `neon` have
//!   those of AVX2, AVX-512 and NEON.
//! * `amx`: registers that are matrices.
//! * [`reading`]: how many elements go through a formula at once; `wide` is AVX-512's.
//! * [`quad`]: registers filled across rows, and halves widened on the way.
//! * `halves`: f16 to f32 and back; [`cut`]: floats to integers.
//! * [`fetch`]: memory that is asked for before it is needed.
//! * [`folds`]: sums and extremes of contiguous numbers.
//! * [`chains`], [`planes`]: chains of fma for convolutions of few channels.
//! * [`pools`]: the largest elements of windows.
//! * [`side`]: where a tile's rows come from; [`tile`]: chains of fma in register tiles.
//! * [`room`]: memory for results that is written once; [`stripes`]: by columns of matrices; [`combs`]: by rows that lie apart.
//! * [`near`]: elements of a row by their places.
//! * [`pages`]: large pages for large memory.
//! * [`turned`]: blocks of memory turned on their side; [`short`]: short rows, to windows and back.
//! * [`windows`]: formulas over contiguous operands.
//! * [`threads`]: work that several threads share; `board` is where it is posted.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
mod board;
pub(crate) mod chains;
pub(crate) mod combs;
pub(crate) mod cut;
pub(crate) mod fetch;
pub(crate) mod folds;
#[cfg(target_arch = "x86_64")]
pub(crate) mod halves;
pub(crate) mod isa;
pub(crate) mod near;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(crate) mod pages;
pub(crate) mod planes;
pub(crate) mod pools;
pub(crate) mod quad;
pub(crate) mod reading;
pub(crate) mod room;
pub(crate) mod scarce;
pub(crate) mod short;
pub(crate) mod side;
pub(crate) mod stripes;
pub(crate) mod threads;
pub(crate) mod tile;
pub(crate) mod turned;
pub(crate) mod vector;
#[cfg(target_arch = "x86_64")]
#[cfg_attr(
    debug_assertions,
    allow(dead_code, reason = "what is built to be debugged does not read by registers")
)]
mod wide;
pub(crate) mod windows;
#[cfg(target_arch = "x86_64")]
mod x86;

/// What is loaded from two lines takes two loads.
pub(crate) use elinvar_core::host_vec::LINE;
