//! Gradients that go to other workers while the backward pass goes on.
//!
//! They are those of the last pass of a worker's last shard: with its others, which are done, they
//! make the worker's sums. A bucket whose sums are all there is given to a thread, which is the
//! only one that calls the group until the pass has ended.
//!
//! How it can be wrong: buckets in another order than on other workers. So one that is ready waits
//! for those before it.

use super::pass::{Pass, Passed, scaled};
use super::sending::Bucket;
use super::shard::Shard;
use super::shard_sum::{Sent, Slot, SlotSums, Wire};
use crate::Param;
use crate::optim::GradScaler;
use elinvar_core::{Error, Result, profile};
use elinvar_distributed::TreeSum;
use elinvar_distributed::tree::Node;
use elinvar_ops::Backend;
use elinvar_tensor::{Backward, Tensor, backward_each, try_run};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// The sums of a bucket, on their way.
struct Parcel<B: Backend> {
    params: Vec<usize>,
    /// Of each subtree of the worker, in the order of the parameters.
    nodes: Vec<(Node, Vec<Slot<B>>)>,
}

/// A worker's sums of one parameter: one for each of its subtrees.
type Sums<B> = Vec<(Node, Slot<B>)>;

/// Buckets that are being filled.
struct Outbox<'o, B: Backend> {
    buckets: &'o [Bucket],
    /// The sums of the shards before the last one.
    before: Vec<(Node, BTreeMap<usize, Slot<B>>)>,
    last: Node,
    /// By parameter; those of buckets that have gone are taken out.
    ready: BTreeMap<usize, Sums<B>>,
    /// The first bucket that has not gone.
    next: usize,
    out: Sender<Parcel<B>>,
}

impl<B: Backend> Outbox<'_, B> {
    /// Takes the last shard's term of a parameter.
    fn put(&mut self, param: usize, term: Slot<B>) -> Result<()> {
        let mut sums = TreeSum::new(self.last.index);
        for (node, slots) in &mut self.before {
            let sum = slots.remove(&param).ok_or_else(|| Error::argument("train: a gradient came twice"))?;
            sums.push_node(*node, sum, Slot::plus)?;
        }
        sums.push_node(self.last, term, Slot::plus)?;
        self.ready.insert(param, sums.into_nodes());
        while let Some(Bucket(params)) = self.buckets.get(self.next)
            && params.iter().all(|i| self.ready.contains_key(i))
        {
            let mut nodes: Vec<(Node, Vec<Slot<B>>)> = vec![];
            for sums in params.iter().filter_map(|i| self.ready.remove(i)) {
                for (k, (node, slot)) in sums.into_iter().enumerate() {
                    if nodes.len() == k {
                        nodes.push((node, vec![]));
                    }
                    nodes[k].1.push(slot);
                }
            }
            // A thread that has failed takes no more, and tells why in the end.
            let _ = self.out.send(Parcel { params: params.clone(), nodes });
            self.next += 1;
        }
        Ok(())
    }
}

/// What the thread does: sums bucket after bucket.
fn send_all<B: Backend>(wire: &Wire<'_, B>, parcels: &Receiver<Parcel<B>>) -> Result<Sent<B>> {
    let mut sent = Sent::new();
    for Parcel { params, nodes } in parcels {
        let _span = profile::span("gradients of a bucket");
        let sums = wire.slots(&params, &nodes)?;
        sent.extend(params.into_iter().zip(sums));
    }
    Ok(sent)
}

/// The last pass of a worker's shards.
pub(super) struct LastPass<'p, 'm, B: Backend, M, D> {
    pub pass: Pass<'p, B, M, D>,
    pub scaler: &'p mut Option<GradScaler<B>>,
    pub params: &'p [(String, &'m Param<B>)],
    pub buckets: &'p [Bucket],
    /// The number of the shard.
    pub shard: usize,
}

impl<B: Backend, M, D> LastPass<'_, '_, B, M, D> {
    /// Runs it, and sums over all workers meanwhile. The sums of the shards before it are taken out
    /// of `sums`, which keeps their counts.
    pub(super) fn run(
        mut self,
        wire: &Wire<'_, B>,
        batch: &D,
        shard: &mut Shard<B>,
        sums: &mut TreeSum<SlotSums<B>>,
    ) -> Result<Sent<B>> {
        let mut before = vec![];
        for (node, mut some) in std::mem::replace(sums, TreeSum::new(self.shard)).into_nodes() {
            let params = self.buckets.iter().flat_map(|b| &b.0);
            before.push((node, params.map(|i| (*i, some.take(*i))).collect()));
            sums.push_node(node, some, SlotSums::plus)?;
        }
        thread::scope(|s| {
            let (out, parcels) = channel();
            let run = move || send_all(wire, &parcels);
            let spawned = thread::Builder::new().name("elinvar gradients".into()).spawn_scoped(s, run);
            let sender =
                spawned.map_err(|e| Error::io(format!("train: a thread that sends gradients: {e}")))?;
            let last = Node { level: 0, index: self.shard };
            let outbox = Outbox { buckets: self.buckets, before, last, ready: BTreeMap::new(), next: 0, out };
            let passed = self.fill(batch, shard, outbox);
            let sent = sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            shard.add(passed?)?;
            sent
        })
    }
    fn fill(&mut self, batch: &D, shard: &mut Shard<B>, mut outbox: Outbox<'_, B>) -> Result<Passed<B>> {
        let params: Vec<usize> = self.buckets.iter().flat_map(|b| b.0.iter().copied()).collect();
        let values: Vec<Tensor<B>> = params.iter().map(|i| self.params[*i].1.get()).collect();
        let variables: Vec<&Tensor<B>> = values.iter().collect();
        let mut is_told = vec![false; params.len()];
        let mut told = |k: usize, g: Option<&Tensor<B>>| {
            is_told[k] = true;
            outbox.put(params[k], shard.term(&values[k], g)?)
        };
        let backward =
            |loss: &Tensor<B>| backward_each(&[(loss, None)], Backward::default(), &variables, &mut told);
        let (pass, scaler) = (&self.pass, &mut *self.scaler);
        let passed = try_run(|| pass.run(batch, |loss| scaled(scaler, loss), backward))??;
        // Without samples there is no backward pass.
        for k in (0..params.len()).filter(|k| !is_told[*k]) {
            outbox.put(params[k], shard.term(&values[k], None)?)?;
        }
        Ok(passed)
    }
}
