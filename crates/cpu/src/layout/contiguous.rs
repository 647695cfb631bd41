//! Views as row-major elements.

use super::copy;
use crate::CpuDevice;
use crate::runtime::memory::PooledData;
use crate::view::{View, misuse_error};
use elinvar_core::{Element, Result};

/// A view's elements, one after the other: in place, or copied.
pub(crate) struct ContiguousView<'a> {
    view: &'a View<'a>,
    copy: Option<PooledData>,
}

impl<'a> ContiguousView<'a> {
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn new(d: &CpuDevice, view: &'a View<'a>) -> Result<Self> {
        let lies = view.layout.is_contiguous();
        Ok(ContiguousView {
            view,
            copy: if lies { None } else { Some(PooledData::new(copy::to_contiguous(d, view)?)) },
        })
    }
    /// # Errors
    /// `DTypeMismatch` if they are not of this type.
    pub(crate) fn elements<C: Element>(&self, what: &str) -> Result<&[C]> {
        let (data, first) = match &self.copy {
            None => (self.view.buffer, self.view.layout.offset()),
            Some(copy) => (copy.data(), 0),
        };
        let all = C::slice(data).ok_or_else(|| misuse_error(what, self.view.dtype))?;
        Ok(&all[first..][..self.view.shape().numel()])
    }
}
