//! Data sets in host memory: tensors whose first axis counts the samples.

use crate::data::dataset::exists;
use crate::data::{Batch, Dataset};
use elinvar_core::{Element, Error, HostTensor, Result, Shape, each_data, host};
use elinvar_ops::Backend;
use elinvar_tensor::Tensor;

/// Samples and targets in host memory: x: [n, ..], y: [n, ..].
///
/// As a [`Dataset`], sample `i` is `(x[i], y[i])`.
#[derive(Clone, Debug)]
pub struct Pairs {
    x: HostTensor,
    y: HostTensor,
}

impl Pairs {
    /// Samples with their targets.
    ///
    /// # Errors
    /// `ShapeMismatch` if their numbers differ.
    pub fn new(x: HostTensor, y: HostTensor) -> Result<Self> {
        match (x.shape().first(), y.shape().first()) {
            (Some(n), Some(m)) if n == m => Ok(Pairs { x, y }),
            _ => Err(Error::shape(format!(
                "pairs: samples {}, targets {}; the first sizes should be equal",
                x.shape(),
                y.shape()
            ))),
        }
    }
    /// The samples.
    pub fn x(&self) -> &HostTensor {
        &self.x
    }
    /// The targets.
    pub fn y(&self) -> &HostTensor {
        &self.y
    }
    /// Number of samples.
    pub fn len(&self) -> usize {
        self.x.shape()[0]
    }
    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Some of the samples, on a device.
    ///
    /// # Errors
    /// `InvalidArgument` if a sample does not exist; `OutOfMemory`, or what the device reports.
    pub fn batch<B: Backend>(&self, samples: Vec<usize>, device: &B::Device) -> Result<Batch<B>> {
        let x = Tensor::from_host(rows(&self.x, &samples)?, device)?;
        let y = Tensor::from_host(rows(&self.y, &samples)?, device)?;
        Ok(Batch { x, y, samples })
    }
}

impl Dataset for Pairs {
    type Item = (HostTensor, HostTensor);
    fn len(&self) -> usize {
        self.len()
    }
    fn get(&self, i: usize) -> Result<Self::Item> {
        Ok((row(&self.x, i)?, row(&self.y, i)?))
    }
    fn stacked(&self, samples: &[usize]) -> Option<Result<(HostTensor, HostTensor)>> {
        Some(rows(&self.x, samples).and_then(|x| Ok((x, rows(&self.y, samples)?))))
    }
}

/// Any number of tensors in host memory, all with the same first size: sample `i` is the `i`th row
/// of each.
///
/// ```
/// use elinvar_core::{HostTensor, Shape};
/// use elinvar_nn::data::{Dataset, TensorDataset};
///
/// let ids = HostTensor::from_vec(vec![1i64, 2, 3, 4, 5, 6], Shape::new(&[3, 2])?)?;
/// let weights = HostTensor::from_vec(vec![0.5f32, 1.0, 2.0], Shape::new(&[3])?)?;
/// let data = TensorDataset::new(vec![ids, weights])?;
/// assert_eq!(data.len(), 3);
/// assert_eq!(data.get(1)?[0].as_slice::<i64>()?, [3, 4]);
/// assert_eq!(data.get(1)?[1].as_slice::<f32>()?, [1.0]);
/// # Ok::<(), elinvar_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TensorDataset {
    tensors: Vec<HostTensor>,
    len: usize,
}

impl TensorDataset {
    /// Tensors of [n, ..].
    ///
    /// # Errors
    /// `ShapeMismatch` if their first sizes differ or one of them is a scalar; `InvalidArgument` if
    /// there are none.
    pub fn new(tensors: Vec<HostTensor>) -> Result<Self> {
        let Some(first) = tensors.first() else {
            return Err(Error::argument("tensor data set: no tensors; one at least says how many samples"));
        };
        let shapes = || tensors.iter().map(|t| t.shape().to_string()).collect::<Vec<_>>().join(", ");
        match first.shape().first() {
            Some(&len) if tensors.iter().all(|t| t.shape().first() == Some(&len)) => {
                Ok(TensorDataset { tensors, len })
            }
            _ => Err(Error::shape(format!(
                "tensor data set: tensors of {}; the first sizes should be equal",
                shapes()
            ))),
        }
    }
    /// The tensors.
    pub fn tensors(&self) -> &[HostTensor] {
        &self.tensors
    }
}

impl Dataset for TensorDataset {
    type Item = Vec<HostTensor>;
    fn len(&self) -> usize {
        self.len
    }
    fn get(&self, i: usize) -> Result<Vec<HostTensor>> {
        self.tensors.iter().map(|t| row(t, i)).collect()
    }
    fn stacked(&self, samples: &[usize]) -> Option<Result<Vec<HostTensor>>> {
        Some(self.tensors.iter().map(|t| rows(t, samples)).collect())
    }
}

/// Rows of a tensor, copied.
pub(crate) fn rows(t: &HostTensor, which: &[usize]) -> Result<HostTensor> {
    let n = t.shape()[0];
    which.iter().try_for_each(|i| exists(*i, n))?;
    let mut dims = t.shape().to_vec();
    dims[0] = which.len();
    let shape = Shape::new(&dims)?;
    let width: usize = dims[1..].iter().product();
    let data = each_data!(t.data(), v => {
        let mut out = host::with_capacity(shape.numel())?;
        which.iter().for_each(|i| out.extend_from_slice(&v[i * width..][..width]));
        Element::wrap(out)
    });
    HostTensor::new(shape, data)
}

/// Row `i` of a tensor, without the first axis.
pub(crate) fn row(t: &HostTensor, i: usize) -> Result<HostTensor> {
    let one = rows(t, &[i])?;
    let shape = Shape::new(&one.shape()[1..])?;
    HostTensor::new(shape, one.into_data())
}
