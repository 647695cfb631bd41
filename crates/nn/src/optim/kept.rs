//! The state of an optimiser per parameter, and the scalars of a step on the device.

use super::table::StepTable;
use crate::capture::rounded;
use elinvar_core::{DType, Layout, Result, Scalar, Shape};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_ops::catalogue::where_;
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

/// A step that may have been skipped: the device knows, and the host asks when it needs the number
/// of steps, by the next step at the latest. Until then parameters count as if it had been made.
#[derive(Clone, Debug)]
pub(super) struct Unsure<B: Backend> {
    /// One bool: was it skipped?
    pub skip: Array<B>,
    /// What the parameters had before, by name; `None`: nothing.
    pub before: BTreeMap<String, Option<Counted>>,
}

/// The part of [`Kept`] that the host counts.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    pub step: u64,
    pub numbers: BTreeMap<&'static str, f64>,
}

impl<B: Backend> Unsure<B> {
    /// Waits for the device.
    pub fn was_skipped(&self) -> Result<bool> {
        Ok(self.skip.to_host()?.to_f64_vec().iter().any(|v| *v != 0.0))
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
