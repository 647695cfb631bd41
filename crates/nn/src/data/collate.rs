//! Samples into a batch: stacked where their shapes are equal, padded where their lengths differ.

use crate::data::{Dataset, Upload};
use elinvar_core::{Element, Error, HostData, HostTensor, Result, Scalar, Shape, each_dtype, host};
use elinvar_ops::Backend;
use elinvar_tensor::Tensor;

/// Makes a batch of samples, in host memory. Implemented for closures
/// `Fn(Vec<Sample>) -> Result<Batch>`.
pub trait Collate<T>: Send + Sync {
    /// The batch.
    type Batch: Upload;

    /// The batch of these samples.
    ///
    /// # Errors
    /// `ShapeMismatch` or `DTypeMismatch` if they do not fit together; `OutOfMemory`.
    fn collate(&self, samples: Vec<T>) -> Result<Self::Batch>;

    /// The batch of these samples of a data set.
    ///
    /// # Errors
    /// Those of the data set, and of [`collate`](Collate::collate).
    fn batch<D: Dataset<Item = T>>(&self, data: &D, samples: &[usize]) -> Result<Self::Batch>
    where
        Self: Sized,
    {
        self.collate(samples.iter().map(|i| data.get(*i)).collect::<Result<_>>()?)
    }
}

impl<T, R: Upload, F: Fn(Vec<T>) -> Result<R> + Send + Sync> Collate<T> for F {
    type Batch = R;
    fn collate(&self, samples: Vec<T>) -> Result<R> {
        self(samples)
    }
}

/// Stacks samples of equal shape along a new first axis; numbers become a tensor of \[n\], pairs
/// and lists are stacked part by part, texts are listed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stack;

impl<T: Stackable> Collate<T> for Stack {
    type Batch = T::Batch;
    fn collate(&self, samples: Vec<T>) -> Result<T::Batch> {
        T::stack(samples)
    }
    fn batch<D: Dataset<Item = T>>(&self, data: &D, samples: &[usize]) -> Result<T::Batch> {
        match data.stacked(samples) {
            Some(batch) => batch,
            None => T::stack(samples.iter().map(|i| data.get(*i)).collect::<Result<_>>()?),
        }
    }
}

/// A sample that [`Stack`] makes batches of.
pub trait Stackable: Sized {
    /// The batch.
    type Batch: Upload;

    /// The batch of these samples.
    ///
    /// # Errors
    /// `ShapeMismatch` or `DTypeMismatch` if they do not fit together; `OutOfMemory`.
    fn stack(samples: Vec<Self>) -> Result<Self::Batch>;
}

impl Stackable for HostTensor {
    type Batch = HostTensor;
    fn stack(samples: Vec<HostTensor>) -> Result<HostTensor> {
        let first = samples.first().ok_or_else(|| Error::argument("stack: a batch of no samples"))?;
        for (i, s) in samples.iter().enumerate() {
            if s.shape() != first.shape() {
                return Err(Error::shape(format!(
                    "stack: sample 0 of the batch is {}, sample {i} is {}; equal shapes would fit, `Pad` takes \
                     sequences of different lengths",
                    first.shape(),
                    s.shape()
                )));
            }
            if s.dtype() != first.dtype() {
                return Err(Error::dtype(format!(
                    "stack: sample 0 of the batch is of {}, sample {i} of {}; one type would fit",
                    first.dtype(),
                    s.dtype()
                )));
            }
        }
        let mut dims = vec![samples.len()];
        dims.extend_from_slice(first.shape());
        let shape = Shape::new(&dims)?;
        each_dtype!(first.dtype(), T => {
            let mut out = host::with_capacity::<T>(shape.numel())?;
            for s in &samples {
                out.extend_from_slice(s.as_slice::<T>()?);
            }
            HostTensor::from_vec(out, shape)
        })
    }
}

macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl Stackable for $t {
            type Batch = HostTensor;
            fn stack(samples: Vec<$t>) -> Result<HostTensor> {
                let shape = Shape::new(&[samples.len()])?;
                HostTensor::from_vec(samples, shape)
            }
        }
    )*};
}
numbers!(f32, f64, i64, i32, u8, bool);

impl Stackable for String {
    type Batch = Vec<String>;
    fn stack(samples: Vec<String>) -> Result<Vec<String>> {
        Ok(samples)
    }
}

impl<X: Stackable, Y: Stackable> Stackable for (X, Y) {
    type Batch = (X::Batch, Y::Batch);
    fn stack(samples: Vec<(X, Y)>) -> Result<Self::Batch> {
        let (x, y) = samples.into_iter().unzip();
        Ok((X::stack(x)?, Y::stack(y)?))
    }
}

impl<X: Stackable, Y: Stackable, Z: Stackable> Stackable for (X, Y, Z) {
    type Batch = (X::Batch, Y::Batch, Z::Batch);
    fn stack(samples: Vec<(X, Y, Z)>) -> Result<Self::Batch> {
        let (x, (y, z)): (Vec<_>, (Vec<_>, Vec<_>)) =
            samples.into_iter().map(|(x, y, z)| (x, (y, z))).unzip();
        Ok((X::stack(x)?, Y::stack(y)?, Z::stack(z)?))
    }
}

impl<T: Stackable> Stackable for Vec<T> {
    type Batch = Vec<T::Batch>;
    fn stack(samples: Vec<Vec<T>>) -> Result<Vec<T::Batch>> {
        let parts = samples.first().map_or(0, Vec::len);
        if let Some(other) = samples.iter().find(|s| s.len() != parts) {
            return Err(Error::shape(format!(
                "stack: a sample has {parts} parts and another {}; equally many would fit",
                other.len()
            )));
        }
        let mut columns: Vec<Vec<T>> = (0..parts).map(|_| Vec::with_capacity(samples.len())).collect();
        for sample in samples {
            columns.iter_mut().zip(sample).for_each(|(c, part)| c.push(part));
        }
        columns.into_iter().map(T::stack).collect()
    }
}

/// Makes one tensor of sequences of different lengths: the shorter ones are padded at the end.
///
/// Samples are sequences [t, ..], or pairs of a sequence and a value that [`Stack`] accepts.
///
/// ```
/// use elinvar_core::{HostTensor, Shape};
/// use elinvar_nn::data::{Collate, Pad};
///
/// let ids = |v: &[i64]| HostTensor::from_vec(v.to_vec(), Shape::new(&[v.len()])?);
/// let batch = Pad::new(0).collate(vec![ids(&[5, 6, 7])?, ids(&[8])?])?;
/// assert_eq!(batch.x.shape().dims(), [2, 3]);
/// assert_eq!(batch.x.as_slice::<i64>()?, [5, 6, 7, 8, 0, 0]);
/// assert_eq!(batch.mask.as_slice::<bool>()?, [true, true, true, true, false, false]);
/// assert_eq!(batch.lengths.as_slice::<i64>()?, [3, 1]);
/// # Ok::<(), elinvar_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Pad {
    value: Scalar,
    multiple: usize,
}

impl Pad {
    /// Pads with this value.
    pub fn new(value: impl Into<Scalar>) -> Self {
        Pad { value: value.into(), multiple: 1 }
    }
    /// The padded length becomes a multiple of this; 0 counts as 1. With fewer distinct shapes, a
    /// device compiles fewer kernels.
    #[must_use]
    pub fn multiple_of(mut self, multiple: usize) -> Self {
        self.multiple = multiple.max(1);
        self
    }

    fn pad(&self, samples: &[HostTensor]) -> Result<Padded<HostTensor>> {
        let first = samples.first().ok_or_else(|| Error::argument("pad: a batch of no samples"))?;
        for (i, s) in samples.iter().enumerate() {
            if s.shape().is_empty() || first.shape().is_empty() || s.shape()[1..] != first.shape()[1..] {
                return Err(Error::shape(format!(
                    "pad: sample 0 of the batch is {}, sample {i} is {}; only the first sizes may differ",
                    first.shape(),
                    s.shape()
                )));
            }
            if s.dtype() != first.dtype() {
                return Err(Error::dtype(format!(
                    "pad: sample 0 of the batch is of {}, sample {i} of {}; one type would fit",
                    first.dtype(),
                    s.dtype()
                )));
            }
        }
        self.value.fits(first.dtype()).map_err(|e| e.at("pad"))?;
        let n = samples.len();
        let longest = samples.iter().map(|s| s.shape()[0]).max().unwrap_or(0);
        let t = longest.checked_next_multiple_of(self.multiple).ok_or_else(|| {
            Error::memory(format!("pad: no multiple of {} can be addressed", self.multiple))
        })?;
        let mut dims = vec![n, t];
        dims.extend_from_slice(&first.shape()[1..]);
        let shape = Shape::new(&dims)?;
        let width: usize = dims[2..].iter().product();
        let x = each_dtype!(first.dtype(), T => {
            let value: T = <T as Element>::unwrap(HostData::full(first.dtype(), 1, self.value)?)
                .map_or(<T as Element>::ZERO, |v| v[0]);
            let mut out = host::filled::<T>(shape.numel(), value)?;
            for (i, s) in samples.iter().enumerate() {
                let s = s.as_slice::<T>()?;
                out[i * t * width..][..s.len()].copy_from_slice(s);
            }
            HostTensor::from_vec(out, shape)?
        });
        let mut mask = host::filled(Shape::new(&[n, t])?.numel(), false)?;
        let mut lengths = host::with_capacity(n)?;
        for (i, s) in samples.iter().enumerate() {
            mask[i * t..][..s.shape()[0]].fill(true);
            lengths.push(s.shape()[0] as i64);
        }
        let mask = HostTensor::from_vec(mask, Shape::new(&[n, t])?)?;
        let lengths = HostTensor::from_vec(lengths, Shape::new(&[n])?)?;
        Ok(Padded { x, mask, lengths })
    }
}

/// Sequences of different lengths as one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Padded<T> {
    /// [n, t, ..]: t is the longest length.
    pub x: T,
    /// [n, t] of bool: true for elements, false for padding.
    pub mask: T,
    /// \[n\] of i64: the lengths.
    pub lengths: T,
}

impl Upload for Padded<HostTensor> {
    type On<B: Backend> = Padded<Tensor<B>>;
    fn upload<B: Backend>(self, device: &B::Device) -> Result<Padded<Tensor<B>>> {
        Ok(Padded {
            x: self.x.upload::<B>(device)?,
            mask: self.mask.upload::<B>(device)?,
            lengths: self.lengths.upload::<B>(device)?,
        })
    }
    fn bytes(&self) -> usize {
        self.x.bytes() + self.mask.bytes() + self.lengths.bytes()
    }
}

impl Collate<HostTensor> for Pad {
    type Batch = Padded<HostTensor>;
    fn collate(&self, samples: Vec<HostTensor>) -> Result<Padded<HostTensor>> {
        self.pad(&samples)
    }
}

impl<Y: Stackable> Collate<(HostTensor, Y)> for Pad {
    type Batch = (Padded<HostTensor>, Y::Batch);
    fn collate(&self, samples: Vec<(HostTensor, Y)>) -> Result<Self::Batch> {
        let (x, y): (Vec<_>, Vec<_>) = samples.into_iter().unzip();
        Ok((self.pad(&x)?, Y::stack(y)?))
    }
}
