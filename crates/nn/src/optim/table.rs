//! The table of a captured step: the scalars of the optimiser in device memory, which the host
//! fills before each replay.
//!
//! They are the scalars of a step that is not captured, in f64, in the order in which the
//! parameters were recorded, each in the place that it was given then.
//!
//! How it can be wrong: parameters that have the same scalars share a place, and may have others
//! later. So the values of all that share one are compared in each step.

use crate::capture::Slots;
use elinvar_core::{DType, Error, ErrorKind, Layout, Result, Shape};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_ops::recording::Place;

/// The scalars of one step, as [`Optimizer::plan_step`](super::Optimizer::plan_step) tells them.
#[derive(Clone, Debug, Default)]
pub struct StepScalars {
    /// Of each parameter, in order: values, to be rounded to the dtype.
    values: Vec<(Vec<f64>, DType)>,
    /// Where the states are.
    places: Vec<Place>,
}

impl StepScalars {
    /// Adds the scalars of a parameter that computes in this dtype.
    pub fn push(&mut self, values: Vec<f64>, dtype: DType) {
        self.values.push((values, dtype));
    }
    /// Adds a state, which the recorded step changes where it is.
    ///
    /// # Errors
    /// What the device reports.
    pub fn state<B: Backend>(&mut self, state: &Array<B>) -> Result<()> {
        self.places.push(Place::of(state)?);
        Ok(())
    }
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }
}

/// The scalars of a recorded step in device memory.
#[derive(Debug)]
pub struct StepTable<B: Backend> {
    device: B::Device,
    /// In f32, and in f64.
    tables: [Slots<B>; 2],
    /// The values at the time of recording, rounded to a dtype; those of one dtype are in the order
    /// of its table.
    slots: Vec<(Vec<f64>, DType)>,
    /// The slot of each parameter, in the order of the step.
    uses: Vec<usize>,
}

/// The number of the table of a dtype.
fn table_of(dtype: DType) -> usize {
    usize::from(dtype == DType::F64)
}

fn same(a: &[f64], b: &[f64]) -> bool {
    a.iter().map(|v| v.to_bits()).eq(b.iter().map(|v| v.to_bits()))
}

impl<B: Backend> StepTable<B> {
    /// An empty one.
    pub(crate) fn new(device: &B::Device) -> Self {
        let tables = [DType::F32, DType::F64].map(|dtype| Slots::new(device, dtype));
        StepTable { device: device.clone(), tables, slots: vec![], uses: vec![] }
    }
    /// Places for the scalars of a parameter that computes in f32 or f64, each of shape \[\].
    ///
    /// # Errors
    /// `DeviceMismatch` if the parameter is elsewhere; `OutOfMemory`.
    pub fn take(&mut self, values: &[f64], dtype: DType, device: &B::Device) -> Result<Vec<Array<B>>> {
        if *device != self.device {
            let what = format!("a parameter is on {device}, and the captured step on {}", self.device);
            return Err(Error::new(ErrorKind::DeviceMismatch, what));
        }
        let all = self.tables[table_of(dtype)].take(values.len())?;
        self.uses.push(self.slots.len());
        self.slots.push((values.to_vec(), dtype));
        let (from, memory) = (all.layout().offset(), self.tables[table_of(dtype)].chunk_len());
        let one = |i| Ok(all.with_layout(Layout::strided(Shape::scalar(), &[], from + i, memory)?));
        (0..values.len()).map(one).collect()
    }
    /// A parameter with the scalars of one before.
    pub(super) fn again(&mut self, values: &[f64], dtype: DType) {
        let slot = self.slots.iter().position(|(v, of)| *of == dtype && same(v, values));
        self.uses.push(slot.expect("it was taken for the parameter before"));
    }
    /// The tables of a step, each with the memory that it goes to; `None` if parameters that shared
    /// their scalars no longer do.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn upload(&self, step: &StepScalars) -> Result<Option<Vec<(Array<B>, &Array<B>)>>> {
        if step.values.len() != self.uses.len() {
            return Ok(None);
        }
        let mut now: Vec<Option<&[f64]>> = vec![None; self.slots.len()];
        for ((values, dtype), &slot) in step.values.iter().zip(&self.uses) {
            let fits = self.slots[slot].1 == *dtype && self.slots[slot].0.len() == values.len();
            if !fits || now[slot].is_some_and(|before| !same(before, values)) {
                return Ok(None);
            }
            now[slot] = Some(values);
        }
        let mut all = vec![];
        for table in &self.tables {
            let of_table = self.slots.iter().zip(&now).filter(|((_, dtype), _)| *dtype == table.dtype());
            let values: Vec<&[f64]> = of_table.map(|(_, v)| v.expect("each slot has a user")).collect();
            all.extend(table.upload(&values)?);
        }
        Ok(Some(all))
    }
}
