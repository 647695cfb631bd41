//! Does a backend give the reference's bits, for every kind of work, on random shapes, strides and
//! values?
//!
//! A [`Call`] is drawn from a number, so that a failing one can be repeated alone: [`check`] with
//! its seed, kind of work and round. [`named`] draws calls of ops that are compositions.

pub mod call;
pub mod dice;
pub mod draw;
pub mod named;

pub use call::{Call, Operand};

use crate::compare::bits;
use crate::guard::caught;
use crate::refusal;
use crate::twist::Work;
use dice::Dice;
use elinvar_core::HostTensor;
use elinvar_ops::Backend;
use elinvar_reference::Reference;
use std::ops::Range;

/// The extent of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Another seed draws other calls.
    pub seed: u64,
    /// The calls of each kind of work.
    pub rounds: Range<usize>,
    /// Tensors have about this many elements at most.
    pub largest: usize,
    /// The kinds of work.
    pub works: Vec<Work>,
}

impl Default for Plan {
    fn default() -> Self {
        Plan { seed: 0, rounds: 0..60, largest: 20_000, works: draw::WORKS.to_vec() }
    }
}

/// A call on which a backend and the reference do not agree.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Its kind of work.
    pub work: Work,
    /// The call, how to draw it again, and both results.
    pub what: String,
}

/// Runs the plan on a backend and returns every call whose result differs from the reference's.
pub fn equal<B: Backend>(device: &B::Device, plan: &Plan) -> Vec<Difference> {
    let mut all = Vec::new();
    for &work in &plan.works {
        for round in plan.rounds.clone() {
            all.extend(check::<B>(device, plan.seed, work, round, plan.largest).err());
        }
    }
    all
}

/// What calls are drawn of: a kind of work, or an op that is a composition of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// A kind of work.
    Work(Work),
    /// An op, by its name.
    Op(&'static str),
}

/// All of them.
pub fn kinds() -> impl Iterator<Item = CallKind> {
    draw::WORKS.into_iter().map(CallKind::Work).chain(named::ops().map(CallKind::Op))
}

impl CallKind {
    /// Its name, such as `Pool` or `svd`.
    pub fn name(&self) -> String {
        match self {
            CallKind::Work(work) => format!("{work:?}"),
            CallKind::Op(op) => op.to_string(),
        }
    }
    /// Runs these rounds on a backend; tells of each whose result differs from the reference's.
    pub fn check<B: Backend>(&self, device: &B::Device, seed: u64, rounds: Range<usize>) -> Vec<String> {
        let largest = Plan::default().largest;
        let run = |round| match *self {
            CallKind::Work(work) => check::<B>(device, seed, work, round, largest).map_err(|d| d.what),
            CallKind::Op(op) => named::check::<B>(device, op, seed, round),
        };
        rounds.filter_map(|round| run(round).err()).collect()
    }
}

/// Runs one call of a plan.
///
/// # Errors
/// The difference.
pub fn check<B: Backend>(
    device: &B::Device,
    seed: u64,
    work: Work,
    round: usize,
    largest: usize,
) -> Result<(), Difference> {
    let number = draw::WORKS.iter().position(|w| *w == work).unwrap_or(0) as u64;
    let mut dice = Dice::new(seed, number << 32 | round as u64);
    let place = format!("check(seed {seed}, {work:?}, round {round}, largest {largest})");
    let wrong = |what: String| Err(Difference { work, what: format!("{place}: {what}") });
    let call = match draw::draw(work, &mut dice, largest) {
        Ok(call) => call,
        Err(e) => return wrong(format!("could not be drawn: {e:?}")),
    };
    let results = (caught(|| call.run::<B>(device)), caught(|| call.run::<Reference>(&Default::default())));
    let shown = format!("{call:?}");
    agree::<B>(device, &shown, results).or_else(|what| wrong(format!("{shown}: {what}")))
}

/// What a run gave: results or an error, or a panic.
type Ran = Result<elinvar_core::Result<Vec<HostTensor>>, String>;

/// Checks that a backend gave what the reference did: the same bits, or an error of the same kind.
/// A device without 64-bit floats may refuse a call that shows them, as its operands or what it
/// asks for, before it sees that they are wrong.
fn agree<B: Backend>(device: &B::Device, shown: &str, results: (Ran, Ran)) -> Result<(), String> {
    match results {
        (Err(panic), _) | (_, Err(panic)) => Err(panic),
        (Ok(Err(a)), Ok(Err(b))) if a.kind() == b.kind() => Ok(()),
        (Ok(Err(e)), Ok(_))
            if refusal::says_no_f64(&e)
                && shown.to_ascii_lowercase().contains("f64")
                && refusal::lacks_f64::<B>(device) =>
        {
            Ok(())
        }
        (Ok(Ok(a)), Ok(Ok(b))) if a.len() == b.len() => {
            let same = |(i, (a, b)): (usize, (&HostTensor, &HostTensor))| {
                bits(a, b).map_err(|m| format!("result {i}: {m}"))
            };
            a.iter().zip(&b).enumerate().try_for_each(same)
        }
        (Ok(a), Ok(b)) => {
            let show = |r: elinvar_core::Result<Vec<_>>| match r {
                Ok(all) => format!("{} results", all.len()),
                Err(e) => format!("{e:?}"),
            };
            Err(format!("{} where the reference gives {}", show(a), show(b)))
        }
    }
}
