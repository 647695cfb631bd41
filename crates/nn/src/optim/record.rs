//! Steps of an optimiser that are captured: recorded once, with scalars from a [`StepTable`], and
//! counted after each replay.

use super::descent::Descent;
use super::kept::{Counted, Kept, Scalars, Unsure};
use super::make::{lock, one_bool};
use super::table::{StepScalars, StepTable};
use super::{Named, Rule};
use crate::capture::own;
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_tensor::{Gradients, Tensor};
use std::collections::BTreeMap;

impl<B: Backend, R: Rule> Descent<B, R> {
    /// Records the step of these parameters; see [`super::Optimizer::record_step`].
    pub(super) fn record(
        &mut self,
        parameters: &Named<'_, B>,
        gradients: &Gradients<B>,
        skip: Option<&Tensor<B>>,
        table: &mut StepTable<B>,
    ) -> Result<Option<Vec<String>>> {
        let skip = skip.map(|skip| one_bool(skip)).transpose()?;
        let plans = self.members(parameters)?;
        for (plan, members) in &plans {
            let states = plan.rule.keeps().len();
            for (name, p) in members.iter().map(|&i| &parameters[i]) {
                let takes_part = {
                    let value = p.get();
                    value.is_variable() && gradients.get(&value).is_some()
                };
                let is_known = self.kept.get(name).is_some_and(|kept| kept.tensors.len() == states);
                if takes_part && !(is_known && (states == 0 || self.replaces.is_some())) {
                    return Ok(None);
                }
            }
        }
        let copies = self.copies();
        let mut cells = lock(parameters);
        let mut all: Vec<_> = plans.iter().map(|_| vec![]).collect();
        let scalars = Scalars::recorded(skip.cloned(), table);
        let mut result = self.make(parameters, &plans, &mut cells, gradients, scalars, &mut all);
        let mut updated = vec![];
        for ((plan, _), all) in plans.iter().zip(all) {
            for (w, rest) in all {
                let kept = self.kept.get_mut(w.name).expect("it was there above");
                let states = plan.rule.keeps().into_iter().map(|(key, _)| key).zip(w.states);
                if !copies {
                    kept.tensors.extend(states);
                } else if rest.done && result.is_ok() {
                    result = write_back(kept, states).map_err(|e| e.at(w.name));
                }
                updated.push(w.name.to_owned());
            }
        }
        if self.replaces.is_some_and(|now| now != copies) {
            return Err(Error::unsupported(
                "a step that sometimes puts other tensors in the place of its states cannot be captured",
            ));
        }
        result.map(|()| Some(updated))
    }
    /// See [`super::Optimizer::plan_step`].
    pub(super) fn next_scalars(&mut self, parameters: &Named<'_, B>, to: &mut StepScalars) -> Result<()> {
        for (plan, members) in self.members(parameters)? {
            for (name, p) in members.iter().map(|&i| &parameters[i]) {
                let (value, mut none) = (p.get(), Kept::default());
                let kept = self.kept.get_mut(name).unwrap_or(&mut none);
                for state in kept.tensors.values_mut() {
                    state.make_unique()?;
                }
                to.push(plan.next(kept, value.shape()).scalars, value.dtype().compute());
                kept.tensors.values().try_for_each(|state| to.state(state))?;
            }
        }
        Ok(())
    }
    /// See [`super::Optimizer::count_step`].
    pub(super) fn count(&mut self, parameters: &Named<'_, B>, skip: Option<&Tensor<B>>) -> Result<()> {
        let mut before = BTreeMap::new();
        for (plan, members) in self.members(parameters)? {
            for (name, p) in members.iter().map(|&i| &parameters[i]) {
                let kept = self.kept.entry(name.clone()).or_default();
                let next = plan.next(kept, p.get().shape());
                let numbers = std::mem::replace(&mut kept.numbers, next.numbers);
                before.insert(name.clone(), Some(Counted { step: kept.step, numbers }));
                kept.step = next.step;
            }
        }
        self.unsure = skip.map(|skip| Unsure { skip: skip.array().clone(), before });
        Ok(())
    }
}

/// Writes new states to where the old ones are.
fn write_back<B: Backend>(
    kept: &mut Kept<B>,
    states: impl Iterator<Item = (&'static str, Array<B>)>,
) -> Result<()> {
    for (key, new) in states {
        let old = kept.tensors.get_mut(key).expect("it was copied from here");
        own(old)?;
        let layout = old.layout().clone();
        old.write(&layout, &new)?;
    }
    Ok(())
}
