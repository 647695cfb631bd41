//! The loops of [`linalg`](super).

pub(super) mod lu;
mod product;
pub(super) mod rotate;
pub(super) mod triangular;
