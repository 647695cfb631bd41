//! ctc_loss: the negative log-likelihood of a sequence of labels, summed over all alignments with
//! time.
//!
//! The forward recursion over time steps, in logarithms: the labels of a sample, with a blank
//! before, between and after them, are `2 s + 1` states; `alpha[state]` is the log-probability of
//! all alignments so far that end there. A step stays, advances by one, or skips a blank between
//! two different labels: that is a lattice (`lattice.rs`), with exact gradients of any order.
//!
//! How it can be wrong: -inf. States that cannot be reached have it; they neither pass nor receive
//! a gradient. An infinite loss, where no alignment fits into the time, has no gradient: it is NaN,
//! unless `zero_infinity` masks the sample.

use super::lattice::lattice;
use super::reduction::{Reduction, reduction};
use super::{div::div, expand, gather, log_softmax, mean, narrow, neg, reshape, sum, where_};
use crate::autocast;
use crate::prelude::*;
use crate::value::cast;

/// log(exp(a) + exp(b) + exp(c)), and whether it is -inf because a, b and c are. Selects come
/// before the arithmetic, so that no intermediate NaN gets into higher derivatives.
#[inline(always)]
fn log_sum<L: Lane>([a, b, c]: [L; 3]) -> (L, L::Mask) {
    let (most, never, zero) = (a.max(b).max(c), L::lit(f64::NEG_INFINITY), L::lit(0.0));
    let none = most.eq(never);
    let shift = L::select(none, zero, most);
    // One of them is exp(0), to which exp(-80) adds nothing; smaller exponentials may be subnormal,
    // which is very slow on some processors.
    let least = L::lit(-80.0);
    let [a, b, c] = [(a - shift).at_least(least), (b - shift).at_least(least), (c - shift).at_least(least)];
    let total = a.exp() + b.exp() + c.exp();
    let log = L::select(none, L::lit(1.0), total).log();
    (L::select(none, never, shift + log), none)
}

/// exp(x - y), the share of x in the sum y; 1 where the sum is -inf, and 0 where it is below the
/// least normal number.
#[inline(always)]
fn share<L: Lane>(x: L, y: L, none: L::Mask) -> L {
    let (zero, least) = (L::lit(0.0), L::lit(if L::bits() == 32 { -87.0 } else { -708.0 }));
    let log = L::select(none, zero, x) - L::select(none, zero, y);
    L::select(log.lt(least), zero, log.at_least(least).exp())
}

/// log(exp(a) + exp(b) + exp(c)), where c counts if `may` is not 0: the contribution of the
/// previous step to a state.
#[derive(Clone, Copy, Debug)]
struct Reach;

impl Map<4> for Reach {
    const NAME: &'static str = "ctc_loss";
    #[inline(always)]
    fn lane<L: Lane>(&self, [a, b, c, may]: [L; 4]) -> L {
        log_sum([a, b, L::select(may.eq(L::lit(0.0)), L::lit(f64::NEG_INFINITY), c)]).0
    }
}
compile_map! { 4 Reach; }

/// The gradient of that by one of a, b and c, which is x: its share of the gradient g of the sum y,
/// added to `sum`. Unreachable states receive no gradient, except NaN.
#[derive(Clone, Copy, Debug)]
struct Back;

impl Map<5> for Back {
    const NAME: &'static str = "ctc_loss";
    #[inline(always)]
    fn lane<L: Lane>(&self, [sum, x, y, g, may]: [L; 5]) -> L {
        let (zero, none) = (L::lit(0.0), y.eq(L::lit(f64::NEG_INFINITY)));
        let part = g * L::select(none, zero, share(x, y, none));
        sum + L::select(may.eq(zero), zero, part)
    }
}
compile_map! { 5 Back; }

/// log(exp(a) + exp(b)), the log-probability of a sample.
#[derive(Clone, Copy, Debug)]
struct End;

impl End {
    #[inline(always)]
    fn log_sum<L: Lane>([a, b]: [L; 2]) -> (L, L::Mask) {
        log_sum([a, b, L::lit(f64::NEG_INFINITY)])
    }
}

impl Map<2> for End {
    const NAME: &'static str = "ctc_loss";
    #[inline(always)]
    fn lane<L: Lane>(&self, x: [L; 2]) -> L {
        Self::log_sum(x).0
    }
    /// The share of an operand in the sum: NaN if the sum is -inf, except for a masked sample.
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, x: [L; 2], _: L, g: L) -> L {
        let (y, none) = Self::log_sum(x);
        let zero = L::lit(0.0);
        let lost = L::select(g.eq(zero), zero, L::lit(f64::NAN));
        L::select(none, lost, g * share(x[i], y, none))
    }
}
compile_map! { 2 End; }

/// The targets of all samples, expanded to states on the host.
struct States {
    /// The largest number of states of a sample.
    count: usize,
    /// [n, states]: the class of each state.
    classes: Vec<i64>,
    /// [n, states]: may an alignment come from two states before?
    skips: Vec<bool>,
    /// [n]: the last state of each sample.
    last: Vec<i64>,
}

/// Integers of a small tensor, copied to the host.
fn integers<V: Value>(what: &str, v: &V) -> Result<Vec<i64>> {
    if !v.dtype().is_int() {
        return Err(Error::dtype(format!("ctc_loss: {what} are {}; they must be integers", v.dtype())));
    }
    Ok(v.array().cast(DType::I64)?.to_host()?.as_slice::<i64>()?.to_vec())
}

/// Lengths, one per sample, none above `most`.
fn lengths<V: Value>(what: &str, v: &V, n: usize, most: usize) -> Result<Vec<usize>> {
    if v.shape()[..] != [n] {
        return Err(Error::shape(format!("ctc_loss: {what} {} should be [{n}], one per sample", v.shape())));
    }
    let one = |l: i64| {
        usize::try_from(l)
            .ok()
            .filter(|&l| l <= most)
            .ok_or_else(|| Error::argument(format!("ctc_loss: {l} among the {what} is not in 0..={most}")))
    };
    integers(what, v)?.into_iter().map(one).collect()
}

impl States {
    fn new<V: Value>(targets: &V, target_lengths: &[usize], classes: usize, blank: usize) -> Result<Self> {
        let n = target_lengths.len();
        let shape = targets.shape();
        let fits = match shape[..] {
            [all] => all == target_lengths.iter().sum::<usize>(),
            [rows, _] => rows == n,
            _ => false,
        };
        if !fits {
            return Err(Error::shape(format!(
                "ctc_loss: targets {shape} should be [{n}, s], or [{}], one after the other",
                target_lengths.iter().sum::<usize>()
            )));
        }
        let labels = integers("targets", targets)?;
        let states = 2 * target_lengths.iter().max().copied().unwrap_or(0) + 1;
        let mut l = States {
            count: states,
            classes: vec![blank as i64; n * states],
            skips: vec![false; n * states],
            last: target_lengths.iter().map(|&t| 2 * t as i64).collect(),
        };
        let mut start = 0;
        for (i, &length) in target_lengths.iter().enumerate() {
            if let [_, width] = shape[..] {
                start = i * width;
            }
            for (k, &label) in labels[start..start + length].iter().enumerate() {
                if !(0..classes as i64).contains(&label) {
                    return Err(Error::argument(format!(
                        "ctc_loss: target {label} of sample {i} is not in 0..{classes}"
                    )));
                }
                let state = i * states + 2 * k + 1;
                l.classes[state] = label;
                // Two before the first label is the front, which only the first step reads there.
                l.skips[state] = k == 0 || label != l.classes[state - 2];
            }
            start += length;
        }
        Ok(l)
    }
}

/// -log of the probability of each sample's targets under `log_probs`, reduced; a mean divides each
/// loss by its number of targets (1 at least) first. With `zero_infinity` an infinite loss is 0,
/// and so is its gradient.
///
/// * log_probs: [t, n, c]
/// * targets: integers [n, s], or [sum of the target lengths]
/// * lengths: integers \[n\]
/// * losses: \[n\]
///
/// One sample without a batch is log_probs [t, c], targets \[s\] and lengths [] (or \[1\]); its
/// loss is [].
///
/// Targets and lengths are copied to the host. Storage floats run in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch`; `InvalidArgument` if a length is out of range, or a target or `blank` is not a
/// class; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn ctc_loss<V: Value>(
    log_probs: &V,
    targets: &V,
    input_lengths: &V,
    target_lengths: &V,
    blank: usize,
    reduction: Reduction,
    zero_infinity: bool,
) -> Result<V> {
    autocast!("ctc_loss", log_probs, targets, input_lengths, target_lengths =>
        ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity));
    let dtype = log_probs.dtype();
    if log_probs.shape().rank() == 2 {
        let lengths = |v: &V| reshape::to_shape(v, &Shape::new(&[1])?);
        let one = |what: &str, v: &V| match v.shape().numel() {
            1 if v.shape().rank() < 2 => lengths(v),
            _ => Err(Error::shape(format!(
                "ctc_loss: {what} {} should be [], as there is no batch",
                v.shape()
            ))),
        };
        let (times, counts) = (one("input lengths", input_lengths)?, one("target lengths", target_lengths)?);
        let batch = super::unsqueeze(log_probs, 1)?;
        let targets =
            if targets.shape().rank() == 1 { super::unsqueeze(targets, 0)? } else { targets.clone() };
        let y = ctc_loss(&batch, &targets, &times, &counts, blank, reduction, zero_infinity)?;
        return reshape::to_shape(&y, &Shape::scalar());
    }
    let &[t, n, classes] = &log_probs.shape()[..] else {
        return Err(Error::shape(format!(
            "ctc_loss: log-probabilities {} should be [time, batch, classes]",
            log_probs.shape()
        )));
    };
    if !dtype.is_float() {
        return Err(Error::dtype(format!("ctc_loss: log-probabilities are {dtype}; they must be floats")));
    }
    if blank >= classes {
        return Err(Error::argument(format!("ctc_loss: blank {blank} is not in 0..{classes}")));
    }
    let times = lengths("input lengths", input_lengths, n, t)?;
    let most = match targets.shape()[..] {
        [_, width] => width,
        _ => targets.shape().numel(),
    };
    let counts = lengths("target lengths", target_lengths, n, most)?;
    let l = States::new(targets, &counts, classes, blank)?;
    let x = cast(log_probs, dtype.compute())?;
    let losses = losses(&x, &l, &times)?;
    let never = losses.scalar_like(f64::INFINITY)?;
    let losses = if zero_infinity {
        let infinite = super::eq(&losses, &never)?;
        where_(&infinite, &losses.scalar_like(0.0)?, &losses)?
    } else {
        losses
    };
    let y = match reduction {
        Reduction::None => losses,
        Reduction::Sum => sum(&losses, None, false)?,
        Reduction::Mean => {
            let counts: Vec<f64> = counts.iter().map(|&c| c.max(1) as f64).collect();
            let counts = Array::from_f64s(x.device(), counts, &[n], x.dtype())?;
            mean(&div(&losses, &V::from_array(counts))?, None, false)?
        }
        Reduction::BatchMean => {
            return Err(Error::argument(
                "ctc_loss: there is no reduction batchmean; there are none, mean and sum",
            ));
        }
    };
    cast(&y, dtype)
}

/// The loss of each sample [n], from log-probabilities [t, n, c] in f32 or f64.
fn losses<V: Value>(x: &V, l: &States, times: &[usize]) -> Result<V> {
    let (device, n, states) = (x.device(), times.len(), l.count);
    let t = x.shape()[0];
    let never = x.scalar_like(f64::NEG_INFINITY)?;
    let classes = V::from_array(Array::from_vec(device, l.classes.clone(), &[1, n, states])?);
    let of_states = gather(x, 2, &expand(&classes, &Shape::new(&[t, n, states])?)?)?;
    let skips = Array::from_vec(device, l.skips.clone(), &[n, states])?.cast(x.dtype())?;
    // Before the first step all alignments are in front of state 0, which a step reaches or skips.
    let front: Vec<f64> = (0..states + 2).map(|i| if i == 1 { 0.0 } else { f64::NEG_INFINITY }).collect();
    let front = Array::from_f64s(device, front, &[states + 2], x.dtype())?;
    let operands = [&of_states, &V::from_array(skips), &V::from_array(front)];
    let alpha = lattice(Reach, Back, operands, times)?;
    // The last label and the blank after it end a sample; without labels it is the blank alone. A
    // sample without time steps has one alignment if it has no labels, else none.
    let index =
        l.last.iter().flat_map(|&last| [last, if last > 0 { last - 1 } else { 0 }]).collect::<Vec<_>>();
    let index = V::from_array(Array::from_vec(device, index, &[n, 2])?);
    let ends = gather(&alpha, 1, &index)?;
    let alone = l.last.iter().flat_map(|&last| [false, last == 0]).collect::<Vec<_>>();
    let ends = where_(&V::from_array(Array::from_vec(device, alone, &[n, 2])?), &never, &ends)?;
    let zero = x.scalar_like(0.0)?;
    let total = map(End, [&narrow(&ends, 1, 0, 1)?, &narrow(&ends, 1, 1, 1)?])?;
    let certain: Vec<bool> = times.iter().zip(&l.last).map(|(&end, &last)| end == 0 && last == 0).collect();
    let total = reshape::to_shape(&total, &Shape::new(&[n])?)?;
    let total = where_(&V::from_array(Array::from_vec(device, certain, &[n])?), &zero, &total)?;
    neg(&total)
}

/// By name: operands logits (to which log_softmax is applied first), targets, input_lengths,
/// target_lengths; attributes blank, reduction, zero_infinity.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let logits = a.input("logits")?;
    let (targets, times, counts) =
        (a.input("targets")?, a.input("input_lengths")?, a.input("target_lengths")?);
    let (blank, zero_infinity, r) = (a.size("blank")?, a.bool("zero_infinity")?, reduction(a)?);
    let of = |[x]: [&V; 1]| ctc_loss(&log_softmax(x, -1)?, targets, times, counts, blank, r, zero_infinity);
    autocast::run("ctc_loss", [logits], |x| widen(x, of)).map(|y| vec![y])
}
