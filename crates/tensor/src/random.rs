//! Random tensors: the same seed gives the same numbers on every device.

use crate::Tensor;
use crate::fail::OrFail;
use crate::sizes::Sizes;
use elinvar_core::philox::Stream;
use elinvar_core::{DType, Error, Result};
use elinvar_ops::array::Array;
use elinvar_ops::backend::{Backend, DeviceOf, Random};
use elinvar_ops::random::check;

/// A source of random tensors: a seed, and a counter of draws. Every draw has its own stream, in
/// which element `i` depends on the seed, the stream and `i` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generator {
    next: Stream,
}

impl Generator {
    /// Starts at the first stream of a seed.
    pub fn new(seed: u64) -> Self {
        Generator { next: Stream { seed, stream: 0 } }
    }
    /// Continues from a saved state: see [`Generator::state`].
    pub fn from_state(next: Stream) -> Self {
        Generator { next }
    }
    /// The stream of the next draw: the whole state of the generator.
    pub fn state(&self) -> Stream {
        self.next
    }
    /// An independent generator for a part of the program, so that additional draws from one do not
    /// change the numbers of the other.
    pub fn fork(&mut self) -> Generator {
        let s = self.next_stream();
        let seed = Stream { seed: s.seed, stream: s.stream }.word64(u64::MAX / 4);
        Generator::new(seed)
    }
    /// The generator of a gradient shard of a step: a function of the next stream and the shard, so
    /// that a shard draws the same numbers on every worker. Takes no stream.
    #[must_use]
    pub fn of_shard(self, shard: u64) -> Generator {
        // Below the word that a fork takes, and far above those of any draw.
        Generator::new(self.next.word64(u64::MAX / 4 - 1 - shard))
    }
    /// Takes one stream.
    pub fn next_stream(&mut self) -> Stream {
        let s = self.next;
        self.next.stream = s.stream.wrapping_add(1);
        s
    }
    fn draw<B: Backend>(
        &mut self,
        op: &str,
        r: Random,
        shape: impl Sizes,
        dtype: DType,
        device: &B::Device,
    ) -> Result<Tensor<B>> {
        check(op, r, dtype)?;
        let shape = shape.to_shape()?;
        let buffer = B::random(device, r, self.next_stream(), None, dtype, shape.numel())?;
        Ok(Tensor::from_array(Array::new(device, buffer, shape, dtype)))
    }
    /// Floats, uniform in `low..high`: `high` itself is never drawn, in any dtype. If both are
    /// equal, it is all that is drawn.
    ///
    /// # Panics
    /// If `dtype` is not of floats or cannot hold the bounds, one is NaN or infinite, they are not
    /// in order, or memory is exhausted.
    #[track_caller]
    pub fn uniform<D: DeviceOf>(
        &mut self,
        low: f64,
        high: f64,
        shape: impl Sizes,
        dtype: DType,
        device: &D,
    ) -> Tensor<D::Backend> {
        self.draw("uniform", Random::Uniform { low, high }, shape, dtype, device).or_fail()
    }
    /// Floats, normally distributed.
    ///
    /// # Panics
    /// If `dtype` is not of floats, the mean is not finite, the standard deviation is negative or
    /// not finite, or memory is exhausted.
    #[track_caller]
    pub fn normal<D: DeviceOf>(
        &mut self,
        mean: f64,
        std: f64,
        shape: impl Sizes,
        dtype: DType,
        device: &D,
    ) -> Tensor<D::Backend> {
        self.draw("normal", Random::Normal { mean, std }, shape, dtype, device).or_fail()
    }
    /// f32, uniform in 0..1, on a device.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn rand<D: DeviceOf>(&mut self, shape: impl Sizes, device: &D) -> Tensor<D::Backend> {
        self.uniform(0.0, 1.0, shape, DType::F32, device)
    }
    /// f32, normally distributed with mean 0 and standard deviation 1, on a device.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn randn<D: DeviceOf>(&mut self, shape: impl Sizes, device: &D) -> Tensor<D::Backend> {
        self.normal(0.0, 1.0, shape, DType::F32, device)
    }
    /// 1 (or true) with probability `p`, else 0.
    ///
    /// # Panics
    /// If `p` is not in 0..=1, or memory is exhausted.
    #[track_caller]
    pub fn bernoulli<D: DeviceOf>(
        &mut self,
        p: f64,
        shape: impl Sizes,
        dtype: DType,
        device: &D,
    ) -> Tensor<D::Backend> {
        self.draw("bernoulli", Random::Bernoulli { p }, shape, dtype, device).or_fail()
    }
    /// Integers in `low..high`.
    ///
    /// # Panics
    /// If the range is empty, `dtype` is not of integers or cannot hold it, or memory is exhausted.
    #[track_caller]
    pub fn randint<D: DeviceOf>(
        &mut self,
        low: i64,
        high: i64,
        shape: impl Sizes,
        dtype: DType,
        device: &D,
    ) -> Tensor<D::Backend> {
        self.draw("randint", Random::Int { low, high }, shape, dtype, device).or_fail()
    }
    /// The numbers 0..n in random order, of i64.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn permutation<D: DeviceOf>(&mut self, n: usize, device: &D) -> Tensor<D::Backend> {
        let mut numbers = || {
            // Refused before anything is drawn: the numbers are made twice, as usize and as i64.
            let mut numbers = elinvar_core::host::with_capacity(n)?;
            let p = elinvar_core::philox::permutation(n, self.next_stream())?;
            numbers.extend(p.into_iter().map(|i| i as i64));
            Ok(numbers)
        };
        let numbers = numbers().map_err(|e: Error| e.at("permutation")).or_fail();
        Tensor::from_vec(numbers, n, device)
    }
}
