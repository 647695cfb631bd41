//! Creation of tensors: from Rust values, filled, ranges.

use crate::Tensor;
use crate::fail::OrFail;
use crate::sizes::{Integer, Sizes};
use elinvar_core::shape::Dims;
use elinvar_core::{DType, Element, Error, HostData, HostTensor, Result, Scalar, Shape};
use elinvar_ops::array::Array;
use elinvar_ops::backend::{Backend, DeviceOf};
use elinvar_ops::catalogue::fourier::windows::Window;

/// Rust values that convert to a tensor: numbers, nested arrays of them up to rank 4, vectors and
/// slices.
pub trait TensorData {
    /// Shape and elements.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn into_host(self) -> Result<HostTensor>;
}

macro_rules! data {
    ($($t:ty),*) => {$(
        impl TensorData for $t {
            fn into_host(self) -> Result<HostTensor> {
                HostTensor::from_vec(vec![self], Shape::scalar())
            }
        }
        impl<const N: usize> TensorData for [$t; N] {
            fn into_host(self) -> Result<HostTensor> {
                HostTensor::from_vec(self.to_vec(), Shape::new(&[N])?)
            }
        }
        impl<const M: usize, const N: usize> TensorData for [[$t; N]; M] {
            fn into_host(self) -> Result<HostTensor> {
                HostTensor::from_vec(self.as_flattened().to_vec(), Shape::new(&[M, N])?)
            }
        }
        impl<const L: usize, const M: usize, const N: usize> TensorData for [[[$t; N]; M]; L] {
            fn into_host(self) -> Result<HostTensor> {
                HostTensor::from_vec(self.as_flattened().as_flattened().to_vec(), Shape::new(&[L, M, N])?)
            }
        }
        impl<const K: usize, const L: usize, const M: usize, const N: usize> TensorData for [[[[$t; N]; M]; L]; K] {
            fn into_host(self) -> Result<HostTensor> {
                let all = self.as_flattened().as_flattened().as_flattened().to_vec();
                HostTensor::from_vec(all, Shape::new(&[K, L, M, N])?)
            }
        }
    )*};
}
data!(f32, f64, elinvar_core::f16, elinvar_core::bf16, i64, i32, u8, bool);

impl<T: Element> TensorData for Vec<T> {
    fn into_host(self) -> Result<HostTensor> {
        let shape = Shape::new(&[self.len()])?;
        HostTensor::from_vec(self, shape)
    }
}
impl<T: Element> TensorData for &[T] {
    fn into_host(self) -> Result<HostTensor> {
        HostTensor::from_vec(self.to_vec(), Shape::new(&[self.len()])?)
    }
}
impl TensorData for HostTensor {
    fn into_host(self) -> Result<HostTensor> {
        Ok(self)
    }
}

/// On the backend's default device.
impl<B: Backend, D: TensorData> From<D> for Tensor<B> {
    #[track_caller]
    fn from(data: D) -> Self {
        Tensor::new(data, &B::Device::default())
    }
}

impl<B: Backend> Tensor<B> {
    /// A tensor of Rust values: a number, nested arrays, a vector.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn new<D: DeviceOf<Backend = B>>(data: impl TensorData, device: &D) -> Self
    where
        B: Backend<Device = D>,
    {
        data.into_host().and_then(|h| Self::from_host(h, device)).or_fail()
    }
    /// A tensor of these elements, row-major.
    ///
    /// # Panics
    /// If the number of elements is not the shape's, or memory is exhausted.
    #[track_caller]
    pub fn from_vec<T: Element, D: DeviceOf<Backend = B>>(v: Vec<T>, shape: impl Sizes, device: &D) -> Self
    where
        B: Backend<Device = D>,
    {
        shape
            .to_shape()
            .and_then(|s| HostTensor::from_vec(v, s))
            .and_then(|h| Self::from_host(h, device))
            .or_fail()
    }
    /// A window function of `length` values; `periodic`, as short-time transforms want it, or else
    /// symmetric.
    ///
    /// # Panics
    /// If a parameter of the window is out of range, `dtype` is of no floats, or memory is
    /// exhausted.
    #[track_caller]
    pub fn window<D: DeviceOf<Backend = B>>(
        window: Window,
        length: usize,
        periodic: bool,
        dtype: DType,
        device: &D,
    ) -> Self
    where
        B: Backend<Device = D>,
    {
        let values = || {
            if !dtype.is_float() {
                return Err(Error::dtype(format!("window: of {dtype}; its values are floats")));
            }
            Array::from_f64s(device, window.values(length, periodic)?, &[length], dtype)
        };
        values().map(Self::from_array).or_fail()
    }
    /// A tensor filled with one value.
    ///
    /// # Panics
    /// If the value does not fit the dtype (see [`Scalar::fits`]), or memory is exhausted.
    #[track_caller]
    pub fn full<D: DeviceOf<Backend = B>>(
        shape: impl Sizes,
        value: impl Into<Scalar>,
        dtype: DType,
        device: &D,
    ) -> Self
    where
        B: Backend<Device = D>,
    {
        shape
            .to_shape()
            .and_then(|s| Array::full(device, &s, value.into(), dtype).map_err(|e| e.at("full")))
            .map(Self::from_array)
            .or_fail()
    }
    /// Zeros.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn zeros<D: DeviceOf<Backend = B>>(shape: impl Sizes, dtype: DType, device: &D) -> Self
    where
        B: Backend<Device = D>,
    {
        Self::full(shape, 0i64, dtype, device)
    }
    /// Ones.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn ones<D: DeviceOf<Backend = B>>(shape: impl Sizes, dtype: DType, device: &D) -> Self
    where
        B: Backend<Device = D>,
    {
        Self::full(shape, 1i64, dtype, device)
    }
    /// Zeros of this tensor's shape, dtype and device.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn zeros_like(&self) -> Self {
        Self::zeros(self.shape(), self.dtype(), self.device())
    }
    /// Ones of this tensor's shape, dtype and device.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn ones_like(&self) -> Self {
        Self::ones(self.shape(), self.dtype(), self.device())
    }
    /// Filled with one value, with this tensor's shape, dtype and device.
    ///
    /// # Panics
    /// If the value does not fit the dtype (see [`Scalar::fits`]), or memory is exhausted.
    #[track_caller]
    pub fn full_like(&self, value: impl Into<Scalar>) -> Self {
        Self::full(self.shape(), value, self.dtype(), self.device())
    }
    /// start, start + step, ... below `end` (above, if the step is negative), of i64.
    ///
    /// # Panics
    /// If the step is 0, or memory is exhausted.
    #[track_caller]
    pub fn arange<D: DeviceOf<Backend = B>>(
        start: impl Integer,
        end: impl Integer,
        step: impl Integer,
        device: &D,
    ) -> Self
    where
        B: Backend<Device = D>,
    {
        arange(start.to_isize() as i64, end.to_isize() as i64, step.to_isize() as i64)
            .and_then(|h| Self::from_host(h, device))
            .or_fail()
    }
    /// `steps` evenly spaced values from `start` to `end`, both included: start + i *
    /// ((end - start) / (steps - 1)), computed in f64 and rounded once to `dtype`.
    ///
    /// # Panics
    /// If `dtype` is not of floats, or memory is exhausted.
    #[track_caller]
    pub fn linspace<D: DeviceOf<Backend = B>>(
        start: f64,
        end: f64,
        steps: usize,
        dtype: DType,
        device: &D,
    ) -> Self
    where
        B: Backend<Device = D>,
    {
        linspace(start, end, steps, dtype).and_then(|h| Self::from_host(h, device)).or_fail()
    }
    /// The n x n matrix with ones on its diagonal.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn eye<D: DeviceOf<Backend = B>>(n: usize, dtype: DType, device: &D) -> Self
    where
        B: Backend<Device = D>,
    {
        eye(n, dtype).and_then(|h| Self::from_host(h, device)).or_fail()
    }
}

fn arange(start: i64, end: i64, step: i64) -> Result<HostTensor> {
    if step == 0 {
        return Err(Error::argument(format!("arange: from {start} to {end} in steps of 0 never ends")));
    }
    let span =
        if step > 0 { i128::from(end) - i128::from(start) } else { i128::from(start) - i128::from(end) };
    let n = span.max(0).unsigned_abs().div_ceil(i128::from(step).unsigned_abs());
    let n = usize::try_from(n).map_err(|_| Error::memory("arange: more numbers than can be addressed"))?;
    let mut v = elinvar_core::host::with_capacity(n)?;
    v.extend((0..n).map(|i| start.wrapping_add((i as i64).wrapping_mul(step))));
    HostTensor::from_vec(v, Shape::new(&[n])?)
}

fn linspace(start: f64, end: f64, steps: usize, dtype: DType) -> Result<HostTensor> {
    if !dtype.is_float() {
        return Err(Error::dtype(format!("linspace: {dtype} cannot hold fractions; ask for a float type")));
    }
    let mut data = HostData::full(dtype, steps, Scalar::Int(0))?;
    let step = if steps > 1 { (end - start) / (steps - 1) as f64 } else { 0.0 };
    let at = |i: usize| if i + 1 == steps && steps > 1 { end } else { start + i as f64 * step };
    elinvar_core::each_data!(&mut data, v => {
        v.iter_mut().enumerate().for_each(|(i, x)| *x = Element::from_f64(at(i)));
    });
    HostTensor::new(Shape::new(&[steps])?, data)
}

fn eye(n: usize, dtype: DType) -> Result<HostTensor> {
    let shape = Shape::new(&Dims::from_elem(n, 2))?;
    let mut data = HostData::full(dtype, shape.numel(), Scalar::Int(0))?;
    elinvar_core::each_data!(&mut data, v => {
        v.iter_mut().step_by(n + 1).for_each(|x| *x = Element::from_f64(1.0));
    });
    HostTensor::new(shape, data)
}
