//! Shared by all recurrent networks: layers, directions, time steps.
//!
//! The input's part of all gates is one product over all time steps; the rest is an op over all
//! steps of a layer (`recurrence.rs`). A cell defines a single step.

use super::projected;
use super::recurrence::{self, Cell};
use super::{concat, linear, reshape, stack, transpose, unbind};
use crate::autocast::{casts, within};
use crate::prelude::*;
use crate::value::cast;

/// The weights of one layer in one direction, for gates stacked in the cell's order.
#[derive(Debug)]
pub struct RnnWeights<'a, V> {
    /// [gates * h, i]: for the input.
    pub w_ih: &'a V,
    /// [gates * h, h]: for the state.
    pub w_hh: &'a V,
    /// [gates * h]: added to the input's part.
    pub b_ih: Option<&'a V>,
    /// [gates * h]: added to the state's part.
    pub b_hh: Option<&'a V>,
}

// References are `Copy` for any type; a derive would require it of V.
impl<V> Clone for RnnWeights<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<V> Copy for RnnWeights<'_, V> {}

/// The options of a recurrent network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RnnOptions {
    /// Is x [n, t, i] instead of [t, n, i]? (y likewise.)
    pub batch_first: bool,
    /// Is every layer bidirectional? Then weights and states alternate forwards, backwards.
    pub bidirectional: bool,
}

/// Checks dtypes and shapes; returns the shape of each state of a layer.
fn check<V: Value, C: Cell>(
    x: &V,
    states: Option<&[&V]>,
    weights: &[RnnWeights<V>],
    projections: &[&V],
    o: RnnOptions,
) -> Result<Vec<Shape>> {
    let op = C::NAME;
    let ways = 1 + o.bidirectional as usize;
    let xs = x.shape();
    if xs.rank() != 3 {
        return Err(Error::shape(format!(
            "{op}: input {xs} should be {}, or have two axes without a batch",
            if o.batch_first { "[batch, time, features]" } else { "[time, batch, features]" }
        )));
    }
    if weights.is_empty() || !weights.len().is_multiple_of(ways) {
        return Err(Error::argument(format!(
            "{op}: {} sets of weights for layers of {ways} directions",
            weights.len()
        )));
    }
    let [t, n, mut features] = [xs[0], xs[1], xs[2]];
    if t == 0 {
        return Err(Error::shape(format!("{op}: input {xs} has no time steps")));
    }
    if !projections.is_empty() && projections.len() != weights.len() {
        return Err(Error::argument(format!(
            "{op}: {} projections for {} sets of weights; there should be one for each, or none",
            projections.len(),
            weights.len()
        )));
    }
    // The size of the output, and that of the cell.
    let p = weights[0].w_hh.shape().last().copied().unwrap_or(0);
    let h = projections.first().map_or(p, |w| w.shape().last().copied().unwrap_or(0));
    if let [rows, wanted] = weights[0].w_ih.shape()[..]
        && rows == C::GATES.saturating_mul(h)
        && wanted != features
    {
        return Err(Error::shape(format!(
            "{op}: input {xs} has {features} features, and the weights are for {wanted}"
        )));
    }
    for (k, w) in weights.iter().enumerate() {
        if k % ways == 0 && k > 0 {
            features = ways.saturating_mul(p);
        }
        let rows = C::GATES.saturating_mul(h);
        let wanted: [(&str, Option<&V>, &[usize]); 5] = [
            ("w_ih", Some(w.w_ih), &[rows, features]),
            ("w_hh", Some(w.w_hh), &[rows, p]),
            ("b_ih", w.b_ih, &[rows]),
            ("b_hh", w.b_hh, &[rows]),
            ("w_hr", projections.get(k).copied(), &[p, h]),
        ];
        for (name, v, shape) in wanted {
            let Some(v) = v else { continue };
            check_dtype(op, name, v, x)?;
            if v.shape()[..] != *shape {
                return Err(Error::shape(format!(
                    "{op}: {name} {} of layer {} should have shape {shape:?}",
                    v.shape(),
                    k / ways
                )));
            }
        }
    }
    // The output is the first state.
    let sizes = [p, h];
    for (s, size) in states.into_iter().flatten().zip(sizes) {
        check_dtype(op, "an initial state", *s, x)?;
        check_state(op, *s, [weights.len(), n, size])?;
    }
    sizes[..C::STATES].iter().map(|&size| Shape::new(&[n, size])).collect()
}

fn check_dtype<V: Value>(op: &str, name: &str, v: &V, x: &V) -> Result<()> {
    match (v.dtype(), x.dtype()) {
        (v, x) if v != x => Err(Error::dtype(format!("{op}: the input is {x}, and {name} {v}"))),
        (_, x) if !x.is_float() => {
            Err(Error::dtype(format!("{op}: not defined for {x}; convert with to_dtype to a float type")))
        }
        _ => Ok(()),
    }
}

fn check_state<V: Value>(op: &str, state: &V, wanted: [usize; 3]) -> Result<()> {
    if state.shape()[..] == wanted {
        return Ok(());
    }
    Err(Error::shape(format!(
        "{op}: an initial state {} should have shape {wanted:?}: layers times directions, batch, state",
        state.shape()
    )))
}

/// Runs a network over all layers, directions and time steps: y, then the last states.
///
/// Storage floats run in f32 and are rounded once.
pub(super) fn run<V: Value, C: Cell>(
    x: &V,
    states: Option<&[&V]>,
    weights: &[RnnWeights<V>],
    projections: &[&V],
    o: RnnOptions,
) -> Result<Vec<V>> {
    if let Some(casts) = casts(C::NAME, &[Some(x)]) {
        return within(None, || converted::<V, C>(&|v| casts.on(v), x, states, weights, projections, o));
    }
    let dtype = x.dtype();
    if dtype.is_storage() {
        return widened::<V, C>(x, states, weights, projections, o);
    }
    if x.shape().rank() == 2 {
        return unbatched::<V, C>(x, states, weights, projections, o);
    }
    let x = if o.batch_first && x.shape().rank() == 3 { transpose(x, 0, 1)? } else { x.clone() };
    let sizes = check::<V, C>(&x, states, weights, projections, o)?;
    let ways = 1 + o.bidirectional as usize;
    let start: Vec<Vec<V>> = match states {
        Some(all) => all.iter().map(|s| unbind(*s, 0)).collect::<Result<_>>()?,
        None => {
            let zeros = |shape: &Shape| {
                let zeros = Array::full(x.device(), shape, Scalar::Float(0.0), dtype)?;
                Ok(vec![V::from_array(zeros); weights.len()])
            };
            sizes.iter().map(zeros).collect::<Result<_>>()?
        }
    };
    let mut last: Vec<Vec<V>> = vec![vec![]; C::STATES];
    let mut layer_in = x;
    for (layer, ways_weights) in weights.chunks(ways).enumerate() {
        let mut sides = vec![];
        for (way, w) in ways_weights.iter().enumerate() {
            let k = layer * ways + way;
            let state: Vec<V> = start.iter().map(|s| s[k].clone()).collect();
            let input = linear(&layer_in, w.w_ih, w.b_ih)?;
            let (y, state) = match projections.get(k) {
                Some(w_hr) => projected::layer(&input, &state, w, w_hr, way == 1)?,
                None => recurrence::layer::<V, C>(&input, &state, w, way == 1)?,
            };
            sides.push(y);
            for (all, s) in last.iter_mut().zip(state) {
                all.push(s);
            }
        }
        layer_in = match &sides[..] {
            [one] => one.clone(),
            both => concat(&both.iter().collect::<Vec<_>>(), -1)?,
        };
    }
    let mut all = vec![if o.batch_first { transpose(&layer_in, 0, 1)? } else { layer_in }];
    for s in &last {
        all.push(stack(&s.iter().collect::<Vec<_>>(), 0)?);
    }
    Ok(all)
}

/// In f32, rounded at the end.
fn widened<V: Value, C: Cell>(
    x: &V,
    states: Option<&[&V]>,
    weights: &[RnnWeights<V>],
    projections: &[&V],
    o: RnnOptions,
) -> Result<Vec<V>> {
    let dtype = x.dtype();
    let wide = |v: &V| {
        if v.dtype() == dtype {
            cast(v, DType::F32)
        } else {
            Err(Error::dtype(format!("{}: operands are {dtype} and {}", C::NAME, v.dtype())))
        }
    };
    let out = converted::<V, C>(&wide, x, states, weights, projections, o)?;
    out.iter().map(|v| cast(v, dtype)).collect()
}

/// On operands that are converted before.
fn converted<V: Value, C: Cell>(
    to: &dyn Fn(&V) -> Result<V>,
    x: &V,
    states: Option<&[&V]>,
    weights: &[RnnWeights<V>],
    projections: &[&V],
    o: RnnOptions,
) -> Result<Vec<V>> {
    let opt = |v: Option<&V>| v.map(to).transpose();
    let states = states.map(|s| s.iter().map(|v| to(v)).collect::<Result<Vec<_>>>()).transpose()?;
    let states: Option<Vec<&V>> = states.as_ref().map(|s| s.iter().collect());
    let all = weights
        .iter()
        .map(|w| Ok((to(w.w_ih)?, to(w.w_hh)?, opt(w.b_ih)?, opt(w.b_hh)?)))
        .collect::<Result<Vec<_>>>()?;
    let projections = projections.iter().map(|v| to(v)).collect::<Result<Vec<_>>>()?;
    let weights: Vec<RnnWeights<V>> = all
        .iter()
        .map(|(w_ih, w_hh, b_ih, b_hh)| RnnWeights { w_ih, w_hh, b_ih: b_ih.as_ref(), b_hh: b_hh.as_ref() })
        .collect();
    run::<V, C>(&to(x)?, states.as_deref(), &weights, &projections.iter().collect::<Vec<_>>(), o)
}

/// One sequence [t, i] as a batch of one; its states are [layers * directions, h].
fn unbatched<V: Value, C: Cell>(
    x: &V,
    states: Option<&[&V]>,
    weights: &[RnnWeights<V>],
    projections: &[&V],
    o: RnnOptions,
) -> Result<Vec<V>> {
    let with_batch = |v: &V| -> Result<V> {
        let mut dims = Dims::from_slice(v.shape());
        let at = if dims.is_empty() { 0 } else { 1 };
        dims.insert(at, 1);
        reshape::to_shape(v, &Shape::new(&dims)?)
    };
    let states = states.map(|s| s.iter().map(|v| with_batch(v)).collect::<Result<Vec<_>>>()).transpose()?;
    let states: Option<Vec<&V>> = states.as_ref().map(|s| s.iter().collect());
    let o = RnnOptions { batch_first: false, ..o };
    let out = run::<V, C>(&with_batch(x)?, states.as_deref(), weights, projections, o)?;
    out.iter().map(|v| reshape::to_shape(v, &v.shape().without(&[1], false))).collect()
}

/// [`run`] of a cell with one state: y and the last state.
pub(super) fn run_one<V: Value, C: Cell>(
    x: &V,
    state: Option<&V>,
    weights: &[RnnWeights<V>],
    o: RnnOptions,
) -> Result<(V, V)> {
    let state = state.map(|h| [h]);
    let mut out = run::<V, C>(x, state.as_ref().map(|s| &s[..]), weights, &[], o)?.into_iter();
    let mut next = || out.next().expect("an output and a state");
    Ok((next(), next()))
}

/// [`run_one`] by name: operands x, h0 if there is one, weights by layer; attributes num_layers,
/// batch_first, bidirectional.
pub(super) fn call_one<V: Value, C: Cell>(a: &Args<V>) -> Result<Vec<V>> {
    let (weights, options) = weights(a)?;
    let (y, h) = run_one::<V, C>(a.input("x")?, a.optional("h0"), &weights, options)?;
    Ok(vec![y, h])
}

/// The name of a weight of each layer and direction, in their order.
fn suffixes<V: Value>(a: &Args<V>, o: RnnOptions) -> Result<impl Iterator<Item = String>> {
    let ways = if o.bidirectional { &["", "_reverse"][..] } else { &[""] };
    Ok((0..a.size("num_layers")?).flat_map(|layer| ways.iter().map(move |way| format!("_l{layer}{way}"))))
}

/// The projections of a call by name: w_hr_l0, w_hr_l0_reverse, ... if there is one.
pub(super) fn projections<V: Value>(a: &Args<V>, o: RnnOptions) -> Result<Vec<&V>> {
    if a.optional("w_hr_l0").is_none() {
        return Ok(vec![]);
    }
    suffixes(a, o)?.map(|suffix| a.input(&format!("w_hr{suffix}"))).collect()
}

/// The weights of a call by name: w_ih_l0, w_hh_l0, b_ih_l0, b_hh_l0, w_ih_l0_reverse, ...
pub(super) fn weights<V: Value>(a: &Args<V>) -> Result<(Vec<RnnWeights<'_, V>>, RnnOptions)> {
    let o = RnnOptions { batch_first: a.bool("batch_first")?, bidirectional: a.bool("bidirectional")? };
    let mut all = vec![];
    for suffix in suffixes(a, o)? {
        let name = |w: &str| format!("{w}{suffix}");
        all.push(RnnWeights {
            w_ih: a.input(&name("w_ih"))?,
            w_hh: a.input(&name("w_hh"))?,
            b_ih: a.optional(&name("b_ih")),
            b_hh: a.optional(&name("b_hh")),
        });
    }
    Ok((all, o))
}
