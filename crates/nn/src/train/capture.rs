//! Captured training steps: tracing one, and replaying it. See [`TrainStep`].

use super::Measured;
use super::recorded::{Access, Key, Recorded, ScalerState};
use super::train_step::TrainStep;
use crate::capture::{Capturing, Cell, compute, next_streams, take_back};
use crate::module::Leaves;
use crate::optim::steps_made::{ROWS, StepsMade};
use crate::optim::{Named, Optimizer, StepScalars, StepTable, check_updated};
use crate::{Buffer, Module, Param, RandomState};
use elinvar_core::philox::Stream;
use elinvar_core::{Error, ErrorKind, Result};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_ops::recording::{Place, observe_step};
use elinvar_tensor::{Tensor, autocast_dtype, isolated};
use std::collections::BTreeSet;
use std::sync::PoisonError;

/// A step, traced.
struct Traced<B: Backend> {
    told: Vec<Measured<B>>,
    updated: Vec<String>,
    skip: Option<Tensor<B>>,
    table: StepTable<B>,
}

/// What a step has changed before its optimiser's turn, as it was: streams of random numbers, and
/// buffers.
pub(super) struct Undo<'m, B: Backend> {
    streams: Vec<(&'m RandomState, Stream)>,
    buffers: Vec<(&'m Buffer<B>, Tensor<B>)>,
}

impl<'m, B: Backend> Undo<'m, B> {
    pub(super) fn of(model: &'m impl Module<B>) -> Self {
        let leaves = model.leaves();
        Undo {
            streams: leaves.randoms.iter().map(|(_, r)| (*r, r.state())).collect(),
            buffers: leaves.buffers.iter().map(|(_, b)| (*b, b.get())).collect(),
        }
    }
    pub(super) fn run(self) -> Result<()> {
        self.streams.into_iter().for_each(|(r, before)| r.set_state(before));
        self.buffers.into_iter().try_for_each(|(b, before)| b.set(&before))
    }
}

/// The device of the tensors of a step and of all parameters.
fn one_device<'a, B: Backend>(given: &'a [Tensor<B>], parameters: &Named<'_, B>) -> Result<&'a B::Device> {
    let [first, ..] = given else { return Err(Error::argument("a captured step without tensors")) };
    let device = first.device();
    let named = parameters.iter().map(|(name, p)| (name.as_str(), p.get()));
    let mut all = named.chain(given.iter().map(|x| ("a tensor of the batch", x.clone())));
    match all.find(|(_, x)| x.device() != device) {
        None => Ok(device),
        Some((name, x)) => {
            let text = format!("a captured step: {name} is on {}, and the batch on {device}", x.device());
            Err(Error::new(ErrorKind::DeviceMismatch, text))
        }
    }
}

/// The parameters as a recording knows them.
fn known<B: Backend>(parameters: &Named<'_, B>) -> Vec<(String, usize, bool)> {
    parameters.iter().map(|(name, p)| (name.clone(), p.identity(), !p.is_frozen())).collect()
}

fn of_names<'a, B: Backend>(
    parameters: &Named<'a, B>,
    names: &BTreeSet<String>,
) -> Vec<(String, &'a Param<B>)> {
    parameters.iter().filter(|(name, _)| names.contains(name)).cloned().collect()
}

fn make_cell_unique<B: Backend>(cell: &Cell<B>) -> Result<()> {
    cell.write().unwrap_or_else(PoisonError::into_inner).array_mut().make_unique()
}

/// All tensors of what was measured.
fn measured_tensors<B: Backend>(told: &mut [Measured<B>]) -> impl Iterator<Item = &mut Tensor<B>> {
    told.iter_mut().flat_map(|m| [&mut m.loss].into_iter().chain(m.metrics.iter_mut().map(|(_, t)| t)))
}

impl<B: Backend, M: Module<B>, D> TrainStep<'_, B, M, D> {
    /// Records a step. `None` if a plain step must come first, or this backend makes the step
    /// itself. `before`: the inputs of an invalid recording of the same key.
    pub(super) fn record(
        &mut self,
        access: Access<B, D>,
        optimizer: &mut dyn Optimizer<B>,
        batches: &[D],
        given: &[Tensor<B>],
        key: Key,
        before: &[Array<B>],
    ) -> Result<Option<Recorded<B>>> {
        let leaves = self.model.leaves();
        let parameters = leaves.unique();
        let device = one_device(given, &parameters)?;
        let Some(scaler) = self.settle(optimizer, &leaves, &parameters)? else { return Ok(None) };
        let counter = self.settle_counter(device)?;
        let (mut inputs, mut traced, mut is_early) = (vec![], None, false);
        let work = B::record(device, &mut |keep| {
            for (i, x) in given.iter().enumerate() {
                let buffer = B::input(device, x.array().view(), before.get(i).map(Array::buffer))?;
                inputs.push(Array::new(device, buffer, x.shape().clone(), x.dtype()));
            }
            let mut rest = inputs.iter().cloned().map(Tensor::from_array);
            let one =
                |b: &D| (access.with_tensors)(b, rest.by_ref().take((access.tensors)(b).len()).collect());
            let batches: Vec<D> = batches.iter().map(one).collect();
            drop(rest);
            let ((step, context, buffers), watches) = observe_step(|| {
                let trace = || self.trace(optimizer, batches, &parameters, &inputs, device);
                let (mut context, step) = Capturing::new(device).trace(trace)?;
                let buffers = context.write_buffers()?;
                Ok((step, context, buffers))
            })?;
            let Some(mut step) = step else {
                is_early = true;
                return Err(Error::unsupported("a state is missing"));
            };
            measured_tensors(&mut step.told).try_for_each(|t| keep(t.array().buffer()))?;
            step.skip.iter().try_for_each(|t| keep(t.array().buffer()))?;
            traced = Some((step, context, buffers, watches));
            Ok(())
        });
        if is_early {
            self.scaler.iter_mut().for_each(|s| s.forget());
            return Ok(None);
        }
        let (Some(work), Some((step, context, buffers, watches))) = (work?, traced) else {
            self.is_direct = true;
            return Ok(None);
        };
        if Array::is_held_besides(&inputs.iter().collect::<Vec<_>>()) {
            return Err(Error::argument("a captured step keeps a tensor of its batch, which will change"));
        }
        let updated: BTreeSet<String> = step.updated.into_iter().collect();
        let mut scalars = StepScalars::default();
        self.pending.clear();
        optimizer.plan_step(&of_names(&parameters, &updated), &mut scalars)?;
        Ok(Some(Recorded {
            key,
            work,
            device: device.clone(),
            inputs,
            told: step.told,
            skip: step.skip,
            watches,
            parameters: known(&parameters),
            updated,
            table: step.table,
            streams: context.streams,
            draws: context.draws,
            buffers,
            states: scalars.places().to_vec(),
            scaler,
            counter,
        }))
    }
    /// Gives memory of its own to all that a step may change. The scaler's state, if there is one;
    /// `None` if it is not on the device yet.
    fn settle(
        &mut self,
        optimizer: &mut dyn Optimizer<B>,
        leaves: &Leaves<'_, B>,
        parameters: &Named<'_, B>,
    ) -> Result<Option<ScalerState>> {
        let scaler = match &mut self.scaler {
            None => None,
            Some(scaler) => match scaler.settle()? {
                None => return Ok(None),
                live => live,
            },
        };
        for (_, p) in parameters {
            p.lock().array_mut().make_unique()?;
        }
        leaves.buffers.iter().try_for_each(|(_, b)| make_cell_unique(b.cell()))?;
        let trained: Vec<_> = parameters.iter().filter(|(_, p)| !p.is_frozen()).cloned().collect();
        optimizer.plan_step(&trained, &mut StepScalars::default())?;
        Ok(Some(scaler))
    }

    /// The counter of steps, on the device of the step; where it is. None without a scaler.
    fn settle_counter(&mut self, device: &B::Device) -> Result<Option<[Place; 2]>> {
        if self.scaler.is_none() {
            return Ok(None);
        }
        let counter = match self.counter.take().filter(|c| c.device() == device) {
            Some(counter) => counter,
            None => StepsMade::new(device)?,
        };
        self.counter.insert(counter).settle().map(Some)
    }

    /// The error of the step without recording, if it has one: an index out of range, say, which a
    /// recording can only refuse to look at. Nothing changes.
    pub(super) fn probe(&mut self, batches: &[D]) -> Result<()> {
        let undo = Undo::<B>::of(self.model);
        let take = &mut |i, f: &mut dyn FnMut(&D) -> Result<()>| f(&batches[i]);
        let result = observe_step(|| isolated(autocast_dtype(), || self.gradients(batches.len(), take)));
        self.scaler.iter_mut().for_each(|s| s.forget());
        undo.run()?;
        result.map(drop)
    }

    /// The step itself, while it is recorded. `None` if the optimiser has not all states yet.
    fn trace(
        &mut self,
        optimizer: &mut dyn Optimizer<B>,
        batches: Vec<D>,
        parameters: &Named<'_, B>,
        inputs: &[Array<B>],
        device: &B::Device,
    ) -> Result<Option<Traced<B>>> {
        // Conversions that the scope keeps would hold parameters.
        let take = &mut |i, f: &mut dyn FnMut(&D) -> Result<()>| f(&batches[i]);
        let (mut told, mut gradients) = isolated(autocast_dtype(), || self.gradients(batches.len(), take))?;
        drop(batches);
        // What is deferred would read parameters after they have changed.
        for t in measured_tensors(&mut told) {
            if inputs.iter().any(|x| x.shares_memory_with(t.array())) {
                *t = Tensor::from_array(t.array().copy()?);
            }
            compute(t.array())?;
        }
        for (_, p) in parameters {
            gradients.get(&p.get()).map_or(Ok(()), |g| compute(g.array()))?;
        }
        let skip = match &mut self.scaler {
            Some(scaler) => scaler.skip(self.model, &mut gradients)?,
            None => None,
        };
        let digits = self.counter.as_ref().map(StepsMade::digits).transpose()?;
        let mut table = StepTable::new(device, digits.as_ref());
        let recorded = optimizer.record_step(parameters, &gradients, skip.as_ref(), &mut table)?;
        let Some(updated) = recorded else { return Ok(None) };
        table.finish();
        check_updated(parameters, updated.len())?;
        if let (Some(counter), Some(skip)) = (&mut self.counter, &skip) {
            counter.count(skip)?;
        }
        if let Some(scaler) = &mut self.scaler {
            scaler.update()?;
        }
        Ok(Some(Traced { told, updated, skip, table }))
    }

    /// Replays the last of the recorded steps. `None`, and nothing was done, if it is not valid any
    /// more.
    pub(super) fn replay(
        &mut self,
        optimizer: &mut dyn Optimizer<B>,
        given: &[Tensor<B>],
    ) -> Result<Option<Vec<Measured<B>>>> {
        let scaler = self.scaler.as_mut().map(|s| s.settle()).transpose()?.flatten();
        let counter = self.counter.as_mut().map(StepsMade::settle).transpose()?;
        let r = self.recorded.last().expect("a step was recorded");
        let leaves = self.model.leaves();
        let parameters = leaves.unique();
        let is_here = given.iter().all(|x| *x.device() == r.device);
        let is_same = known(&parameters) == r.parameters && scaler == r.scaler && counter == r.counter;
        if !is_here || !is_same {
            return Ok(None);
        }
        let updated = of_names(&parameters, &r.updated);
        for (_, p) in &updated {
            p.lock().array_mut().make_unique()?;
        }
        r.buffers.iter().try_for_each(make_cell_unique)?;
        if !r.watches.iter().all(|same| same()) {
            return Ok(None);
        }
        if self.pending.len() == ROWS {
            self.pending.clear();
        }
        let mut scalars = StepScalars::after(self.pending.iter().map(|(_, place)| place.clone()).collect());
        optimizer.plan_step(&updated, &mut scalars)?;
        if !scalars.are_whole() {
            // The optimiser asks the device.
            self.pending.clear();
            scalars = StepScalars::default();
            optimizer.plan_step(&updated, &mut scalars)?;
        }
        if scalars.places() != r.states {
            return Ok(None);
        }
        let Some(mut tables) = r.table.upload(&scalars)? else { return Ok(None) };
        if let Some(counter) = self.counter.as_ref().filter(|_| self.pending.is_empty()) {
            tables.extend(counter.restart()?);
        }
        let (streams, before) = next_streams(&r.draws);
        let streams: Vec<&[Vec<f64>]> = streams.iter().map(std::slice::from_ref).collect();
        let done = r.streams.upload(&streams).and_then(|words| {
            tables.extend(words);
            let of_tables = tables.iter().map(|(from, to)| (from.view(), to.buffer()));
            let of_batch = given.iter().zip(&r.inputs).map(|(x, to)| (x.array().view(), to.buffer()));
            B::replay(&r.device, &r.work, &of_batch.chain(of_tables).collect::<Vec<_>>())
        });
        if !matches!(done, Ok(true)) {
            take_back(&r.draws, &before);
            return done.map(|_| None);
        }
        // The step is made; what follows tells so.
        let skip = r.skip.as_ref().map(|t| t.array().copy().map(Tensor::from_array)).transpose()?;
        optimizer.count_step(&updated, skip.as_ref())?;
        if let Some(skip) = skip {
            let place = Place::of(skip.array())?;
            self.pending.push((skip, place));
        }
        updated.iter().for_each(|(_, p)| p.lock().renew());
        let mut told = r.told.clone();
        for t in measured_tensors(&mut told) {
            *t = Tensor::from_array(t.array().copy()?);
        }
        Ok(Some(told))
    }
}
