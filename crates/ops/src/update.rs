//! Updates: formulas that modify tensors in place.
//!
//! The step of an optimiser reads a parameter, its gradient and its states, and changes the
//! parameter and the states. As maps it would be a pass over all of them, and new memory, for each
//! result; as an update it is one pass, without allocation.
//!
//! **Aliasing.** The memory behind an [`Array`] is shared by its clones, by views and by values
//! that the tape saves, and must not change for any of them. So [`Array::own`] gives each tensor
//! that changes memory of its own (a copy, if the memory is shared or its elements are not
//! row-major from the first on), and a backend gets a `&mut` to a buffer that is not reachable
//! otherwise.

use crate::array::{self, Array};
use crate::backend::{Backend, Changed, UpdateItem};
use crate::recording;
use elinvar_core::{DType, Error, Layout, Result};
pub use elinvar_lane::formula::Update;
pub use elinvar_simd::compiled_update::{CompiledUpdate, UpdateObject, Updating};
use smallvec::SmallVec;
use std::fmt::Debug;

/// A tensor's part in an update, with its states.
#[derive(Debug)]
pub struct Part<'a, B: Backend> {
    /// The tensors that change: of one shape, each of a float dtype.
    pub changes: Vec<&'a mut Array<B>>,
    /// The tensors that are read, broadcast to the shape of those that change.
    pub reads: Vec<&'a Array<B>>,
}

impl<'a, B: Backend> Part<'a, B> {
    /// Of the tensors that change, and those that are read.
    pub fn new(
        changes: impl IntoIterator<Item = &'a mut Array<B>>,
        reads: impl IntoIterator<Item = &'a Array<B>>,
    ) -> Self {
        Part { changes: changes.into_iter().collect(), reads: reads.into_iter().collect() }
    }
}

/// Runs an update on every part, as [`update_object`].
///
/// # Errors
/// Those of [`update_object`].
///
/// # Panics
/// If a part has not as many tensors as the formula.
pub fn update<B: Backend, U: CompiledUpdate<M, R>, const M: usize, const R: usize>(
    u: &U,
    parts: &mut [Part<'_, B>],
) -> Result<()> {
    update_object(U::object(&Updating(*u)), parts)
}

/// Runs an update on every part. Computed in f64 if the tensors that change are f64, else in f32;
/// rounded once to their dtype.
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `ShapeMismatch`, `OutOfMemory`; `Unsupported` during a
/// capture. After an error no element has changed, unless the parts are on several devices: then on
/// each device all have changed or none.
///
/// # Panics
/// If a part has not as many tensors as the formula.
pub fn update_object<B: Backend>(u: &dyn UpdateObject, parts: &mut [Part<'_, B>]) -> Result<()> {
    recording::refuse_change(u.name())?;
    let mut fits: Vec<(SmallVec<[Layout; 6]>, _, _)> = Vec::with_capacity(parts.len());
    for part in parts.iter_mut() {
        let dtype = check(u, part)?;
        let shape = part.changes[0].shape().clone();
        for x in &mut part.changes {
            x.own()?;
        }
        let fit = |r: &&Array<B>| r.layout().broadcast_to(&shape, u.name()).expect("it was checked");
        fits.push((part.reads.iter().map(fit).collect(), shape, dtype));
    }
    let mut items: Vec<(B::Device, UpdateItem<'_, B>)> = Vec::with_capacity(parts.len());
    for (part, (layouts, shape, dtype)) in parts.iter_mut().zip(&fits) {
        let reads = part.reads.iter().zip(layouts).map(|(r, layout)| r.view_as(layout)).collect();
        let device = part.changes[0].device().clone();
        let changes = part.changes.iter_mut().map(|x| {
            let dtype = x.dtype();
            Changed { buffer: x.buffer_mut().expect("it is its own"), dtype }
        });
        let changes = changes.collect();
        items.push((device, UpdateItem { shape: shape.clone(), dtype: *dtype, changes, reads }));
    }
    while let Some((device, _)) = items.first() {
        let device = device.clone();
        let (here, others) = items.into_iter().partition(|(d, _)| *d == device);
        items = others;
        B::update(&device, u, here.into_iter().map(|(_, item)| item).collect())?;
    }
    Ok(())
}

/// Checks the tensors of a part; returns the dtype of computation.
fn check<B: Backend>(u: &dyn UpdateObject, part: &Part<'_, B>) -> Result<DType> {
    let (op, counts) = (u.name(), (part.changes.len(), part.reads.len()));
    assert_eq!(counts, (u.changes(), u.reads()), "{op}: tensors that change, and that are read");
    let first = &*part.changes[0];
    let changes = || part.changes.iter().map(|x| &**x);
    let all: Vec<&Array<B>> = changes().chain(part.reads.iter().copied()).collect();
    array::one_device(op, &all)?;
    let wide = first.dtype().compute();
    let fits = |x: &Array<B>| x.dtype().is_float() && x.dtype().compute() == wide;
    let mut reads = part.reads.iter().copied();
    if let Some(x) = changes().find(|x| !fits(x)).or(reads.find(|x| !fits(x) && x.dtype() != DType::Bool)) {
        return Err(Error::dtype(format!(
            "{op}: the first operand is {}, another one {}; all should be floats that are computed in one type",
            first.dtype(),
            x.dtype()
        )));
    }
    if let Some(x) = changes().find(|x| x.shape() != first.shape()) {
        return Err(Error::shape(format!(
            "{op}: what changes has shape {}, and with it {}; they should be equal",
            first.shape(),
            x.shape()
        )));
    }
    part.reads.iter().try_for_each(|r| r.layout().broadcast_to(first.shape(), op).map(|_| ()))?;
    Ok(wide)
}
