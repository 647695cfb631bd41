//! gru: a recurrent net of gated units, in layers, in one direction or both.

use super::mul;
use super::recurrence::{Back, Cell, Gates, SigmoidBy, Step, TanhBy};
use super::recurrent::{self, RnnOptions, RnnWeights};
use crate::map::formula;
use crate::prelude::*;

/// The value of a gate from the input's and the state's part: sigmoid(x + h)
#[derive(Clone, Copy, Debug)]
struct Gate;

impl Map<2> for Gate {
    const NAME: &'static str = "gru";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, h]: [L; 2]) -> L {
        (x + h).sigmoid()
    }
}
compile_map! { 2 Gate; }

/// 1 - sigmoid(x + h) as sigmoid(-(x + h)), which keeps its digits when x + h is large.
#[derive(Clone, Copy, Debug)]
struct Rest;

impl Map<2> for Rest {
    const NAME: &'static str = "gru";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, h]: [L; 2]) -> L {
        (-(x + h)).sigmoid()
    }
}
compile_map! { 2 Rest; }

/// The candidate from the gate r, and the input's and the state's part: tanh(x + r h)
#[derive(Clone, Copy, Debug)]
struct Candidate;

impl Map<3> for Candidate {
    const NAME: &'static str = "gru";
    #[inline(always)]
    fn lane<L: Lane>(&self, [r, x, h]: [L; 3]) -> L {
        r.fma(h, x).tanh()
    }
}
compile_map! { 3 Candidate; }

/// The next state from the gate z, 1 - z, the candidate and the state: (1 - z) n + z h
#[derive(Clone, Copy, Debug)]
struct Mix;

impl Map<4> for Mix {
    const NAME: &'static str = "gru";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [z, rest, n, h]: [L; 4]) -> L {
        z.fma(h, rest * n)
    }
}
compile_map! { 4 Mix; }

/// The gradient by the pre-activation of the gate z, from that by the next state: (g (h - n)) (z
/// (1 - z))
#[derive(Clone, Copy, Debug)]
struct MixBy;

impl Map<5> for MixBy {
    const NAME: &'static str = "gru";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [g, z, rest, n, h]: [L; 5]) -> L {
        (g * (h - n)) * (z * rest)
    }
}
compile_map! { 5 MixBy; }

/// The gates r, z, n; the state h.
#[derive(Clone, Copy, Debug)]
struct Gru;

impl Cell for Gru {
    const NAME: &'static str = "gru";
    const GATES: usize = 3;
    const STATES: usize = 1;
    /// r, z, 1 - z, the candidate and the state's part of it.
    const KEPT: usize = 5;
    const APART: bool = true;
    fn step<V: Value>(gates: &Gates<V>, before: &[V], _: bool) -> Result<Step<V>> {
        let (x, s) = (gates.inputs::<Self>()?, gates.parts::<Self>()?);
        let r = formula(Gate, [&x[0], &s[0]])?;
        let (z, rest) = (formula(Gate, [&x[1], &s[1]])?, formula(Rest, [&x[1], &s[1]])?);
        let n = formula(Candidate, [&r, &x[2], &s[2]])?;
        let h = formula(Mix, [&z, &rest, &n, &before[0]])?;
        Ok(Step { after: vec![h], kept: vec![r, z, rest, n, s[2].clone()] })
    }
    fn back<V: Value>(step: &Step<V>, before: &[V], g: &[Option<V>]) -> Result<Back<V>> {
        let g = g[0].as_ref().expect("its only state has the only gradient");
        let [r, z, rest, n, s_n] = &step.kept[..] else { unreachable!("what it keeps") };
        let by_z = formula(MixBy, [g, z, rest, n, &before[0]])?;
        let by_n = formula(TanhBy, [g, rest, n])?;
        let by_r = formula(SigmoidBy, [&by_n, s_n, r])?;
        let by_s_n = mul(&by_n, r)?;
        let parts = |n: V| vec![Some(by_r.clone()), Some(by_z.clone()), Some(n)];
        Ok(Back { input: parts(by_n), state: parts(by_s_n), before: vec![Some(mul(g, z)?)] })
    }
}

/// Per step, with s = sigmoid, and x, h the input's part w_ih x + b_ih and the state's part w_hh
/// h + b_hh of each gate: n = tanh(x_n + s(x_r + h_r) h_n), h' = (1 - s(x_z + h_z)) n +
/// s(x_z + h_z) h. A layer's output is the next one's input.
///
/// * x: [t, n, i] or [n, t, i] (`batch_first`), or [t, i]
/// * state, zeros if there is none: [layers * directions, n, h]
/// * `weights`: one set per layer and direction, gates r, z, n
/// * y: [t, n, directions * h] (or [n, t, ..])
///
/// Returns y and the last state. Storage floats run in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch` if shapes do not fit or there are no time steps; `InvalidArgument` if there are
/// no weights, or an odd number for both directions; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn gru<V: Value>(
    x: &V,
    state: Option<&V>,
    weights: &[RnnWeights<V>],
    options: RnnOptions,
) -> Result<(V, V)> {
    recurrent::run_one::<V, Gru>(x, state, weights, options)
}

/// By name: operands x, h0 if there is one, weights by layer; attributes num_layers, batch_first,
/// bidirectional.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    recurrent::call_one::<V, Gru>(a)
}
