//! A training step from gradient shards: the gradients of each shard alone, their balanced tree,
//! one multiplication by 1 / samples.
//!
//! What crosses samples is a function of the shard: its random numbers begin at a fork of each
//! layer's generator, its buffers at what they were before the step. Which worker has which shards
//! then changes where sums are added, and not what is added to what.
//!
//! How it can be wrong: a number that depends on the worker or on the shards before. So each shard
//! begins from [`Start`] and leaves nothing but its [`Shard`].

use super::capture::Undo;
use super::objective::Measured;
use super::outbox::LastPass;
use super::pass::{Pass, scaled};
use super::sending::{Problem, Sending, sending};
use super::shard::Shard;
use super::shard_sum::{Sent, Slot, SlotSums, Wire, wide};
use super::train_step::{Given, TrainStep};
use super::zero::Zero;
use crate::module::Leaves;
use crate::optim::Optimizer;
use crate::{Module, Param};
use elinvar_core::explain::explain;
use elinvar_core::philox::Stream;
use elinvar_core::{DType, Error, HostData, HostTensor, Result};
use elinvar_distributed::{Group, Runs, Shares, TreeSum};
use elinvar_ops::Backend;
use elinvar_tensor::{Generator, Gradients, Tensor, try_run};

/// How a run is cut, and who computes it.
#[derive(Clone, Debug)]
pub(super) struct Sharding {
    pub runs: Runs,
    pub group: Group,
    /// Of the parameters, of which each worker updates some; None if each updates all.
    pub shares: Option<Shares>,
    /// Bytes of a bucket of gradients.
    pub bucket: usize,
}

impl Sharding {
    /// How sums go over all workers.
    pub(super) fn wire<'w, B: Backend>(&'w self, device: &'w B::Device) -> Wire<'w, B> {
        let Sharding { runs, group, shares, .. } = self;
        Wire { group, runs: *runs, shares: shares.as_ref(), device }
    }
    /// The parameters whose states this worker has.
    pub(super) fn own_parameters<'m, B: Backend>(
        &self,
        model: &'m dyn Module<B>,
    ) -> Vec<(String, &'m Param<B>)> {
        let mut all = model.named_parameters();
        if let Some(shares) = &self.shares {
            let own = shares.of(self.group.rank());
            all.truncate(own.end);
            all.drain(..own.start);
        }
        all
    }
    /// Does this worker write?
    pub(super) fn writes(&self) -> bool {
        self.group.rank() == 0
    }
}

/// What all shards of a step begin with.
pub(super) struct Start<'m, B: Backend> {
    leaves: Leaves<'m, B>,
    params: Vec<(String, &'m Param<B>)>,
    streams: Vec<Stream>,
    buffers: Vec<Tensor<B>>,
}

impl<'m, B: Backend> Start<'m, B> {
    fn of(model: &'m impl Module<B>) -> Self {
        let leaves = model.leaves();
        Start {
            params: leaves.unique(),
            streams: leaves.randoms.iter().map(|(_, r)| r.state()).collect(),
            buffers: leaves.buffers.iter().map(|(_, b)| b.get()).collect(),
            leaves,
        }
    }
    fn shard(&self, shard: usize) -> Shard<B> {
        let fork = |s: &Stream| Generator::from_state(*s).of_shard(shard as u64).state();
        Shard {
            streams: self.streams.iter().map(fork).collect(),
            buffers: self.buffers.clone(),
            gradients: None,
            loss: None,
            loss_dtype: DType::F32,
            metrics: vec![],
            samples: 0,
        }
    }
    /// Gives the model the random numbers and buffers of a shard.
    pub(super) fn enter(&self, shard: &Shard<B>) -> Result<()> {
        let randoms = self.leaves.randoms.iter().zip(&shard.streams);
        randoms.for_each(|((_, r), stream)| r.set_state(*stream));
        self.leaves.buffers.iter().zip(&shard.buffers).try_for_each(|((_, b), value)| b.set(value))
    }
    /// Takes them back.
    pub(super) fn leave(&self, shard: &mut Shard<B>) {
        shard.streams = self.leaves.randoms.iter().map(|(_, r)| r.state()).collect();
        shard.buffers = self.leaves.buffers.iter().map(|(_, b)| b.get()).collect();
    }
    /// Ends the step: each layer has used one stream, whatever its shards have drawn.
    fn end(&self) {
        for ((_, r), stream) in self.leaves.randoms.iter().zip(&self.streams) {
            let mut next = Generator::from_state(*stream);
            next.next_stream();
            r.set_state(next.state());
        }
    }
    /// When the gradients of a step go to other workers.
    fn sending(&self, sharding: &Sharding, side_by_side: bool) -> Sending {
        let of = |x: Tensor<B>| x.is_variable().then(|| (x.dtype().compute(), x.numel()));
        let params: Vec<_> = self.params.iter().map(|(_, p)| of(p.get())).collect();
        let plan = sending(Problem {
            workers: sharding.group.size(),
            any_thread: sharding.group.is_for_any_thread(),
            side_by_side,
            bytes: sharding.bucket,
            params: &params,
        });
        explain(|| format!("train: gradients are {plan}"));
        plan
    }
    /// What a shard adds, slot by slot: parameters, buffers, the loss, metrics.
    fn slots(&self, shard: Shard<B>) -> Result<SlotSums<B>> {
        let mut slots = vec![];
        let mut gradients = shard.gradients.unwrap_or_default();
        for (_, p) in &self.params {
            let value = p.get();
            let gradient = gradients.take(&value).map(|g| wide(&g)).transpose()?;
            slots.push(Slot::new(value.shape(), value.dtype().compute(), gradient));
        }
        for (before, now) in self.buffers.iter().zip(&shard.buffers) {
            let changed = !before.array().shares_memory_with(now.array());
            let value = if changed { Some(wide(now)?) } else { None };
            slots.push(Slot::new(now.shape(), now.dtype().compute(), value));
        }
        slots.push(Slot::new(&elinvar_core::Shape::scalar(), shard.loss_dtype, shard.loss));
        for (_, x) in shard.metrics {
            slots.push(Slot::new(&x.shape().clone(), x.dtype(), Some(x)));
        }
        Ok(SlotSums::of(shard.samples, slots))
    }
}

impl<B: Backend, M: Module<B>, D: Send> TrainStep<'_, B, M, D> {
    /// One step: for the mean gradient of `n` batches, of which `batches` gives this worker's
    /// shards, batch after batch. Gives what was measured of all shards of all workers.
    pub(super) fn run_shards(
        &mut self,
        optimizer: &mut dyn Optimizer<B>,
        n: usize,
        sharding: &Sharding,
        device: &B::Device,
        batches: &mut Given<'_, D>,
    ) -> Result<Vec<Measured<B>>> {
        let undo = Undo::<B>::of(self.model);
        let Mean { told, mut gradients, updated } = match self.summed(n, sharding, device, batches) {
            Ok(done) => done,
            Err(e) => {
                undo.run()?;
                return Err(e);
            }
        };
        match &sharding.shares {
            None => {
                self.clipped(&mut gradients)?;
                self.finish(optimizer, &mut gradients)?;
            }
            Some(shares) => {
                let zero = Zero { shares, group: &sharding.group, updated: &updated };
                self.finish_share(optimizer, &mut gradients, &zero, device)?;
            }
        }
        Ok(vec![told])
    }

    fn summed(
        &mut self,
        n: usize,
        sharding: &Sharding,
        device: &B::Device,
        batches: &mut Given<'_, D>,
    ) -> Result<Mean<B>> {
        let Sharding { runs, group, .. } = sharding;
        group.meet_devices::<B>(device)?;
        let start = Start::of(self.model);
        let side_by_side = start.leaves.across.iter().any(|a| a.is_on());
        let mine = runs.of(group.rank());
        let mut shards: Vec<Option<Shard<B>>> = mine.clone().map(|i| Some(start.shard(i))).collect();
        let mut sums = TreeSum::new(mine.start);
        let mut names: Option<Vec<&'static str>> = None;
        let (plan, mut sent) = (start.sending(sharding, side_by_side), Sent::new());
        // The buffers of the last shard.
        let mut last = vec![];
        for i in 0..n * shards.len() {
            let at = i % shards.len();
            if side_by_side && at == 0 {
                let mut all = vec![];
                (i..i + shards.len()).try_for_each(|i| {
                    batches(i, &mut |batch| {
                        all.push(batch);
                        Ok(())
                    })
                })?;
                self.side_by_side(&start, &mut shards, all, sharding, device)?;
            }
            let shard = shards[at].as_mut().expect("it is taken out after its last batch");
            if !side_by_side {
                start.enter(shard)?;
                batches(i, &mut |batch| {
                    let (objective, model, amp) = (&*self.objective, self.model, self.amp);
                    let (pass, scaler) = (Pass { objective, model, amp }, &mut self.scaler);
                    if let Sending::Meanwhile(buckets) = &plan
                        && i + 1 == n * mine.len()
                    {
                        let (params, number) = (&start.params, mine.end - 1);
                        let last = LastPass { pass, scaler, params, buckets, shard: number };
                        sent = last.run(&sharding.wire(device), &batch, shard, &mut sums)?;
                        return Ok(());
                    }
                    let scaled = |loss: &_| scaled(scaler, loss);
                    let done = try_run(|| pass.run(&batch, scaled, Tensor::try_backward))??;
                    shard.add(done)
                })?;
                start.leave(shard);
            }
            let these: Vec<_> = shard.metrics.iter().map(|(name, _)| *name).collect();
            if *names.get_or_insert_with(|| these.clone()) != these {
                return Err(Error::argument(format!(
                    "train: a gradient shard measures {these:?} where another one measures {names:?}"
                )));
            }
            // Added at once after its last batch, so that few of them are alive.
            if i / shards.len() + 1 == n
                && let Some(done) = shards[at].take()
            {
                last.clone_from(&done.buffers);
                let mut slots = start.slots(done)?;
                sent.keys().for_each(|i| drop(slots.take(*i)));
                sums.push(slots, SlotSums::plus)?;
            }
        }
        let total = if group.size() == 1 {
            sums.root(SlotSums::plus)?.ok_or_else(|| Error::argument("train: a step without shards"))?
        } else {
            sharding.wire(device).all(sums, sent)?
        };
        self.set_buffers(&start, group, &total, last)?;
        start.end();
        mean(&start, &total, names.unwrap_or_default())
    }

    /// The buffers after a step: floats are the mean over the shards that have set them; others,
    /// such as counts, are those of the last shard.
    fn set_buffers(
        &self,
        start: &Start<'_, B>,
        group: &Group,
        total: &SlotSums<B>,
        last: Vec<Tensor<B>>,
    ) -> Result<()> {
        let mut counts = vec![];
        let slots = total.slots().skip(start.params.len());
        for (((_, b), before), ((slot, set), last)) in
            start.leaves.buffers.iter().zip(&start.buffers).zip(slots.zip(&last))
        {
            match (set, before.dtype().is_float()) {
                (0, _) => b.set(before)?,
                (_, false) => counts.push((*b, last)),
                (n, true) => {
                    let mean = slot.times(1.0 / n as f64)?.cast(before.dtype())?;
                    b.set(&Tensor::from_array(mean))?;
                }
            }
        }
        if group.size() == 1 || counts.is_empty() {
            return counts.into_iter().try_for_each(|(b, last)| b.set(last));
        }
        let mut bytes = vec![];
        for (_, last) in &counts {
            bytes.extend(last.to_host()?.data().to_le_bytes());
        }
        let all = group.broadcast_bytes(bytes, group.size() - 1)?;
        let mut rest = &all[..];
        for (b, last) in counts {
            let size = last.numel() * last.dtype().size();
            let (mine, more) = rest.split_at_checked(size).ok_or_else(|| {
                Error::argument("train: workers have buffers of other sizes; all must have the same model")
            })?;
            rest = more;
            let host = HostTensor::new(last.shape().clone(), HostData::from_le_bytes(last.dtype(), mine)?)?;
            b.set(&Tensor::from_host(host, last.device())?)?;
        }
        Ok(())
    }
}

/// What a step is made of.
struct Mean<B: Backend> {
    told: Measured<B>,
    /// Of this worker's parameters.
    gradients: Gradients<B>,
    /// Has a parameter a gradient, on whichever worker?
    updated: Vec<bool>,
}

/// The gradients and what was measured, from sums over all shards.
fn mean<B: Backend>(start: &Start<'_, B>, total: &SlotSums<B>, names: Vec<&'static str>) -> Result<Mean<B>> {
    let samples = total.samples();
    let factor = 1.0 / samples as f64;
    let mut slots = total.slots();
    let (mut gradients, mut updated) = (Gradients::new(), vec![]);
    for (_, p) in &start.params {
        let (slot, present) = slots.next().expect("each parameter has a slot");
        updated.push(present > 0);
        if present > 0 && slot.is_here() {
            let value = p.get();
            gradients.set(&value, Tensor::from_array(slot.times(factor)?.cast(value.dtype())?));
        }
    }
    let mut rest = slots.skip(start.buffers.len());
    let (loss, present) = rest.next().expect("the loss has a slot");
    if present == 0 {
        return Err(Error::argument("train: no shard of the step has a sample, so it has no gradient"));
    }
    let loss = Tensor::from_array(loss.times(factor)?);
    let metrics = names.into_iter().zip(rest).map(|(name, (slot, _))| Ok((name, slot.tensor()?)));
    let told = Measured { loss, samples, metrics: metrics.collect::<Result<_>>()? };
    Ok(Mean { told, gradients, updated })
}
