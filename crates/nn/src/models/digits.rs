//! Networks for the handwritten digits.

use crate::data::Digits;
use crate::layers::{
    BatchNorm2d, Conv2d, Conv2dOptions, Dropout, LayerNorm, Linear, MaxPool2d, MlpActivation,
    TransformerEncoderLayer, TransformerOptions,
};
use crate::loader::Pairs;
use crate::optim::AdamW;
use crate::{Layer, Module, Param, init};
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

/// Training settings that work well for a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recipe {
    /// Number of epochs.
    pub epochs: usize,
    /// Samples in a batch.
    pub batch_size: usize,
    /// AdamW's learning rate at the start; it decays linearly to 0.
    pub lr: f64,
    /// AdamW's weight decay.
    pub weight_decay: f64,
    /// Label smoothing.
    pub label_smoothing: f64,
}

impl Recipe {
    /// The optimiser, with this learning rate.
    pub fn optimizer<B: Backend>(&self, lr: f64) -> AdamW<B> {
        AdamW::new(lr).weight_decay(self.weight_decay)
    }
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
    /// Test accuracy over the seeds 0 to 9: 97.22 % to 98.89 %.
    pub const RECIPE: Recipe =
        Recipe { epochs: 30, batch_size: 16, lr: 3e-3, weight_decay: 0.1, label_smoothing: 0.15 };

    /// With random weights from `g`.
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
/// The convolutions have no bias: the norm after them would cancel it, and its gradient would be
/// only rounding errors.
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
    /// Test accuracy over the seeds 0 to 9: 98.33 % to 99.72 %.
    pub const RECIPE: Recipe =
        Recipe { epochs: 12, batch_size: 32, lr: 5e-3, weight_decay: 0.05, label_smoothing: 0.1 };

    /// With random weights and dropout from `g`.
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

/// A small transformer for 8 x 8 digits: the rows of the image are the tokens of a sequence, for
/// two encoder blocks; the mean over the tokens is classified.
///
/// x: [n, 1, 8, 8]   y: [n, 10] logits
#[derive(Debug, Module)]
pub struct DigitsTransformer<B: Backend> {
    words: Linear<B>,
    /// [8, features]: learned positions of the rows.
    positions: Param<B>,
    layers: Vec<TransformerEncoderLayer<B>>,
    norm: LayerNorm<B>,
    head: Linear<B>,
}

impl<B: Backend> DigitsTransformer<B> {
    /// Test accuracy over the seeds 0 to 9: 96.67 % to 98.61 %.
    pub const RECIPE: Recipe =
        Recipe { epochs: 20, batch_size: 16, lr: 3e-3, weight_decay: 0.05, label_smoothing: 0.1 };
    /// Features per token.
    const FEATURES: usize = 32;

    /// With random weights from `g`.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn new(g: &mut Generator, device: &B::Device) -> Self {
        // Measured: in twenty epochs with so few samples, dropout lowers the accuracy.
        let options = TransformerOptions::new(Self::FEATURES, 4)
            .feedforward(2 * Self::FEATURES)
            .dropout(0.0)
            .activation(MlpActivation::Gelu)
            .batch_first(true)
            .norm_first(true);
        DigitsTransformer {
            words: Linear::new(Digits::SIDE, Self::FEATURES, g, device),
            // As large as the token features, so that rows are distinguishable from the first step
            // on.
            positions: Param::new(init::normal([Digits::SIDE, Self::FEATURES], 0.3, g, device)),
            layers: (0..2).map(|_| options.encoder_layer(g, device)).collect(),
            norm: LayerNorm::new(Self::FEATURES, device),
            head: Linear::new(Self::FEATURES, 10, g, device),
        }
    }
}

impl<B: Backend> Layer<B> for DigitsTransformer<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        let words = self.words.forward(&x.flatten(1, 2)) + self.positions.get();
        let read = self.layers.iter().fold(words, |x, layer| layer.forward(&x));
        self.head.forward(&self.norm.forward(&read).mean_dim(1, false))
    }
}
