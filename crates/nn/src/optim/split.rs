//! `Split`: several optimisers, each for some of the parameters.

use super::{Named, Optimizer, OptimizerState, StepScalars, StepTable};
use crate::Reader;
use elinvar_core::{Error, Result, Shape};
use elinvar_ops::Backend;
use elinvar_tensor::{Gradients, Tensor};
use std::collections::BTreeSet;

/// Several optimisers, each for some of the parameters: [`super::Muon`] for matrices and
/// [`super::AdamW`] for the rest, for example.
///
/// A parameter belongs to the first optimiser whose condition its name and shape fulfil, or else to
/// the one passed to `new`, the rest. The learning rate is that of the rest; the others keep the
/// ratio of their rates to it, so that a schedule applies to all.
///
/// ```
/// # use elinvar_nn::Backend;
/// # use elinvar_nn::optim::{AdamW, Muon, Split};
/// # fn make<B: Backend>() -> Split<B> {
/// Split::new(AdamW::new(3e-4)).with(Muon::new(0.02), |name, shape| shape.rank() >= 2 && !name.starts_with("embed"))
/// # }
/// ```
pub struct Split<B: Backend> {
    parts: Vec<Part<B>>,
    rest: Box<dyn Optimizer<B>>,
}

type Condition = Box<dyn Fn(&str, &Shape) -> bool + Send + Sync>;

struct Part<B: Backend> {
    optimizer: Box<dyn Optimizer<B>>,
    takes: Condition,
    /// The ratio of its learning rate to that of the rest.
    ratio: f64,
}

/// Each part's parameters, then those of the rest.
type Shares<'a, B> = Vec<Vec<(String, &'a crate::Param<B>)>>;

impl<B: Backend> Split<B> {
    /// All parameters belong to this optimiser, until [`Split::with`] adds others.
    pub fn new(rest: impl Optimizer<B> + 'static) -> Self {
        Split { parts: vec![], rest: Box::new(rest) }
    }
    /// Assigns the parameters for which `takes` is true to `optimizer`.
    ///
    /// # Panics
    /// If the learning rate of the rest is 0, for which there is no ratio.
    #[must_use]
    #[track_caller]
    pub fn with(
        mut self,
        optimizer: impl Optimizer<B> + 'static,
        takes: impl Fn(&str, &Shape) -> bool + Send + Sync + 'static,
    ) -> Self {
        let ratio = optimizer.lr() / self.rest.lr();
        assert!(
            ratio.is_finite(),
            "split: a learning rate of {} by one of {}",
            optimizer.lr(),
            self.rest.lr()
        );
        self.parts.push(Part { optimizer: Box::new(optimizer), takes: Box::new(takes), ratio });
        self
    }
    fn shares<'a>(&self, parameters: &Named<'a, B>) -> Shares<'a, B> {
        let mut all: Shares<'a, B> = (0..=self.parts.len()).map(|_| vec![]).collect();
        for (name, p) in parameters {
            let value = p.get();
            let first = self.parts.iter().position(|part| (part.takes)(name, value.shape()));
            all[first.unwrap_or(self.parts.len())].push((name.clone(), p));
        }
        all
    }
    fn all(&self) -> impl Iterator<Item = &dyn Optimizer<B>> {
        self.parts.iter().map(|p| &*p.optimizer).chain([&*self.rest])
    }
}

impl<B: Backend> Optimizer<B> for Split<B> {
    fn step_some(
        &mut self,
        parameters: &Named<'_, B>,
        gradients: &Gradients<B>,
        skip: Option<&Tensor<B>>,
    ) -> Result<usize> {
        let shares = self.shares(parameters);
        let all = self.parts.iter_mut().map(|p| &mut p.optimizer).chain([&mut self.rest]);
        all.zip(&shares).map(|(o, share)| o.step_some(share, gradients, skip)).sum()
    }
    fn record_step(
        &mut self,
        parameters: &Named<'_, B>,
        gradients: &Gradients<B>,
        skip: Option<&Tensor<B>>,
        table: &mut StepTable<B>,
    ) -> Result<Option<Vec<String>>> {
        let shares = self.shares(parameters);
        let mut updated = vec![];
        let all = self.parts.iter_mut().map(|p| &mut p.optimizer).chain([&mut self.rest]);
        for (o, share) in all.zip(&shares) {
            match o.record_step(share, gradients, skip, table)? {
                Some(names) => updated.extend(names),
                None => return Ok(None),
            }
        }
        Ok(Some(updated))
    }
    fn plan_step(&mut self, parameters: &Named<'_, B>, to: &mut StepScalars) -> Result<()> {
        let shares = self.shares(parameters);
        let mut all = self.parts.iter_mut().map(|p| &mut p.optimizer).chain([&mut self.rest]).zip(&shares);
        all.try_for_each(|(o, share)| o.plan_step(share, to))
    }
    fn count_step(&mut self, parameters: &Named<'_, B>, skip: Option<&Tensor<B>>) -> Result<()> {
        let shares = self.shares(parameters);
        let mut all = self.parts.iter_mut().map(|p| &mut p.optimizer).chain([&mut self.rest]).zip(&shares);
        all.try_for_each(|(o, share)| o.count_step(share, skip))
    }
    fn lr(&self) -> f64 {
        self.rest.lr()
    }
    fn set_lr(&mut self, lr: f64) {
        self.rest.set_lr(lr);
        self.parts.iter_mut().for_each(|p| p.optimizer.set_lr(p.ratio * lr));
    }
    fn groups(&self) -> usize {
        self.all().map(Optimizer::groups).sum()
    }
    /// The groups of the parts in their order, then those of the rest.
    fn state_of(&self, parameters: &Named<'_, B>, read: &mut Reader<'_, B>) -> Result<OptimizerState> {
        let mut out = OptimizerState::default();
        for (o, share) in self.all().zip(self.shares(parameters)) {
            let part = o.state_of(&share, read)?;
            out.state.extend(part.state);
            out.param_groups.extend(part.param_groups);
        }
        Ok(out)
    }
    fn prepare<'a>(
        &'a mut self,
        parameters: &Named<'_, B>,
        from: &OptimizerState,
    ) -> Result<Box<dyn FnOnce() + 'a>> {
        let groups = self.groups();
        if !from.param_groups.is_empty() && from.param_groups.len() != groups {
            return Err(Error::argument(format!(
                "split: load_state_dict: the state has {} parameter groups, and the optimisers {groups} together",
                from.param_groups.len()
            )));
        }
        let names: BTreeSet<&str> = parameters.iter().map(|(n, _)| n.as_str()).collect();
        if let Some(name) = from.state.keys().find(|n| !names.contains(n.as_str())) {
            return Err(Error::argument(format!(
                "split: load_state_dict: the state is of a parameter \"{name}\", which the module has not"
            )));
        }
        let shares = self.shares(parameters);
        let (mut commits, mut first) = (vec![], 0);
        let all = self.parts.iter_mut().map(|p| &mut p.optimizer).chain([&mut self.rest]);
        for (o, share) in all.zip(&shares) {
            let groups = first..first + o.groups();
            first = groups.end;
            let names = share.iter().map(|(n, _)| n.as_str()).collect();
            commits.push(o.prepare(share, &from.part(&names, groups))?);
        }
        Ok(Box::new(move || commits.into_iter().for_each(|commit| commit())))
    }
}

impl<B: Backend> std::fmt::Debug for Split<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Split")
            .field("parts", &self.parts.len())
            .field("lr", &self.lr())
            .finish_non_exhaustive()
    }
}
