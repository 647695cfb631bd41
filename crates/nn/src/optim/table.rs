//! The table of a captured step: the scalars of the optimiser in device memory, which the host
//! fills before each replay.
//!
//! They are the scalars of a step that is not captured, in f64, in the order in which the
//! parameters were recorded, each in the place that it was given then. With a scaler there are
//! several rows of them: those of the step if none, one, two, ... of the steps were made that the
//! scaler may have skipped ([`super::steps_made`]).
//!
//! How it can be wrong: parameters that have the same scalars share a place, and may have others
//! later. So the values of all that share one are compared in each step.

use crate::capture::Slots;
use elinvar_core::{DType, Error, ErrorKind, Result};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_ops::recording::Place;

/// The scalars of one step, as [`Optimizer::plan_step`](super::Optimizer::plan_step) tells them.
#[derive(Clone, Debug, Default)]
pub struct StepScalars {
    /// Of each parameter, in order: rows of values, to be rounded to the dtype.
    values: Vec<(Vec<Vec<f64>>, DType)>,
    /// Where the states are.
    places: Vec<Place>,
    /// Where it is told whether they were skipped, of the steps that may have been.
    pending: Vec<Place>,
    /// Does an optimiser know of other steps?
    differs: bool,
}

impl StepScalars {
    /// Of the step behind these, of which the host does not know whether they were made.
    pub(crate) fn after(pending: Vec<Place>) -> Self {
        StepScalars { pending, ..StepScalars::default() }
    }
    /// Adds the scalars of a parameter that computes in this dtype.
    pub fn push(&mut self, values: Vec<f64>, dtype: DType) {
        self.push_rows(vec![values], dtype);
    }
    /// The same for each number of steps that may have been made.
    pub(super) fn push_rows(&mut self, rows: Vec<Vec<f64>>, dtype: DType) {
        self.values.push((rows, dtype));
    }
    /// Where it is told of the steps that may have been skipped.
    pub(super) fn pending(&self) -> &[Place] {
        &self.pending
    }
    /// Says that the steps which may have been skipped are others, or that the scalars depend on
    /// which of them were.
    pub(super) fn differ(&mut self) {
        self.differs = true;
    }
    /// Has every parameter its rows?
    pub(crate) fn are_whole(&self) -> bool {
        !self.differs && self.values.iter().all(|(rows, _)| rows.len() == self.pending.len() + 1)
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

fn same_rows(a: &[Vec<f64>], b: &[Vec<f64>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

impl<B: Backend> StepTable<B> {
    /// An empty one, of one row, or of as many as a counter of steps with these digits has.
    pub(crate) fn new(device: &B::Device, digits: Option<&[Array<B>; 2]>) -> Self {
        let tables = [DType::F32, DType::F64].map(|dtype| Slots::of_rows(device, dtype, digits.cloned()));
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
        Ok(all)
    }
    /// The step is recorded: what was computed for places goes.
    pub(crate) fn finish(&mut self) {
        self.tables.iter_mut().for_each(Slots::finish);
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
        let mut now: Vec<Option<&[Vec<f64>]>> = vec![None; self.slots.len()];
        for ((rows, dtype), &slot) in step.values.iter().zip(&self.uses) {
            let (known, of) = &self.slots[slot];
            let fits = of == dtype && rows.iter().all(|row| row.len() == known.len());
            if !fits || now[slot].is_some_and(|before| !same_rows(before, rows)) {
                return Ok(None);
            }
            now[slot] = Some(rows);
        }
        let mut all = vec![];
        for table in &self.tables {
            let of_table = self.slots.iter().zip(&now).filter(|((_, dtype), _)| *dtype == table.dtype());
            let values: Vec<&[Vec<f64>]> = of_table.map(|(_, v)| v.expect("each slot has a user")).collect();
            all.extend(table.upload(&values)?);
        }
        Ok(Some(all))
    }
}
