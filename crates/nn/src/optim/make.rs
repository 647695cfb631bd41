//! The step of an optimiser: everything is checked and prepared, group by group, and only then
//! made, or recorded (see [`super::record`]).

use super::descent::Descent;
use super::kept::{Counted, Kept, Scalars};
use super::plan::Plan;
use super::update::{Step, Work};
use super::{At, Named, Rule, sorted};
use crate::own::own;
use elinvar_core::{DType, Error, Result, Scalar, Shape};
use elinvar_ops::Backend;
use elinvar_ops::array::{Array, one_device};
use elinvar_tensor::{Gradients, Tensor};
use std::collections::BTreeMap;
use std::sync::RwLockWriteGuard;

/// Elements that make a step together: enough to fill a device, while the temporary tensors of a
/// rule (one more matrix per matrix for Muon) stay small compared to the weights of larger models.
/// Small in the unit tests, so that they have several batches.
const BATCH: usize = if cfg!(test) { 4 } else { 1 << 24 };

/// The numbers of a parameter's next step, on the host.
pub(super) struct Numbers {
    /// What the parameter has after it.
    pub counted: Counted,
    /// Shrink, then those of [`Rule::scalars`].
    pub scalars: Vec<f64>,
}

impl<R: Rule> Plan<R> {
    /// The numbers of the next step of a parameter of this shape, after what is kept of it.
    pub fn next<B: Backend>(&self, kept: &Kept<B>, shape: &Shape) -> Numbers {
        self.next_after(&kept.counted(shape), kept.tensors.is_empty())
    }
    /// The numbers of the next step of a parameter, without states yet if it is `fresh`.
    pub fn next_after(&self, before: &Counted, fresh: bool) -> Numbers {
        let (rule, step, shape) = (&self.rule, before.step + 1, &before.shape);
        let names = rule.numbers();
        let mut numbers: Vec<f64> =
            names.iter().map(|(n, start)| before.numbers.get(n).copied().unwrap_or(*start)).collect();
        let at = At { lr: self.lr, step, fresh, shape };
        let mut scalars = vec![if rule.decoupled() { 1.0 - self.lr * self.weight_decay } else { 1.0 }];
        scalars.extend(rule.scalars(at, &mut numbers));
        let numbers = sorted(names.iter().map(|(n, _)| *n).zip(numbers));
        Numbers { counted: Counted { step, numbers, shape: shape.clone() }, scalars }
    }
}

impl<B: Backend, R: Rule> Descent<B, R> {
    /// Prepares a parameter's step: everything that can fail, except the step itself. Existing
    /// states are moved out of `kept`, which is not changed otherwise.
    fn prepare_step<'a>(
        &mut self,
        plan: &Plan<R>,
        (index, name, value): (usize, &'a str, &'a mut Tensor<B>),
        gradient: &Tensor<B>,
        scalars: &mut Scalars<'_, B>,
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
        let (copies, old) = (self.copies(), self.kept.get_mut(name).unwrap_or(&mut none));
        let Numbers { counted: Counted { step, numbers, .. }, scalars: values } =
            plan.next(old, value.shape());
        let (skip, scalars) = (scalars.skip_on(&device)?, scalars.get(values, wide, &device)?);
        let keeps = plan.rule.keeps_for(value.shape());
        let mut fresh = vec![];
        for (key, start) in &keeps {
            let shape = plan.rule.state_shape(key, value.shape())?;
            fresh.push(match old.tensors.get_mut(key) {
                Some(t) => {
                    fits(key, t, &shape, wide)?;
                    if *t.device() != device {
                        *t = Array::from_host(&device, t.to_host()?)?;
                    }
                    own(t)?;
                    None
                }
                None => Some(Array::full(&device, &shape, Scalar::Float(*start), wide)?),
            });
        }
        let x = value.array_mut();
        own(x)?;
        let had = fresh.iter().map(Option::is_none).collect();
        let states = keeps.iter().zip(fresh).map(|((key, _), fresh)| match fresh {
            Some(fresh) => fresh,
            None if copies => old.tensors[key].clone(),
            None => old.tensors.remove(key).expect("it was looked at above"),
        });
        let work = Work { name, x, g: gradient.array().clone(), states: states.collect(), scalars, skip };
        Ok((work, Rest { index, step, numbers, had, done: false }))
    }

    /// Prepares the steps of all parameters, group by group, and only then makes them.
    pub(super) fn make<'a>(
        &mut self,
        parameters: &'a Named<'_, B>,
        plans: &[(Plan<R>, Vec<usize>)],
        cells: &'a mut [Option<Cell<'_, B>>],
        gradients: &Gradients<B>,
        mut scalars: Scalars<'_, B>,
        all: &mut [Vec<(Work<'a, B>, Rest)>],
    ) -> Result<()> {
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
                let before = addresses(&work[from..to]);
                result = R::run(&step, &mut work[from..to]);
                if result.is_ok() && !before.is_empty() {
                    self.replaces = Some(before != addresses(&work[from..to]));
                }
                rest[from..to].iter_mut().for_each(|r| r.done = result.is_ok());
                from = to;
            }
            all.extend(work.into_iter().zip(rest));
            result?;
        }
        Ok(())
    }
}

/// Where the states are. Those that a step has changed in place are there afterwards, too.
fn addresses<B: Backend>(all: &[Work<'_, B>]) -> Vec<*const B::Buffer> {
    all.iter().flat_map(|w| &w.states).map(|state| std::ptr::from_ref(state.buffer())).collect()
}

/// The state of a parameter during its step, without the tensors.
pub(super) struct Rest {
    /// The parameter's index.
    pub index: usize,
    pub step: u64,
    pub numbers: BTreeMap<&'static str, f64>,
    /// Which states existed before.
    pub had: Vec<bool>,
    /// Has the step been made?
    pub done: bool,
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

/// The array of one bool.
pub(super) fn one_bool<B: Backend>(skip: &Tensor<B>) -> Result<&Array<B>> {
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
pub(super) type Cell<'a, B> = RwLockWriteGuard<'a, Tensor<B>>;

/// Locks parameters in the order of their addresses, so that concurrent optimisers cannot deadlock;
/// a duplicate is locked only at its first index.
pub(super) fn lock<'a, B: Backend>(parameters: &Named<'a, B>) -> Vec<Option<Cell<'a, B>>> {
    let mut order: Vec<usize> = (0..parameters.len()).collect();
    order.sort_by_key(|&i| parameters[i].1.identity());
    order.dedup_by_key(|i| parameters[*i].1.identity());
    let mut cells: Vec<_> = parameters.iter().map(|_| None).collect();
    order.into_iter().for_each(|i| cells[i] = Some(parameters[i].1.lock()));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Param;
    use crate::optim::{Group, Optimizer, Sgd};
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
}
