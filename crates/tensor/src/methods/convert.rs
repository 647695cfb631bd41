//! Reading elements on the host.

use crate::Tensor;
use crate::fail::OrFail;
use elinvar_core::{DType, Element, Error, HostTensor, HostVec, Result};
use elinvar_ops::backend::Backend;

impl<B: Backend> Tensor<B> {
    /// The elements, row-major. Waits for the device.
    ///
    /// # Errors
    /// `DTypeMismatch` if they are not of type `T`; what the device reports.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let dtype = self.dtype();
        T::unwrap(self.to_host()?.into_data())
            .map(HostVec::into_vec)
            .ok_or_else(|| Error::dtype(format!("to_vec: the elements are {dtype}, not {}", T::DTYPE)))
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
        let host = only(self, T::DTYPE)?;
        Ok(match T::slice(host.data()) {
            Some(v) => v[0],
            // Floats, whose conversion by way of f64 is the same.
            None => T::from_f64(host.to_f64_vec()[0]),
        })
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

/// The only element on the host: of type `to`, or a float.
fn only<B: Backend>(x: &Tensor<B>, to: DType) -> Result<HostTensor> {
    if x.numel() != 1 {
        return Err(Error::shape(format!("item: shape {} has not exactly one element", x.shape())));
    }
    if x.dtype() == to || x.dtype().is_float() { x.to_host() } else { x.array().cast(to)?.to_host() }
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
