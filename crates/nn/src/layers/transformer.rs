//! Transformer layers and stacks of them (Vaswani and others, 2017), with PyTorch's names, defaults
//! and order of norms.

use super::{AttentionMasks, Dropout, LayerNorm, Linear, MultiheadAttention, MultiheadAttentionOptions};
use crate::{Layer, Module};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_ops::catalogue::gelu::Approximate;
use elinvar_tensor::{Generator, OrFail, Tensor};
use std::fmt;

/// The activation between the two products of a feed-forward block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MlpActivation {
    /// max(x, 0)
    Relu,
    /// x times the normal distribution function of x
    Gelu,
    /// The same by its approximation with tanh: "gelu_new"
    GeluTanh,
    /// x * sigmoid(x)
    Silu,
}

impl MlpActivation {
    /// The function, elementwise.
    ///
    /// # Panics
    /// If the elements are not floats, or memory is exhausted.
    #[track_caller]
    pub fn apply<B: Backend>(self, x: &Tensor<B>) -> Tensor<B> {
        let y = match self {
            MlpActivation::Relu => op::relu(x),
            MlpActivation::Gelu => op::gelu(x, Approximate::None),
            MlpActivation::GeluTanh => op::gelu(x, Approximate::Tanh),
            MlpActivation::Silu => op::silu(x),
        };
        y.or_fail()
    }
}

/// The settings of transformer layers, each with PyTorch's default.
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerOptions {
    features: usize,
    heads: usize,
    feedforward: usize,
    dropout: f64,
    activation: MlpActivation,
    eps: f64,
    batch_first: bool,
    norm_first: bool,
    bias: bool,
}

impl TransformerOptions {
    /// Settings of layers with these features and heads.
    pub fn new(features: usize, heads: usize) -> Self {
        TransformerOptions {
            features,
            heads,
            feedforward: 2048,
            dropout: 0.1,
            activation: MlpActivation::Relu,
            eps: 1e-5,
            batch_first: false,
            norm_first: false,
            bias: true,
        }
    }
    /// Width of the feed-forward block. Default: 2048.
    #[must_use]
    pub fn feedforward(mut self, width: usize) -> Self {
        self.feedforward = width;
        self
    }
    /// Probability of every dropout. Default: 0.1.
    #[must_use]
    pub fn dropout(mut self, p: f64) -> Self {
        self.dropout = p;
        self
    }
    /// The activation. Default: ReLU.
    #[must_use]
    pub fn activation(mut self, activation: MlpActivation) -> Self {
        self.activation = activation;
        self
    }
    /// The eps of the norms. Default: 1e-5.
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }
    /// Is the batch the first axis? Default: no.
    #[must_use]
    pub fn batch_first(mut self, batch_first: bool) -> Self {
        self.batch_first = batch_first;
        self
    }
    /// Pre-norm: is the norm before each block, instead of after the sum? Default: no.
    #[must_use]
    pub fn norm_first(mut self, norm_first: bool) -> Self {
        self.norm_first = norm_first;
        self
    }
    /// With biases, including those of the norms? Default: yes.
    #[must_use]
    pub fn bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }
    /// An encoder layer of f32.
    ///
    /// # Panics
    /// If the features do not divide among the heads, the dropout is not in 0..=1, or memory is
    /// exhausted.
    #[track_caller]
    pub fn encoder_layer<B: Backend>(
        &self,
        g: &mut Generator,
        device: &B::Device,
    ) -> TransformerEncoderLayer<B> {
        TransformerEncoderLayer {
            self_attn: self.attention(g, device),
            linear1: self.linear(self.features, self.feedforward, g, device),
            dropout: Dropout::new(self.dropout, g),
            linear2: self.linear(self.feedforward, self.features, g, device),
            norm1: self.norm(device),
            norm2: self.norm(device),
            dropout1: Dropout::new(self.dropout, g),
            dropout2: Dropout::new(self.dropout, g),
            options: self.clone(),
        }
    }
    /// A decoder layer of f32.
    ///
    /// # Panics
    /// As [`TransformerOptions::encoder_layer`].
    #[track_caller]
    pub fn decoder_layer<B: Backend>(
        &self,
        g: &mut Generator,
        device: &B::Device,
    ) -> TransformerDecoderLayer<B> {
        TransformerDecoderLayer {
            self_attn: self.attention(g, device),
            multihead_attn: self.attention(g, device),
            linear1: self.linear(self.features, self.feedforward, g, device),
            dropout: Dropout::new(self.dropout, g),
            linear2: self.linear(self.feedforward, self.features, g, device),
            norm1: self.norm(device),
            norm2: self.norm(device),
            norm3: self.norm(device),
            dropout1: Dropout::new(self.dropout, g),
            dropout2: Dropout::new(self.dropout, g),
            dropout3: Dropout::new(self.dropout, g),
            options: self.clone(),
        }
    }
    /// This many layers, and a norm after the last if `norm` (usual with
    /// [`TransformerOptions::norm_first`]). Unlike in PyTorch, where all are copies of one, each
    /// has different initial weights.
    ///
    /// # Panics
    /// As [`TransformerOptions::encoder_layer`].
    #[track_caller]
    pub fn encoder<B: Backend>(
        &self,
        layers: usize,
        norm: bool,
        g: &mut Generator,
        device: &B::Device,
    ) -> TransformerEncoder<B> {
        let layers = (0..layers).map(|_| self.encoder_layer(g, device)).collect();
        TransformerEncoder { layers, norm: norm.then(|| self.norm(device)) }
    }
    /// As [`TransformerOptions::encoder`], of decoder layers.
    ///
    /// # Panics
    /// As [`TransformerOptions::encoder_layer`].
    #[track_caller]
    pub fn decoder<B: Backend>(
        &self,
        layers: usize,
        norm: bool,
        g: &mut Generator,
        device: &B::Device,
    ) -> TransformerDecoder<B> {
        let layers = (0..layers).map(|_| self.decoder_layer(g, device)).collect();
        TransformerDecoder { layers, norm: norm.then(|| self.norm(device)) }
    }
    #[track_caller]
    fn attention<B: Backend>(&self, g: &mut Generator, device: &B::Device) -> MultiheadAttention<B> {
        MultiheadAttentionOptions::new(self.features, self.heads)
            .dropout(self.dropout)
            .bias(self.bias)
            .batch_first(self.batch_first)
            .init(g, device)
    }
    #[track_caller]
    fn linear<B: Backend>(&self, i: usize, o: usize, g: &mut Generator, device: &B::Device) -> Linear<B> {
        match self.bias {
            true => Linear::new(i, o, g, device),
            false => Linear::without_bias(i, o, g, device),
        }
    }
    #[track_caller]
    fn norm<B: Backend>(&self, device: &B::Device) -> LayerNorm<B> {
        let norm = LayerNorm::new(self.features, device).eps(self.eps);
        if self.bias { norm } else { norm.without_bias() }
    }
}

/// x + block(norm(x)), or norm(x + block(x)).
#[track_caller]
fn residual<B: Backend>(
    x: &Tensor<B>,
    norm: &LayerNorm<B>,
    norm_first: bool,
    block: impl FnOnce(&Tensor<B>) -> Tensor<B>,
) -> Tensor<B> {
    if norm_first { x + block(&norm.forward(x)) } else { norm.forward(&(x + block(x))) }
}

/// Self-attention, then a feed-forward block.
///
/// x: [t, b, features], or [b, t, features] if `batch_first`   y: as x
#[derive(Debug, Module)]
#[module(display)]
pub struct TransformerEncoderLayer<B: Backend> {
    /// The self-attention.
    pub self_attn: MultiheadAttention<B>,
    /// To the width of the feed-forward block.
    pub linear1: Linear<B>,
    dropout: Dropout,
    /// From the width of the feed-forward block back to the features.
    pub linear2: Linear<B>,
    /// The norm of the self-attention.
    pub norm1: LayerNorm<B>,
    /// The norm of the feed-forward block.
    pub norm2: LayerNorm<B>,
    dropout1: Dropout,
    dropout2: Dropout,
    #[module(skip)]
    options: TransformerOptions,
}

impl<B: Backend> TransformerEncoderLayer<B> {
    /// With masks: PyTorch's src_mask, src_key_padding_mask and is_causal.
    ///
    /// # Panics
    /// If shapes or dtypes do not fit, or memory is exhausted.
    #[track_caller]
    pub fn forward_masked(&self, x: &Tensor<B>, masks: &AttentionMasks<B>) -> Tensor<B> {
        let o = &self.options;
        let x = residual(x, &self.norm1, o.norm_first, |x| {
            self.dropout1.forward(&self.self_attn.forward(x, x, x, masks))
        });
        residual(&x, &self.norm2, o.norm_first, |x| {
            let wide = self.dropout.forward(&o.activation.apply(&self.linear1.forward(x)));
            self.dropout2.forward(&self.linear2.forward(&wide))
        })
    }
}

impl<B: Backend> Layer<B> for TransformerEncoderLayer<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        self.forward_masked(x, &AttentionMasks::none())
    }
}

/// Self-attention, cross-attention to a memory (the encoder's output), then a feed-forward block.
///
/// tgt: [t, b, features]   memory: [s, b, features]   y: as tgt; the batch first if `batch_first`
#[derive(Debug, Module)]
#[module(display)]
pub struct TransformerDecoderLayer<B: Backend> {
    /// The self-attention.
    pub self_attn: MultiheadAttention<B>,
    /// The cross-attention.
    pub multihead_attn: MultiheadAttention<B>,
    /// To the width of the feed-forward block.
    pub linear1: Linear<B>,
    dropout: Dropout,
    /// From the width of the feed-forward block back to the features.
    pub linear2: Linear<B>,
    /// The norm of the self-attention.
    pub norm1: LayerNorm<B>,
    /// The norm of the cross-attention.
    pub norm2: LayerNorm<B>,
    /// The norm of the feed-forward block.
    pub norm3: LayerNorm<B>,
    dropout1: Dropout,
    dropout2: Dropout,
    dropout3: Dropout,
    #[module(skip)]
    options: TransformerOptions,
}

impl<B: Backend> TransformerDecoderLayer<B> {
    /// With masks of the self-attention and of the cross-attention.
    ///
    /// # Panics
    /// If shapes or dtypes do not fit, or memory is exhausted.
    #[track_caller]
    pub fn forward(
        &self,
        tgt: &Tensor<B>,
        memory: &Tensor<B>,
        tgt_masks: &AttentionMasks<B>,
        memory_masks: &AttentionMasks<B>,
    ) -> Tensor<B> {
        let o = &self.options;
        let x = residual(tgt, &self.norm1, o.norm_first, |x| {
            self.dropout1.forward(&self.self_attn.forward(x, x, x, tgt_masks))
        });
        let x = residual(&x, &self.norm2, o.norm_first, |x| {
            self.dropout2.forward(&self.multihead_attn.forward(x, memory, memory, memory_masks))
        });
        residual(&x, &self.norm3, o.norm_first, |x| {
            let wide = self.dropout.forward(&o.activation.apply(&self.linear1.forward(x)));
            self.dropout3.forward(&self.linear2.forward(&wide))
        })
    }
}

/// Encoder layers, one after the other.
#[derive(Debug, Module)]
pub struct TransformerEncoder<B: Backend> {
    /// The layers.
    pub layers: Vec<TransformerEncoderLayer<B>>,
    /// Norm after the last layer.
    pub norm: Option<LayerNorm<B>>,
}

impl<B: Backend> TransformerEncoder<B> {
    /// With the same masks in all layers.
    ///
    /// # Panics
    /// If shapes or dtypes do not fit, or memory is exhausted.
    #[track_caller]
    pub fn forward_masked(&self, x: &Tensor<B>, masks: &AttentionMasks<B>) -> Tensor<B> {
        let x = self.layers.iter().fold(x.clone(), |x, layer| layer.forward_masked(&x, masks));
        self.norm.as_ref().map_or(x.clone(), |norm| norm.forward(&x))
    }
}

impl<B: Backend> Layer<B> for TransformerEncoder<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        self.forward_masked(x, &AttentionMasks::none())
    }
}

/// Decoder layers, one after the other, all with the same memory.
#[derive(Debug, Module)]
pub struct TransformerDecoder<B: Backend> {
    /// The layers.
    pub layers: Vec<TransformerDecoderLayer<B>>,
    /// Norm after the last layer.
    pub norm: Option<LayerNorm<B>>,
}

impl<B: Backend> TransformerDecoder<B> {
    /// With masks of the self-attention and of the cross-attention, the same in all layers.
    ///
    /// # Panics
    /// If shapes or dtypes do not fit, or memory is exhausted.
    #[track_caller]
    pub fn forward(
        &self,
        tgt: &Tensor<B>,
        memory: &Tensor<B>,
        tgt_masks: &AttentionMasks<B>,
        memory_masks: &AttentionMasks<B>,
    ) -> Tensor<B> {
        let step = |x: Tensor<B>, layer: &TransformerDecoderLayer<B>| {
            layer.forward(&x, memory, tgt_masks, memory_masks)
        };
        let x = self.layers.iter().fold(tgt.clone(), step);
        self.norm.as_ref().map_or(x.clone(), |norm| norm.forward(&x))
    }
}

impl fmt::Display for TransformerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} heads, feedforward {}", self.features, self.heads, self.feedforward)?;
        f.write_str(if self.norm_first { ", norms first" } else { "" })
    }
}

impl<B: Backend> fmt::Display for TransformerEncoderLayer<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransformerEncoderLayer({})", self.options)
    }
}

impl<B: Backend> fmt::Display for TransformerDecoderLayer<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransformerDecoderLayer({})", self.options)
    }
}
