//! `Value`: a tensor with or without a tape. Every op and every gradient is written over it.
//!
//! [`Array`] only computes. `Tensor` (in the `tensor` crate) records its ops. A function over
//! `V: Value` is therefore both the op that users call and the code of a gradient.

use crate::array::Array;
use crate::backend::{Backend, Memory};
use crate::casting::Halves;
use crate::catalogue::{self, cast::floats};
use crate::op::{Op, Outputs};
use elinvar_core::{DType, Result, Scalar, Shape};
use std::fmt::Debug;

/// A tensor of backend `B`, with or without a tape.
pub trait Value: Clone + Debug + Sized + 'static {
    /// Its backend.
    type B: Backend;
    /// Does it record on the tape? (Then a gradient must consist of recorded ops.)
    const TRACKS: bool;

    /// The values, without the tape.
    fn array(&self) -> &Array<Self::B>;
    /// A constant: it depends on nothing on the tape.
    fn from_array(a: Array<Self::B>) -> Self;
    /// Runs an op and records it if needed.
    ///
    /// # Errors
    /// Those of the op.
    fn apply_many<O: Op>(op: O, x: &[&Self]) -> Result<Vec<Self>>;
    /// Runs an op with one result.
    ///
    /// # Errors
    /// Those of the op.
    fn apply<O: Op>(op: O, x: &[&Self]) -> Result<Self>;
    /// Would an op on these be recorded? If not, its gradient will not be needed.
    fn records(x: &[&Self]) -> bool;
    /// The 16-bit type of the autocast scope of this thread, if there is one that converts such
    /// values.
    fn autocast() -> Option<DType>;
    /// The same values, of f16, bf16 or f32, as another one of these, for an op in an autocast
    /// scope. A variable is converted once per scope.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn autocast_to(&self, to: DType) -> Result<Self>;
    /// The same values as a constant.
    fn detached(&self) -> Self {
        Self::from_array(self.array().clone())
    }

    /// The shape.
    fn shape(&self) -> &Shape {
        self.array().shape()
    }
    /// The element type.
    fn dtype(&self) -> DType {
        self.array().dtype()
    }
    /// The device.
    fn device(&self) -> &<Self::B as Memory>::Device {
        self.array().device()
    }
    /// A constant of this tensor's dtype, on its device, of shape [].
    ///
    /// # Errors
    /// `DTypeMismatch` if the number does not fit (see [`Scalar::fits`]); `OutOfMemory`.
    fn scalar_like(&self, v: impl Into<Scalar>) -> Result<Self> {
        Ok(Self::from_array(Array::scalar(self.device(), v.into(), self.dtype())?))
    }
    /// A tensor of this one's shape, dtype and device, with all elements equal.
    ///
    /// # Errors
    /// `DTypeMismatch` if the number does not fit (see [`Scalar::fits`]); `OutOfMemory`.
    fn full_like(&self, v: impl Into<Scalar>) -> Result<Self> {
        Ok(Self::from_array(Array::full(self.device(), self.shape(), v.into(), self.dtype())?))
    }
}

impl<B: Backend> Value for Array<B> {
    type B = B;
    const TRACKS: bool = false;
    fn array(&self) -> &Array<B> {
        self
    }
    fn from_array(a: Array<B>) -> Self {
        a
    }
    fn apply_many<O: Op>(op: O, x: &[&Self]) -> Result<Vec<Self>> {
        op.forward(x).map(Outputs::into_vec)
    }
    fn apply<O: Op>(op: O, x: &[&Self]) -> Result<Self> {
        op.forward_one(x)
    }
    fn records(_: &[&Self]) -> bool {
        false
    }
    #[inline]
    fn autocast() -> Option<DType> {
        None
    }
    fn autocast_to(&self, to: DType) -> Result<Self> {
        cast(self, to)
    }
}

/// `x` as another dtype; `x` itself if it is of that dtype already.
///
/// # Errors
/// `OutOfMemory`.
pub fn cast<V: Value>(x: &V, to: DType) -> Result<V> {
    if x.dtype() == to { Ok(x.clone()) } else { catalogue::cast(x, to) }
}

/// `x` broadcast to `shape`; `x` itself if it has that shape already.
///
/// # Errors
/// `ShapeMismatch`.
pub fn broadcast<V: Value>(x: &V, shape: &Shape) -> Result<V> {
    if x.shape() == shape { Ok(x.clone()) } else { catalogue::expand(x, shape) }
}

/// The opposite of broadcasting: `x` summed over the axes along which `shape` was repeated.
///
/// # Errors
/// `ShapeMismatch` if `shape` does not broadcast to that of `x`.
pub fn sum_to<V: Value>(x: &V, shape: &Shape) -> Result<V> {
    if x.shape() == shape { Ok(x.clone()) } else { catalogue::sum::sum_to(x, shape) }
}

/// The same of a gradient, which is of floats.
///
/// # Errors
/// As [`sum_to`].
pub fn gradient_to<V: Value>(x: &V, shape: &Shape) -> Result<V> {
    if x.shape() == shape { Ok(x.clone()) } else { catalogue::sum::gradient_to(x, shape) }
}

/// Runs a composed op in f32 if `x` is a storage float, and rounds the result once at the end.
///
/// # Errors
/// Those of `f`.
pub fn widen<V: Value, const N: usize>(x: [&V; N], f: impl FnOnce([&V; N]) -> Result<V>) -> Result<V> {
    let wide = Widened::of(&x)?;
    let y = f(wide.as_ref().map_or(x, |w| references(&w.operands)))?;
    Widened::narrow(wide.as_ref(), y)
}

/// `N` values by reference.
pub(crate) fn references<V, const N: usize>(all: &[V]) -> [&V; N] {
    all.first_chunk().expect("as many as there were").each_ref()
}

/// Operands of a storage float as f32: the part of [`widen`] that does not depend on the op.
pub(crate) struct Widened<V> {
    dtype: DType,
    pub(crate) operands: Vec<V>,
}

impl<V: Value> Widened<V> {
    /// `None` if the first float of the operands is no storage float.
    pub(crate) fn of(x: &[&V]) -> Result<Option<Self>> {
        let Some(dtype) = x.iter().map(|v| v.dtype()).find(|d| d.is_float()).filter(|d| d.is_storage())
        else {
            return Ok(None);
        };
        let mut operands = Vec::with_capacity(x.len());
        for &v in x {
            operands.push(if v.dtype() == dtype { floats(v, DType::F32, Halves)? } else { v.clone() });
        }
        Ok(Some(Widened { dtype, operands }))
    }
    /// A result, rounded if the operands were widened.
    pub(crate) fn narrow(wide: Option<&Self>, y: V) -> Result<V> {
        match wide {
            Some(w) => floats(&y, w.dtype, Halves),
            None => Ok(y),
        }
    }
}
