//! Methods of `Tensor`: the catalogue under the names of PyTorch and NumPy.

mod binary;
mod convert;
mod movement;
mod product;
mod reduce;
mod select;
mod table;
mod unary;

pub use binary::Operand;
pub use table::Axes;
