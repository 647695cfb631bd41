//! Operands of the workloads.

use elinvar::{DType, DeviceOf, Generator, Tensor};

/// Makes operands on a device, the same ones every time.
pub struct Data<D: DeviceOf> {
    /// The device.
    pub device: D,
    /// The generator of random values.
    pub generator: Generator,
}

impl<D: DeviceOf> Data<D> {
    /// On this device.
    pub fn new(device: D) -> Self {
        Data { device, generator: Generator::new(7) }
    }
    /// Uniform in -1..1.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn of(&mut self, shape: &[usize], dtype: DType) -> Tensor<D::Backend> {
        self.generator.uniform(-1.0, 1.0, shape, dtype, &self.device)
    }
    /// Uniform in -1..1, of f32.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn floats(&mut self, shape: &[usize]) -> Tensor<D::Backend> {
        self.of(shape, DType::F32)
    }
    /// A variable, uniform in -1..1, of f32.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn variable(&mut self, shape: &[usize]) -> Tensor<D::Backend> {
        self.floats(shape).requires_grad()
    }
    /// Whole numbers in 0..below, of i64.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn numbers(&mut self, shape: &[usize], below: i64) -> Tensor<D::Backend> {
        self.generator.randint(0, below, shape, DType::I64, &self.device)
    }
}
