//! The interface of a backend: about twenty-five kinds of work (primitives), none of them an op.
//!
//! Four traits: [`Memory`] (devices, buffers, transfers), [`Compute`] (the kinds of work),
//! [`Capture`] (recording work and replaying it) and [`Streams`] (several orders of work on one
//! device). [`Backend`] is all of them. The attributes of requests are in [`requests`].
//!
//! The device and the buffer are associated types. Formulas are objects, compiled where they are
//! defined and not where a backend is used. No method has a default body, so that a new kind of
//! work walks every backend past the compiler.
//!
//! Rules that hold for all methods:
//! * Inputs are [`View`]s: any strides, offsets, overlaps. Outputs are new buffers, contiguous,
//!   row-major (or as [`Placed`] says).
//! * Shapes and dtypes were checked by the caller ([`crate::array`] and the op); a backend may
//!   assert them. Errors that only a backend can detect (memory, indices in a buffer, the device)
//!   are returned.
//! * Storage floats are loaded exactly to f32, computed there, and rounded once at the store.
//! * The result's bits are those of `reference`, see `docs/reference/numerics.md`.

// Before all that use its macros.
#[macro_use]
mod profiled;

mod capture;
mod compute;
pub mod delegate;
mod memory;
pub mod requests;
mod streams;

pub use capture::{Capture, Recorded};
pub use compute::{Compute, FusedResults};
pub use delegate::{Delegate, Kind};
pub use memory::Memory;
pub use requests::*;
pub use streams::{
    EventObject, HostPinned, HostStream, HostTransfer, PinnedObject, StreamObject, Streams, TransferObject,
    of_another_device,
};

use elinvar_core::{DType, Error, Layout, Shape};
pub use elinvar_lane::formula::{AddBias, Epilogue, Fold};
pub use elinvar_simd::compiled_epilogue::{CompiledEpilogue, EpilogueObject};

/// A strided view of a buffer.
pub struct View<'a, B: Memory> {
    /// The memory.
    pub buffer: &'a B::Buffer,
    /// The layout of the elements in it.
    pub layout: &'a Layout,
    /// The type of the elements.
    pub dtype: DType,
}

impl<B: Memory> View<'_, B> {
    /// The shape of the view.
    pub fn shape(&self) -> &Shape {
        self.layout.shape()
    }
}

impl<B: Memory> Clone for View<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Memory> Copy for View<'_, B> {}

/// A result with a layout chosen by the backend, if it is not row-major: work along axes that are
/// not innermost in memory may store its result in the layout of its operand, so that neither is
/// transposed.
pub struct Placed<B> {
    /// The memory, without gaps.
    pub buffer: B,
    /// The layout of the elements, if not row-major.
    pub layout: Option<Layout>,
}

impl<B> Placed<B> {
    /// The same with the buffer mapped.
    pub fn map<C>(self, f: impl FnOnce(B) -> C) -> Placed<C> {
        Placed { buffer: f(self.buffer), layout: self.layout }
    }
}

impl<B> From<B> for Placed<B> {
    /// A row-major result.
    fn from(buffer: B) -> Self {
        Placed { buffer, layout: None }
    }
}

/// A device that names its backend, so that a tensor's backend follows from its device.
pub trait DeviceOf {
    /// The backend of this device.
    type Backend: Backend<Device = Self>;
}

/// A backend: where tensors are stored and computed.
pub trait Backend: Memory + Compute + Capture + Streams {}

impl<B: Memory + Compute + Capture + Streams> Backend for B {}

/// The error of a gather or scatter for an index that is not in `0..size`; `position` is its
/// position among the indices.
pub fn out_of_range(op: &str, index: i64, position: &[usize], axis: usize, size: usize) -> Error {
    Error::argument(format!(
        "{op}: index {index} at position {position:?} is out of range for axis {axis} of size {size}"
    ))
}
