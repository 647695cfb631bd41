//! rnn_relu: the plain recurrent net with a rectifier, in layers, in one direction or both.

use super::recurrence::{Back, Cell, Gates, Step};
use super::recurrent::{self, RnnOptions, RnnWeights};
use super::relu;
use crate::map::formula;
use crate::prelude::*;

/// The gradient by the argument of the rectifier, from its value: g where that is above 0.
#[derive(Clone, Copy, Debug)]
struct By;

impl Map<2> for By {
    const NAME: &'static str = "rnn_relu";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [g, y]: [L; 2]) -> L {
        L::select(y.le(L::lit(0.0)), L::lit(0.0), g)
    }
}
compile_map! { 2 By; }

/// One gate, the state h.
#[derive(Clone, Copy, Debug)]
struct Rnn;

impl Cell for Rnn {
    const NAME: &'static str = "rnn_relu";
    const GATES: usize = 1;
    const STATES: usize = 1;
    const KEPT: usize = 0;
    const APART: bool = false;
    fn step<V: Value>(gates: &Gates<V>, _: &[V], _: bool) -> Result<Step<V>> {
        let after = gates.parts::<Self>()?.iter().map(relu).collect::<Result<_>>()?;
        Ok(Step { after, kept: vec![] })
    }
    fn back<V: Value>(step: &Step<V>, _: &[V], g: &[Option<V>]) -> Result<Back<V>> {
        let g = g[0].as_ref().expect("its only state has the only gradient");
        let gate = formula(By, [g, &step.after[0]])?;
        Ok(Back { input: vec![Some(gate)], state: vec![], before: vec![None] })
    }
}

/// [`rnn_tanh`](fn@super::rnn_tanh) with another non-linearity: h' = max(w_ih x + b_ih + w_hh h +
/// b_hh, 0).
///
/// # Errors
/// Those of [`rnn_tanh`](fn@super::rnn_tanh).
pub fn rnn_relu<V: Value>(
    x: &V,
    state: Option<&V>,
    weights: &[RnnWeights<V>],
    options: RnnOptions,
) -> Result<(V, V)> {
    recurrent::run_one::<V, Rnn>(x, state, weights, options)
}

/// By name: operands and attributes of `rnn_tanh`.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (weights, options) = recurrent::weights(a)?;
    let (y, h) = rnn_relu(a.input("x")?, a.optional("h0"), &weights, options)?;
    Ok(vec![y, h])
}
