//! Continues PyTorch's training, and writes training for PyTorch to continue.

use super::tasks::Task;
use super::{B, D, T};
use elinvar_core::{Error, HostTensor, Result, Shape};
use elinvar_io::Safetensors;
use elinvar_nn::loss::{Reduction, mse_loss};
use elinvar_nn::optim::{Optimizer, OptimizerState, names_of};
use elinvar_nn::{Generator, Layer, Module, Sequential, StateDict, Strict};
use std::collections::BTreeMap;

/// |ours - theirs| / max(1, |theirs|), for every loss.
pub const BOUND: f64 = 1e-5;
/// Steps before the state is saved, and after.
const FIRST: usize = 5;
const THEN: usize = 10;

/// The data of one task in a file, under the names documented in `tools/parity.py`.
pub struct Part<'a> {
    name: &'a str,
    file: &'a Safetensors,
}

impl<'a> Part<'a> {
    pub fn new(name: &'a str, file: &'a Safetensors) -> Self {
        Part { name, file }
    }
    fn missing(&self, what: &str) -> Error {
        Error::format(format!("parity: the file has no {}/{what}", self.name))
    }
    fn tensor(&self, what: &str) -> Result<&HostTensor> {
        self.file.tensors.get(&format!("{}/{what}", self.name)).ok_or_else(|| self.missing(what))
    }
    pub fn losses(&self, what: &str) -> Result<Vec<f64>> {
        Ok(self.tensor(what)?.to_f64_vec())
    }
    /// The tensors of the task whose names begin with `what/`.
    fn tensors(&self, what: &str) -> StateDict {
        let prefix = format!("{}/{what}/", self.name);
        let all = self.file.tensors.iter();
        all.filter_map(|(k, v)| Some((k.strip_prefix(&prefix)?.to_owned(), v.clone()))).collect()
    }
    /// The optimiser's state, by parameter number.
    fn optimizer(&self) -> Result<OptimizerState> {
        let groups = self.file.metadata.get(&format!("{}/param_groups", self.name));
        let groups = groups.ok_or_else(|| self.missing("param_groups"))?;
        OptimizerState::from_tensors(&self.tensors("optimizer"), Some(groups))
    }
}

/// A model in training, and its number of steps.
pub struct Run<'a> {
    task: &'a Task,
    model: Sequential<B>,
    optimizer: Box<dyn Optimizer<B>>,
    x: T,
    y: T,
    done: usize,
}

impl<'a> Run<'a> {
    fn new(task: &'a Task, optimizer: Box<dyn Optimizer<B>>, data: &Part<'_>, done: usize) -> Result<Self> {
        // Initial weights that differ from the loaded ones, in every run.
        let model = (task.model)(&mut Generator::new(done as u64));
        let load = |what| T::from_host(data.tensor(what)?.clone(), &D);
        Ok(Run { task, model, optimizer, x: load("x")?, y: load("y")?, done })
    }
    /// A run from the initial weights.
    fn start(task: &'a Task, data: &Part<'_>) -> Result<Self> {
        let run = Run::new(task, (task.configured)(), data, 0)?;
        run.model.load_state_dict(&data.tensors("start"), Strict::Yes)?;
        Ok(run)
    }
    /// A run after the first five steps, from a file with PyTorch's parameter numbers.
    pub fn load(task: &'a Task, data: &Part<'_>, from: &Part<'_>) -> Result<Self> {
        let mut run = Run::load_model(task, (task.bare)(), data, from)?;
        let state = from.optimizer()?.named(&run.names())?;
        run.optimizer.load_state_dict(&run.model, &state)?;
        Ok(run)
    }
    /// As [`Run::load`], with an optimiser without state.
    pub fn load_model(
        task: &'a Task,
        optimizer: Box<dyn Optimizer<B>>,
        data: &Part<'_>,
        from: &Part<'_>,
    ) -> Result<Self> {
        let run = Run::new(task, optimizer, data, FIRST)?;
        run.model.load_state_dict(&from.tensors("model"), Strict::Yes)?;
        Ok(run)
    }
    /// The parameters in the order in which PyTorch's optimiser gets them: group by group.
    fn names(&self) -> Vec<String> {
        let (second, first): (Vec<_>, Vec<_>) =
            names_of(&self.model).into_iter().partition(|name| (self.task.second)(name));
        [first, second].concat()
    }
    fn loss(&self) -> T {
        // The batches are repeated cyclically.
        let at = (self.done % self.x.size(0)) as isize;
        mse_loss(&self.model.forward(&self.x.select(0, at)), &self.y.select(0, at), Reduction::Mean)
    }
    fn train(&mut self, steps: usize) -> Result<Vec<f64>> {
        let mut losses = vec![];
        for _ in 0..steps {
            let loss = self.loss();
            self.optimizer.step(&self.model, &loss.backward())?;
            losses.push(loss.item::<f64>());
            self.done += 1;
        }
        Ok(losses)
    }
    /// Ten steps, and a loss in evaluation mode, which depends on running statistics.
    pub fn go_on(mut self) -> Result<Vec<f64>> {
        let mut losses = self.train(THEN)?;
        self.model.eval();
        losses.push(self.loss().item::<f64>());
        Ok(losses)
    }
    fn save(&self, to: &mut Safetensors) -> Result<()> {
        let name = self.task.name;
        let state = self.optimizer.state_dict(&self.model)?.numbered(&self.names())?;
        let (tensors, groups) = state.to_tensors();
        let model = self.model.state_dict()?;
        to.tensors.extend(model.into_iter().map(|(k, v)| (format!("{name}/model/{k}"), v)));
        to.tensors.extend(tensors.into_iter().map(|(k, v)| (format!("{name}/optimizer/{k}"), v)));
        to.metadata.insert(format!("{name}/param_groups"), groups);
        Ok(())
    }
}

/// The largest difference of losses; NaN if any is NaN.
pub fn difference(ours: &[f64], theirs: &[f64]) -> Result<f64> {
    if ours.len() != theirs.len() {
        return Err(Error::format(format!("parity: {} losses against {}", ours.len(), theirs.len())));
    }
    let each = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs() / b.abs().max(1.0));
    Ok(each.fold(0.0, |worst: f64, d| if d.is_nan() || worst.is_nan() { f64::NAN } else { worst.max(d) }))
}

/// Checks that losses are PyTorch's; returns their largest difference.
fn compare(what: &str, ours: &[f64], theirs: &[f64]) -> Result<f64> {
    let worst = difference(ours, theirs)?;
    if worst <= BOUND {
        return Ok(worst);
    }
    Err(Error::format(format!(
        "{what}: the losses differ from PyTorch's by {worst:.1e}\n  ours   {ours:?}\n  theirs {theirs:?}"
    )))
}

/// Continues PyTorch's training from its file; returns the largest difference of a loss.
///
/// # Errors
/// If it does not load, or a loss differs from PyTorch's.
pub fn go_on_from(task: &Task, theirs: &Safetensors) -> Result<f64> {
    let theirs = Part::new(task.name, theirs);
    compare("going on", &Run::load(task, &theirs, &theirs)?.go_on()?, &theirs.losses("losses")?)
}

/// Trains from the initial weights, saves in the middle for PyTorch, and continues.
///
/// # Errors
/// If the first losses differ from PyTorch's, or a run that resumes from the saved state has other
/// losses.
pub fn leave(task: &Task, theirs: &Safetensors, ours: &mut Safetensors) -> Result<()> {
    let theirs = Part::new(task.name, theirs);
    let mut run = Run::start(task, &theirs)?;
    compare("the first steps", &run.train(FIRST)?, &theirs.losses("first")?)?;
    run.save(ours)?;
    let losses = run.go_on()?;
    let again = Run::load(task, &theirs, &Part::new(task.name, ours))?.go_on()?;
    if again.iter().map(|v| v.to_bits()).ne(losses.iter().map(|v| v.to_bits())) {
        return Err(Error::format(format!(
            "going on from our own file: other bits\n  first {losses:?}\n  then  {again:?}"
        )));
    }
    let shape = Shape::new(&[losses.len()])?;
    ours.tensors.insert(format!("{}/losses", task.name), HostTensor::from_vec(losses, shape)?);
    Ok(())
}

/// Runs all tasks of PyTorch's file, without stopping at a failure: `difference` and `fault` of
/// each are in the metadata.
pub fn answer(tasks: &[Task], theirs: &Safetensors) -> Safetensors {
    let mut ours = Safetensors { tensors: BTreeMap::new(), metadata: BTreeMap::new() };
    for task in tasks {
        let went = go_on_from(task, theirs);
        if let Ok(worst) = &went {
            ours.metadata.insert(format!("{}/difference", task.name), format!("{worst:e}"));
        }
        if let Err(e) = went.and_then(|_| leave(task, theirs, &mut ours)) {
            ours.metadata.insert(format!("{}/fault", task.name), e.to_string());
        }
    }
    ours
}
