//! Methods of `Tensor`: the catalogue under the names of PyTorch and NumPy. Each has a twin
//! `try_NAME` that returns its error.

mod binary;
mod convert;
mod fourier;
mod layers;
mod linalg;
mod losses;
mod movement;
mod product;
mod reduce;
mod select;
mod table;
mod unary;

pub use binary::{MaybeNumber, Operand};
pub use layers::IntoPadding;
