//! The networks of the training workloads, as the other libraries' measurements have them.

use elinvar::nn::layers::{Conv2d, Conv2dOptions, Embedding, LayerNorm, Linear, MaxPool2d, attend};
use elinvar::nn::{Backend, Generator, Layer, Module, Tensor};
use elinvar::ops::catalogue::gelu::Approximate;
use elinvar::{Error, Result};

/// Two convolutions and two linear layers.
///
/// x: [n, 1, side, side]   y: [n, 10]
#[derive(Debug, Module)]
pub struct Cnn<B: Backend> {
    conv1: Conv2d<B>,
    conv2: Conv2d<B>,
    pool: MaxPool2d,
    fc1: Linear<B>,
    fc2: Linear<B>,
}

/// The sizes of a [`Cnn`], and of its batch.
#[derive(Clone, Copy, Debug)]
pub struct CnnSizes {
    /// Pixels of a side.
    pub side: usize,
    /// Channels of each convolution.
    pub channels: [usize; 2],
    /// Features between the linear layers.
    pub inner: usize,
    /// Images.
    pub batch: usize,
}

impl CnnSizes {
    /// The smallest: two convolutions of 3 x 3 and a pool leave one pixel.
    pub const LEAST: CnnSizes = CnnSizes { side: 6, channels: [1, 1], inner: 1, batch: 1 };
}

impl<B: Backend> Cnn<B> {
    /// With weights drawn from `g`.
    pub fn new(s: CnnSizes, g: &mut Generator, device: &B::Device) -> Self {
        let ([a, b], side) = (s.channels, (s.side - 4) / 2);
        Cnn {
            conv1: Conv2dOptions::new(1, a, 3).init(g, device),
            conv2: Conv2dOptions::new(a, b, 3).init(g, device),
            pool: MaxPool2d::new(2),
            fc1: Linear::new(b * side * side, s.inner, g, device),
            fc2: Linear::new(s.inner, 10, g, device),
        }
    }
}

impl<B: Backend> Layer<B> for Cnn<B> {
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        let x = self.conv2.forward(&self.conv1.forward(x).relu()).relu();
        let x = self.fc1.forward(&self.pool.forward(&x).flatten(1, -1)).relu();
        self.fc2.forward(&x)
    }
}

/// The sizes of a [`Gpt`].
#[derive(Clone, Copy, Debug)]
pub struct GptSizes {
    /// Blocks.
    pub layers: usize,
    /// Features of a token.
    pub features: usize,
    /// Heads of each attention.
    pub heads: usize,
    /// Tokens of a sequence.
    pub context: usize,
    /// Size of the vocabulary.
    pub vocabulary: usize,
}

/// GPT-2's architecture, but with a head that has a weight and a bias of its own, and linear layers
/// with weights [out, in].
///
/// x: [b, t] of i64   y: [b, t, vocabulary]
#[derive(Debug, Module)]
pub struct Gpt<B: Backend> {
    tokens: Embedding<B>,
    positions: Embedding<B>,
    blocks: Vec<Block<B>>,
    norm: LayerNorm<B>,
    head: Linear<B>,
}

#[derive(Debug, Module)]
struct Block<B: Backend> {
    norm1: LayerNorm<B>,
    qkv: Linear<B>,
    out: Linear<B>,
    norm2: LayerNorm<B>,
    up: Linear<B>,
    down: Linear<B>,
    heads: usize,
}

impl<B: Backend> Gpt<B> {
    /// With weights drawn from `g`.
    pub fn new(s: GptSizes, g: &mut Generator, device: &B::Device) -> Self {
        let e = s.features;
        Gpt {
            tokens: Embedding::new(s.vocabulary, e, g, device),
            positions: Embedding::new(s.context, e, g, device),
            blocks: (0..s.layers)
                .map(|_| Block {
                    norm1: LayerNorm::new(e, device),
                    qkv: Linear::new(e, 3 * e, g, device),
                    out: Linear::new(e, e, g, device),
                    norm2: LayerNorm::new(e, device),
                    up: Linear::new(e, 4 * e, g, device),
                    down: Linear::new(4 * e, e, g, device),
                    heads: s.heads,
                })
                .collect(),
            norm: LayerNorm::new(e, device),
            head: Linear::new(e, s.vocabulary, g, device),
        }
    }
    /// The logits of every token's successor.
    ///
    /// # Errors
    /// `ShapeMismatch` if x is not [b, t]; the device's errors.
    pub fn forward(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        let x = self.tokens.forward(x) + self.positions.weight.get();
        let x = self.blocks.iter().try_fold(x, |x, block| block.forward(&x))?;
        Ok(self.head.forward(&self.norm.forward(&x)))
    }
}

impl<B: Backend> Block<B> {
    fn forward(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        let &[b, t, e] = x.dims() else {
            return Err(Error::shape(format!("gpt: {}; it should be [b, t, features]", x.shape())));
        };
        let head = [b, t, self.heads, e / self.heads].map(|n| n as isize);
        let qkv = self.qkv.forward(&self.norm1.forward(x)).split(e, 2);
        let [q, k, v] = [0, 1, 2].map(|i| qkv[i].reshape(head).transpose(1, 2));
        let found = attend(&q, &k, &v, None, true, None)?.transpose(1, 2);
        let x = x + self.out.forward(&found.reshape([b as isize, t as isize, e as isize]));
        let wide = self.up.forward(&self.norm2.forward(&x)).gelu(Approximate::Tanh);
        Ok(&x + self.down.forward(&wide))
    }
}
