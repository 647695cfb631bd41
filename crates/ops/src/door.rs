//! The typed door: the ops as functions of a backend, `B::add(&x, &y)`, on arrays without a tape.

use crate::backend::Backend;

/// The ops as associated functions of every backend.
pub trait Door: Backend {}

impl<B: Backend> Door for B {}
