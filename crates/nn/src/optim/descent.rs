//! `Descent`: the common part of optimisers, generic over the rule.

use super::group::Rate;
use super::kept::{Counted, Kept, Scalars, Unsure};
use super::update::{Step, Work};
use super::{At, Group, Named, Optimizer, OptimizerState, Range, Rule, Setting};
use crate::Param;
use elinvar_core::{DType, Error, HostTensor, Result, Scalar, Shape};
use elinvar_ops::Backend;
use elinvar_ops::array::{Array, one_device};
use elinvar_tensor::{Gradients, Tensor};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::RwLockWriteGuard;

/// An optimiser: a rule with its learning rate, weight decay, groups, and state per parameter.
#[derive(Clone, Debug)]
pub struct Descent<B: Backend, R: Rule> {
    plan: Plan<R>,
    groups: Vec<Group>,
    kept: BTreeMap<String, Kept<B>>,
    /// The last step, if it may have been skipped.
    unsure: Option<Unsure<B>>,
}

/// The settings of a group of parameters.
#[derive(Clone, Copy, Debug)]
struct Plan<R> {
    lr: f64,
    weight_decay: f64,
    maximize: bool,
    rule: R,
}

/// Elements that make a step together: enough to fill a device, while the temporary tensors of a
/// rule (one more matrix per matrix for Muon) stay small compared to the weights of larger models.
/// Small in the unit tests, so that they have several batches.
const BATCH: usize = if cfg!(test) { 4 } else { 1 << 24 };

/// PyTorch's settings that select an implementation, or that its schedules add.
const IGNORED: &[&str] = &[
    "params",
    "param_names",
    "initial_lr",
    "foreach",
    "fused",
    "capturable",
    "differentiable",
    "base_momentum",
    "max_momentum",
    "max_lr",
    "min_lr",
];

impl<R: Rule> Plan<R> {
    /// All settings.
    fn table(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        let mut all = vec![
            ("lr", Setting::Number(&mut self.lr, Range::NotNegative)),
            ("weight_decay", Setting::Number(&mut self.weight_decay, Range::NotNegative)),
            ("maximize", Setting::Flag(&mut self.maximize)),
        ];
        all.extend(self.rule.settings());
        all
    }
    fn check(mut self) -> Result<()> {
        let fault = self.table().iter().find_map(|(name, s)| s.fault(name)).or_else(|| self.rule.conflict());
        fault.map_or(Ok(()), |fault| Err(Error::argument(format!("{}: {fault}", R::NAME))))
    }
    fn set(&mut self, name: &str, to: &Value) -> Result<()> {
        let mut table = self.table();
        let known = table.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", ");
        let Some((_, setting)) = table.iter_mut().find(|(n, _)| *n == name) else {
            return Err(Error::argument(format!(
                "{}: there is no setting {name}; there are {known}",
                R::NAME
            )));
        };
        setting
            .set(to)
            .map_err(|what| Error::argument(format!("{}: {name} is {to}, and should be {what}", R::NAME)))
    }
    /// The settings by PyTorch's names.
    fn describe(mut self) -> Map<String, Value> {
        let mut all: Map<String, Value> =
            sorted(self.table().into_iter().map(|(name, s)| (name.to_owned(), s.get())));
        all.insert(DECOUPLED.to_owned(), self.rule.decoupled().into());
        all.insert(OPTIMIZER.to_owned(), R::NAME.into());
        all
    }
    /// Loads the settings of a saved group.
    fn take(&mut self, group: &Map<String, Value>) -> Result<()> {
        let own: BTreeSet<&str> = sorted(self.table().iter().map(|(n, _)| *n));
        for (name, value) in group {
            if own.contains(name.as_str()) {
                self.set(name, value)?;
            }
        }
        for (name, value) in group {
            let name = name.as_str();
            let is = match name {
                DECOUPLED => Value::from(self.rule.decoupled()),
                OPTIMIZER => Value::from(R::NAME),
                _ if own.contains(name) || IGNORED.contains(&name) || name == SCALE => continue,
                _ => {
                    return Err(Error::argument(format!(
                        "{}: the state has a setting {name}, which this optimiser has not",
                        R::NAME
                    )));
                }
            };
            if *value != is {
                return Err(Error::argument(format!(
                    "{}: the state was made with {name} {value}, and this optimiser has {is}",
                    R::NAME
                )));
            }
        }
        self.check()
    }
}

/// Key of a saved group: is weight decay decoupled?
const DECOUPLED: &str = "decoupled_weight_decay";
/// Key of a saved group: the optimiser's name.
const OPTIMIZER: &str = "optimizer";
/// Key of a saved group: the factor of the optimiser's learning rate.
const SCALE: &str = "lr_scale";

impl<B: Backend, R: Rule> Descent<B, R> {
    /// With this learning rate, and PyTorch's defaults.
    pub fn new(lr: f64) -> Self {
        Self::with_rule(lr, R::default())
    }
    /// With this learning rate and rule, for user-defined rules.
    pub fn with_rule(lr: f64, rule: R) -> Self {
        let plan = Plan { lr, weight_decay: R::WEIGHT_DECAY, maximize: false, rule };
        Descent { plan, groups: vec![], kept: BTreeMap::new(), unsure: None }
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
    fn group_of(&self, name: &str) -> usize {
        self.groups.iter().position(|g| g.has(name)).map_or(0, |i| i + 1)
    }
    /// The settings of every group, checked.
    fn plans(&self) -> Result<Vec<Plan<R>>> {
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

    /// Prepares a parameter's step: everything that can fail, except the step itself. Existing
    /// states are moved out of `kept`, which is not changed otherwise.
    fn prepare_step<'a>(
        &mut self,
        plan: &Plan<R>,
        (index, name, value): (usize, &'a str, &'a mut Tensor<B>),
        gradient: &Tensor<B>,
        scalars: &mut Scalars<B>,
    ) -> Result<(Work<'a, B>, Rest)> {
        if (gradient.shape(), gradient.dtype()) != (value.shape(), value.dtype()) {
            return Err(Error::shape(format!(
                "the gradient is {} {}, the parameter {} {}",
                gradient.dtype(),
                gradient.shape(),
                value.dtype(),
                value.shape()
            )));
        }
        one_device(R::NAME, &[value.array(), gradient.array()])?;
        let (wide, device) = (value.dtype().compute(), value.device().clone());
        let mut none = Kept::default();
        let old = self.kept.get_mut(name).unwrap_or(&mut none);
        let rule = &plan.rule;
        let step = old.step + 1;
        let names = rule.numbers();
        let mut numbers: Vec<f64> =
            names.iter().map(|(n, start)| old.numbers.get(n).copied().unwrap_or(*start)).collect();
        let at = At { lr: plan.lr, step, fresh: old.tensors.is_empty(), shape: value.shape() };
        let shrink = if rule.decoupled() { 1.0 - plan.lr * plan.weight_decay } else { 1.0 };
        let mut values = vec![shrink];
        values.extend(rule.scalars(at, &mut numbers));
        let (skip, scalars) = (scalars.skip_on(&device)?, scalars.get(values, wide, &device)?);
        let keeps = rule.keeps();
        let mut fresh = vec![];
        for (key, start) in &keeps {
            fresh.push(match old.tensors.get_mut(key) {
                Some(t) => {
                    fits(key, t, value.shape(), wide)?;
                    if *t.device() != device {
                        *t = Array::from_host(&device, t.to_host()?)?;
                    }
                    None
                }
                None => Some(Array::full(&device, value.shape(), Scalar::Float(*start), wide)?),
            });
        }
        let x = value.array_mut();
        x.own()?;
        let had = fresh.iter().map(Option::is_none).collect();
        let states = keeps.iter().zip(fresh).map(|((key, _), fresh)| {
            fresh.unwrap_or_else(|| old.tensors.remove(key).expect("it was looked at above"))
        });
        let work = Work { name, x, g: gradient.array().clone(), states: states.collect(), scalars, skip };
        let numbers = sorted(names.iter().map(|(n, _)| *n).zip(numbers));
        Ok((work, Rest { index, step, numbers, had, done: false }))
    }

    /// Prepares the steps of all parameters, group by group, and only then makes them.
    fn make<'a>(
        &mut self,
        parameters: &'a Named<'_, B>,
        plans: &[(Plan<R>, Vec<usize>)],
        cells: &'a mut [Option<Cell<'_, B>>],
        (gradients, skip): (&Gradients<B>, Option<&Array<B>>),
        all: &mut [Vec<(Work<'a, B>, Rest)>],
    ) -> Result<()> {
        let mut scalars = Scalars::new(skip.cloned());
        let mut cells: Vec<_> = cells.iter_mut().map(Option::as_mut).collect();
        for ((plan, members), all) in plans.iter().zip(&mut *all) {
            for &i in members {
                let Some(value) = cells[i].take().map(|cell| &mut **cell) else { continue };
                let Some(g) = gradients.get(value).filter(|_| value.is_variable()) else { continue };
                let name = parameters[i].0.as_str();
                let prepared = self.prepare_step(plan, (i, name, value), g, &mut scalars);
                all.push(prepared.map_err(|e| e.at(name))?);
            }
        }
        for ((plan, _), all) in plans.iter().zip(all) {
            let decay = if plan.rule.decoupled() { 0.0 } else { plan.weight_decay };
            let step = Step { rule: plan.rule, maximize: plan.maximize, decay };
            let (mut work, mut rest): (Vec<_>, Vec<_>) = all.drain(..).unzip();
            let mut from = 0;
            let mut result = Ok(());
            while from < work.len() && result.is_ok() {
                let mut elements = 0;
                let fits = |w: &&Work<'_, B>| {
                    let takes = elements < BATCH;
                    elements += w.x.shape().numel();
                    takes
                };
                let to = from + work[from..].iter().take_while(fits).count();
                result = R::run(&step, &mut work[from..to]);
                rest[from..to].iter_mut().for_each(|r| r.done = result.is_ok());
                from = to;
            }
            all.extend(work.into_iter().zip(rest));
            result?;
        }
        Ok(())
    }
}

/// The state of a parameter during its step, without the tensors.
struct Rest {
    /// The parameter's index.
    index: usize,
    step: u64,
    numbers: BTreeMap<&'static str, f64>,
    /// Which states existed before.
    had: Vec<bool>,
    /// Has the step been made?
    done: bool,
}

/// The array of one bool.
fn one_bool<B: Backend>(skip: &Tensor<B>) -> Result<&Array<B>> {
    if (skip.rank(), skip.dtype()) == (0, DType::Bool) {
        return Ok(skip.array());
    }
    Err(Error::argument(format!(
        "whether the step is skipped is {} {}, and should be one bool of shape []",
        skip.dtype(),
        skip.shape()
    )))
}

/// A write lock of a parameter.
type Cell<'a, B> = RwLockWriteGuard<'a, Tensor<B>>;

/// Locks parameters in the order of their addresses, so that concurrent optimisers cannot deadlock;
/// a duplicate is locked only at its first index.
fn lock<'a, B: Backend>(parameters: &Named<'a, B>) -> Vec<Option<Cell<'a, B>>> {
    let mut order: Vec<usize> = (0..parameters.len()).collect();
    order.sort_by_key(|&i| parameters[i].1.identity());
    order.dedup_by_key(|i| parameters[*i].1.identity());
    let mut cells: Vec<_> = parameters.iter().map(|_| None).collect();
    order.into_iter().for_each(|i| cells[i] = Some(parameters[i].1.lock()));
    cells
}

impl<B: Backend, R: Rule> Optimizer<B> for Descent<B, R> {
    fn step_some(
        &mut self,
        parameters: &Named<'_, B>,
        gradients: &Gradients<B>,
        skip: Option<&Tensor<B>>,
    ) -> Result<usize> {
        self.make_sure().map_err(|e| e.at(R::NAME))?;
        let skip = skip.map(|skip| one_bool(skip)).transpose().map_err(|e| e.at(R::NAME))?;
        let mut plans: Vec<_> = self.plans()?.into_iter().map(|plan| (plan, vec![])).collect();
        for (i, (name, _)) in parameters.iter().enumerate() {
            plans[self.group_of(name)].1.push(i);
        }
        let mut cells = lock(parameters);
        let mut all: Vec<_> = plans.iter().map(|_| vec![]).collect();
        let result = self.make(parameters, &plans, &mut cells, (gradients, skip), &mut all);
        let mut before = BTreeMap::new();
        // States are put back in any case, updated ones if the step was made.
        let mut moved = vec![];
        for ((plan, _), all) in plans.iter().zip(all) {
            for (w, rest) in all {
                let states = plan.rule.keeps().into_iter().map(|(key, _)| key).zip(w.states);
                if rest.done {
                    let kept = Kept { step: rest.step, numbers: rest.numbers, tensors: sorted(states) };
                    let old = self.kept.insert(w.name.to_owned(), kept);
                    let counted = old.map(|old| Counted { step: old.step, numbers: old.numbers });
                    before.insert(w.name.to_owned(), counted);
                    moved.push(rest.index);
                } else if let Some(kept) = self.kept.get_mut(w.name) {
                    kept.tensors.extend(states.zip(rest.had).filter(|(_, had)| *had).map(|(state, _)| state));
                }
            }
        }
        self.unsure = skip.map(|skip| Unsure { skip: skip.clone(), before });
        moved.iter().for_each(|&i| cells[i].as_mut().expect("it made its step").renew());
        result.map_err(|e| e.at(R::NAME))?;
        Ok(moved.len())
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
    fn state_of(&self, parameters: &Named<'_, B>) -> Result<OptimizerState> {
        if self.unsure.is_some() {
            let mut sure = self.clone();
            sure.make_sure().map_err(|e| e.at(R::NAME))?;
            return sure.state_of(parameters);
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
                keys.insert((*key).to_owned(), t.to_host().map_err(|e| e.at(name).at(R::NAME))?);
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
        let mut next = Descent { kept: BTreeMap::new(), unsure: None, ..self.clone() };
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

impl<B: Backend, R: Rule> Descent<B, R> {
    /// Takes the last step back out of the counts if it was skipped. Waits for the device.
    fn make_sure(&mut self) -> Result<()> {
        let Some(unsure) = &self.unsure else { return Ok(()) };
        if unsure.was_skipped()? {
            for (name, before) in &unsure.before {
                match (before, self.kept.get_mut(name)) {
                    (Some(Counted { step, numbers }), Some(kept)) => {
                        (kept.step, kept.numbers) = (*step, numbers.clone());
                    }
                    // Its first step is still to come.
                    (None, _) | (Some(_), None) => drop(self.kept.remove(name)),
                }
            }
        }
        self.unsure = None;
        Ok(())
    }
    /// Loads the settings of saved groups, if there are any.
    fn take_groups(&mut self, parameters: &Named<'_, B>, saved: &[Map<String, Value>]) -> Result<()> {
        let Some(first) = saved.first() else { return Ok(()) };
        if saved.len() != self.groups.len() + 1 {
            return Err(Error::argument(format!(
                "the state has {} parameter groups, and the optimiser {}, counting that of the parameters in no group",
                saved.len(),
                self.groups.len() + 1
            )));
        }
        let names: BTreeSet<&str> = sorted(parameters.iter().map(|(n, _)| n.as_str()));
        for (i, group) in saved.iter().enumerate() {
            for name in group.get("params").and_then(Value::as_array).into_iter().flatten() {
                let name = name.as_str().ok_or_else(|| {
                    Error::argument(format!("group {i} has a parameter {name}; give it a name with named()"))
                })?;
                if !names.contains(name) {
                    return Err(unknown(name));
                }
                let is = self.group_of(name);
                if is != i {
                    return Err(Error::argument(format!(
                        "\"{name}\" is in group {i} of the state, and in group {is} of the optimiser"
                    )));
                }
            }
        }
        self.plan.take(first).map_err(|e| e.at("group 0"))?;
        let base = self.plan.lr;
        for (i, (group, saved)) in self.groups.iter_mut().zip(&saved[1..]).enumerate() {
            let mut plan = self.plan;
            plan.take(saved).map_err(|e| e.at(format!("group {}", i + 1)))?;
            let scale = match saved.get(SCALE) {
                None => None,
                Some(v) => Some(v.as_f64().ok_or_else(|| {
                    Error::argument(format!("group {}: {SCALE} is {v}, and should be a number", i + 1))
                })?),
            };
            group.rate = match (scale, group.rate) {
                (Some(factor), _) => Rate::Scaled(factor),
                // PyTorch's groups have only absolute learning rates, which its schedules scale
                // together.
                (None, Rate::Scaled(_)) if base > 0.0 => Rate::Scaled(plan.lr / base),
                (None, _) => Rate::Fixed(plan.lr),
            };
            let table = plan.table().into_iter().filter(|(n, _)| *n != "lr");
            group.settings = sorted(table.map(|(n, s)| (n.to_owned(), s.get())));
        }
        Ok(())
    }
}

/// Collects an iterator to a map or set by way of a list: the collections sort, and the sort would
/// otherwise be compiled for each iterator type.
fn sorted<T, C: FromIterator<T>>(all: impl Iterator<Item = T>) -> C {
    all.collect::<Vec<_>>().into_iter().collect()
}

/// The key of the number of steps.
const STEP: &str = "step";

/// The number of steps as a tensor: f32 as in PyTorch, or f64 if f32 cannot represent it.
fn count(step: u64) -> Result<HostTensor> {
    let narrow = step as f32;
    if narrow as u64 == step {
        HostTensor::from_vec(vec![narrow], Shape::scalar())
    } else {
        HostTensor::from_vec(vec![step as f64], Shape::scalar())
    }
}

fn unknown(name: &str) -> Error {
    Error::argument(format!("the state is of a parameter \"{name}\", which the module has not"))
}

fn fits<B: Backend>(key: &str, state: &Array<B>, shape: &Shape, wide: DType) -> Result<()> {
    if (state.shape(), state.dtype()) != (shape, wide) {
        return Err(Error::shape(format!(
            "the optimiser's {key} is {} {}, and should be {wide} {shape}",
            state.dtype(),
            state.shape()
        )));
    }
    Ok(())
}

/// Uploads the state of a parameter.
fn restore<B: Backend, R: Rule>(
    rule: &R,
    value: &Tensor<B>,
    keys: &BTreeMap<String, HostTensor>,
) -> Result<Kept<B>> {
    let wide = value.dtype().compute();
    let (keeps, numbers) = (rule.keeps(), rule.numbers());
    let number = |key: &str| match keys.get(key) {
        None => Ok(None),
        Some(t) if t.shape().numel() == 1 => Ok(Some(t.to_f64_vec()[0])),
        Some(t) => Err(Error::shape(format!("{key} has shape {}, and should be one number", t.shape()))),
    };
    let known = |key: &str| key == STEP || keeps.iter().chain(numbers).any(|(k, _)| *k == key);
    if let Some(key) = keys.keys().find(|k| !known(k)) {
        return Err(Error::argument(format!("the state has {key}, which the optimiser does not keep")));
    }
    let missing = |key: &str| Error::argument(format!("the state lacks {key}"));
    let step = match number(STEP)? {
        // 2^53: f64 represents every integer up to there.
        Some(v) if v.fract() == 0.0 && (0.0..=9007199254740992.0).contains(&v) => v as u64,
        Some(v) => return Err(Error::argument(format!("step is {v}, and should be a number of steps"))),
        None if R::COUNTS => return Err(missing(STEP)),
        None => 1,
    };
    let mut kept = Kept { step, ..Kept::default() };
    for (key, _) in numbers {
        kept.numbers.insert(key, number(key)?.ok_or_else(|| missing(key))?);
    }
    for (key, _) in &keeps {
        let t = keys.get(*key).ok_or_else(|| missing(key))?;
        // PyTorch's states have the dtype of the parameter.
        if t.shape() != value.shape() || (t.dtype() != wide && t.dtype() != value.dtype()) {
            return Err(Error::new(
                if t.shape() != value.shape() {
                    elinvar_core::ErrorKind::ShapeMismatch
                } else {
                    elinvar_core::ErrorKind::DTypeMismatch
                },
                format!("{key} is {} {}, and should be {wide} {}", t.dtype(), t.shape(), value.shape()),
            ));
        }
        kept.tensors.insert(key, Array::from_host(value.device(), t.clone())?.cast(wide)?);
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::Sgd;
    use elinvar_reference::{Reference, ReferenceDevice};

    #[test]
    fn every_parameter_makes_one_step_however_many_batches_there_are() {
        let all: Vec<Param<Reference>> =
            [3, 3, 1, 9, 0, 2].map(|n| Param::new(Tensor::ones([n], DType::F32, &ReferenceDevice))).into();
        let mut g = Gradients::new();
        all.iter().for_each(|p| g.set(&p.get(), p.get().detach()));
        let mut o = Sgd::new(0.25).momentum(0.5).group(Group::matching(|name| name == "3").lr_scale(2.0));
        o.step(&all, &g).unwrap();
        for (i, p) in all.iter().enumerate() {
            let want = if i == 3 { 0.5 } else { 0.75 };
            assert_eq!(p.get().to_vec::<f32>().unwrap(), vec![want; p.get().numel()], "{i}");
        }
        assert!(all.iter().map(|p| p.get().numel()).sum::<usize>() > 2 * BATCH);
        assert_eq!(o.kept.values().map(|k| k.step).collect::<Vec<_>>(), [1; 6]);
    }

    #[test]
    fn steps_are_counted_exactly_in_a_file() {
        for (step, dtype) in [(0, DType::F32), (1 << 24, DType::F32), ((1 << 24) + 1, DType::F64)] {
            let t = count(step).unwrap();
            assert_eq!((t.to_f64_vec()[0], t.dtype()), (step as f64, dtype));
        }
    }
}
