//! Samples with their targets, in batches, in an order that is the same on every machine.
//!
//! The order of an epoch is a function of the seed and the epoch's number alone, so a run can go on in the middle of
//! an epoch without having seen its beginning.

use elinvar_core::philox::{Stream, permutation};
use elinvar_core::{Element, Error, HostTensor, Result, Shape, each_data, host};
use elinvar_ops::Backend;
use elinvar_tensor::Tensor;
use std::sync::Arc;

/// Orders of epochs take streams from here on; generators of the same seed count from 0 and never come here.
const ORDERS: u64 = 1 << 63;

/// Samples and targets in host memory: x: [n, ..], y: [n, ..].
#[derive(Clone, Debug)]
pub struct Pairs {
    x: HostTensor,
    y: HostTensor,
}

impl Pairs {
    /// Samples with their targets.
    ///
    /// # Errors
    /// `ShapeMismatch` if they are not equally many.
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
    /// No samples?
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

/// Rows of a tensor, copied.
fn rows(t: &HostTensor, which: &[usize]) -> Result<HostTensor> {
    let n = t.shape()[0];
    if let Some(i) = which.iter().find(|i| **i >= n) {
        return Err(Error::argument(format!("batch: there is no sample {i}, only {n} of them")));
    }
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

/// Some samples with their targets, on a device.
#[derive(Clone, Debug)]
pub struct Batch<B: Backend> {
    /// [n, ..]
    pub x: Tensor<B>,
    /// [n, ..]
    pub y: Tensor<B>,
    /// Which samples these are.
    pub samples: Vec<usize>,
}

/// Gives all samples in batches, epoch after epoch. At first in their own order, with a smaller batch at the end.
#[derive(Clone, Debug)]
pub struct Loader {
    pairs: Arc<Pairs>,
    batch_size: usize,
    seed: Option<u64>,
    drop_last: bool,
}

impl Loader {
    /// Batches of this size.
    ///
    /// # Errors
    /// `InvalidArgument` if the size is 0.
    pub fn new(pairs: Arc<Pairs>, batch_size: usize) -> Result<Self> {
        if batch_size == 0 {
            return Err(Error::argument("loader: batches of 0 samples never end; ask for 1 at least"));
        }
        Ok(Loader { pairs, batch_size, seed: None, drop_last: false })
    }
    /// A new order for each epoch, by this seed.
    #[must_use]
    pub fn shuffle(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }
    /// Leaves out a last batch that is not full.
    #[must_use]
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }
    /// The samples.
    pub fn pairs(&self) -> &Arc<Pairs> {
        &self.pairs
    }
    /// Batches in an epoch.
    pub fn batches(&self) -> usize {
        let n = self.pairs.len();
        if self.drop_last { n / self.batch_size } else { n.div_ceil(self.batch_size) }
    }
    /// The order of the samples in an epoch.
    pub fn order(&self, epoch: u64) -> Vec<usize> {
        match self.seed {
            None => (0..self.pairs.len()).collect(),
            Some(seed) => permutation(self.pairs.len(), Stream { seed, stream: ORDERS | epoch }),
        }
    }
    /// The batches of an epoch from batch `start` on.
    pub fn epoch<'a, B: Backend>(
        &'a self,
        epoch: u64,
        start: usize,
        device: &'a B::Device,
    ) -> impl Iterator<Item = Result<Batch<B>>> + 'a {
        let order = self.order(epoch);
        (start..self.batches()).map(move |i| {
            let from = i * self.batch_size;
            let to = order.len().min(from + self.batch_size);
            self.pairs.batch(order[from..to].to_vec(), device)
        })
    }
}
