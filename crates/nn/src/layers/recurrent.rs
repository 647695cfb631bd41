//! Recurrent networks: RNN, LSTM and GRU over whole sequences, with PyTorch's names of weights.
//!
//! How it can be wrong: the order of layers and directions. Weights and states are ordered [layer
//! 0, layer 0 reverse, layer 1, ...], and the final state of the reverse direction is that of the
//! first time step.

use super::Dropout;
use crate::{Layer, Module, Param, Visit, init};
use elinvar_core::host::with_capacity;
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_ops::catalogue::recurrent::{RnnOptions, RnnWeights};
use elinvar_tensor::{Generator, OrFail, Tensor};
use std::fmt;
use std::marker::PhantomData;

/// [`Recurrent`] of h' = tanh(w_ih x + b_ih + w_hh h + b_hh).
pub type RNN<B> = Recurrent<B, Elman>;
/// [`Recurrent`] of h' = max(w_ih x + b_ih + w_hh h + b_hh, 0): PyTorch's `RNN` with the
/// non-linearity relu.
pub type ReluRNN<B> = Recurrent<B, Rectified>;
/// [`Recurrent`] with a cell state and gates i, f, g, o (Hochreiter and Schmidhuber, 1997). Its
/// state is (h, c).
pub type LSTM<B> = Recurrent<B, LongShort>;
/// [`Recurrent`] with gates r, z, n (Cho and others, 2014).
pub type GRU<B> = Recurrent<B, Gated>;
/// The settings of an [`RNN`].
pub type RNNOptions = RecurrentOptions<Elman>;
/// The settings of a [`ReluRNN`].
pub type ReluRNNOptions = RecurrentOptions<Rectified>;
/// The settings of an [`LSTM`].
pub type LSTMOptions = RecurrentOptions<LongShort>;
/// The settings of a [`GRU`].
pub type GRUOptions = RecurrentOptions<Gated>;

/// The step function: the difference between [`RNN`], [`LSTM`] and [`GRU`].
pub trait Kind: fmt::Debug + Send + Sync + 'static {
    /// The layer's name.
    const NAME: &'static str;
    /// Number of gates in the weights.
    const GATES: usize;
    /// The recurrent state: h, or (h, c).
    type State<B: Backend>: State<B>;
    /// Runs over all time steps; returns y and the final state. There are as many `projections` as
    /// `weights`, or none.
    ///
    /// # Errors
    /// Those of the op.
    fn run<B: Backend>(
        x: &Tensor<B>,
        state: Option<&Self::State<B>>,
        weights: &[RnnWeights<Tensor<B>>],
        projections: &[&Tensor<B>],
        options: RnnOptions,
    ) -> Result<(Tensor<B>, Self::State<B>)>;
}

/// A state: one tensor or two, transformed in the same way.
pub trait State<B: Backend>: Clone + Send + Sync {
    /// Applies `f` to the corresponding tensors of `all`.
    ///
    /// # Errors
    /// Those of `f`.
    fn each(all: &[&Self], f: &dyn Fn(&[&Tensor<B>]) -> Result<Tensor<B>>) -> Result<Self>;
}

impl<B: Backend> State<B> for Tensor<B> {
    fn each(all: &[&Self], f: &dyn Fn(&[&Tensor<B>]) -> Result<Tensor<B>>) -> Result<Self> {
        f(all)
    }
}

impl<B: Backend> State<B> for (Tensor<B>, Tensor<B>) {
    fn each(all: &[&Self], f: &dyn Fn(&[&Tensor<B>]) -> Result<Tensor<B>>) -> Result<Self> {
        let of = |pick: fn(&Self) -> &Tensor<B>| f(&all.iter().map(|s| pick(s)).collect::<Vec<_>>());
        Ok((of(|s| &s.0)?, of(|s| &s.1)?))
    }
}

/// h' = tanh(w_ih x + b_ih + w_hh h + b_hh)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elman {}
/// h' = max(w_ih x + b_ih + w_hh h + b_hh, 0)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rectified {}
/// c' = s(f) c + s(i) tanh(g), h' = s(o) tanh(c'), with s the sigmoid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongShort {}
/// n' = tanh(n_ih + s(r) n_hh), h' = (1 - s(z)) n' + s(z) h, with s the sigmoid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gated {}

/// Kinds whose state is h alone: the layer's name, its gates, its op.
macro_rules! one_state {
    ($($kind:ident $name:literal $gates:literal $op:path;)*) => {$(
        impl Kind for $kind {
            const NAME: &'static str = $name;
            const GATES: usize = $gates;
            type State<B: Backend> = Tensor<B>;
            fn run<B: Backend>(
                x: &Tensor<B>,
                state: Option<&Tensor<B>>,
                weights: &[RnnWeights<Tensor<B>>],
                _: &[&Tensor<B>],
                options: RnnOptions,
            ) -> Result<(Tensor<B>, Tensor<B>)> {
                $op(x, state, weights, options)
            }
        }
    )*};
}
one_state! {
    Elman "RNN" 1 op::rnn_tanh;
    Rectified "RNN" 1 op::rnn_relu;
    Gated "GRU" 3 op::gru;
}

impl Kind for LongShort {
    const NAME: &'static str = "LSTM";
    const GATES: usize = 4;
    type State<B: Backend> = (Tensor<B>, Tensor<B>);
    fn run<B: Backend>(
        x: &Tensor<B>,
        state: Option<&Self::State<B>>,
        weights: &[RnnWeights<Tensor<B>>],
        projections: &[&Tensor<B>],
        options: RnnOptions,
    ) -> Result<(Tensor<B>, Self::State<B>)> {
        let (y, h, c) = op::lstm::projected(x, state.map(|(h, c)| (h, c)), weights, projections, options)?;
        Ok((y, (h, c)))
    }
}

/// The weights of one layer in one direction, or of a cell. Those of a cell are named `weight_ih`,
/// `weight_hh`, `bias_ih`, `bias_hh`, those of a network have the layer as a suffix:
/// `weight_ih_l0`, `weight_ih_l0_reverse`.
#[derive(Debug)]
pub struct Weights<B: Backend> {
    /// [gates * h, i]: for the input.
    pub weight_ih: Param<B>,
    /// [gates * h, h]: for the state.
    pub weight_hh: Param<B>,
    /// [gates * h]: added to the input's part, and to the state's part.
    pub bias: Option<(Param<B>, Param<B>)>,
    /// [p, h]: projects the output of an LSTM with [`RecurrentOptions::proj_size`], whose
    /// `weight_hh` is [gates * h, p].
    pub weight_hr: Option<Param<B>>,
}

impl<B: Backend> Weights<B> {
    /// Of f32, uniform in +-1 / sqrt(hidden); with a projection if `proj_size` is not 0.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub(super) fn new(
        gates: usize,
        inputs: usize,
        hidden: usize,
        proj_size: usize,
        bias: bool,
        g: &mut Generator,
        device: &B::Device,
    ) -> Self {
        let bound = init::default_bound(hidden);
        let rows = gates
            .checked_mul(hidden)
            .ok_or_else(|| {
                Error::memory(format!(
                    "recurrent: a state of {hidden} numbers has more weights than can be addressed"
                ))
            })
            .or_fail();
        let weight_ih = Param::new(init::uniform([rows, inputs], bound, g, device));
        let out = if proj_size == 0 { hidden } else { proj_size };
        let weight_hh = Param::new(init::uniform([rows, out], bound, g, device));
        let mut one = || Param::new(init::uniform(rows, bound, g, device));
        let bias = bias.then(|| (one(), one()));
        let weight_hr =
            (proj_size != 0).then(|| Param::new(init::uniform([proj_size, hidden], bound, g, device)));
        Weights { weight_ih, weight_hh, bias, weight_hr }
    }
    pub(super) fn visit<'a>(&'a self, suffix: &str, visit: &mut Visit<'a, '_, B>) {
        visit.param(&format!("weight_ih{suffix}"), &self.weight_ih);
        visit.param(&format!("weight_hh{suffix}"), &self.weight_hh);
        if let Some((ih, hh)) = &self.bias {
            visit.param(&format!("bias_ih{suffix}"), ih);
            visit.param(&format!("bias_hh{suffix}"), hh);
        }
        if let Some(hr) = &self.weight_hr {
            visit.param(&format!("weight_hr{suffix}"), hr);
        }
    }
    pub(super) fn now(&self) -> Values<B> {
        let bias = self.bias.as_ref().map(|(ih, hh)| (ih.get(), hh.get()));
        let w_hr = self.weight_hr.as_ref().map(Param::get);
        Values { w_ih: self.weight_ih.get(), w_hh: self.weight_hh.get(), bias, w_hr }
    }
}

/// The weights as tensors.
pub(super) struct Values<B: Backend> {
    w_ih: Tensor<B>,
    w_hh: Tensor<B>,
    bias: Option<(Tensor<B>, Tensor<B>)>,
    w_hr: Option<Tensor<B>>,
}

impl<B: Backend> Values<B> {
    pub(super) fn refs(&self) -> RnnWeights<'_, Tensor<B>> {
        let bias = self.bias.as_ref();
        RnnWeights { w_ih: &self.w_ih, w_hh: &self.w_hh, b_ih: bias.map(|b| &b.0), b_hh: bias.map(|b| &b.1) }
    }
}

/// A recurrent network: stacked layers over a sequence.
///
/// x: [t, n, in], or [n, t, in] if `batch_first`, or [t, in]
/// state: [layers * directions, n, hidden]
/// y: [t, n, directions * hidden] (or as x)
///
/// weight_ih_l0: [gates * hidden, in]   weight_hh_l0: [gates * hidden, hidden]
/// bias_ih_l0, bias_hh_l0: [gates * hidden]
///
/// With a projection of an LSTM's output the h of its state and y have its size instead of hidden,
/// and there is weight_hr_l0: [size, hidden].
#[derive(Debug)]
pub struct Recurrent<B: Backend, K: Kind> {
    /// Per layer and direction.
    weights: Vec<Weights<B>>,
    dropout: Option<Dropout>,
    options: RecurrentOptions<K>,
}

/// The settings of a [`Recurrent`], each with PyTorch's default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecurrentOptions<K: Kind> {
    inputs: usize,
    hidden: usize,
    proj_size: usize,
    layers: usize,
    bidirectional: bool,
    batch_first: bool,
    bias: bool,
    dropout: f64,
    kind: PhantomData<K>,
}

impl RecurrentOptions<LongShort> {
    /// Projects each output to this size, below that of the state: PyTorch's `proj_size`. Default:
    /// 0, no projection.
    #[must_use]
    pub fn proj_size(mut self, size: usize) -> Self {
        self.proj_size = size;
        self
    }
}

impl<K: Kind> RecurrentOptions<K> {
    /// Settings of a network with this number of inputs and this size of the state, to change and
    /// then to [`RecurrentOptions::init`].
    pub fn new(inputs: usize, hidden: usize) -> Self {
        RecurrentOptions {
            inputs,
            hidden,
            proj_size: 0,
            layers: 1,
            bidirectional: false,
            batch_first: false,
            bias: true,
            dropout: 0.0,
            kind: PhantomData,
        }
    }
    /// Number of stacked layers. Default: 1.
    #[must_use]
    pub fn layers(mut self, layers: usize) -> Self {
        self.layers = layers;
        self
    }
    /// Is it bidirectional? Default: no.
    #[must_use]
    pub fn bidirectional(mut self, yes: bool) -> Self {
        self.bidirectional = yes;
        self
    }
    /// Is x [n, t, in] instead of [t, n, in], and y likewise? Default: no. States are
    /// [.., n, hidden] either way.
    #[must_use]
    pub fn batch_first(mut self, yes: bool) -> Self {
        self.batch_first = yes;
        self
    }
    /// With biases? Default: yes.
    #[must_use]
    pub fn bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }
    /// In training, drops elements of every layer's output but the last one's with this
    /// probability. Default: 0.
    #[must_use]
    pub fn dropout(mut self, p: f64) -> Self {
        self.dropout = p;
        self
    }
    /// A network of f32 with these settings; all weights start uniform in +-1 / sqrt(hidden).
    ///
    /// # Panics
    /// If there are no layers, the projection is not smaller than the state, the dropout is not in
    /// 0..=1, or memory is exhausted.
    #[track_caller]
    pub fn init<B: Backend>(self, g: &mut Generator, device: &B::Device) -> Recurrent<B, K> {
        if self.layers == 0 {
            Err(Error::argument(format!("{}: 0 layers; there should be one at least", K::NAME))).or_fail()
        }
        if self.proj_size != 0 && self.proj_size >= self.hidden {
            Err(Error::argument(format!(
                "{}: proj_size {} for a state of {}; it should be smaller, or 0 for none",
                K::NAME,
                self.proj_size,
                self.hidden
            )))
            .or_fail()
        }
        let ways = self.ways();
        let out = if self.proj_size == 0 { self.hidden } else { self.proj_size };
        // A product that overflows is more than can be addressed, as usize::MAX is.
        let mut weights =
            with_capacity(self.layers.saturating_mul(ways)).map_err(|e| e.at(K::NAME)).or_fail();
        for k in 0..self.layers.saturating_mul(ways) {
            let inputs = if k < ways { self.inputs } else { ways.saturating_mul(out) };
            let (hidden, proj_size) = (self.hidden, self.proj_size);
            weights.push(Weights::new(K::GATES, inputs, hidden, proj_size, self.bias, g, device));
        }
        let dropout = (self.dropout != 0.0).then(|| Dropout::new(self.dropout, g));
        Recurrent { weights, dropout, options: self }
    }
    fn ways(&self) -> usize {
        1 + usize::from(self.bidirectional)
    }
}

impl<B: Backend, K: Kind> Recurrent<B, K> {
    /// A network of f32 with one layer, forwards, with biases.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn new(inputs: usize, hidden: usize, g: &mut Generator, device: &B::Device) -> Self {
        RecurrentOptions::new(inputs, hidden).init(g, device)
    }
    /// The weights of each layer and direction: layer 0, layer 0 reverse, layer 1, ...
    pub fn weights(&self) -> &[Weights<B>] {
        &self.weights
    }
    /// The outputs of the last layer at all time steps, and the final state of each layer and
    /// direction. The default state is zeros.
    ///
    /// # Panics
    /// If the input or state does not fit; [`elinvar_tensor::try_run`] returns the error instead.
    #[track_caller]
    pub fn forward(&self, x: &Tensor<B>, state: Option<&K::State<B>>) -> (Tensor<B>, K::State<B>) {
        self.run(x, state).or_fail()
    }
    fn run(&self, x: &Tensor<B>, state: Option<&K::State<B>>) -> Result<(Tensor<B>, K::State<B>)> {
        let o = &self.options;
        let values: Vec<Values<B>> = self.weights.iter().map(Weights::now).collect();
        let weights: Vec<_> = values.iter().map(Values::refs).collect();
        let projections: Vec<_> = values.iter().filter_map(|v| v.w_hr.as_ref()).collect();
        let options = RnnOptions { batch_first: o.batch_first, bidirectional: o.bidirectional };
        let Some(dropout) = self.dropout.as_ref().filter(|d| d.is_active() && o.layers > 1) else {
            return K::run(x, state, &weights, &projections, options);
        };
        // Dropout is between layers, so each layer is run separately on its part of the state.
        let ways = o.ways();
        let (mut y, mut last) = (x.clone(), vec![]);
        for (layer, weights) in weights.chunks(ways).enumerate() {
            if layer > 0 {
                y = dropout.run(&y)?;
            }
            let part = |s: &K::State<B>| {
                K::State::each(&[s], &|t| {
                    if t[0].rank() == 0 || t[0].dims()[0] != o.layers * ways {
                        return Err(Error::shape(format!(
                            "{}: an initial state of shape {}; its first axis should be {} layers times {ways} directions",
                            K::NAME,
                            t[0].shape(),
                            o.layers
                        )));
                    }
                    op::narrow(t[0], 0, (layer * ways) as isize, ways)
                })
            };
            let start = state.map(part).transpose()?;
            let all = layer * ways..(layer + 1) * ways;
            let projections = projections.get(all).unwrap_or_default();
            let (out, end) = K::run(&y, start.as_ref(), weights, projections, options)?;
            y = out;
            last.push(end);
        }
        Ok((y, K::State::each(&last.iter().collect::<Vec<_>>(), &|t| op::concat(t, 0))?))
    }
}

impl<B: Backend, K: Kind> Module<B> for Recurrent<B, K> {
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
        visit.module(name, self, |visit| {
            let ways = self.options.ways();
            for (k, w) in self.weights.iter().enumerate() {
                let reverse = if k % ways == 1 { "_reverse" } else { "" };
                w.visit(&format!("_l{}{reverse}", k / ways), visit);
            }
            self.dropout.visit("dropout", visit);
        });
    }
}

impl<B: Backend, K: Kind> fmt::Display for Recurrent<B, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let o = &self.options;
        write!(f, "{}({}, {}", K::NAME, o.inputs, o.hidden)?;
        if o.proj_size != 0 {
            write!(f, ", projected to {}", o.proj_size)?;
        }
        if o.layers != 1 {
            write!(f, ", {} layers", o.layers)?;
        }
        if o.bidirectional {
            f.write_str(", both directions")?;
        }
        if o.dropout != 0.0 {
            write!(f, ", dropout {}", o.dropout)?;
        }
        f.write_str(if o.bias { ")" } else { ", no bias)" })
    }
}

/// Only the output, from a state of zeros, so that a recurrent network can be part of a
/// [`crate::Sequential`].
impl<B: Backend, K: Kind> Layer<B> for Recurrent<B, K> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        self.run(x, None).or_fail().0
    }
}
