//! Steps of an optimiser that are captured: recorded once, with scalars from a [`StepTable`], and
//! counted after each replay.

use super::descent::Descent;
use super::kept::{Counted, Kept, Scalars, Unsure, UnsureStep};
use super::make::{lock, one_bool};
use super::table::{StepScalars, StepTable};
use super::{Named, Rule};
use crate::own::own;
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_ops::recording::Place;
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
            for (name, p) in members.iter().map(|&i| &parameters[i]) {
                let value = p.get();
                let states = plan.rule.keeps_for(value.shape()).len();
                let takes_part = value.is_variable() && gradients.get(&value).is_some();
                drop(value);
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
                let states = plan.rule.keeps_for(w.x.shape()).into_iter().map(|(key, _)| key).zip(w.states);
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
        if to.pending().is_empty() {
            self.make_sure()?;
        } else if !self.unsure.as_ref().is_some_and(|u| u.is_of(to.pending(), parameters)) {
            to.differ();
            return Ok(());
        }
        // Most parameters have the rows of another one.
        let mut seen: Vec<(Counted, bool, Vec<Vec<f64>>)> = vec![];
        for (group, (plan, members)) in self.members(parameters)?.into_iter().enumerate() {
            seen.clear();
            for (name, p) in members.iter().map(|&i| &parameters[i]) {
                let (value, mut none) = (p.get(), Kept::default());
                let kept = self.kept.get_mut(name).unwrap_or(&mut none);
                for state in kept.tensors.values_mut() {
                    state.make_unique()?;
                }
                let (unsure, fresh) = (self.unsure.as_ref(), kept.tensors.is_empty());
                let sure = match unsure.and_then(|u| u.before.get(name)) {
                    Some(Some(before)) => before.clone(),
                    _ => kept.counted(value.shape()),
                };
                let known = seen.iter().find(|(counted, was, _)| *counted == sure && *was == fresh);
                let rows = match (known, unsure) {
                    (Some((.., rows)), _) => Some(rows.clone()),
                    (None, Some(unsure)) => unsure.rows(&plan, &sure, fresh, group),
                    (None, None) => Some(vec![plan.next_after(&sure, fresh).scalars]),
                };
                let Some(rows) = rows else {
                    to.differ();
                    return Ok(());
                };
                if known.is_none() {
                    seen.push((sure, fresh, rows.clone()));
                }
                to.push_rows(rows, value.dtype().compute());
                kept.tensors.values().try_for_each(|state| to.state(state))?;
            }
        }
        Ok(())
    }
    /// See [`super::Optimizer::count_step`].
    pub(super) fn count(&mut self, parameters: &Named<'_, B>, skip: Option<&Tensor<B>>) -> Result<()> {
        let mut before = BTreeMap::new();
        let all = self.members(parameters)?;
        let place = skip.map(|skip| Place::of(skip.array())).transpose()?;
        for (plan, members) in &all {
            for (name, p) in members.iter().map(|&i| &parameters[i]) {
                let (kept, value) = (self.kept.entry(name.clone()).or_default(), p.get());
                let was = kept.counted(value.shape());
                let next = plan.next_after(&was, kept.tensors.is_empty()).counted;
                (kept.step, kept.numbers) = (next.step, next.numbers);
                before.insert(name.clone(), Some(was));
            }
        }
        let Some(skip) = skip else {
            self.unsure = None;
            return Ok(());
        };
        // What was planned with others has them before it; else they are known by now.
        let unsure = self.unsure.get_or_insert_with(|| Unsure { steps: vec![], before });
        let plans = all.into_iter().map(|(plan, _)| plan).collect();
        unsure.steps.push(UnsureStep { skip: skip.array().clone(), place, plans });
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
