//! Instance norm: each channel of each sample normalised to mean 0 and variance 1.

use crate::{Buffer, Layer, Mode, Module, Param, init};
use elinvar_core::{DType, Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_ops::catalogue::batch_norm::Follow;
use elinvar_ops::map::map;
use elinvar_tensor::{OrFail, Tensor};
use std::fmt;

/// [`InstanceNorm`] of [n, c, l].
pub type InstanceNorm1d<B> = InstanceNorm<B, 1>;
/// [`InstanceNorm`] of [n, c, h, w].
pub type InstanceNorm2d<B> = InstanceNorm<B, 2>;
/// [`InstanceNorm`] of [n, c, d, h, w].
pub type InstanceNorm3d<B> = InstanceNorm<B, 3>;

/// (x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance of each sample's
/// channel over its `AXES` spatial axes.
///
/// x: [n, c, spatial..] or [c, spatial..]   weight, bias, running_mean, running_var: \[c\]
/// y: as x
///
/// Running statistics, if enabled, are used in evaluation; in training they are updated with the
/// averages over the batch: running = (1 - momentum) * running + momentum * average (with unbiased
/// variances). A batch without elements leaves them as they are.
#[derive(Debug, Module)]
#[module(display)]
pub struct InstanceNorm<B: Backend, const AXES: usize> {
    /// \[c\], initially ones. `None` by default.
    pub weight: Option<Param<B>>,
    /// \[c\], initially zeros. `None` by default.
    pub bias: Option<Param<B>>,
    /// \[c\], initially zeros. `None` by default.
    pub running_mean: Option<Buffer<B>>,
    /// \[c\], initially ones. `None` by default.
    pub running_var: Option<Buffer<B>>,
    /// i64, shape []. Part of PyTorch's state dicts of this layer, where it is always 0.
    pub num_batches_tracked: Option<Buffer<B>>,
    mode: Mode,
    channels: usize,
    momentum: f64,
    eps: f64,
}

impl<B: Backend, const AXES: usize> InstanceNorm<B, AXES> {
    /// Without weight, bias and running statistics, with eps 1e-5: PyTorch's defaults.
    pub fn new(channels: usize) -> Self {
        InstanceNorm {
            weight: None,
            bias: None,
            running_mean: None,
            running_var: None,
            num_batches_tracked: None,
            mode: Mode::new(),
            channels,
            momentum: 0.1,
            eps: 1e-5,
        }
    }
    /// With weight and bias of f32.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[must_use]
    #[track_caller]
    pub fn affine(mut self, device: &B::Device) -> Self {
        self.weight = Some(Param::new(init::ones(self.channels, device)));
        self.bias = Some(Param::new(init::zeros(self.channels, device)));
        self
    }
    /// With running statistics of f32.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[must_use]
    #[track_caller]
    pub fn running(mut self, device: &B::Device) -> Self {
        self.running_mean = Some(Buffer::new(&init::zeros(self.channels, device)));
        self.running_var = Some(Buffer::new(&init::ones(self.channels, device)));
        self.num_batches_tracked = Some(Buffer::new(&Tensor::zeros([0; 0], DType::I64, device)));
        self
    }
    /// Momentum of the running statistics: the weight of the new batch. Default: 0.1.
    #[must_use]
    pub fn momentum(mut self, momentum: f64) -> Self {
        self.momentum = momentum;
        self
    }
    /// The eps that is added to the variance.
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }
    fn run(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        if x.rank() == AXES + 1 {
            return op::squeeze(&self.run(&op::unsqueeze(x, 0)?)?, Some(&[0]));
        }
        if x.rank() != AXES + 2 || x.dims()[1] != self.channels {
            return Err(Error::shape(format!(
                "instance_norm: input {}; it should be [n, {c}, spatial..] or [{c}, spatial..] with {AXES} spatial axes",
                x.shape(),
                c = self.channels
            )));
        }
        let (weight, bias) = (self.weight.as_ref().map(Param::get), self.bias.as_ref().map(Param::get));
        let (weight, bias) = (weight.as_ref(), bias.as_ref());
        let Some((mean, var)) = self.running_mean.as_ref().zip(self.running_var.as_ref()) else {
            return op::instance_norm(x, weight, bias, self.eps);
        };
        if !self.mode.is_training() {
            let running = (mean.get(), var.get());
            return Ok(op::batch_norm(
                x,
                Some((&running.0, &running.1)),
                weight,
                bias,
                false,
                0.0,
                self.eps,
            )?
            .y);
        }
        let y = op::instance_norm(x, weight, bias, self.eps)?;
        // Nothing has neither mean nor variance, and NaN would stay in the running ones.
        if x.numel() == 0 {
            return Ok(y);
        }
        let spatial: Vec<isize> = (2..x.rank() as isize).collect();
        let x = x.detach();
        let follow = |old: &Buffer<B>, each: Tensor<B>| -> Result<()> {
            let new = op::mean(&each, Some(&[0]), false)?;
            old.set(&map(Follow { momentum: self.momentum }, [&old.get(), &new])?)
        };
        follow(mean, op::mean(&x, Some(&spatial), false)?)?;
        follow(var, op::var(&x, Some(&spatial), 1.0, false)?)?;
        Ok(y)
    }
}

impl<B: Backend, const AXES: usize> Layer<B> for InstanceNorm<B, AXES> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        self.run(x).or_fail()
    }
}

impl<B: Backend, const AXES: usize> fmt::Display for InstanceNorm<B, AXES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InstanceNorm{AXES}d({}, eps {:e})", self.channels, self.eps)
    }
}
