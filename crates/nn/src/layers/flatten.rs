//! `Flatten`: several axes made one.

use crate::{Layer, Module};
use elinvar_ops::Backend;
use elinvar_tensor::Tensor;

/// Axes `start..=end` made one.
#[derive(Clone, Debug, Module)]
pub struct Flatten {
    start: isize,
    end: isize,
}

impl Flatten {
    /// Everything but the batch: axes 1 to the last.
    pub fn new() -> Self {
        Flatten { start: 1, end: -1 }
    }
    /// These axes, which may count from the end.
    pub fn axes(start: isize, end: isize) -> Self {
        Flatten { start, end }
    }
}

impl Default for Flatten {
    fn default() -> Self {
        Flatten::new()
    }
}

impl<B: Backend> Layer<B> for Flatten {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        x.flatten(self.start, self.end)
    }
}
