//! Sums over all gradient shards of a step, from within a layer.
//!
//! A layer that needs them says so by [`AcrossShards`]. The shards of a step then run side by side,
//! each in a thread of its own, of which one works at a time; a sum ends a shard's turn, and gives
//! its term to the step, which gives all shards the total (`train::lockstep`). The gradient of a
//! sum is the same sum of gradients.

use crate::Module;
use crate::module::Visit;
use elinvar_core::{DType, Error, Result};
use elinvar_ops::array::Array;
use elinvar_ops::op::{Context, Op, Outputs, Saves};
use elinvar_ops::{Backend, Value, recording};
use elinvar_tensor::Tensor;
use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

/// Whether a layer takes its statistics over all gradient shards of a step.
pub struct AcrossShards {
    on: Arc<AtomicBool>,
}

impl AcrossShards {
    /// On or off.
    pub fn new(on: bool) -> Self {
        AcrossShards { on: Arc::new(AtomicBool::new(on)) }
    }
    /// Is it on?
    pub fn is_on(&self) -> bool {
        let now = self.on.load(Ordering::Relaxed);
        recording::read(|| {
            let on = self.on.clone();
            Box::new(move || on.load(Ordering::Relaxed) == now)
        });
        now
    }
    /// Turns it on or off.
    pub fn set(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }
}

impl fmt::Debug for AcrossShards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AcrossShards({})", self.is_on())
    }
}

impl<B: Backend> Module<B> for AcrossShards {
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
        visit.across_shards(name, self);
    }
}

/// What a shard adds to a sum.
pub(crate) struct Term<B: Backend> {
    pub x: Array<B>,
    /// Whatever is counted along with it.
    pub count: usize,
}

/// What a shard is told at the beginning of a turn: the total that it waits for; nothing, at its
/// first.
pub(crate) type Turn<B> = Option<(Array<B>, usize)>;

/// The way of a shard's thread to the step. A shard that was given up has no more turn.
pub(crate) struct Link<B: Backend> {
    pub give: Sender<Term<B>>,
    pub turns: Receiver<Turn<B>>,
}

thread_local! {
    /// The link of this thread's shard.
    static LINK: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

/// Takes the link away also on a panic.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        LINK.set(None);
    }
}

/// Runs `f` as a shard of a step.
pub(crate) fn in_shard<B: Backend, T>(link: Link<B>, f: impl FnOnce() -> T) -> T {
    LINK.set(Some(Box::new(link)));
    let _end = End;
    f()
}

/// Is this thread a shard that runs beside others?
pub(crate) fn is_in_shard() -> bool {
    LINK.with_borrow(Option::is_some)
}

/// The sum over all shards of the step, of an array and of a count.
fn total<B: Backend>(x: &Array<B>, count: usize) -> Result<(Array<B>, usize)> {
    let gone = || Error::argument("train: a sum over gradient shards of which one has failed");
    LINK.with_borrow(|link| {
        let link = link.as_ref().and_then(|link| link.downcast_ref::<Link<B>>()).ok_or_else(|| {
            Error::argument(
                "a sum over gradient shards outside of a training step that runs them side by side",
            )
        })?;
        link.give.send(Term { x: x.clone(), count }).map_err(|_| gone())?;
        link.turns.recv().ok().flatten().ok_or_else(gone)
    })
}

/// The sum of a tensor over all shards.
#[derive(Clone, Copy, Debug)]
struct OverShards;

impl Op for OverShards {
    fn name(&self) -> &'static str {
        "sum_over_shards"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok([total(x[0], 0)?.0].into_iter().collect())
    }
    fn backward<V: Value>(&self, c: &Context<'_, V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let Some(g) = &g[0] else { return Ok(vec![None]) };
        Ok(vec![c.want(0, || V::apply(OverShards, &[g]))?])
    }
}

/// The sum of a tensor over all shards of the step, in their balanced tree.
///
/// # Errors
/// `InvalidArgument` if a shard has failed or makes other sums; `ShapeMismatch`, `DTypeMismatch` if
/// one has another tensor; those of the group.
pub(crate) fn sum_over_shards<B: Backend>(x: &Tensor<B>) -> Result<Tensor<B>> {
    Tensor::apply(OverShards, &[x])
}

/// The sum of a count over all shards of the step.
///
/// # Errors
/// As [`sum_over_shards`].
pub(crate) fn count_over_shards<B: Backend>(count: usize, device: &B::Device) -> Result<usize> {
    let nothing = Array::<B>::scalar(device, 0.0.into(), DType::F32)?;
    total(&nothing, count).map(|(_, count)| count)
}
