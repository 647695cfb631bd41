//! Batch norm: each channel normalised by its mean and variance over the batch, or by running
//! statistics.
//!
//! How it can be wrong: the mode. In training a sample's result depends on the rest of its batch
//! and the running statistics are updated; after `eval()` neither is the case.

use super::sync_batch_norm::over_shards;
use crate::across::{self, AcrossShards};
use crate::{Buffer, Layer, Mode, Module, Param, init};
use elinvar_core::{DType, Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_tensor::{OrFail, Tensor, no_grad};
use std::fmt;

/// [`BatchNorm`] of [n, c] or [n, c, l].
pub type BatchNorm1d<B> = BatchNorm<B, 1>;
/// [`BatchNorm`] of [n, c, h, w].
pub type BatchNorm2d<B> = BatchNorm<B, 2>;
/// [`BatchNorm`] of [n, c, d, h, w].
pub type BatchNorm3d<B> = BatchNorm<B, 3>;

/// (x - mean) / sqrt(variance + eps) * weight + bias per channel, for `AXES` spatial axes.
///
/// x: [n, c, spatial..]   weight, bias, running_mean, running_var: \[c\]   y: as x
///
/// In training, mean and variance are those of the batch, and the running ones are updated:
/// running = (1 - momentum) * running + momentum * batch (with the unbiased variance). A batch
/// without elements has neither, and is not counted.
#[derive(Debug, Module)]
#[module(display)]
pub struct BatchNorm<B: Backend, const AXES: usize> {
    /// \[c\], initially ones.
    pub weight: Option<Param<B>>,
    /// \[c\], initially zeros.
    pub bias: Option<Param<B>>,
    /// \[c\], initially zeros.
    pub running_mean: Option<Buffer<B>>,
    /// \[c\], initially ones.
    pub running_var: Option<Buffer<B>>,
    /// Number of training batches so far, i64, shape [].
    pub num_batches_tracked: Option<Buffer<B>>,
    mode: Mode,
    across: AcrossShards,
    channels: usize,
    momentum: Option<f64>,
    eps: f64,
}

impl<B: Backend, const AXES: usize> BatchNorm<B, AXES> {
    /// With weight and bias of f32, momentum 0.1 and eps 1e-5.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn new(channels: usize, device: &B::Device) -> Self {
        let (zeros, ones) = (init::zeros(channels, device), init::ones(channels, device));
        BatchNorm {
            running_mean: Some(Buffer::new(&zeros)),
            running_var: Some(Buffer::new(&ones)),
            num_batches_tracked: Some(Buffer::new(&Tensor::zeros([0; 0], DType::I64, device))),
            weight: Some(Param::new(ones)),
            bias: Some(Param::new(zeros)),
            mode: Mode::new(),
            across: AcrossShards::new(false),
            channels,
            momentum: Some(0.1),
            eps: 1e-5,
        }
    }
    /// Momentum of the running statistics: the weight of the new batch.
    #[must_use]
    pub fn momentum(mut self, momentum: f64) -> Self {
        self.momentum = Some(momentum);
        self
    }
    /// Cumulative averages over all batches instead of a momentum. Each training step then
    /// synchronises with the device, to read the number of batches.
    #[must_use]
    pub fn cumulative(mut self) -> Self {
        self.momentum = None;
        self
    }
    /// The eps that is added to the variance.
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }
    /// Without weight and bias.
    #[must_use]
    pub fn without_affine(mut self) -> Self {
        (self.weight, self.bias) = (None, None);
        self
    }
    /// Without running statistics: always uses those of the batch.
    #[must_use]
    pub fn without_running(mut self) -> Self {
        (self.running_mean, self.running_var, self.num_batches_tracked) = (None, None, None);
        self
    }
    /// In a training step of several gradient shards, mean and variance are those of all shards
    /// and not of each: PyTorch's `SyncBatchNorm`. Running statistics follow them. The shards of a
    /// worker then run side by side, which holds the tensors of all of them; each layer sums five
    /// times over all workers. Elsewhere it is a batch norm like others.
    #[must_use]
    pub fn sync(self) -> Self {
        self.across.set(true);
        self
    }
    fn run(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        let fits = x.rank() == AXES + 2 || (AXES == 1 && x.rank() == 2);
        if !fits {
            let want = match AXES {
                1 => "[n, c] or [n, c, l]",
                2 => "[n, c, h, w]",
                _ => "[n, c, d, h, w]",
            };
            return Err(Error::shape(format!("batch_norm: input {}; it should be {want}", x.shape())));
        }
        if x.dims()[1] != self.channels {
            return Err(Error::shape(format!(
                "batch_norm: input {} has {} channels, the layer {}",
                x.shape(),
                x.dims()[1],
                self.channels
            )));
        }
        let (weight, bias) = (self.weight.as_ref().map(Param::get), self.bias.as_ref().map(Param::get));
        let buffers = self.running_mean.as_ref().zip(self.running_var.as_ref());
        let running = buffers.map(|(mean, var)| (mean.get(), var.get()));
        let pair = running.as_ref().map(|(mean, var)| (mean, var));
        let training = self.mode.is_training() || running.is_none();
        if training && self.across.is_on() && across::is_in_shard() {
            return self.run_over_shards(x, pair, weight.as_ref(), bias.as_ref());
        }
        let count = self.num_batches_tracked.as_ref().filter(|_| training && x.numel() > 0);
        let next = count.map(|c| no_grad(|| c.get() + 1));
        let momentum = match (self.momentum, &next) {
            (Some(m), _) => m,
            (None, Some(n)) => n.to_host()?.to_f64_vec().first().map_or(0.0, |n| 1.0 / n),
            // There are no running statistics, or they are not updated.
            (None, None) => 0.0,
        };
        let out = op::batch_norm(x, pair, weight.as_ref(), bias.as_ref(), training, momentum, self.eps)?;
        if let (true, Some((mean, var)), Some((new_mean, new_var))) = (training, buffers, &out.running) {
            mean.set(new_mean)?;
            var.set(new_var)?;
            if let (Some(count), Some(next)) = (count, &next) {
                count.set(next)?;
            }
        }
        Ok(out.y)
    }
    fn run_over_shards(
        &self,
        x: &Tensor<B>,
        running: Option<(&Tensor<B>, &Tensor<B>)>,
        weight: Option<&Tensor<B>>,
        bias: Option<&Tensor<B>>,
    ) -> Result<Tensor<B>> {
        let count = self.num_batches_tracked.as_ref();
        let next = count.map(|c| no_grad(|| c.get() + 1));
        let momentum = || match (self.momentum, &next) {
            (Some(m), _) => Ok(m),
            (None, Some(n)) => Ok(n.to_host()?.to_f64_vec().first().map_or(0.0, |n| 1.0 / n)),
            (None, None) => Ok(0.0),
        };
        let (y, new) = over_shards(x, running, weight, bias, momentum, self.eps)?;
        if let (Some(new), Some(mean), Some(var)) = (new, &self.running_mean, &self.running_var) {
            mean.set(&new[0])?;
            var.set(&new[1])?;
            if let (Some(count), Some(next)) = (count, &next) {
                count.set(next)?;
            }
        }
        Ok(y)
    }
}

impl<B: Backend, const AXES: usize> Layer<B> for BatchNorm<B, AXES> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        self.run(x).or_fail()
    }
}

impl<B: Backend, const AXES: usize> fmt::Display for BatchNorm<B, AXES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchNorm{AXES}d({}, ", self.channels)?;
        match self.momentum {
            Some(m) => write!(f, "momentum {m}, ")?,
            None => f.write_str("cumulative, ")?,
        }
        if self.across.is_on() {
            f.write_str("sync, ")?;
        }
        write!(f, "eps {:e})", self.eps)
    }
}
