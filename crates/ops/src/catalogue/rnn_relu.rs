//! rnn_relu: the plain recurrent net with a rectifier, in layers, in one direction or both.

use super::elman::{Activation, Elman};
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

impl Activation for By {
    const NAME: &'static str = "rnn_relu";
    fn value<V: Value>(x: &V) -> Result<V> {
        relu(x)
    }
    fn back<V: Value>(g: &V, y: &V) -> Result<V> {
        formula(By, [g, y])
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
    recurrent::run_one::<V, Elman<By>>(x, state, weights, options)
}

/// By name: operands and attributes of `rnn_tanh`.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    recurrent::call_one::<V, Elman<By>>(a)
}
