//! Validations of a training run: closures that wait for the device, and such that do not.

use super::Score;
use elinvar_core::Result;
use std::pin::Pin;

/// A score that may not be there yet.
pub type Later<'f, T> = Pin<Box<dyn Future<Output = Result<T>> + 'f>>;

/// A validation, whose score is a future.
pub trait Validation<M> {
    fn score<'f>(&'f mut self, model: &'f M) -> Later<'f, Score>;
    /// Is it a future that may wait?
    fn is_awaited(&self) -> bool;
}

/// One that waits for the device.
pub struct Waits<F>(pub F);

impl<M, F: FnMut(&M) -> Result<Score>> Validation<M> for Waits<F> {
    fn score<'f>(&'f mut self, model: &'f M) -> Later<'f, Score> {
        Box::pin(std::future::ready((self.0)(model)))
    }
    fn is_awaited(&self) -> bool {
        false
    }
}

/// One that does not.
pub struct Awaits<F>(pub F);

impl<M, F: AsyncFnMut(&M) -> Result<Score>> Validation<M> for Awaits<F> {
    fn score<'f>(&'f mut self, model: &'f M) -> Later<'f, Score> {
        Box::pin((self.0)(model))
    }
    fn is_awaited(&self) -> bool {
        true
    }
}
