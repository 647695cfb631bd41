//! Products of matrices: packed blocks, tiles in registers, threads over tiles.
//!
//! A contraction, and each kind of convolution, is a batch of products `y[m, n] = sum over k of a[m, k] * b[k, n]` whose
//! factors are packed by [`Left`] and [`Right`]. The order of the terms (`elinvar_core::order::contract`) is also the
//! shape of the loops: a chunk of 512 terms is packed, a tile of the result chains it in registers from 0, and adds it
//! to the result; the first chunk is stored. What runs side by side are elements of the result, so no block
//! size and no number of threads changes a bit.
//!
//! How it can be wrong: by a result element that no tile, or two tasks, write. The tests have sizes around every block.

mod bf16;
pub(crate) mod contract;
pub(crate) mod epilogue;
pub(crate) mod kernels;
mod loops;
mod nonfinite;
pub(crate) mod operand;
mod prepack;
mod private_packing;
mod real;
mod small_m;
mod split_k;
mod tiny;

pub(crate) use bf16::{are_multiplied, pair, product_of_pairs};
pub(crate) use epilogue::{Extra, Finish, Nothing};
pub(crate) use kernels::{
    After, Cut, Lines, PITCH, Panels, TermKind, Tile, Written, efforts, fill, height, multiply_into, turn,
    width,
};
pub(crate) use nonfinite::{are_finite, has_negative_zero};
pub(crate) use operand::{AsTaps, Columns, Left, Matrix, Numbers, Right, Windows};
pub(crate) use prepack::{Kept, Place, Prepacked, Uses, uses};
pub(crate) use real::Real;

pub(crate) use loops::{
    FINE, Job, MANY, PER_NS, SKINNY, Share, TOGETHER, WORTH, are_apart, chunks, each, even, fair, is_close,
    product, share,
};
