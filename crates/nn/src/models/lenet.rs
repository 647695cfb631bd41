//! LeNet (LeCun, Bottou, Bengio, Haffner, 1998): an early convolutional network.

use crate::layers::{AvgPool2d, Conv2d, Linear};
use crate::{Layer, Module};
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_tensor::{Generator, OrFail, Tensor};

/// The settings of a [`LeNet`]; by default those of the paper's LeNet-5 for images of 32 x 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeNetOptions {
    inputs: usize,
    side: usize,
    channels: [usize; 2],
    hidden: [usize; 2],
    classes: usize,
}

impl LeNetOptions {
    /// One input channel, 32 x 32, 6 and 16 channels, 120 and 84 hidden units, 10 classes.
    pub fn new() -> Self {
        LeNetOptions { inputs: 1, side: 32, channels: [6, 16], hidden: [120, 84], classes: 10 }
    }
    /// Input channels.
    #[must_use]
    pub fn inputs(mut self, channels: usize) -> Self {
        self.inputs = channels;
        self
    }
    /// Height and width of the input.
    #[must_use]
    pub fn side(mut self, side: usize) -> Self {
        self.side = side;
        self
    }
    /// Channels of the two convolutions.
    #[must_use]
    pub fn channels(mut self, first: usize, second: usize) -> Self {
        self.channels = [first, second];
        self
    }
    /// Units of the two hidden layers.
    #[must_use]
    pub fn hidden(mut self, first: usize, second: usize) -> Self {
        self.hidden = [first, second];
        self
    }
    /// Number of classes.
    #[must_use]
    pub fn classes(mut self, classes: usize) -> Self {
        self.classes = classes;
        self
    }
    /// A network of f32 with these settings, with random weights from `g`.
    ///
    /// # Panics
    /// If images of this side are too small, or memory is exhausted.
    #[track_caller]
    pub fn init<B: Backend>(self, g: &mut Generator, device: &B::Device) -> LeNet<B> {
        let side = self.reduced_side().or_fail();
        let ([c1, c2], [h1, h2]) = (self.channels, self.hidden);
        LeNet {
            conv1: Conv2d::new(self.inputs, c1, 5, g, device),
            conv2: Conv2d::new(c1, c2, 5, g, device),
            pool: AvgPool2d::new(2),
            fc1: Linear::new(c2 * side * side, h1, g, device),
            fc2: Linear::new(h1, h2, g, device),
            fc3: Linear::new(h2, self.classes, g, device),
        }
    }
    /// The side after both convolutions of 5 taps and both pools.
    fn reduced_side(&self) -> Result<usize> {
        let step = |n: usize| n.checked_sub(4).map(|n| n / 2).filter(|&n| n > 0);
        step(self.side).and_then(step).ok_or_else(|| {
            Error::argument(format!(
                "lenet: images of side {}; 16 is the least that leaves anything",
                self.side
            ))
        })
    }
}

impl Default for LeNetOptions {
    fn default() -> Self {
        LeNetOptions::new()
    }
}

/// Two convolutions with tanh and average pools, and three linear layers. As usual today the second
/// convolution reads all channels of the first, the pools have no weights, and the output is
/// logits.
///
/// x: [n, inputs, side, side]   y: [n, classes] logits
#[derive(Debug, Module)]
pub struct LeNet<B: Backend> {
    conv1: Conv2d<B>,
    conv2: Conv2d<B>,
    pool: AvgPool2d,
    fc1: Linear<B>,
    fc2: Linear<B>,
    fc3: Linear<B>,
}

impl<B: Backend> LeNet<B> {
    /// For images of 1 x 32 x 32 of 10 classes, with random weights from `g`.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn new(g: &mut Generator, device: &B::Device) -> Self {
        LeNetOptions::new().init(g, device)
    }
}

impl<B: Backend> Layer<B> for LeNet<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        let x = self.pool.forward(&self.conv1.forward(x).tanh());
        let x = self.pool.forward(&self.conv2.forward(&x).tanh());
        let x = self.fc1.forward(&x.flatten(1, -1)).tanh();
        self.fc3.forward(&self.fc2.forward(&x).tanh())
    }
}
