//! The types of [`crate::data`] that a training loop needs.

pub use crate::data::{Batch, Loader, Pairs};
