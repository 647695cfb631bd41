//! One layer of a recurrent network in one direction, as one op over all time steps.
//!
//! In the forward pass, a step is the product of the state and `w_hh`, with an epilogue that adds
//! biases and the input's part of the gates, and the maps of the cell. In the backward pass, the
//! gradients by the gates of all steps are one array, so that those by `w_hh` and its bias are one
//! contraction and one sum over (time, batch), and not one product per step that is added to the
//! sum so far.
//!
//! How it can be wrong: the gradient's inputs. Where it is not recorded, it reads the values that
//! the forward pass saved, which are not results. Where it is, these would have no gradient of
//! their own: so all steps are recomputed from the operands, by recorded ops, with the same bits.

use super::matmul::Matmul;
use super::recurrent::RnnWeights;
use super::view::{self, Part, Run};
use super::{add, narrow, reshape, split, stack, sum, transpose, unbind};
use crate::array;
use crate::prelude::*;
use smallvec::SmallVec;
use std::marker::PhantomData;

/// One step of a cell.
pub(super) trait Cell: Copy + std::fmt::Debug + Send + Sync + 'static {
    /// The op's name.
    const NAME: &'static str;
    /// How many rows of gates.
    const GATES: usize;
    /// How many states; the first is the output.
    const STATES: usize;
    /// Values besides the states that a gradient reads of a step.
    const KEPT: usize;
    /// Does the cell read the input's and the state's part of the gates separately? Otherwise it
    /// gets their sum.
    const APART: bool;
    /// The next states (each [n, h]) from the previous ones, and the values that a gradient reads,
    /// if it is needed.
    fn step<V: Value>(gates: &Gates<V>, before: &[V], keeps: bool) -> Result<Step<V>>;
    /// The gradients by the gates and by the previous states (without the part through the gates),
    /// from those by the next states (at least one).
    fn back<V: Value>(step: &Step<V>, before: &[V], g: &[Option<V>]) -> Result<Back<V>>;
}

/// The pre-activations of the gates of a step.
pub(super) struct Gates<'a, V> {
    /// The input's part [n, gates * h].
    input: &'a V,
    /// The state's part, to which the input's is added unless the cell reads them separately.
    state: &'a V,
}

impl<V: Value> Gates<'_, V> {
    /// The sums, or the state's parts, gate by gate.
    pub(super) fn parts<C: Cell>(&self) -> Result<Vec<V>> {
        by_gate::<V, C>(self.state)
    }
    /// The input's parts, gate by gate.
    pub(super) fn inputs<C: Cell>(&self) -> Result<Vec<V>> {
        by_gate::<V, C>(self.input)
    }
}

fn by_gate<V: Value, C: Cell>(all: &V) -> Result<Vec<V>> {
    split::sizes(all, &vec![all.shape()[1] / C::GATES; C::GATES], 1)
}

/// The result of a step.
pub(super) struct Step<V> {
    /// The states.
    pub(super) after: Vec<V>,
    /// The further values that its gradient reads, if it is needed.
    pub(super) kept: Vec<V>,
}

/// The gradients of a step: None is zero.
pub(super) struct Back<V> {
    /// By each gate's part of the input (or by the sum of both).
    pub(super) input: Vec<Option<V>>,
    /// By each gate's part of the state, of a cell that reads the parts separately.
    pub(super) state: Vec<Option<V>>,
    /// By each previous state.
    pub(super) before: Vec<Option<V>>,
}

/// The gradient by the argument of a sigmoid, from its value y and the gradient g times x by that:
/// (g x) (y (1 - y))
#[derive(Clone, Copy, Debug)]
pub(super) struct SigmoidBy;

impl Map<3> for SigmoidBy {
    const NAME: &'static str = "sigmoid_by";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [g, x, y]: [L; 3]) -> L {
        (g * x) * (y * (L::lit(1.0) - y))
    }
}
compile_map! { 3 SigmoidBy; }

/// The same of a tanh: (g x) ((1 - y) (1 + y)), which keeps its digits where y is nearly 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct TanhBy;

impl Map<3> for TanhBy {
    const NAME: &'static str = "tanh_by";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [g, x, y]: [L; 3]) -> L {
        let one = L::lit(1.0);
        (g * x) * ((one - y) * (one + y))
    }
}
compile_map! { 3 TanhBy; }

/// x + y, where None is zero.
fn plus<V: Value>(x: Option<V>, y: Option<V>) -> Result<Option<V>> {
    match (x, y) {
        (Some(x), Some(y)) => add(&x, &y).map(Some),
        (x, y) => Ok(x.or(y)),
    }
}

/// (sum + x) + y
#[derive(Clone, Copy, Debug)]
struct AddTwo;

impl Epilogue<2> for AddTwo {
    const NAME: &'static str = "two";
    #[inline(always)]
    fn lane<L: Lane>(&self, sum: L, [x, y]: [L; 2]) -> L {
        (sum + x) + y
    }
}
compile_epilogue! { 2 AddTwo; }

/// A layer in one direction: an op of (the input's part of the gates [t, n, gates * h], each
/// initial state [n, h], w_hh, its bias if there is one).
///
/// Results: y [t, n, h] and each last state; then, if `keeps`, the values that the gradient reads:
/// the first state before the first step and after each, in one array in the order of y, and for
/// each step its other states and the values that its cell keeps.
#[derive(Clone, Copy, Debug)]
struct Layer<C> {
    /// From the last time step to the first?
    backwards: bool,
    precision: Precision,
    keeps: bool,
    cell: PhantomData<C>,
}

/// Number of steps from which on a gradient packs `w_hh` for all of its products, which read it row
/// by row: the packed operand makes each product faster, and the copy and packing cost several of
/// them.
const PACKED_FROM: usize = 16;

impl<C: Cell> Layer<C> {
    /// x w, with up to two addends as an epilogue.
    fn product<V: Value>(&self, x: &V, w: &V, more: &[&V]) -> Result<V> {
        if const { V::TRACKS } {
            let y = V::apply(Matmul { precision: self.precision }, &[x, w])?;
            return more.iter().try_fold(y, |y, m| add(&y, m));
        }
        let (device, m, n) = (x.device(), x.shape()[0], w.shape()[1]);
        let (left, right) = (x.array().layout().unsqueeze(0), w.array().layout().unsqueeze(0));
        let (left, right) = (x.array().view_as(&left), w.array().view_as(&right));
        let shape = Shape::new(&[1, m, n])?;
        let mut wide = Vec::with_capacity(2);
        for v in more {
            wide.push(v.array().broadcast_to(&shape, C::NAME)?);
        }
        let p = self.precision;
        let e = match wide.len() {
            0 => None,
            1 => Some(AddBias::object(&Compiled(AddBias))),
            2 => Some(AddTwo::object(&Compiled(AddTwo))),
            _ => unreachable!("two are added at most"),
        };
        let extra: SmallVec<[View<'_, V::B>; 2]> = wide.iter().map(Array::view).collect();
        let y = <V::B as Compute>::contract(device, p, left, right, e, &extra)?;
        Ok(V::from_array(Array::new(device, y, Shape::new(&[m, n])?, x.dtype())))
    }

    /// The parts of an array along time, in the order of steps.
    fn in_order<V: Value>(&self, x: &V) -> Result<Vec<V>> {
        let mut all = unbind(x, 0)?;
        if self.backwards {
            all.reverse();
        }
        Ok(all)
    }

    /// The time index of step `k` of `t`.
    fn place(&self, k: usize, t: usize) -> usize {
        if self.backwards { t - 1 - k } else { k }
    }

    /// All steps, each passed to `give`.
    fn run<V: Value>(&self, x: &[&V], mut give: impl FnMut(&Step<V>)) -> Result<Vec<V>> {
        let (start, w) = x[1..].split_at(C::STATES);
        let (w_hh, bias) = (transpose(w[0], 0, 1)?, w.get(1).copied());
        let mut states: Vec<V> = start.iter().map(|&s| s.clone()).collect();
        for input in &self.in_order(x[0])? {
            let more: Vec<&V> = bias.into_iter().chain((!C::APART).then_some(input)).collect();
            let gates = self.product(&states[0], &w_hh, &more)?;
            let step = C::step(&Gates { input, state: &gates }, &states, self.keeps)?;
            give(&step);
            states = step.after;
        }
        Ok(states)
    }

    /// All steps, as the forward pass saved them.
    fn kept<V: Value>(&self, c: &Context<V>) -> Result<Vec<Step<V>>> {
        let mut next = 1 + C::STATES + 1;
        let mut steps = Vec::with_capacity(c.shape(0)[0]);
        let mut some = |n: usize| {
            next += n;
            (next - n..next).map(|i| c.y(i).clone())
        };
        for output in self.in_order(c.y(0))? {
            let after = std::iter::once(output).chain(some(C::STATES - 1)).collect();
            steps.push(Step { after, kept: some(C::KEPT).collect() });
        }
        Ok(steps)
    }

    /// The first state before each step, in the order of y: [t, n, h].
    fn before<V: Value>(&self, c: &Context<V>, steps: &[Step<V>]) -> Result<V> {
        let t = steps.len();
        if const { V::TRACKS } {
            let others = steps[..t - 1].iter().map(|step| &step.after[0]);
            let mut all: Vec<&V> = std::iter::once(c.x(1)).chain(others).collect();
            if self.backwards {
                all.reverse();
            }
            return stack(&all, 0);
        }
        narrow(c.y(1 + C::STATES), 0, isize::from(self.backwards), t)
    }
}

/// Parts of gates, concatenated, where None is zero; None if all are.
fn joined<V: Value>(parts: &[Option<V>], shape: &Shape) -> Result<Option<V>> {
    let h = shape[1] / parts.len().max(1);
    let run = |i: usize| Part::run(shape, 1, Run { start: i * h, len: h, step: 1 });
    let (there, parts): (Vec<&V>, Vec<Part>) =
        parts.iter().enumerate().filter_map(|(i, v)| Some((v.as_ref()?, run(i)))).unzip();
    match &there[..] {
        [] => Ok(None),
        [one] if one.shape() == shape => Ok(Some((*one).clone())),
        _ => view::assemble(&there, shape, Scalar::Int(0), parts).map(Some),
    }
}

/// Steps of `shape` in one array, each at its time index; the others are zero.
fn all_steps<V: Value>(mut steps: Vec<(usize, V)>, shape: &Shape) -> Result<V> {
    // Contiguous parts are concatenated, without a fill.
    steps.sort_by_key(|(index, _)| *index);
    let there: Vec<&V> = steps.iter().map(|(_, v)| v).collect();
    let parts = steps.iter().map(|(index, _)| Part::Select { axis: 0, index: *index }).collect();
    view::assemble(&there, shape, Scalar::Int(0), parts)
}

impl<C: Cell> Op for Layer<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn saves(&self, _: DType) -> Saves {
        Saves::BOTH
    }

    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        array::one_device(C::NAME, x)?;
        array::one_dtype(C::NAME, x)?;
        let t = x[0].shape()[0];
        let (mut outputs, mut kept) = (Vec::with_capacity(t + 1), vec![]);
        if self.keeps {
            outputs.push(x[1].clone());
        }
        let last = self.run(x, |step| {
            outputs.push(step.after[0].clone());
            if self.keeps {
                kept.extend(step.after[1..].iter().chain(&step.kept).cloned());
            }
        })?;
        if self.backwards {
            outputs.reverse();
        }
        let whole = stack(&outputs.iter().collect::<Vec<_>>(), 0)?;
        drop(outputs);
        if !self.keeps {
            return Ok(std::iter::once(whole).chain(last).collect());
        }
        let y = narrow(&whole, 0, isize::from(!self.backwards), t)?;
        Ok([y].into_iter().chain(last).chain([whole]).chain(kept).collect())
    }

    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let t = c.shape(0)[0];
        let x: Vec<&V> = (0..c.len()).map(|i| c.x(i)).collect();
        let (start, w) = x[1..].split_at(C::STATES);
        let steps = if const { V::TRACKS } {
            let mut steps = Vec::with_capacity(t);
            let again = Layer { keeps: true, ..*self };
            again.run(&x, |step| steps.push(Step { after: step.after.clone(), kept: step.kept.clone() }))?;
            steps
        } else {
            self.kept(c)?
        };
        let start: Vec<V> = start.iter().map(|&s| s.clone()).collect();
        let w_hh = if const { V::TRACKS } || t < PACKED_FROM { w[0].clone() } else { packed(w[0])? };
        // By the output of each step, as far as it is a result.
        let g = |i: usize| g.get(i).and_then(Option::as_ref);
        let by_y = match g(0) {
            Some(g) => self.in_order(g)?.into_iter().map(Some).collect(),
            None => vec![None; t],
        };
        let mut by: Vec<Option<V>> = (1..=C::STATES).map(|i| g(i).cloned()).collect();
        by[0] = plus(by[0].take(), by_y[t - 1].clone())?;
        let shape = Shape::new(&c.shape(0)[1..])?;
        let (mut by_input, mut by_state) = (Vec::with_capacity(t), vec![]);
        for k in (0..t).rev() {
            let here = by_y.get(k.wrapping_sub(1)).and_then(Option::as_ref);
            if by.iter().all(Option::is_none) {
                by[0] = here.cloned();
                continue;
            }
            let before = if k > 0 { &steps[k - 1].after } else { &start };
            let back = C::back(&steps[k], before, &by)?;
            let input = joined(&back.input, &shape)?;
            let state = if C::APART { joined(&back.state, &shape)? } else { input.clone() };
            by = back.before;
            by[0] = match &state {
                Some(gates) if k > 0 || c.wants(1) => {
                    let more: Vec<&V> = by[0].iter().chain(here).collect();
                    Some(self.product(gates, &w_hh, &more)?)
                }
                Some(_) => None,
                None => plus(by[0].take(), here.cloned())?,
            };
            let place = self.place(k, t);
            by_input.extend(input.map(|v| (place, v)));
            if C::APART {
                by_state.extend(state.map(|v| (place, v)));
            }
        }
        let mut all = vec![None; c.len()];
        let of_states = 1 + C::STATES;
        let wants_w = (of_states..c.len()).any(|i| c.wants(i));
        let whole = c.shape(0);
        let input = if by_input.is_empty() || !(c.wants(0) || wants_w && !C::APART) {
            None
        } else {
            Some(all_steps(by_input, whole)?)
        };
        let state = match (C::APART, wants_w && !by_state.is_empty()) {
            (true, true) => Some(all_steps(by_state, whole)?),
            (true, false) => None,
            (false, _) => input.clone(),
        };
        if let Some(gates) = state {
            let rows = whole[..2].iter().product();
            let flat = |v: &V| reshape::to_shape(v, &Shape::new(&[rows, v.shape()[2]])?);
            all[of_states] = c.want(of_states, || {
                let before = flat(&self.before(c, &steps)?)?;
                V::apply(Matmul { precision: self.precision }, &[&transpose(&flat(&gates)?, 0, 1)?, &before])
            })?;
            if c.len() > of_states + 1 {
                all[of_states + 1] =
                    c.want(of_states + 1, || sum::gradient_to(&gates, c.shape(of_states + 1)))?;
            }
        }
        all[0] = input.filter(|_| c.wants(0));
        for (i, g) in by.into_iter().enumerate() {
            all[1 + i] = g.filter(|_| c.wants(1 + i));
        }
        Ok(all)
    }
}

/// The same matrix in memory of its own, prepacked for many products if the device keeps such
/// copies: a copy of `w` may be prepacked for the forward pass, which reads it transposed.
fn packed<V: Value>(w: &V) -> Result<V> {
    let own = w.array().copy()?;
    // Without memory for that, products read the matrix as it is.
    drop(own.prepack());
    Ok(V::from_array(own))
}

/// Runs a layer in one direction: its outputs [t, n, h], and each state after the last step.
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `OutOfMemory`. The caller has checked shapes.
pub(super) fn layer<V: Value, C: Cell>(
    input: &V,
    start: &[V],
    w: &RnnWeights<'_, V>,
    backwards: bool,
) -> Result<(V, Vec<V>)> {
    let x: Vec<&V> =
        std::iter::once(input).chain(start).chain(std::iter::once(w.w_hh)).chain(w.b_hh).collect();
    let precision = super::matmul::precision(input);
    let op = Layer::<C> { backwards, precision, keeps: V::records(&x), cell: PhantomData };
    let mut all = V::apply_many(op, &x)?;
    all.truncate(1 + C::STATES);
    let states = all.split_off(1);
    let y = all.pop().expect("a layer has an output");
    Ok((y, states))
}
