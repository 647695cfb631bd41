//! The shards of a worker side by side, for layers that sum over all shards within a pass.
//!
//! Each shard runs in a thread, and one thread works at a time: until its next sum, or its end.
//! Between two turns the step changes the model's random numbers and buffers to those of the next
//! shard, makes the sums, and talks to other workers. So shards compute what they would alone.
//!
//! How it can be wrong: a shard that makes other sums than its neighbours, and waits for ever. So
//! all must come to a sum, or to the end, in the same round.

use super::pass::{Pass, Passed, scaled};
use super::shard::Shard;
use super::shard_sum::{Sent, Slot, SlotSums, Wire};
use super::shards::{Sharding, Start};
use super::train_step::TrainStep;
use crate::Module;
use crate::across::{Link, Term, Turn, in_shard};
use elinvar_core::{Error, Result};
use elinvar_distributed::TreeSum;
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_tensor::{Tensor, try_run};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The step's side of a shard's thread.
struct Lane<B: Backend> {
    turns: Sender<Turn<B>>,
    /// Ends without a message when the shard is done.
    terms: Receiver<Term<B>>,
    done: Receiver<Result<Passed<B>>>,
}

impl<B: Backend, M: Module<B>, D: Send> TrainStep<'_, B, M, D> {
    /// The passes of a batch of each shard.
    pub(super) fn side_by_side(
        &mut self,
        start: &Start<'_, B>,
        shards: &mut [Option<Shard<B>>],
        batches: Vec<D>,
        sharding: &Sharding,
        device: &B::Device,
    ) -> Result<()> {
        let pass = Pass { objective: &*self.objective, model: self.model, amp: self.amp };
        let scaler = Mutex::new(&mut self.scaler);
        thread::scope(|s| {
            let (pass, scaler) = (&pass, &scaler);
            let mut lanes = vec![];
            for batch in batches {
                let (turns, begin) = channel();
                let (give, terms) = channel();
                let (end, done) = channel();
                let run = move || {
                    // A shard that never begins was given up.
                    if begin.recv().is_err() {
                        return;
                    }
                    let scaled =
                        |loss: &_| scaled(&mut scaler.lock().unwrap_or_else(PoisonError::into_inner), loss);
                    let passes =
                        || try_run(|| pass.run(&batch, scaled, Tensor::try_backward)).unwrap_or_else(Err);
                    let passed = in_shard(Link { give, turns: begin }, passes);
                    // The result of one that was given up is of no use.
                    let _ = end.send(passed);
                };
                let spawned = thread::Builder::new().name("elinvar shard".into()).spawn_scoped(s, run);
                spawned.map_err(|e| Error::io(format!("train: a thread for a gradient shard: {e}")))?;
                lanes.push(Lane { turns, terms, done });
            }
            conduct(start, shards, &lanes, sharding, device)
        })
    }
}

/// Gives the shards their turns.
fn conduct<B: Backend>(
    start: &Start<'_, B>,
    shards: &mut [Option<Shard<B>>],
    lanes: &[Lane<B>],
    sharding: &Sharding,
    device: &B::Device,
) -> Result<()> {
    let mut turn: Turn<B> = None;
    loop {
        let (mut sums, mut ended) = (TreeSum::new(sharding.runs.of(sharding.group.rank()).start), 0);
        for (shard, lane) in shards.iter_mut().flatten().zip(lanes) {
            start.enter(shard)?;
            // One that has ended with a panic takes no more, and tells nothing.
            let _ = lane.turns.send(turn.clone());
            match lane.terms.recv() {
                Ok(Term { x, count }) => {
                    let slot = Slot::new(&x.shape().clone(), x.dtype(), Some(x));
                    sums.push(SlotSums::of(count, vec![slot]), SlotSums::plus)?;
                }
                Err(_) => {
                    let gone = || Error::argument("train: the thread of a gradient shard has ended");
                    shard.add(lane.done.recv().map_err(|_| gone())??)?;
                    ended += 1;
                }
            }
            start.leave(shard);
        }
        if ended == lanes.len() {
            return Ok(());
        }
        if ended > 0 {
            return Err(Error::argument(
                "train: a gradient shard sums over all shards more often than another one; all must make the same sums",
            ));
        }
        turn = Some(total(sums, sharding, device)?);
    }
}

fn total<B: Backend>(
    sums: TreeSum<SlotSums<B>>,
    Sharding { runs, group, .. }: &Sharding,
    device: &B::Device,
) -> Result<(Array<B>, usize)> {
    let all = match group.size() {
        1 => sums.root(SlotSums::plus)?.ok_or_else(|| Error::argument("train: a sum over no shards"))?,
        _ => Wire { group, runs: *runs, shares: None, device }.all(sums, Sent::new())?,
    };
    let (slot, _) = all.slots().next().ok_or_else(|| Error::argument("train: a sum of nothing"))?;
    Ok((slot.tensor()?.array().clone(), all.samples()))
}
