//! rnn_tanh: the plain recurrent net, in layers, in one direction or both.

use super::elman::{Activation, Elman};
use super::recurrent::{self, RnnOptions, RnnWeights};
use super::tanh;
use crate::map::formula;
use crate::prelude::*;

/// The gradient by the argument of the tanh, from its value: g (1 - y^2), as (1 - y) (1 + y), which
/// keeps its digits where y is nearly 1.
#[derive(Clone, Copy, Debug)]
struct By;

impl Map<2> for By {
    const NAME: &'static str = "rnn_tanh";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [g, y]: [L; 2]) -> L {
        let one = L::lit(1.0);
        g * ((one - y) * (one + y))
    }
}
compile_map! { 2 By; }

impl Activation for By {
    const NAME: &'static str = "rnn_tanh";
    fn value<V: Value>(x: &V) -> Result<V> {
        tanh(x)
    }
    fn back<V: Value>(g: &V, y: &V) -> Result<V> {
        formula(By, [g, y])
    }
}

/// Per step: h' = tanh(w_ih x + b_ih + w_hh h + b_hh). A layer's output is the next one's input.
///
/// * x: [t, n, i] or [n, t, i] (`batch_first`), or [t, i]
/// * state, zeros if there is none: [layers * directions, n, h]
/// * `weights`: one set per layer and direction
/// * y: [t, n, directions * h] (or [n, t, ..])
///
/// Returns y and the last state. Storage floats run in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch` if shapes do not fit or there are no time steps; `InvalidArgument` if there are
/// no weights, or an odd number for both directions; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn rnn_tanh<V: Value>(
    x: &V,
    state: Option<&V>,
    weights: &[RnnWeights<V>],
    options: RnnOptions,
) -> Result<(V, V)> {
    recurrent::run_one::<V, Elman<By>>(x, state, weights, options)
}

/// By name: operands x, h0 if there is one, weights by layer; attributes num_layers, batch_first,
/// bidirectional.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    recurrent::call_one::<V, Elman<By>>(a)
}
