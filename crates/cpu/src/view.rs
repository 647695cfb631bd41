//! Strided views of host memory, as kernels read them, and their conversion from and to the views
//! of backends. A deferred buffer is computed when its view is made.

use crate::Cpu;
use elinvar_core::{DType, Error, HostData, Layout, Result, Shape};
use elinvar_ops::backend;
use elinvar_reference::Reference;

/// A strided look at numbers that are there.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// The memory.
    pub(crate) buffer: &'a HostData,
    /// Where the elements are in it.
    pub(crate) layout: &'a Layout,
    /// The type of the elements.
    pub(crate) dtype: DType,
}

impl View<'_> {
    /// The shape of the view.
    pub(crate) fn shape(&self) -> &Shape {
        self.layout.shape()
    }
}

/// A view of numbers that are there, or are computed now.
pub(crate) fn host_view<'a>(v: &backend::View<'a, Cpu>) -> Result<View<'a>> {
    Ok(View { buffer: v.buffer.data()?, layout: v.layout, dtype: v.dtype })
}

/// A view, for the reference.
pub(crate) fn reference_view(v: View<'_>) -> backend::View<'_, Reference> {
    backend::View { buffer: v.buffer, layout: v.layout, dtype: v.dtype }
}

/// Work asked for in a dtype that it does not have. Callers check dtypes, so this is a mistake of
/// elinvar.
pub(crate) fn misuse_error(what: &str, dtype: DType) -> Error {
    Error::dtype(format!("cpu: {what} is not defined for {dtype}; the op should have converted it first"))
}
