//! The state of a layer besides its weights: buffers, the mode, random numbers.
//!
//! All three are cells, so that `forward(&self)` can update running statistics and draw random
//! numbers.

use crate::Module;
use crate::capture::{self, SharedGenerator};
use crate::module::Visit;
use crate::param::same_kind;
use elinvar_core::philox::Stream;
use elinvar_core::{DType, Result, Shape};
use elinvar_ops::array::Array;
use elinvar_ops::backend::Random;
use elinvar_ops::catalogue as op;
use elinvar_ops::random::{check, draw_at};
use elinvar_ops::{Backend, recording};
use elinvar_tensor::{Generator, Tensor};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// A tensor of a layer's state that is not trained: a running mean, for example.
pub struct Buffer<B: Backend> {
    cell: Arc<RwLock<Tensor<B>>>,
}

fn now<B: Backend>(cell: &RwLock<Tensor<B>>) -> Tensor<B> {
    cell.read().unwrap_or_else(PoisonError::into_inner).clone()
}

impl<B: Backend> Buffer<B> {
    /// A buffer with this initial value.
    pub fn new(value: &Tensor<B>) -> Self {
        Buffer { cell: Arc::new(RwLock::new(value.detach())) }
    }
    /// The current value, not tracked.
    pub fn get(&self) -> Tensor<B> {
        let value = now(&self.cell);
        if capture::is_set(&self.cell) {
            return value;
        }
        let cell = self.cell.clone();
        recording::read_cell(value.array(), move || now(&cell).array().clone());
        value
    }
    /// Replaces the value; its history is dropped.
    ///
    /// # Errors
    /// `ShapeMismatch`, `DTypeMismatch` if they are not of the buffer's shape and dtype;
    /// `Unsupported` inside of a [`elinvar_tensor::Graph`]'s function.
    ///
    /// A [`crate::train::TrainStep`] that is captured writes it in place.
    pub fn set(&self, value: &Tensor<B>) -> Result<()> {
        recording::refuse_change("changing a buffer")?;
        let mut cell = self.cell.write().unwrap_or_else(PoisonError::into_inner);
        same_kind("buffer", cell.shape(), cell.dtype(), value.shape(), value.dtype())?;
        let original = std::mem::replace(&mut *cell, value.detach());
        // The old value may be put back, which locks this cell.
        drop(cell);
        capture::note_set(&self.cell, original);
        Ok(())
    }
    /// The cell, for a captured step, which changes the value in place.
    pub(crate) fn cell(&self) -> &capture::Cell<B> {
        &self.cell
    }
    /// Converts to another float dtype; a buffer of integers (a count) is left unchanged.
    pub(crate) fn convert(&self, dtype: DType) -> Result<()> {
        let mut cell = self.cell.write().unwrap_or_else(PoisonError::into_inner);
        if cell.dtype().is_float() {
            *cell = Tensor::from_array(cell.array().cast(dtype)?);
        }
        Ok(())
    }
}

impl<B: Backend> fmt::Debug for Buffer<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.get();
        write!(f, "Buffer({}, {})", value.shape(), value.dtype())
    }
}

impl<B: Backend> Module<B> for Buffer<B> {
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
        visit.buffer(name, self);
    }
}

/// Training or evaluation mode of a layer; initially training.
#[derive(Debug)]
pub struct Mode {
    training: Arc<AtomicBool>,
}

impl Mode {
    /// Training.
    pub fn new() -> Self {
        Mode { training: Arc::new(AtomicBool::new(true)) }
    }
    /// Is it training mode?
    pub fn is_training(&self) -> bool {
        let now = self.training.load(Ordering::Relaxed);
        recording::read(|| {
            let training = self.training.clone();
            Box::new(move || training.load(Ordering::Relaxed) == now)
        });
        now
    }
    /// Training (true) or evaluation (false).
    pub fn set_training(&self, training: bool) {
        self.training.store(training, Ordering::Relaxed);
    }
}

impl Default for Mode {
    fn default() -> Self {
        Mode::new()
    }
}

impl<B: Backend> Module<B> for Mode {
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
        visit.mode(name, self);
    }
}

/// A layer's own random number generator. Its state can be saved and restored, so that a resumed
/// run draws the same numbers.
#[derive(Debug)]
pub struct RandomState {
    generator: SharedGenerator,
}

/// The random bits of one draw.
#[derive(Clone, Debug)]
pub enum DrawnStream<B: Backend> {
    /// This stream.
    Given(Stream),
    /// The one that is in this memory when the draw runs, i32 \[4\] as [`Stream::to_words`] has it:
    /// in a step that is captured.
    Device(Tensor<B>),
}

impl RandomState {
    /// A fork of `from`.
    pub fn fork(from: &mut Generator) -> Self {
        RandomState { generator: Arc::new(Mutex::new(from.fork())) }
    }
    fn lock(&self) -> MutexGuard<'_, Generator> {
        self.generator.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Draws from it on the host. A layer takes a [`RandomState::stream`].
    ///
    /// # Errors
    /// `Unsupported` inside of a [`elinvar_tensor::Graph`]'s function and of a step that is
    /// captured, which would draw the same numbers in every run.
    pub fn draw<T>(&self, f: impl FnOnce(&mut Generator) -> T) -> Result<T> {
        if capture::is_active() {
            recording::refuse("drawing random numbers on the host")?;
        }
        recording::refuse_change("drawing random numbers")?;
        Ok(f(&mut self.lock()))
    }
    /// The stream of one draw on a device.
    ///
    /// # Errors
    /// `Unsupported` inside of a [`elinvar_tensor::Graph`]'s function, which would draw the same
    /// numbers in every run; `OutOfMemory`.
    pub fn stream<B: Backend>(&self) -> Result<DrawnStream<B>> {
        match capture::stream_of(&self.generator)? {
            Some(place) => Ok(DrawnStream::Device(place)),
            None => self.draw(Generator::next_stream).map(DrawnStream::Given),
        }
    }
    /// `x` with each element 0 with probability `p`, else x / (1 - p): see
    /// [`elinvar_ops::catalogue::dropout()`].
    ///
    /// # Errors
    /// As [`RandomState::stream`], and those of the op.
    pub fn dropout<B: Backend>(&self, x: &Tensor<B>, p: f64) -> Result<Tensor<B>> {
        match self.stream()? {
            DrawnStream::Given(stream) => op::dropout(x, p, stream, true),
            DrawnStream::Device(at) => op::dropout::dropout_at(x, p, &at, true),
        }
    }
    /// Bools that are true with probability `p`.
    ///
    /// # Errors
    /// As [`RandomState::stream`]; `InvalidArgument` if `p` is no probability.
    pub fn bernoulli<B: Backend>(&self, p: f64, shape: &Shape, device: &B::Device) -> Result<Tensor<B>> {
        let (r, dtype) = (Random::Bernoulli { p }, DType::Bool);
        let drawn = match self.stream::<B>()? {
            DrawnStream::Given(stream) => {
                check("bernoulli", r, dtype)?;
                let buffer = B::random(device, r, stream, None, dtype, shape.numel())?;
                Array::new(device, buffer, shape.clone(), dtype)
            }
            DrawnStream::Device(at) => draw_at("bernoulli", r, at.array(), shape, dtype)?,
        };
        Ok(Tensor::from_array(drawn))
    }
    /// The stream of the next draw.
    pub fn state(&self) -> Stream {
        self.lock().state()
    }
    /// Continues from a state.
    pub fn set_state(&self, next: Stream) {
        *self.lock() = Generator::from_state(next);
    }
}

impl<B: Backend> Module<B> for RandomState {
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
        visit.random(name, self);
    }
}
