//! The tasks of `tools/parity.py`, by the same names: a small model and an optimiser each.

use super::{B, D, T};
use elinvar_nn::layers::recurrent::Kind;
use elinvar_nn::layers::*;
use elinvar_nn::optim::{
    Adadelta, Adagrad, Adam, AdamW, Adamax, Descent, Group, Muon, NAdam, Optimizer, RAdam, RmsProp, Rule, Sgd,
};
use elinvar_nn::{Generator, Layer, Module, Sequential, Visit};

/// A model and an optimiser, the same as on PyTorch's side.
pub struct Task {
    /// The prefix of tensor names in the file.
    pub name: &'static str,
    /// The model, with random weights.
    pub model: fn(&mut Generator) -> Sequential<B>,
    /// The optimiser with its settings.
    pub configured: MakeOptimizer,
    /// The same optimiser with default settings, which the state replaces.
    pub bare: MakeOptimizer,
    /// Does a parameter name belong to the second group?
    pub second: fn(&str) -> bool,
}

type MakeOptimizer = Box<dyn Fn() -> Box<dyn Optimizer<B>>>;

/// All tasks.
pub fn all() -> Vec<Task> {
    vec![
        layer("linear", linear),
        layer("conv1d", conv1d),
        layer("conv2d", conv2d),
        layer("conv3d", conv3d),
        layer("conv_transpose1d", conv_transpose1d),
        layer("conv_transpose2d", conv_transpose2d),
        layer("conv_transpose3d", conv_transpose3d),
        layer("embedding", |g| chain().with(Embedding::new(7, 4, g, &D).padding(2)).with(full(4, 3, g))),
        layer("layer_norm", |g| between(LayerNorm::new(6, &D), g)),
        layer("rms_norm", |g| between(RMSNorm::new(6, &D), g)),
        layer("group_norm", |g| {
            let first = Conv1d::new(2, 4, 3, g, &D);
            chain().with(first).with(GroupNorm::new(2, 4, &D)).with(Tanh).with(Conv1d::new(4, 2, 2, g, &D))
        }),
        layer("batch_norm1d", |g| between(BatchNorm1d::new(6, &D), g)),
        layer("batch_norm2d", |g| between_images(BatchNorm2d::new(4, &D), g)),
        layer("batch_norm3d", |g| between_volumes(BatchNorm3d::new(3, &D), g)),
        layer("instance_norm1d", |g| {
            let norm = InstanceNorm1d::new(4).affine(&D).running(&D);
            chain().with(Conv1d::new(2, 4, 2, g, &D)).with(norm).with(Tanh).with(Conv1d::new(4, 2, 2, g, &D))
        }),
        layer("instance_norm2d", |g| between_images(InstanceNorm2d::new(4).affine(&D), g)),
        layer("instance_norm3d", |g| between_volumes(InstanceNorm3d::new(3).affine(&D), g)),
        layer("prelu", |g| {
            chain().with(full(4, 6, g)).with(PReLU::new(6, &D)).with(full(6, 3, g)).with(PReLU::new(1, &D))
        }),
        layer("rnn", |g| {
            let rnn = RNNOptions::new(4, 3).layers(2).bidirectional(true).init(g, &D);
            ends(rnn, 6, g)
        }),
        layer("gru", |g| {
            let gru = GRUOptions::new(4, 3).layers(2).bidirectional(true).init(g, &D);
            ends(gru, 6, g)
        })
        .lr(0.2),
        layer("lstm", |g| {
            let lstm = LSTMOptions::new(4, 3).layers(2).bidirectional(true).batch_first(true).init(g, &D);
            ends(lstm, 6, g)
        })
        .lr(0.2),
        layer("multihead_attention", |g| {
            let attention = MultiheadAttentionOptions::new(4, 2).batch_first(true).init(g, &D);
            ends(SelfAttention { attention }, 4, g)
        })
        .lr(0.2),
        layer("rnn_cell", |g| {
            let cell = RNNCell::new(4, 3, g, &D);
            ends(Steps { cell, output: T::clone }, 3, g)
        }),
        layer("lstm_cell", |g| {
            let cell = LSTMCell::new(4, 3, g, &D);
            ends(Steps { cell, output: |(h, _)| h.clone() }, 3, g)
        })
        .lr(0.2),
        layer("gru_cell", |g| {
            let cell = GRUCell::new(4, 3, g, &D);
            ends(Steps { cell, output: T::clone }, 3, g)
        })
        .lr(0.2),
        layer("transformer_encoder_layer", |g| {
            let layer = transformer().encoder_layer(g, &D);
            ends(layer, 4, g)
        }),
        layer("transformer_encoder", |g| {
            let encoder = transformer().encoder(2, true, g, &D);
            ends(encoder, 4, g)
        }),
        layer("transformer_decoder_layer", |g| {
            let decoder = decoding().decoder_layer(g, &D);
            ends(Decode { decoder }, 4, g)
        }),
        layer("transformer_decoder", |g| {
            let decoder = decoding().decoder(2, false, g, &D);
            ends(DecodeStack { decoder }, 4, g)
        }),
        layer("tied_weights", |g| {
            let embedding = Embedding::new(7, 4, g, &D);
            let mix = full(4, 4, g);
            let mut head = full(4, 7, g);
            head.weight = embedding.weight.share();
            chain().with(Tied { embedding, mix, head })
        }),
        optimizer("sgd", 0.1, |o: Sgd<B>| o.momentum(0.9).nesterov(true)),
        optimizer("sgd_dampened", 0.1, |o: Sgd<B>| o.momentum(0.8).dampening(0.3)),
        optimizer("adam", 0.03, |o: Adam<B>| o.betas(0.8, 0.95)),
        optimizer("adamw", 0.03, |o: AdamW<B>| o.amsgrad(true)),
        optimizer("rmsprop", 0.003, |o: RmsProp<B>| o.centered(true).momentum(0.9)),
        optimizer("adagrad", 0.1, |o: Adagrad<B>| o.lr_decay(0.1)),
        optimizer("adadelta", 1.0, |o: Adadelta<B>| o.rho(0.8).eps(1e-3)),
        optimizer("adamax", 0.03, |o: Adamax<B>| o),
        optimizer("nadam", 0.03, |o: NAdam<B>| o),
        optimizer("radam", 0.03, |o: RAdam<B>| o),
        Task { model: matrices, ..grouped("muon", 0.03, |name| name.starts_with("2."), |o: Muon<B>| o) },
    ]
}

/// A layer's task.
fn layer(name: &'static str, model: fn(&mut Generator) -> Sequential<B>) -> Task {
    Task {
        name,
        model,
        configured: Box::new(|| Box::new(Sgd::new(0.05).momentum(0.9))),
        bare: Box::new(|| Box::new(Sgd::new(1.0))),
        second: |_| false,
    }
}

impl Task {
    fn lr(mut self, lr: f64) -> Self {
        self.configured = Box::new(move || Box::new(Sgd::new(lr).momentum(0.9)));
        self
    }
}

/// An optimiser's task: weights and biases are groups.
fn optimizer<R: Rule>(name: &'static str, lr: f64, set: fn(Descent<B, R>) -> Descent<B, R>) -> Task {
    grouped(name, lr, |name| name.ends_with("bias"), set)
}

/// The second group has half of the learning rate, and no weight decay.
fn grouped<R: Rule>(
    name: &'static str,
    lr: f64,
    second: fn(&str) -> bool,
    set: fn(Descent<B, R>) -> Descent<B, R>,
) -> Task {
    let configured = move || -> Box<dyn Optimizer<B>> {
        let group = Group::matching(second).lr(lr / 2.0).weight_decay(0.0);
        Box::new(set(Descent::new(lr)).weight_decay(0.1).group(group))
    };
    let bare = move || -> Box<dyn Optimizer<B>> {
        Box::new(Descent::<B, R>::new(1.0).group(Group::matching(second)))
    };
    Task { name, model: mlp, configured: Box::new(configured), bare: Box::new(bare), second }
}

fn chain() -> Sequential<B> {
    Sequential::new()
}

fn full(inputs: usize, outputs: usize, g: &mut Generator) -> Linear<B> {
    Linear::new(inputs, outputs, g, &D)
}

fn mlp(g: &mut Generator) -> Sequential<B> {
    chain().with(full(4, 6, g)).with(Tanh).with(full(6, 3, g))
}

fn matrices(g: &mut Generator) -> Sequential<B> {
    let [first, last] = [(4, 6), (6, 3)].map(|(i, o)| Linear::without_bias(i, o, g, &D));
    chain().with(first).with(Tanh).with(last)
}

/// A norm of six features between linear layers, so that its input gradient is needed.
fn between(norm: impl Layer<B> + 'static, g: &mut Generator) -> Sequential<B> {
    chain().with(full(4, 6, g)).with(norm).with(Tanh).with(full(6, 3, g))
}

/// A norm of four channels between convolutions.
fn between_images(norm: impl Layer<B> + 'static, g: &mut Generator) -> Sequential<B> {
    chain().with(Conv2d::new(2, 4, 2, g, &D)).with(norm).with(Tanh).with(Conv2d::new(4, 2, 2, g, &D))
}

/// A norm of three channels between convolutions.
fn between_volumes(norm: impl Layer<B> + 'static, g: &mut Generator) -> Sequential<B> {
    chain().with(Conv3d::new(2, 3, (1, 2, 1), g, &D)).with(norm).with(Tanh).with(Conv3d::new(3, 1, 2, g, &D))
}

/// A layer from 4 features to `outputs` of them, between linear layers.
fn ends(layer: impl Layer<B> + 'static, outputs: usize, g: &mut Generator) -> Sequential<B> {
    chain().with(full(3, 4, g)).with(layer).with(full(outputs, 2, g))
}

fn linear(g: &mut Generator) -> Sequential<B> {
    let last = Linear::without_bias(6, 3, g, &D);
    chain().with(full(4, 6, g)).with(Dropout::new(0.0, g)).with(Tanh).with(last)
}

fn conv1d(g: &mut Generator) -> Sequential<B> {
    let last = Conv1dOptions::new(4, 2, 2).groups(2).init(g, &D);
    chain().with(Conv1dOptions::new(2, 4, 3).stride(2).padding(1).init(g, &D)).with(Tanh).with(last)
}

fn conv2d(g: &mut Generator) -> Sequential<B> {
    let last = Conv2dOptions::new(4, 2, (2, 3)).stride(2).dilation((2, 1)).init(g, &D);
    chain().with(Conv2dOptions::new(2, 4, 3).padding(1).groups(2).init(g, &D)).with(Tanh).with(last)
}

fn conv3d(g: &mut Generator) -> Sequential<B> {
    let last = Conv3dOptions::new(3, 2, (1, 2, 2)).padding((0, 1, 0)).init(g, &D);
    chain().with(Conv3d::new(2, 3, 2, g, &D)).with(Tanh).with(last)
}

fn conv_transpose1d(g: &mut Generator) -> Sequential<B> {
    let first = ConvTranspose1dOptions::new(2, 4, 3).stride(2).padding(1).output_padding(1).init(g, &D);
    chain().with(first).with(Tanh).with(ConvTranspose1dOptions::new(4, 2, 2).groups(2).init(g, &D))
}

fn conv_transpose2d(g: &mut Generator) -> Sequential<B> {
    let first = ConvTranspose2dOptions::new(2, 3, (2, 3)).stride(2).init(g, &D);
    let last = ConvTranspose2dOptions::new(3, 2, 2).dilation(2).padding(1).init(g, &D);
    chain().with(first).with(Tanh).with(last)
}

fn conv_transpose3d(g: &mut Generator) -> Sequential<B> {
    let last = ConvTranspose3dOptions::new(3, 1, (1, 2, 2)).padding((0, 1, 1)).init(g, &D);
    chain().with(ConvTranspose3d::new(2, 3, 2, g, &D)).with(Tanh).with(last)
}

fn transformer() -> TransformerOptions {
    TransformerOptions::new(4, 2).feedforward(6).dropout(0.0).batch_first(true)
}

fn decoding() -> TransformerOptions {
    transformer().activation(MlpActivation::Gelu).norm_first(true)
}

/// A cell over the first axis, from a state of zeros.
struct Steps<K: Kind> {
    cell: Cell<B, K>,
    output: fn(&K::State<B>) -> T,
}

impl<K: Kind> Module<B> for Steps<K> {
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
        visit.module(name, &"Steps", |visit| self.cell.visit("cell", visit));
    }
}

impl<K: Kind> Layer<B> for Steps<K> {
    fn forward(&self, x: &T) -> T {
        let (mut state, mut outputs) = (None, vec![]);
        for i in 0..x.size(0) {
            let next = self.cell.forward(&x.select(0, i as isize), state.as_ref());
            outputs.push((self.output)(&next));
            state = Some(next);
        }
        T::stack(&outputs.iter().collect::<Vec<_>>(), 0)
    }
}

/// Self-attention.
#[derive(Module)]
struct SelfAttention {
    attention: MultiheadAttention<B>,
}

impl Layer<B> for SelfAttention {
    fn forward(&self, x: &T) -> T {
        self.attention.forward(x, x, x, &AttentionMasks::none())
    }
}

/// The last two tokens attend to the first three.
#[derive(Module)]
struct Decode {
    decoder: TransformerDecoderLayer<B>,
}

/// As [`Decode`] with several layers.
#[derive(Module)]
struct DecodeStack {
    decoder: TransformerDecoder<B>,
}

fn tgt_memory(x: &T) -> (T, T) {
    (x.narrow(1, 3, 2), x.narrow(1, 0, 3))
}

impl Layer<B> for Decode {
    fn forward(&self, x: &T) -> T {
        let (tgt, memory) = tgt_memory(x);
        self.decoder.forward(&tgt, &memory, &AttentionMasks::causal(), &AttentionMasks::none())
    }
}

impl Layer<B> for DecodeStack {
    fn forward(&self, x: &T) -> T {
        let (tgt, memory) = tgt_memory(x);
        self.decoder.forward(&tgt, &memory, &AttentionMasks::causal(), &AttentionMasks::none())
    }
}

/// The input embedding is tied to the output weight.
#[derive(Module)]
struct Tied {
    embedding: Embedding<B>,
    mix: Linear<B>,
    head: Linear<B>,
}

impl Layer<B> for Tied {
    fn forward(&self, x: &T) -> T {
        self.head.forward(&self.mix.forward(&self.embedding.forward(x)).tanh())
    }
}
