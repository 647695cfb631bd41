//! Upload of batches from host memory to a device.

use elinvar_core::{HostTensor, Result};
use elinvar_ops::Backend;
use elinvar_tensor::Tensor;

/// A batch in host memory that can be uploaded to a device.
///
/// Tensors, and pairs, triples and lists of uploadable values. Text stays in host memory.
pub trait Upload: Send + 'static {
    /// The same on a device.
    type On<B: Backend>;

    /// Moves it to a device.
    ///
    /// # Errors
    /// `OutOfMemory`, or what the device reports.
    fn upload<B: Backend>(self, device: &B::Device) -> Result<Self::On<B>>;

    /// Approximate size in bytes of host memory.
    fn bytes(&self) -> usize;
}

impl Upload for HostTensor {
    type On<B: Backend> = Tensor<B>;
    fn upload<B: Backend>(self, device: &B::Device) -> Result<Tensor<B>> {
        Tensor::from_host(self, device)
    }
    fn bytes(&self) -> usize {
        self.shape().numel() * self.dtype().size()
    }
}

impl Upload for String {
    type On<B: Backend> = String;
    fn upload<B: Backend>(self, _: &B::Device) -> Result<String> {
        Ok(self)
    }
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl<T: Upload> Upload for Vec<T> {
    type On<B: Backend> = Vec<T::On<B>>;
    fn upload<B: Backend>(self, device: &B::Device) -> Result<Vec<T::On<B>>> {
        self.into_iter().map(|t| t.upload::<B>(device)).collect()
    }
    fn bytes(&self) -> usize {
        self.iter().map(Upload::bytes).sum()
    }
}

impl<X: Upload, Y: Upload> Upload for (X, Y) {
    type On<B: Backend> = (X::On<B>, Y::On<B>);
    fn upload<B: Backend>(self, device: &B::Device) -> Result<Self::On<B>> {
        Ok((self.0.upload::<B>(device)?, self.1.upload::<B>(device)?))
    }
    fn bytes(&self) -> usize {
        self.0.bytes() + self.1.bytes()
    }
}

impl<X: Upload, Y: Upload, Z: Upload> Upload for (X, Y, Z) {
    type On<B: Backend> = (X::On<B>, Y::On<B>, Z::On<B>);
    fn upload<B: Backend>(self, device: &B::Device) -> Result<Self::On<B>> {
        Ok((self.0.upload::<B>(device)?, self.1.upload::<B>(device)?, self.2.upload::<B>(device)?))
    }
    fn bytes(&self) -> usize {
        self.0.bytes() + self.1.bytes() + self.2.bytes()
    }
}
