//! Reductions in vector registers.

pub(crate) mod block;
