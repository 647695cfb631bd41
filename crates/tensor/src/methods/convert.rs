//! Reading elements on the host.

use crate::fail::OrFail;
use crate::{Pinned, Tensor};
use elinvar_core::{DType, Element, Error, HostData, HostTensor, HostVec, Result};
use elinvar_ops::backend::Backend;

impl<B: Backend> Tensor<B> {
    /// The elements, row-major. Waits for the device.
    ///
    /// # Errors
    /// `DTypeMismatch` if they are not of type `T`; what the device reports.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        vec_of("to_vec", self.to_host()?)
    }
    /// The rows of a matrix.
    ///
    /// # Errors
    /// `ShapeMismatch` if there are not two axes; `DTypeMismatch`; what the device reports.
    pub fn to_vec2<T: Element>(&self) -> Result<Vec<Vec<T>>> {
        let &[_, n] = self.dims() else {
            return Err(Error::shape(format!("to_vec2: shape {} has not two axes", self.shape())));
        };
        let all = self.to_vec::<T>()?;
        Ok((0..self.dims()[0]).map(|i| all[i * n..(i + 1) * n].to_vec()).collect())
    }
    /// The only element: `loss.item::<f32>()`. Of another type it is converted as
    /// [`Tensor::to_dtype`] does. Waits for the device.
    ///
    /// # Panics
    /// If there is not exactly one element.
    #[track_caller]
    pub fn item<T: Element>(&self) -> T {
        self.try_item().or_fail()
    }
    /// [`Tensor::item`], which returns its error.
    ///
    /// # Errors
    /// `ShapeMismatch` if there is not exactly one element; what the device reports.
    pub fn try_item<T: Element>(&self) -> Result<T> {
        Ok(first(&only(self, T::DTYPE)?.to_host()?))
    }
    /// [`Tensor::to_host`] that does not block: the copy is given to this thread's stream at the
    /// first poll, and the future is ready when the device has done it.
    ///
    /// # Errors
    /// What the device reports; `Unsupported` in a function that is recorded.
    pub async fn to_host_async(&self) -> Result<HostTensor> {
        let pinned = Pinned::of(self.shape().clone(), self.dtype(), self.device())?;
        let pinned = pinned.download(self)?.await?;
        HostTensor::new(self.shape().clone(), HostData::from_le_bytes(self.dtype(), pinned.bytes())?)
    }
    /// [`Tensor::to_vec`] that does not block, as [`Tensor::to_host_async`].
    ///
    /// # Errors
    /// `DTypeMismatch` if the elements are not of type `T`; those of [`Tensor::to_host_async`].
    pub async fn to_vec_async<T: Element>(&self) -> Result<Vec<T>> {
        vec_of("to_vec_async", self.to_host_async().await?)
    }
    /// [`Tensor::try_item`] that does not block, as [`Tensor::to_host_async`].
    ///
    /// # Errors
    /// `ShapeMismatch` if there is not exactly one element; those of [`Tensor::to_host_async`].
    pub async fn item_async<T: Element>(&self) -> Result<T> {
        Ok(first(&only(self, T::DTYPE)?.to_host_async().await?))
    }
    /// Are shape, dtype and every bit those of the other tensor? NaN is equal to the same NaN, and
    /// -0 is not 0. Waits for the device.
    ///
    /// # Panics
    /// If a device reports an error.
    #[track_caller]
    pub fn same_bits(&self, other: &Tensor<B>) -> bool {
        self.try_same_bits(other).or_fail()
    }
    /// [`Tensor::same_bits`], which returns its error.
    ///
    /// # Errors
    /// What a device reports.
    pub fn try_same_bits(&self, other: &Tensor<B>) -> Result<bool> {
        Ok(self.shape() == other.shape()
            && self.dtype() == other.dtype()
            && self.to_host()?.data().to_le_bytes() == other.to_host()?.data().to_le_bytes())
    }
}

/// The elements, if they are of type `T`.
fn vec_of<T: Element>(op: &str, host: HostTensor) -> Result<Vec<T>> {
    let dtype = host.dtype();
    T::unwrap(host.into_data())
        .map(HostVec::into_vec)
        .ok_or_else(|| Error::dtype(format!("{op}: the elements are {dtype}, not {}", T::DTYPE)))
}

/// The only element, of what [`only`] gives.
fn first<T: Element>(host: &HostTensor) -> T {
    match T::slice(host.data()) {
        Some(v) => v[0],
        // Floats, whose conversion by way of f64 is the same.
        None => T::from_f64(host.to_f64_vec()[0]),
    }
}

/// The tensor of only one element, of type `to`, or of floats.
fn only<B: Backend>(x: &Tensor<B>, to: DType) -> Result<Tensor<B>> {
    if x.numel() != 1 {
        return Err(Error::shape(format!("item: shape {} has not exactly one element", x.shape())));
    }
    let is_as_it_is = x.dtype() == to || x.dtype().is_float();
    Ok(if is_as_it_is { x.clone() } else { Tensor::from_array(x.array().cast(to)?) })
}

#[cfg(feature = "ndarray")]
mod nd {
    use super::*;
    use elinvar_core::Shape;
    use elinvar_ops::backend::DeviceOf;
    use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

    impl<B: Backend> Tensor<B> {
        /// From an array (or a view of one) of the crate `ndarray`, of any rank and memory order.
        ///
        /// # Errors
        /// `OutOfMemory`, or what the device reports.
        pub fn from_ndarray<T, S, D, Dev>(a: &ArrayBase<S, D>, device: &Dev) -> Result<Self>
        where
            T: Element,
            S: Data<Elem = T>,
            D: Dimension,
            Dev: DeviceOf<Backend = B>,
            B: Backend<Device = Dev>,
        {
            let shape = Shape::new(a.shape())?;
            Tensor::from_host(HostTensor::from_vec(a.iter().copied().collect(), shape)?, device)
        }
        /// As an array of the crate `ndarray`.
        ///
        /// # Errors
        /// `DTypeMismatch` if the elements are not of type `T`; what the device reports.
        pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>> {
            ArrayD::from_shape_vec(IxDyn(self.dims()), self.to_vec()?)
                .map_err(|e| Error::shape(format!("to_ndarray: {e}")))
        }
    }
}
