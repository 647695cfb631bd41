//! `Optimizer` for [`Descent`].

use super::descent::Descent;
use super::group::Rate;
use super::kept::{Kept, Scalars, Unsure, UnsureStep};
use super::load::{STEP, count, restore, unknown};
use super::make::{lock, one_bool};
use super::plan::SCALE;
use super::table::{StepScalars, StepTable};
use super::{Group, Named, Optimizer, OptimizerState, Rule, sorted};
use crate::{Param, Reader};
use elinvar_core::{Error, HostTensor, Result, Shape, profile};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_tensor::{Gradients, Tensor};
use serde_json::Value;
use std::collections::BTreeMap;

impl<B: Backend, R: Rule> Optimizer<B> for Descent<B, R> {
    fn step_some(
        &mut self,
        parameters: &Named<'_, B>,
        gradients: &Gradients<B>,
        skip: Option<&Tensor<B>>,
    ) -> Result<usize> {
        let _span = profile::span("optimiser step");
        self.make_sure().map_err(|e| e.at(R::NAME))?;
        let skip = skip.map(|skip| one_bool(skip)).transpose().map_err(|e| e.at(R::NAME))?;
        let plans = self.members(parameters)?;
        let mut cells = lock(parameters);
        let mut all: Vec<_> = plans.iter().map(|_| vec![]).collect();
        let result =
            self.make(parameters, &plans, &mut cells, gradients, Scalars::new(skip.cloned()), &mut all);
        let mut before = BTreeMap::new();
        // States are put back in any case, updated ones if the step was made.
        let mut moved = vec![];
        for ((plan, _), all) in plans.iter().zip(all) {
            for (w, rest) in all {
                let states = plan.rule.keeps_for(w.x.shape()).into_iter().map(|(key, _)| key).zip(w.states);
                if rest.done {
                    let kept = Kept { step: rest.step, numbers: rest.numbers, tensors: sorted(states) };
                    let old = self.kept.insert(w.name.to_owned(), kept);
                    before.insert(w.name.to_owned(), old.map(|old| old.counted(w.x.shape())));
                    moved.push(rest.index);
                } else if let Some(kept) = self.kept.get_mut(w.name) {
                    kept.tensors.extend(states.zip(rest.had).filter(|(_, had)| *had).map(|(state, _)| state));
                }
            }
        }
        let plans = || plans.iter().map(|(plan, _)| *plan).collect();
        let one = |skip: &Array<B>| UnsureStep { skip: skip.clone(), place: None, plans: plans() };
        self.unsure = skip.map(|skip| Unsure { steps: vec![one(skip)], before });
        moved.iter().for_each(|&i| cells[i].as_mut().expect("it made its step").renew());
        result.map_err(|e| e.at(R::NAME))?;
        Ok(moved.len())
    }
    fn record_step(
        &mut self,
        parameters: &Named<'_, B>,
        gradients: &Gradients<B>,
        skip: Option<&Tensor<B>>,
        table: &mut StepTable<B>,
    ) -> Result<Option<Vec<String>>> {
        self.record(parameters, gradients, skip, table).map_err(|e| e.at(R::NAME))
    }
    fn plan_step(&mut self, parameters: &Named<'_, B>, to: &mut StepScalars) -> Result<()> {
        self.next_scalars(parameters, to).map_err(|e| e.at(R::NAME))
    }
    fn count_step(&mut self, parameters: &Named<'_, B>, skip: Option<&Tensor<B>>) -> Result<()> {
        self.count(parameters, skip).map_err(|e| e.at(R::NAME))
    }
    fn lr(&self) -> f64 {
        self.plan.lr
    }
    fn set_lr(&mut self, lr: f64) {
        self.plan.lr = lr;
    }
    fn groups(&self) -> usize {
        self.groups.len() + 1
    }
    fn state_of(&self, parameters: &Named<'_, B>, read: &mut Reader<'_, B>) -> Result<OptimizerState> {
        if self.unsure.is_some() {
            let mut sure = self.clone();
            sure.make_sure().map_err(|e| e.at(R::NAME))?;
            return sure.state_of(parameters, read);
        }
        let mut out = OptimizerState::default();
        let mut members = vec![vec![]; self.groups()];
        for (name, _) in parameters {
            members[self.group_of(name)].push(Value::from(name.as_str()));
            let Some(kept) = self.kept.get(name) else { continue };
            let mut keys = BTreeMap::from([(STEP.to_owned(), count(kept.step)?)]);
            for (key, v) in &kept.numbers {
                keys.insert((*key).to_owned(), HostTensor::from_vec(vec![*v], Shape::scalar())?);
            }
            for (key, t) in &kept.tensors {
                keys.insert((*key).to_owned(), read(t).map_err(|e| e.at(name).at(R::NAME))?);
            }
            out.state.insert(name.clone(), keys);
        }
        for (i, (plan, members)) in self.plans()?.into_iter().zip(members).enumerate() {
            let mut group = plan.describe();
            group.insert("params".to_owned(), Value::Array(members));
            if let Some(Group { rate: Rate::Scaled(factor), .. }) = i.checked_sub(1).map(|i| &self.groups[i])
            {
                group.insert(SCALE.to_owned(), Value::from(*factor));
            }
            out.param_groups.push(group);
        }
        Ok(out)
    }
    fn prepare<'a>(
        &'a mut self,
        parameters: &Named<'_, B>,
        from: &OptimizerState,
    ) -> Result<Box<dyn FnOnce() + 'a>> {
        let place = |e: Error| e.at("load_state_dict").at(R::NAME);
        let mut next = Descent { kept: BTreeMap::new(), unsure: None, replaces: None, ..self.clone() };
        next.take_groups(parameters, &from.param_groups).map_err(place)?;
        let plans = next.plans().map_err(place)?;
        let by_name: BTreeMap<&str, &Param<B>> = sorted(parameters.iter().map(|(n, p)| (n.as_str(), *p)));
        for (name, keys) in from.state.iter().filter(|(_, keys)| !keys.is_empty()) {
            let p = by_name.get(name.as_str()).ok_or_else(|| place(unknown(name)))?;
            let rule = &plans[next.group_of(name)].rule;
            let kept = restore(rule, &p.get(), keys).map_err(|e| place(e.at(format!("\"{name}\""))))?;
            next.kept.insert(name.clone(), kept);
        }
        Ok(Box::new(move || *self = next))
    }
}
