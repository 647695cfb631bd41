//! `Descent`: the common part of optimisers, generic over the rule.

use super::kept::{Kept, Unsure};
use super::plan::Plan;
use super::{Group, Named, Rule};
use elinvar_core::{Error, Result};
use elinvar_ops::{Backend, recording};
use std::collections::BTreeMap;

/// An optimiser: a rule with its learning rate, weight decay, groups, and state per parameter.
#[derive(Clone, Debug)]
pub struct Descent<B: Backend, R: Rule> {
    pub(super) plan: Plan<R>,
    pub(super) groups: Vec<Group>,
    pub(super) kept: BTreeMap<String, Kept<B>>,
    /// The last steps, if they may have been skipped.
    pub(super) unsure: Option<Unsure<B, R>>,
    /// Does the rule put other tensors in the place of its states, or change them in place? Seen in
    /// the last step.
    pub(super) replaces: Option<bool>,
}

impl<B: Backend, R: Rule> Descent<B, R> {
    /// With this learning rate, and PyTorch's defaults.
    pub fn new(lr: f64) -> Self {
        Self::with_rule(lr, R::default())
    }
    /// With this learning rate and rule, for user-defined rules.
    pub fn with_rule(lr: f64, rule: R) -> Self {
        let plan = Plan { lr, weight_decay: R::WEIGHT_DECAY, maximize: false, rule };
        Descent { plan, groups: vec![], kept: BTreeMap::new(), unsure: None, replaces: None }
    }
    /// Weight decay.
    #[must_use]
    pub fn weight_decay(mut self, weight_decay: f64) -> Self {
        self.plan.weight_decay = weight_decay;
        self
    }
    /// Maximises instead of minimising.
    #[must_use]
    pub fn maximize(mut self, maximize: bool) -> Self {
        self.plan.maximize = maximize;
        self
    }
    /// Adds a parameter group with its own settings. A parameter belongs to the first group that
    /// matches.
    #[must_use]
    pub fn group(mut self, group: Group) -> Self {
        self.groups.push(group);
        self
    }
    pub(super) fn rule_mut(&mut self) -> &mut R {
        &mut self.plan.rule
    }

    /// The number of the parameter's group: 0 if it is in none, else one more than its index in
    /// `groups`.
    pub(super) fn group_of(&self, name: &str) -> usize {
        self.groups.iter().position(|g| g.has(name)).map_or(0, |i| i + 1)
    }
    /// The settings of every group, checked.
    pub(super) fn plans(&self) -> Result<Vec<Plan<R>>> {
        let mut all = vec![self.plan];
        self.plan.check()?;
        for (i, group) in self.groups.iter().enumerate() {
            let mut plan = self.plan;
            let place = |e: Error| e.at(format!("group {}", i + 1));
            group.settings.iter().try_for_each(|(name, v)| plan.set(name, v)).map_err(place)?;
            plan.lr = group.rate.of(self.plan.lr);
            plan.check().map_err(place)?;
            all.push(plan);
        }
        Ok(all)
    }
}

/// The parameters of each group, by their numbers.
pub(super) type Members<R> = Vec<(Plan<R>, Vec<usize>)>;

impl<B: Backend, R: Rule> Descent<B, R> {
    /// The members of each group, with its settings.
    pub(super) fn members(&self, parameters: &Named<'_, B>) -> Result<Members<R>> {
        let mut all: Vec<_> = self.plans()?.into_iter().map(|plan| (plan, vec![])).collect();
        for (i, (name, _)) in parameters.iter().enumerate() {
            all[self.group_of(name)].1.push(i);
        }
        Ok(all)
    }
    /// Does a step work on copies of the states, which are written back? One that is recorded does
    /// if the rule puts other tensors in their place.
    pub(super) fn copies(&self) -> bool {
        recording::is_recording() && self.replaces == Some(true)
    }
    /// Takes those of the last steps that were skipped back out of the counts. Waits for the
    /// device.
    pub(super) fn make_sure(&mut self) -> Result<()> {
        let Some(unsure) = &self.unsure else { return Ok(()) };
        let skipped = unsure.were_skipped()?;
        if skipped.contains(&true) {
            for (name, before) in &unsure.before {
                let group = self.group_of(name);
                match (before, self.kept.get_mut(name)) {
                    (Some(before), Some(kept)) => {
                        let now = unsure.after(before, kept.tensors.is_empty(), group, &skipped);
                        (kept.step, kept.numbers) = (now.step, now.numbers);
                    }
                    // Its first step is still to come.
                    (None, _) | (Some(_), None) => drop(self.kept.remove(name)),
                }
            }
        }
        self.unsure = None;
        Ok(())
    }
}
