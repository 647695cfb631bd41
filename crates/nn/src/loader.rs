//! Samples in batches, under the path that a training loop knows: the types of [`crate::data`] that
//! it needs.

pub use crate::data::{Batch, Loader, Pairs};
