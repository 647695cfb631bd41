//! `Linear`: y = x weight^T + bias.

use crate::module::Visit;
use crate::{Layer, Module, Param, init};
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_tensor::{Generator, OrFail, Tensor};
use std::fmt;

/// y[.., o] = sum over i of x[.., i] * weight[o, i], + bias\[o\]
///
/// x: [.., in]   weight: [out, in]   bias: \[out\]   y: [.., out]
#[derive(Debug)]
pub struct Linear<B: Backend> {
    /// [out, in]
    pub weight: Param<B>,
    /// \[out\]
    pub bias: Option<Param<B>>,
}

impl<B: Backend> Linear<B> {
    /// A layer of f32 with a bias; weight and bias are initially uniform in +-1 / sqrt(inputs).
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize, g: &mut Generator, device: &B::Device) -> Self {
        let mut layer = Self::without_bias(inputs, outputs, g, device);
        layer.bias = Some(Param::new(init::uniform(outputs, init::default_bound(inputs), g, device)));
        layer
    }
    /// A layer of f32 without a bias; the weight is initially uniform in +-1 / sqrt(inputs).
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn without_bias(inputs: usize, outputs: usize, g: &mut Generator, device: &B::Device) -> Self {
        let weight = init::uniform([outputs, inputs], init::default_bound(inputs), g, device);
        Linear { weight: Param::new(weight), bias: None }
    }
    /// A layer with existing weights.
    ///
    /// # Errors
    /// `ShapeMismatch` if the weight is not a matrix, or the bias does not have one element per row
    /// of it; `DTypeMismatch` if they are not of one float type.
    pub fn from_weights(weight: &Tensor<B>, bias: Option<&Tensor<B>>) -> Result<Self> {
        let [outputs, _] = weight.dims() else {
            return Err(Error::shape(format!(
                "linear: a weight of shape {}; it should be [out, in]",
                weight.shape()
            )));
        };
        if let Some(b) = bias.filter(|b| b.dims() != [*outputs]) {
            return Err(Error::shape(format!(
                "linear: a bias of shape {}; it should be [{outputs}]",
                b.shape()
            )));
        }
        let odd = bias.map(Tensor::dtype).filter(|d| *d != weight.dtype());
        if !weight.dtype().is_float() || odd.is_some() {
            return Err(Error::dtype(format!(
                "linear: a weight of {} and a bias of {}; they should be of one float type",
                weight.dtype(),
                odd.unwrap_or(weight.dtype())
            )));
        }
        Ok(Linear { weight: Param::new(weight.clone()), bias: bias.map(|b| Param::new(b.clone())) })
    }
}

impl<B: Backend> Module<B> for Linear<B> {
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
        visit.module(name, self, |visit| {
            visit.param("weight", &self.weight);
            visit.factor(&self.weight, true);
            self.bias.visit("bias", visit);
        });
    }
}

impl<B: Backend> Layer<B> for Linear<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        op::linear(x, &self.weight.get(), self.bias.as_ref().map(Param::get).as_ref()).or_fail()
    }
}

impl<B: Backend> fmt::Display for Linear<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = self.weight.get();
        let bias = if self.bias.is_some() { "" } else { ", no bias" };
        write!(f, "Linear({}, {}{bias})", weight.size(1), weight.size(0))
    }
}
