//! lstm: a recurrent net of long short-term memory cells, in layers, in one direction or both.

use super::recurrent::{self, Cell, RnnOptions, RnnWeights, recur};
use super::{add, split};
use crate::prelude::*;

/// The next memory from the gates i, f, g before their functions, and the memory: sigmoid(f) c + sigmoid(i) tanh(g)
#[derive(Clone, Copy, Debug)]
pub struct Memory;

impl Map<4> for Memory {
    const NAME: &'static str = "lstm";
    #[inline(always)]
    fn lane<L: Lane>(&self, [i, f, g, c]: [L; 4]) -> L {
        f.sigmoid().fma(c, i.sigmoid() * g.tanh())
    }
}

/// The output from the gate o before its function, and the next memory: sigmoid(o) tanh(c)
#[derive(Clone, Copy, Debug)]
pub struct Output;

impl Map<2> for Output {
    const NAME: &'static str = "lstm";
    #[inline(always)]
    fn lane<L: Lane>(&self, [o, c]: [L; 2]) -> L {
        o.sigmoid() * c.tanh()
    }
}

/// The gates i, f, g, o; the states h, c.
struct Lstm;

impl Cell for Lstm {
    const NAME: &'static str = "lstm";
    const GATES: usize = 4;
    const STATES: usize = 2;
    fn step<V: Value>(input: &V, states: &[V], w: &RnnWeights<V>) -> Result<Vec<V>> {
        let gates = add(input, &recur(&states[0], w)?)?;
        let h = states[0].shape()[1];
        let gates = split::sizes(&gates, &[h; 4], 1)?;
        let c = map(Memory, [&gates[0], &gates[1], &gates[2], &states[1]])?;
        Ok(vec![map(Output, [&gates[3], &c])?, c])
    }
}

/// Per step, with s = sigmoid: c' = s(f) c + s(i) tanh(g), h' = s(o) tanh(c'), where the gates i, f, g, o are
/// w_ih x + b_ih + w_hh h + b_hh. A layer's output is the next one's input.
///
/// x: [t, n, i] or [n, t, i] (`batch_first`), or [t, i]   state (h, c), zeros if there is none: [layers * directions,
/// n, h]   `weights`: one set per layer and direction   y: [t, n, directions * h] (or [n, t, ..])
///
/// Gives y and the last h and c. f16 and bf16 run in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch` if shapes do not fit or there are no time steps; `InvalidArgument` if there are no weights, or an odd
/// number for both directions; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn lstm<V: Value>(
    x: &V,
    state: Option<(&V, &V)>,
    weights: &[RnnWeights<V>],
    options: RnnOptions,
) -> Result<(V, V, V)> {
    let state = state.map(|(h, c)| [h, c]);
    let mut out = recurrent::run::<V, Lstm>(x, state.as_ref().map(|s| &s[..]), weights, options)?.into_iter();
    let mut next = || out.next().expect("an output and two states");
    Ok((next(), next(), next()))
}

/// By name: operands x, h0 and c0 if there are, weights by layer; attributes num_layers, batch_first, bidirectional.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (weights, options) = recurrent::weights(a)?;
    let state = a.optional("h0").zip(a.optional("c0"));
    let (y, h, c) = lstm(a.input("x")?, state, &weights, options)?;
    Ok(vec![y, h, c])
}
