//! Norms over single samples: layer, RMS and group norm.

use crate::{Layer, Module, Param, init};
use elinvar_core::Shape;
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_tensor::{OrFail, Sizes, Tensor};
use std::fmt;

/// (x - mean) / sqrt(variance + eps) * weight + bias over the last axes.
///
/// x: [.., shape..]   weight, bias: [shape..]   y: as x
#[derive(Debug, Module)]
#[module(display)]
pub struct LayerNorm<B: Backend> {
    /// [shape..], initially ones.
    pub weight: Option<Param<B>>,
    /// [shape..], initially zeros.
    pub bias: Option<Param<B>>,
    shape: Shape,
    eps: f64,
}

impl<B: Backend> LayerNorm<B> {
    /// Over last axes of this shape, with weight and bias of f32 and eps 1e-5.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn new(shape: impl Sizes, device: &B::Device) -> Self {
        let shape = shape.to_shape().or_fail();
        let (weight, bias) = (init::ones(&shape, device), init::zeros(&shape, device));
        LayerNorm { weight: Some(Param::new(weight)), bias: Some(Param::new(bias)), shape, eps: 1e-5 }
    }
    /// The eps that is added to the variance.
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }
    /// Without a bias.
    #[must_use]
    pub fn without_bias(mut self) -> Self {
        self.bias = None;
        self
    }
    /// Without weight and bias.
    #[must_use]
    pub fn without_affine(mut self) -> Self {
        (self.weight, self.bias) = (None, None);
        self
    }
}

impl<B: Backend> Layer<B> for LayerNorm<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        let (weight, bias) = (self.weight.as_ref().map(Param::get), self.bias.as_ref().map(Param::get));
        op::layer_norm(x, &self.shape, weight.as_ref(), bias.as_ref(), self.eps).or_fail()
    }
}

impl<B: Backend> fmt::Display for LayerNorm<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LayerNorm({}, eps {:e})", self.shape, self.eps)
    }
}

/// x / sqrt(mean(x^2) + eps) * weight over the last axes.
///
/// x: [.., shape..]   weight: [shape..]   y: as x
#[derive(Debug, Module)]
#[module(display)]
pub struct RMSNorm<B: Backend> {
    /// [shape..], initially ones.
    pub weight: Option<Param<B>>,
    shape: Shape,
    eps: Option<f64>,
}

impl<B: Backend> RMSNorm<B> {
    /// Over last axes of this shape, with a weight of f32; eps is that of the input's dtype.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn new(shape: impl Sizes, device: &B::Device) -> Self {
        let shape = shape.to_shape().or_fail();
        RMSNorm { weight: Some(Param::new(init::ones(&shape, device))), shape, eps: None }
    }
    /// The eps that is added to the mean square.
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = Some(eps);
        self
    }
    /// Without a weight.
    #[must_use]
    pub fn without_affine(mut self) -> Self {
        self.weight = None;
        self
    }
}

impl<B: Backend> Layer<B> for RMSNorm<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        op::rms_norm(x, &self.shape, self.weight.as_ref().map(Param::get).as_ref(), self.eps).or_fail()
    }
}

impl<B: Backend> fmt::Display for RMSNorm<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.eps {
            Some(eps) => write!(f, "RMSNorm({}, eps {eps:e})", self.shape),
            None => write!(f, "RMSNorm({})", self.shape),
        }
    }
}

/// As [`LayerNorm`] over groups of channels and all spatial axes, with weight and bias per channel.
///
/// x: [n, c, spatial..]   weight, bias: \[c\]   y: as x
#[derive(Debug, Module)]
#[module(display)]
pub struct GroupNorm<B: Backend> {
    /// \[c\], initially ones.
    pub weight: Option<Param<B>>,
    /// \[c\], initially zeros.
    pub bias: Option<Param<B>>,
    groups: usize,
    channels: usize,
    eps: f64,
}

impl<B: Backend> GroupNorm<B> {
    /// With weight and bias of f32 and eps 1e-5.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn new(groups: usize, channels: usize, device: &B::Device) -> Self {
        let (weight, bias) = (init::ones(channels, device), init::zeros(channels, device));
        GroupNorm {
            weight: Some(Param::new(weight)),
            bias: Some(Param::new(bias)),
            groups,
            channels,
            eps: 1e-5,
        }
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
}

impl<B: Backend> Layer<B> for GroupNorm<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        let (weight, bias) = (self.weight.as_ref().map(Param::get), self.bias.as_ref().map(Param::get));
        op::group_norm(x, self.groups, weight.as_ref(), bias.as_ref(), self.eps).or_fail()
    }
}

impl<B: Backend> fmt::Display for GroupNorm<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupNorm({} groups, {} channels, eps {:e})", self.groups, self.channels, self.eps)
    }
}
