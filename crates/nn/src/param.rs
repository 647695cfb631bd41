//! `Param`: a trainable weight.

use crate::Module;
use crate::module::Visit;
use elinvar_core::{DType, Error, Result, Shape};
use elinvar_ops::{Backend, recording};
use elinvar_tensor::Tensor;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

/// A weight: a variable whose value an optimiser updates.
///
/// Tensors are immutable, so a parameter is a cell with a tensor. [`Param::share`] gives a second
/// handle on the same cell: tied weights are trained together, once, and are in a state dict under
/// both names.
pub struct Param<B: Backend> {
    cell: Arc<RwLock<Tensor<B>>>,
}

impl<B: Backend> Param<B> {
    /// A parameter with this initial value.
    ///
    /// # Panics
    /// If they are not floats: only those have gradients.
    #[track_caller]
    pub fn new(value: Tensor<B>) -> Self {
        Param { cell: Arc::new(RwLock::new(value.requires_grad())) }
    }
    /// The current value: a variable, or a constant while the parameter is frozen.
    pub fn get(&self) -> Tensor<B> {
        let value = now(&self.cell);
        let cell = self.cell.clone();
        recording::read_cell(value.array(), move || now(&cell).array().clone());
        value
    }
    /// Replaces the value, as a new variable (or constant, while frozen).
    ///
    /// # Errors
    /// `ShapeMismatch`, `DTypeMismatch` if they are not of the parameter's shape and dtype;
    /// `Unsupported` inside of a [`elinvar_tensor::Graph`]'s function.
    pub fn set(&self, value: &Tensor<B>) -> Result<()> {
        recording::refuse("changing a parameter")?;
        let mut cell = self.lock();
        same_kind("parameter", cell.shape(), cell.dtype(), value.shape(), value.dtype())?;
        *cell = if cell.is_variable() { value.requires_grad() } else { value.detach() };
        Ok(())
    }
    /// Locks the value for an in-place update; readers wait.
    pub(crate) fn lock(&self) -> RwLockWriteGuard<'_, Tensor<B>> {
        self.cell.write().unwrap_or_else(PoisonError::into_inner)
    }
    /// Converts to another float dtype.
    pub(crate) fn convert(&self, dtype: DType) -> Result<()> {
        let mut cell = self.lock();
        let value = Tensor::from_array(cell.array().cast(dtype)?);
        *cell = if cell.is_variable() { value.requires_grad() } else { value };
        Ok(())
    }
    /// A second handle on the same parameter: tied weights.
    #[must_use]
    pub fn share(&self) -> Param<B> {
        Param { cell: self.cell.clone() }
    }
    /// Are these two handles on one parameter?
    pub fn is_shared_with(&self, other: &Param<B>) -> bool {
        Arc::ptr_eq(&self.cell, &other.cell)
    }
    /// An id that is shared by all handles on one parameter, and unique while they exist.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.cell).addr()
    }
    /// Makes it a constant: it gets no gradient, and optimisers skip it.
    pub fn freeze(&self) {
        let mut cell = self.lock();
        *cell = cell.detach();
    }
    /// Makes it a variable again.
    pub fn unfreeze(&self) {
        let mut cell = self.lock();
        *cell = cell.requires_grad();
    }
    /// Is it a constant now?
    pub fn is_frozen(&self) -> bool {
        !self.get().is_variable()
    }
}

fn now<B: Backend>(cell: &RwLock<Tensor<B>>) -> Tensor<B> {
    // The cell is consistent at every moment, so poisoning is ignored.
    cell.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Checks that a new value has the shape and dtype of the old one.
pub(crate) fn same_kind(
    what: &str,
    old_shape: &Shape,
    old_dtype: DType,
    new_shape: &Shape,
    new_dtype: DType,
) -> Result<()> {
    if new_shape != old_shape {
        return Err(Error::shape(format!(
            "this {what} has shape {old_shape}, and the new value {new_shape}"
        )));
    }
    if new_dtype != old_dtype {
        return Err(Error::dtype(format!("this {what} is of {old_dtype}, and the new value of {new_dtype}")));
    }
    Ok(())
}

impl<B: Backend> std::fmt::Debug for Param<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.get();
        write!(
            f,
            "Param({}, {}{})",
            value.shape(),
            value.dtype(),
            if value.is_variable() { "" } else { ", frozen" }
        )
    }
}

impl<B: Backend> Module<B> for Param<B> {
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
        visit.param(name, self);
    }
}
