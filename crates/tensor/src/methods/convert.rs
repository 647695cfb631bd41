//! Reading elements on the host.

use crate::Tensor;
use crate::fail::OrFail;
use elinvar_core::{Element, Error, HostVec, Result};
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
    /// The only element, as f64. Waits for the device.
    ///
    /// # Panics
    /// If there is not exactly one element.
    #[track_caller]
    pub fn item(&self) -> f64 {
        self.only().or_fail()
    }
    fn only(&self) -> Result<f64> {
        match self.to_host()?.to_f64_vec()[..] {
            [v] => Ok(v),
            _ => Err(Error::shape(format!("item: shape {} has not exactly one element", self.shape()))),
        }
    }
}

#[cfg(feature = "ndarray")]
mod nd {
    use super::*;
    use elinvar_core::{HostTensor, Shape};
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
