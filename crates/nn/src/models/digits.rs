//! Networks for the handwritten digits.

use crate::data::Digits;
use crate::layers::{BatchNorm2d, Conv2d, Conv2dOptions, Dropout, Linear, MaxPool2d};
use crate::loader::Pairs;
use crate::{Layer, Module};
use elinvar_core::{HostTensor, Result, Shape};
use elinvar_ops::Backend;
use elinvar_tensor::{Generator, Tensor};

/// Digits as samples for [`DigitsMlp`] and [`DigitsCnn`]: x: [n, 1, 8, 8] of f32, y: \[n\] of i64.
///
/// # Errors
/// `ShapeMismatch` if there are not as many labels as images.
pub fn digit_pairs(digits: &Digits) -> Result<Pairs> {
    let n = digits.len();
    let x = HostTensor::from_vec(digits.pixels.clone(), Shape::new(&[n, 1, Digits::SIDE, Digits::SIDE])?)?;
    Pairs::new(x, HostTensor::from_vec(digits.labels.clone(), Shape::new(&[n])?)?)
}

/// A perceptron with two hidden layers for 8 x 8 digits.
///
/// x: [n, 1, 8, 8]   y: [n, 10] logits
#[derive(Debug, Module)]
pub struct DigitsMlp<B: Backend> {
    fc1: Linear<B>,
    fc2: Linear<B>,
    fc3: Linear<B>,
}

impl<B: Backend> DigitsMlp<B> {
    /// With weights by `g`.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn new(g: &mut Generator, device: &B::Device) -> Self {
        DigitsMlp {
            fc1: Linear::new(Digits::PIXELS, 128, g, device),
            fc2: Linear::new(128, 64, g, device),
            fc3: Linear::new(64, 10, g, device),
        }
    }
}

impl<B: Backend> Layer<B> for DigitsMlp<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        let x = self.fc1.forward(&x.flatten(1, -1)).relu();
        let x = self.fc2.forward(&x).relu();
        self.fc3.forward(&x)
    }
}

/// A small convolutional network for 8 x 8 digits.
///
/// The convolutions have no bias: the norm behind them would take it away again, and its gradient would be nothing but
/// rounding.
///
/// x: [n, 1, 8, 8]   y: [n, 10] logits
#[derive(Debug, Module)]
pub struct DigitsCnn<B: Backend> {
    conv1: Conv2d<B>,
    bn1: BatchNorm2d<B>,
    conv2: Conv2d<B>,
    bn2: BatchNorm2d<B>,
    pool: MaxPool2d,
    dropout: Dropout,
    fc1: Linear<B>,
    fc2: Linear<B>,
}

impl<B: Backend> DigitsCnn<B> {
    /// With weights and dropout by `g`.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn new(g: &mut Generator, device: &B::Device) -> Self {
        DigitsCnn {
            conv1: Conv2dOptions::new(1, 16, 3).padding(1).bias(false).init(g, device),
            bn1: BatchNorm2d::new(16, device),
            conv2: Conv2dOptions::new(16, 32, 3).padding(1).bias(false).init(g, device),
            bn2: BatchNorm2d::new(32, device),
            pool: MaxPool2d::new(2),
            dropout: Dropout::new(0.4, g),
            fc1: Linear::new(32 * 4 * 4, 64, g, device),
            fc2: Linear::new(64, 10, g, device),
        }
    }
}

impl<B: Backend> Layer<B> for DigitsCnn<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        let x = self.bn1.forward(&self.conv1.forward(x)).relu();
        let x = self.bn2.forward(&self.conv2.forward(&x)).relu();
        let x = self.dropout.forward(&self.pool.forward(&x).flatten(1, -1));
        self.fc2.forward(&self.fc1.forward(&x).relu())
    }
}
