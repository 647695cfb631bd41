//! The state of an optimiser per parameter, and the scalars of a step on the device.

use super::plan::Plan;
use super::table::StepTable;
use super::{Named, Rule};
use crate::capture::rounded;
use elinvar_core::{DType, Layout, Result, Scalar, Shape};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_ops::catalogue::{concat, where_};
use elinvar_ops::recording::Place;
use std::collections::BTreeMap;

/// The state of an optimiser for one parameter.
#[derive(Clone, Debug)]
pub(super) struct Kept<B: Backend> {
    /// Number of steps of the parameter.
    pub step: u64,
    /// Numbers, by name.
    pub numbers: BTreeMap<&'static str, f64>,
    /// Tensors of the parameter's shape, by name.
    pub tensors: BTreeMap<&'static str, Array<B>>,
}

impl<B: Backend> Default for Kept<B> {
    fn default() -> Self {
        Kept { step: 0, numbers: BTreeMap::new(), tensors: BTreeMap::new() }
    }
}

impl<B: Backend> Kept<B> {
    /// What the host counts of it, as a parameter of this shape.
    pub fn counted(&self, shape: &Shape) -> Counted {
        Counted { step: self.step, numbers: self.numbers.clone(), shape: shape.clone() }
    }
}

/// Steps that may have been skipped: the device knows, and the host asks when it needs the number
/// of steps. Until then parameters count as if all had been made. A plain step asks for the one
/// before it; captured ones have rows of scalars, and ask once in as many steps.
#[derive(Clone, Debug)]
pub(super) struct Unsure<B: Backend, R> {
    /// In their order, one at least.
    pub steps: Vec<UnsureStep<B, R>>,
    /// What the parameters had before the first of them, by name; `None`: nothing.
    pub before: BTreeMap<String, Option<Counted>>,
}

#[derive(Clone, Debug)]
pub(super) struct UnsureStep<B: Backend, R> {
    /// One bool: was it skipped?
    pub skip: Array<B>,
    /// Where that is; not of plain steps.
    pub place: Option<Place>,
    /// The settings of each group then.
    pub plans: Vec<Plan<R>>,
}

/// The part of [`Kept`] that the host counts, of a parameter of this shape.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counted {
    pub step: u64,
    pub numbers: BTreeMap<&'static str, f64>,
    pub shape: Shape,
}

impl<B: Backend, R: Rule> Unsure<B, R> {
    /// Of each step, was it skipped? Waits for the device.
    pub fn were_skipped(&self) -> Result<Vec<bool>> {
        let one = |s: &UnsureStep<B, R>| s.skip.reshape(&Shape::new(&[1])?);
        let all = match &*self.steps {
            [only] => only.skip.to_host()?,
            all => concat(&all.iter().map(one).collect::<Result<Vec<_>>>()?.iter().collect::<Vec<_>>(), 0)?
                .to_host()?,
        };
        Ok(all.to_f64_vec().into_iter().map(|v| v != 0.0).collect())
    }
    /// Are these the steps, and the parameters that made them?
    pub fn is_of(&self, places: &[Place], parameters: &Named<'_, B>) -> bool {
        self.steps.len() == places.len()
            && self.steps.iter().zip(places).all(|(s, place)| s.place.as_ref() == Some(place))
            && self.before.len() == parameters.len()
            && parameters.iter().all(|(name, _)| matches!(self.before.get(name), Some(Some(_))))
    }
    /// What a parameter of a group has after those of the steps that were made.
    pub fn after(&self, before: &Counted, fresh: bool, group: usize, skipped: &[bool]) -> Counted {
        let made = self.steps.iter().zip(skipped).filter(|(_, skipped)| !**skipped);
        made.fold(before.clone(), |now, (s, _)| s.plans[group].next_after(&now, fresh).counted)
    }
    /// The scalars of the next step of a parameter of a group, for each number of these steps that
    /// may have been made; `None` if they depend on which of them were, by settings that have
    /// changed.
    pub fn rows(&self, plan: &Plan<R>, before: &Counted, fresh: bool, group: usize) -> Option<Vec<Vec<f64>>> {
        let mut rows = Vec::with_capacity(self.steps.len() + 1);
        let mut now = before.clone();
        for _ in 0..=self.steps.len() {
            let next = plan.next_after(&now, fresh);
            rows.push(next.scalars);
            let same = |s: &UnsureStep<B, R>| s.plans[group].next_after(&now, fresh).counted == next.counted;
            if !next.counted.numbers.is_empty() && !self.steps.iter().all(same) {
                return None;
            }
            now = next.counted;
        }
        Some(rows)
    }
}

/// The scalars of one step on the device. Most parameters have the same scalars, which are uploaded
/// once.
pub(super) struct Scalars<'t, B: Backend> {
    /// Is the step skipped? Then the first of all is NaN.
    skip: Option<Array<B>>,
    /// Where they are if the step is recorded.
    table: Option<&'t mut StepTable<B>>,
    seen: Vec<(Vec<f64>, DType, B::Device, Vec<Array<B>>)>,
}

impl<'t, B: Backend> Scalars<'t, B> {
    pub fn new(skip: Option<Array<B>>) -> Self {
        Scalars { skip, table: None, seen: vec![] }
    }
    /// Of a step that is recorded.
    pub fn recorded(skip: Option<Array<B>>, table: &'t mut StepTable<B>) -> Self {
        Scalars { skip, table: Some(table), seen: vec![] }
    }
    /// One bool on this device: is the step skipped?
    pub fn skip_on(&self, device: &B::Device) -> Result<Option<Array<B>>> {
        match &self.skip {
            Some(skip) if skip.device() != device => Ok(Some(Array::from_host(device, skip.to_host()?)?)),
            other => Ok(other.clone()),
        }
    }
    /// These numbers as operands of shape [], rounded to a dtype.
    pub fn get(&mut self, values: Vec<f64>, dtype: DType, device: &B::Device) -> Result<Vec<Array<B>>> {
        let same = |a: &[f64]| a.iter().map(|v| v.to_bits()).eq(values.iter().map(|v| v.to_bits()));
        let known = self.seen.iter().find(|(v, of, on, _)| *of == dtype && on == device && same(v));
        if let Some((.., all)) = known {
            let all = all.clone();
            self.table.iter_mut().for_each(|table| table.again(&values, dtype));
            return Ok(all);
        }
        let mut all = match &mut self.table {
            Some(table) => table.take(&values, dtype, device)?,
            None => upload(&values, dtype, device)?,
        };
        if let Some(skip) = self.skip_on(device)? {
            all[0] = where_(&skip, &Array::scalar(device, Scalar::Float(f64::NAN), dtype)?, &all[0])?;
        }
        self.seen.push((values, dtype, device.clone(), all.clone()));
        Ok(all)
    }
}

/// One upload for all, and a view for each.
fn upload<B: Backend>(values: &[f64], dtype: DType, device: &B::Device) -> Result<Vec<Array<B>>> {
    let n = values.len();
    let all = Array::from_host(device, rounded(values, dtype)?)?;
    (0..n).map(|i| Ok(all.with_layout(Layout::strided(Shape::scalar(), &[], i, n)?))).collect()
}
