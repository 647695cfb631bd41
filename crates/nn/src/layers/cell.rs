//! Single steps of recurrent networks, with PyTorch's names of weights.

use super::recurrent::{Elman, Gated, Kind, LongShort, Rectified, State, Weights};
use crate::{Module, Visit};
use elinvar_core::Result;
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_ops::catalogue::recurrent::RnnOptions;
use elinvar_tensor::{Generator, OrFail, Tensor};
use std::fmt;
use std::marker::PhantomData;

/// One step of an [`super::RNN`].
pub type RNNCell<B> = Cell<B, Elman>;
/// One step of a [`super::ReluRNN`].
pub type ReluRNNCell<B> = Cell<B, Rectified>;
/// One step of an [`super::LSTM`]. Its state is (h, c).
pub type LSTMCell<B> = Cell<B, LongShort>;
/// One step of a [`super::GRU`].
pub type GRUCell<B> = Cell<B, Gated>;

/// One step of a recurrent network: the next state from an input and a state.
///
/// x: [n, in] or \[in\]   state: [n, hidden] or \[hidden\]
/// weight_ih: [gates * hidden, in]   weight_hh: [gates * hidden, hidden]
/// bias_ih, bias_hh: [gates * hidden]
#[derive(Debug)]
pub struct Cell<B: Backend, K: Kind> {
    /// The weights.
    pub weights: Weights<B>,
    inputs: usize,
    hidden: usize,
    kind: PhantomData<K>,
}

impl<B: Backend, K: Kind> Cell<B, K> {
    /// A cell of f32 with biases; all weights start uniform in +-1 / sqrt(hidden).
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn new(inputs: usize, hidden: usize, g: &mut Generator, device: &B::Device) -> Self {
        Self::make(inputs, hidden, true, g, device)
    }
    /// As [`Cell::new`] without biases.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn without_bias(inputs: usize, hidden: usize, g: &mut Generator, device: &B::Device) -> Self {
        Self::make(inputs, hidden, false, g, device)
    }
    #[track_caller]
    fn make(inputs: usize, hidden: usize, bias: bool, g: &mut Generator, device: &B::Device) -> Self {
        let weights = Weights::new(K::GATES, inputs, hidden, 0, bias, g, device);
        Cell { weights, inputs, hidden, kind: PhantomData }
    }
    /// The next state; its first tensor is the step's output. The default state is zeros.
    ///
    /// # Panics
    /// If the input or state does not fit; [`elinvar_tensor::try_run`] returns the error instead.
    #[track_caller]
    pub fn forward(&self, x: &Tensor<B>, state: Option<&K::State<B>>) -> K::State<B> {
        self.run(x, state).or_fail()
    }
    fn run(&self, x: &Tensor<B>, state: Option<&K::State<B>>) -> Result<K::State<B>> {
        let values = self.weights.now();
        // A sequence of one step through a network of one layer.
        let x = op::unsqueeze(x, 0)?;
        let state = state.map(|s| K::State::each(&[s], &|t| op::unsqueeze(t[0], 0))).transpose()?;
        let (_, next) = K::run(&x, state.as_ref(), &[values.refs()], &[], RnnOptions::default())?;
        K::State::each(&[&next], &|t| op::squeeze(t[0], Some(&[0])))
    }
}

impl<B: Backend, K: Kind> Module<B> for Cell<B, K> {
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
        visit.module(name, self, |visit| self.weights.visit("", visit));
    }
}

impl<B: Backend, K: Kind> fmt::Display for Cell<B, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bias = if self.weights.bias.is_some() { "" } else { ", no bias" };
        write!(f, "{}Cell({}, {}{bias})", K::NAME, self.inputs, self.hidden)
    }
}
