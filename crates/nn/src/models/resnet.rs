//! Residual networks (He and others, 2015), with torchvision's weight names, so that its
//! checkpoints load.

use crate::init::{self, Fan, Gain};
use crate::layers::{AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Conv2dOptions, Linear, MaxPool2d};
use crate::{Layer, Module};
use elinvar_ops::Backend;
use elinvar_tensor::{Generator, OrFail, Tensor};

/// The kind of residual blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockKind {
    /// Two convolutions of 3 x 3.
    Basic,
    /// 1 x 1 to fewer channels, 3 x 3, 1 x 1 to four times as many.
    Bottleneck,
}

impl BlockKind {
    /// Output channels of a block per inner channel.
    fn expansion(self) -> usize {
        match self {
            BlockKind::Basic => 1,
            BlockKind::Bottleneck => 4,
        }
    }
}

/// The settings of a [`ResNet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResNetOptions {
    kind: BlockKind,
    blocks: [usize; 4],
    inputs: usize,
    width: usize,
    classes: usize,
    small_images: bool,
}

impl ResNetOptions {
    /// 18 layers: 11.7 million weights with 1000 classes.
    pub fn resnet18() -> Self {
        Self::basic([2, 2, 2, 2])
    }
    /// 34 layers: 21.8 million weights with 1000 classes.
    pub fn resnet34() -> Self {
        Self::basic([3, 4, 6, 3])
    }
    /// 50 layers: 25.6 million weights with 1000 classes. As in torchvision, the stride of a block
    /// is that of its 3 x 3 convolution; in the paper it is that of the first one.
    pub fn resnet50() -> Self {
        Self::bottleneck([3, 4, 6, 3])
    }
    /// This many blocks of two 3 x 3 convolutions in each of the four stages.
    pub fn basic(blocks: [usize; 4]) -> Self {
        ResNetOptions {
            kind: BlockKind::Basic,
            blocks,
            inputs: 3,
            width: 64,
            classes: 1000,
            small_images: false,
        }
    }
    /// This many blocks of 1 x 1, 3 x 3 and 1 x 1 convolutions in each of the four stages.
    pub fn bottleneck(blocks: [usize; 4]) -> Self {
        ResNetOptions { kind: BlockKind::Bottleneck, ..Self::basic(blocks) }
    }
    /// Input channels. Default: 3.
    #[must_use]
    pub fn inputs(mut self, channels: usize) -> Self {
        self.inputs = channels;
        self
    }
    /// Channels of the first stage; each further one has twice as many. Default: 64.
    #[must_use]
    pub fn width(mut self, channels: usize) -> Self {
        self.width = channels;
        self
    }
    /// Number of classes. Default: 1000.
    #[must_use]
    pub fn classes(mut self, classes: usize) -> Self {
        self.classes = classes;
        self
    }
    /// For small images (32 x 32): the first convolution is 3 x 3 with stride 1, without a pool
    /// after it. Default: no.
    #[must_use]
    pub fn small_images(mut self, yes: bool) -> Self {
        self.small_images = yes;
        self
    }
    /// A network of f32 with these settings, with random weights from `g`: convolutions normal by
    /// the outputs (He), the last layer uniform, norms 1 and 0.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn init<B: Backend>(self, g: &mut Generator, device: &B::Device) -> ResNet<B> {
        let (kernel, stride) = if self.small_images { (3, 1) } else { (7, 2) };
        let conv1 = convolution(kernel, stride, [self.inputs, self.width], g, device);
        let mut channels = self.width;
        let mut stage = |i: usize, g: &mut Generator| {
            let inside = self.width << i;
            (0..self.blocks[i])
                .map(|k| {
                    let stride = if i > 0 && k == 0 { 2 } else { 1 };
                    let block = Block::new(self.kind, channels, inside, stride, g, device);
                    channels = inside * self.kind.expansion();
                    block
                })
                .collect::<Vec<_>>()
        };
        ResNet {
            conv1,
            bn1: BatchNorm2d::new(self.width, device),
            maxpool: (!self.small_images).then(|| MaxPool2d::new(3).stride(2).padding(1)),
            layer1: stage(0, g),
            layer2: stage(1, g),
            layer3: stage(2, g),
            layer4: stage(3, g),
            avgpool: AdaptiveAvgPool2d::new(1),
            fc: Linear::new(channels, self.classes, g, device),
        }
    }
}

/// A convolution of this many taps that keeps the image's size except for the stride, without a
/// bias, which the norm after it would cancel.
#[track_caller]
fn convolution<B: Backend>(
    kernel: usize,
    stride: usize,
    [inputs, outputs]: [usize; 2],
    g: &mut Generator,
    device: &B::Device,
) -> Conv2d<B> {
    let weight = init::kaiming_normal([outputs, inputs, kernel, kernel], Fan::Out, Gain::Relu, g, device);
    let options = Conv2dOptions::new(inputs, outputs, kernel).stride(stride).padding(kernel / 2);
    options.from_weights(&weight, None).or_fail()
}

/// A residual network for images.
///
/// x: [n, inputs, h, w]   y: [n, classes] logits
#[derive(Debug, Module)]
pub struct ResNet<B: Backend> {
    conv1: Conv2d<B>,
    bn1: BatchNorm2d<B>,
    maxpool: Option<MaxPool2d>,
    layer1: Vec<Block<B>>,
    layer2: Vec<Block<B>>,
    layer3: Vec<Block<B>>,
    layer4: Vec<Block<B>>,
    avgpool: AdaptiveAvgPool2d,
    /// The last layer, to be replaced for other classes.
    pub fc: Linear<B>,
}

impl<B: Backend> ResNet<B> {
    /// The features that the last layer reads: [n, channels].
    ///
    /// # Panics
    /// If the input does not fit.
    #[track_caller]
    pub fn features(&self, x: &Tensor<B>) -> Tensor<B> {
        let mut x = self.bn1.forward(&self.conv1.forward(x)).relu();
        if let Some(pool) = &self.maxpool {
            x = pool.forward(&x);
        }
        for block in [&self.layer1, &self.layer2, &self.layer3, &self.layer4].into_iter().flatten() {
            x = block.forward(&x);
        }
        self.avgpool.forward(&x).flatten(1, -1)
    }
}

impl<B: Backend> Layer<B> for ResNet<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        self.fc.forward(&self.features(x))
    }
}

/// Two or three convolutions with a shortcut.
#[derive(Debug, Module)]
struct Block<B: Backend> {
    conv1: Conv2d<B>,
    bn1: BatchNorm2d<B>,
    conv2: Conv2d<B>,
    bn2: BatchNorm2d<B>,
    conv3: Option<Conv2d<B>>,
    bn3: Option<BatchNorm2d<B>>,
    /// The shortcut, where sizes or channels change.
    downsample: Option<(Conv2d<B>, BatchNorm2d<B>)>,
}

impl<B: Backend> Block<B> {
    #[track_caller]
    fn new(
        kind: BlockKind,
        inputs: usize,
        inside: usize,
        stride: usize,
        g: &mut Generator,
        device: &B::Device,
    ) -> Self {
        let outputs = inside * kind.expansion();
        let norm = |channels| BatchNorm2d::new(channels, device);
        // (taps, stride) of the first two; the third, if any, expands the channels.
        let (first, second, third) = match kind {
            BlockKind::Basic => ((3, stride), (3, 1), false),
            BlockKind::Bottleneck => ((1, 1), (3, stride), true),
        };
        Block {
            conv1: convolution(first.0, first.1, [inputs, inside], g, device),
            bn1: norm(inside),
            conv2: convolution(second.0, second.1, [inside, inside], g, device),
            bn2: norm(inside),
            conv3: third.then(|| convolution(1, 1, [inside, outputs], g, device)),
            bn3: third.then(|| norm(outputs)),
            downsample: (stride != 1 || inputs != outputs)
                .then(|| (convolution(1, stride, [inputs, outputs], g, device), norm(outputs))),
        }
    }
}

impl<B: Backend> Layer<B> for Block<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        let mut y = self.bn1.forward(&self.conv1.forward(x)).relu();
        y = self.bn2.forward(&self.conv2.forward(&y));
        if let (Some(conv), Some(norm)) = (&self.conv3, &self.bn3) {
            y = norm.forward(&conv.forward(&y.relu()));
        }
        let shortcut = match &self.downsample {
            Some((conv, norm)) => norm.forward(&conv.forward(x)),
            None => x.clone(),
        };
        (y + shortcut).relu()
    }
}
