//! Updates: formulas that change numbers where they lie.
//!
//! The step of an optimiser reads a parameter, its gradient and its states, and changes the
//! parameter and the states. As maps it would be a pass over all of them, and new memory, for each
//! result; as an update it is one pass, and none.
//!
//! **Who may write.** The memory behind an [`Array`] is shared by its clones, by views and by what
//! the tape keeps, and nobody ever sees it change. An update keeps to that: [`Array::own`] gives
//! each tensor that changes memory of its own (a copy, if anybody else holds the memory or its
//! elements do not lie row-major from the first on), and what a backend gets to write is a `&mut`
//! to a buffer that it alone can reach.

use crate::array::{self, Array};
use crate::backend::{Backend, Changed, UpdateItem};
use crate::recording;
use elinvar_core::{DType, Error, Result};
pub use elinvar_lane::formula::Update;
use std::fmt::Debug;

/// A tensor's part in an update, with what changes along with it.
#[derive(Debug)]
pub struct Part<'a, B: Backend, const M: usize, const R: usize> {
    /// What changes: of one shape, each of a float dtype.
    pub changes: [&'a mut Array<B>; M],
    /// What is read, broadcast to the shape of what changes.
    pub reads: [&'a Array<B>; R],
}

/// Runs an update on every part. Computed in f64 if what changes is of f64, else in f32; rounded to
/// the dtype of what changes once, in the end.
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `ShapeMismatch`, `OutOfMemory`; `Unsupported` in a function
/// that is recorded. After an error no number has changed, unless the parts live on several
/// devices: then on each device all have changed or none.
pub fn update<B: Backend, U: Update<M, R>, const M: usize, const R: usize>(
    u: &U,
    parts: &mut [Part<'_, B, M, R>],
) -> Result<()> {
    recording::refuse(U::NAME)?;
    let mut fits = Vec::with_capacity(parts.len());
    for part in parts.iter_mut() {
        let dtype = check::<B, U, M, R>(part)?;
        let shape = part.changes[0].shape().clone();
        for x in &mut part.changes {
            x.own()?;
        }
        let fit = |r: &Array<B>| r.layout().broadcast_to(&shape, U::NAME).expect("it was checked");
        fits.push((part.reads.map(fit), shape, dtype));
    }
    let mut items: Vec<(B::Device, UpdateItem<'_, B, M, R>)> = Vec::with_capacity(parts.len());
    for (part, (layouts, shape, dtype)) in parts.iter_mut().zip(&fits) {
        let reads = std::array::from_fn(|i| part.reads[i].view_as(&layouts[i]));
        let device = part.changes[0].device().clone();
        let changes = part.changes.each_mut().map(|x| {
            let dtype = x.dtype();
            Changed { buffer: x.buffer_mut().expect("it is its own"), dtype }
        });
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

/// That the tensors of a part fit; gives the dtype in which is computed.
fn check<B: Backend, U: Update<M, R>, const M: usize, const R: usize>(
    part: &Part<'_, B, M, R>,
) -> Result<DType> {
    const { assert!(M > 0, "an update changes something") };
    let (first, op) = (&*part.changes[0], U::NAME);
    let changes = || part.changes.iter().map(|x| &**x);
    let all: Vec<&Array<B>> = changes().chain(part.reads).collect();
    array::one_device(op, &all)?;
    let wide = first.dtype().compute();
    let fits = |x: &Array<B>| x.dtype().is_float() && x.dtype().compute() == wide;
    if let Some(x) =
        changes().find(|x| !fits(x)).or(part.reads.into_iter().find(|x| !fits(x) && x.dtype() != DType::Bool))
    {
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
