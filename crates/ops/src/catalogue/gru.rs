//! gru: a recurrent net of gated units, in layers, in one direction or both.

use super::recurrent::{self, Cell, RnnOptions, RnnWeights, recur};
use super::{add, split};
use crate::prelude::*;

/// The candidate from the gate r before its function, and the input's and the state's part: tanh(x + sigmoid(r) h)
#[derive(Clone, Copy, Debug)]
pub struct Candidate;

impl Map<3> for Candidate {
    const NAME: &'static str = "gru";
    #[inline(always)]
    fn lane<L: Lane>(&self, [r, x, h]: [L; 3]) -> L {
        r.sigmoid().fma(h, x).tanh()
    }
}

/// The next state from the gate z before its function, the candidate and the state: (1 - sigmoid(z)) n + sigmoid(z) h
#[derive(Clone, Copy, Debug)]
pub struct Mix;

impl Map<3> for Mix {
    const NAME: &'static str = "gru";
    /// 1 - sigmoid(z) is sigmoid(-z), which keeps its digits when z is large.
    #[inline(always)]
    fn lane<L: Lane>(&self, [z, n, h]: [L; 3]) -> L {
        z.sigmoid().fma(h, (-z).sigmoid() * n)
    }
}

/// The gates r, z, n; the state h.
struct Gru;

impl Cell for Gru {
    const NAME: &'static str = "gru";
    const GATES: usize = 3;
    const STATES: usize = 1;
    fn step<V: Value>(input: &V, states: &[V], w: &RnnWeights<V>) -> Result<Vec<V>> {
        let h = states[0].shape()[1];
        let sizes = [h; 3];
        let (x, s) = (split::sizes(input, &sizes, 1)?, split::sizes(&recur(&states[0], w)?, &sizes, 1)?);
        let n = map(Candidate, [&add(&x[0], &s[0])?, &x[2], &s[2]])?;
        Ok(vec![map(Mix, [&add(&x[1], &s[1])?, &n, &states[0]])?])
    }
}

/// Per step, with s = sigmoid, and x, h the input's part w_ih x + b_ih and the state's part w_hh h + b_hh of each gate:
/// n = tanh(x_n + s(x_r + h_r) h_n), h' = (1 - s(x_z + h_z)) n + s(x_z + h_z) h. A layer's output is the next one's
/// input.
///
/// x: [t, n, i] or [n, t, i] (`batch_first`), or [t, i]   state, zeros if there is none: [layers * directions, n, h]
/// `weights`: one set per layer and direction, gates r, z, n   y: [t, n, directions * h] (or [n, t, ..])
///
/// Gives y and the last state. f16 and bf16 run in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch` if shapes do not fit or there are no time steps; `InvalidArgument` if there are no weights, or an odd
/// number for both directions; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn gru<V: Value>(
    x: &V,
    state: Option<&V>,
    weights: &[RnnWeights<V>],
    options: RnnOptions,
) -> Result<(V, V)> {
    let state = state.map(|h| [h]);
    let mut out = recurrent::run::<V, Gru>(x, state.as_ref().map(|s| &s[..]), weights, options)?.into_iter();
    let mut next = || out.next().expect("an output and a state");
    Ok((next(), next()))
}

/// By name: operands x, h0 if there is one, weights by layer; attributes num_layers, batch_first, bidirectional.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (weights, options) = recurrent::weights(a)?;
    let (y, h) = gru(a.input("x")?, a.optional("h0"), &weights, options)?;
    Ok(vec![y, h])
}
