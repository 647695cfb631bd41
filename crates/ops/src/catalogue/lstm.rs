//! lstm: a recurrent net of long short-term memory cells, in layers, in one direction or both.

use super::recurrence::{Back, Cell, Gates, SigmoidBy, Step, TanhBy};
use super::recurrent::{self, RnnOptions, RnnWeights};
use super::{mul, sigmoid, tanh};
use crate::map::formula;
use crate::prelude::*;

/// The next cell state from the pre-activations of the gates i, f, g, and the cell state:
/// sigmoid(f) c + sigmoid(i) tanh(g)
#[derive(Clone, Copy, Debug)]
pub struct LstmMemory;

impl Map<4> for LstmMemory {
    const NAME: &'static str = "lstm";
    #[inline(always)]
    fn lane<L: Lane>(&self, [i, f, g, c]: [L; 4]) -> L {
        Next.lane([i.sigmoid(), f.sigmoid(), g.tanh(), c])
    }
}
compile_map! { 4 LstmMemory; }

/// The same from the values of the gates: f c + i g
#[derive(Clone, Copy, Debug)]
struct Next;

impl Map<4> for Next {
    const NAME: &'static str = "lstm";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [i, f, g, c]: [L; 4]) -> L {
        f.fma(c, i * g)
    }
}
compile_map! { 4 Next; }

/// The output from the pre-activation of the gate o, and the next cell state: sigmoid(o) tanh(c)
#[derive(Clone, Copy, Debug)]
pub struct Output;

impl Map<2> for Output {
    const NAME: &'static str = "lstm";
    #[inline(always)]
    fn lane<L: Lane>(&self, [o, c]: [L; 2]) -> L {
        o.sigmoid() * c.tanh()
    }
}
compile_map! { 2 Output; }

/// The gradient by the cell state from that by the output h, the value of the gate o, y =
/// tanh(cell state), and the gradient from the next step: h o (1 - y^2) + c
#[derive(Clone, Copy, Debug)]
struct MemoryBy;

impl Map<4> for MemoryBy {
    const NAME: &'static str = "lstm";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [h, o, y, c]: [L; 4]) -> L {
        let one = L::lit(1.0);
        (h * o).fma((one - y) * (one + y), c)
    }
}
compile_map! { 4 MemoryBy; }

/// The gates i, f, g, o; the states h, c.
#[derive(Clone, Copy, Debug)]
struct Lstm;

impl Cell for Lstm {
    const NAME: &'static str = "lstm";
    const GATES: usize = 4;
    const STATES: usize = 2;
    /// The values of the gates: saved, as recomputing them makes the gradient slower.
    const KEPT: usize = 4;
    const APART: bool = false;
    fn step<V: Value>(gates: &Gates<V>, before: &[V], keeps: bool) -> Result<Step<V>> {
        let [i, f, g, o] = &gates.parts::<Self>()?[..] else { unreachable!("four gates") };
        if !keeps {
            let c = formula(LstmMemory, [i, f, g, &before[1]])?;
            return Ok(Step { after: vec![formula(Output, [o, &c])?, c], kept: vec![] });
        }
        let (i, f, g, o) = (sigmoid(i)?, sigmoid(f)?, tanh(g)?, sigmoid(o)?);
        let c = formula(Next, [&i, &f, &g, &before[1]])?;
        Ok(Step { after: vec![mul(&o, &tanh(&c)?)?, c], kept: vec![i, f, g, o] })
    }
    fn back<V: Value>(step: &Step<V>, before: &[V], g: &[Option<V>]) -> Result<Back<V>> {
        let [i, f, n, o] = &step.kept[..] else { unreachable!("what it keeps") };
        let y = &tanh(&step.after[1])?;
        let (by_o, by_c) = match (&g[0], &g[1]) {
            (Some(h), c) => {
                let by_c = match c {
                    Some(c) => formula(MemoryBy, [h, o, y, c])?,
                    None => formula(TanhBy, [h, o, y])?,
                };
                (Some(formula(SigmoidBy, [h, y, o])?), Some(by_c))
            }
            (None, c) => (None, c.clone()),
        };
        let Some(g) = by_c else { return Ok(Back { input: vec![None; 4], state: vec![], before: vec![None; 2] }) };
        let by_i = formula(SigmoidBy, [&g, n, i])?;
        let by_f = formula(SigmoidBy, [&g, &before[1], f])?;
        let by_n = formula(TanhBy, [&g, i, n])?;
        let input = vec![Some(by_i), Some(by_f), Some(by_n), by_o];
        Ok(Back { input, state: vec![], before: vec![None, Some(mul(&g, f)?)] })
    }
}

/// Per step, with s = sigmoid: c' = s(f) c + s(i) tanh(g), h' = s(o) tanh(c'), where the gates i,
/// f, g, o are w_ih x + b_ih + w_hh h + b_hh. A layer's output is the next one's input.
///
/// * x: [t, n, i] or [n, t, i] (`batch_first`), or [t, i]
/// * state (h, c), zeros if there is none: [layers * directions, n, h]
/// * `weights`: one set per layer and direction
/// * y: [t, n, directions * h] (or [n, t, ..])
///
/// Returns y and the last h and c. Storage floats run in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch` if shapes do not fit or there are no time steps; `InvalidArgument` if there are
/// no weights, or an odd number for both directions; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn lstm<V: Value>(
    x: &V,
    state: Option<(&V, &V)>,
    weights: &[RnnWeights<V>],
    options: RnnOptions,
) -> Result<(V, V, V)> {
    projected(x, state, weights, &[], options)
}

/// [`lstm`] with a projection of each output: h' = w_hr (s(o) tanh(c')) (Sak, Senior and Beaufays
/// 2014; PyTorch's `proj_size`). There are as many `projections`, [p, h], as sets of weights, or
/// none.
///
/// * state: h [layers * directions, n, p], c [layers * directions, n, h]
/// * y: [t, n, directions * p]; `w_hh` is [4 h, p]
///
/// # Errors
/// Those of [`lstm`].
pub fn projected<V: Value>(
    x: &V,
    state: Option<(&V, &V)>,
    weights: &[RnnWeights<V>],
    projections: &[&V],
    options: RnnOptions,
) -> Result<(V, V, V)> {
    let state = state.map(|(h, c)| [h, c]);
    let state = state.as_ref().map(|s| &s[..]);
    let mut out = recurrent::run::<V, Lstm>(x, state, weights, projections, options)?.into_iter();
    let mut next = || out.next().expect("an output and two states");
    Ok((next(), next(), next()))
}

/// By name: operands x, h0 and c0 if there are, weights by layer, with w_hr_l0, ... if outputs are
/// projected; attributes num_layers, batch_first, bidirectional.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (weights, options) = recurrent::weights(a)?;
    let state = a.optional("h0").zip(a.optional("c0"));
    let projections = recurrent::projections(a, options)?;
    let (y, h, c) = projected(a.input("x")?, state, &weights, &projections, options)?;
    Ok(vec![y, h, c])
}
