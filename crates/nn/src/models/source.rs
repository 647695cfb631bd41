//! The source of a model's weights: random numbers, or a file. An architecture is written once,
//! generic over a [`Source`].

use super::hf::{self, Floats};
use crate::layers::{Embedding, LayerNorm, Linear, RMSNorm};
use crate::{Param, StateDict, init};
use elinvar_core::{DType, Error, Result};
use elinvar_ops::Backend;
use elinvar_tensor::{Generator, Tensor};

/// Initialisation of a weight that is not read from a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start {
    /// Normally distributed around 0, with this standard deviation.
    Normal(f64),
    /// 0
    Zeros,
    /// 1
    Ones,
}

/// Provides weights by name.
pub(super) struct Source<'a, B: Backend> {
    /// For random weights, and for dropout.
    pub generator: &'a mut Generator,
    device: &'a B::Device,
    file: Option<(StateDict, DType)>,
}

impl<'a, B: Backend> Source<'a, B> {
    /// Random weights.
    pub fn random(generator: &'a mut Generator, device: &'a B::Device) -> Self {
        Source { generator, device, file: None }
    }
    /// The weights of a file. The generator is for dropout.
    ///
    /// # Errors
    /// `DTypeMismatch` if floats of several types are to be kept.
    pub fn file(
        tensors: StateDict,
        floats: Floats,
        generator: &'a mut Generator,
        device: &'a B::Device,
    ) -> Result<Self> {
        let dtype = hf::dtype(&tensors, floats)?;
        Ok(Source { generator, device, file: Some((tensors, dtype)) })
    }
    /// Does this optional weight exist? Random ones do.
    pub fn has(&self, name: &str) -> bool {
        self.file.as_ref().is_none_or(|(tensors, _)| tensors.contains_key(name))
    }
    /// A weight.
    ///
    /// # Errors
    /// `Format` if the file lacks it; `ShapeMismatch`; `DTypeMismatch` if it is not of floats;
    /// `OutOfMemory`.
    pub fn weight(&mut self, name: &str, shape: &[usize], start: Start) -> Result<Param<B>> {
        let Some((tensors, dtype)) = &mut self.file else {
            return Ok(Param::new(match start {
                Start::Normal(std) => init::normal(shape, std, self.generator, self.device),
                Start::Zeros => init::zeros(shape, self.device),
                Start::Ones => init::ones(shape, self.device),
            }));
        };
        let found = tensors.remove(name).ok_or_else(|| {
            Error::format(format!("the weights lack \"{name}\", which the config asks for"))
        })?;
        if found.shape().dims() != shape {
            return Err(Error::shape(format!(
                "\"{name}\" has shape {}, and the config asks for {shape:?}",
                found.shape()
            )));
        }
        if !found.dtype().is_float() {
            return Err(Error::dtype(format!("\"{name}\" is of {}; weights are floats", found.dtype())));
        }
        let dtype = *dtype;
        let value = Tensor::<B>::from_host(found, self.device).map_err(|e| e.at(name))?;
        Ok(Param::new(Tensor::from_array(value.array().cast(dtype)?)))
    }
    /// `name.weight` [outputs, inputs] and optionally `name.bias`.
    ///
    /// # Errors
    /// As [`Source::weight`].
    pub fn linear(
        &mut self,
        name: &str,
        [inputs, outputs]: [usize; 2],
        bias: bool,
        std: f64,
    ) -> Result<Linear<B>> {
        let weight = self.weight(&format!("{name}.weight"), &[outputs, inputs], Start::Normal(std))?;
        let bias =
            bias.then(|| self.weight(&format!("{name}.bias"), &[outputs], Start::Zeros)).transpose()?;
        Ok(Linear { weight, bias })
    }
    /// `name.weight` [rows, columns].
    ///
    /// # Errors
    /// As [`Source::weight`].
    pub fn embedding(&mut self, name: &str, rows: usize, columns: usize, std: f64) -> Result<Embedding<B>> {
        let weight = self.weight(&format!("{name}.weight"), &[rows, columns], Start::Normal(std))?;
        // Its initial values are replaced at once.
        let mut layer = Embedding::new(1, 1, &mut Generator::new(0), self.device);
        layer.weight = weight;
        Ok(layer)
    }
    /// `name.weight` and `name.bias`, [n].
    ///
    /// # Errors
    /// As [`Source::weight`].
    pub fn layer_norm(&mut self, name: &str, n: usize, eps: f64) -> Result<LayerNorm<B>> {
        let weight = self.weight(&format!("{name}.weight"), &[n], Start::Ones)?;
        let bias = self.weight(&format!("{name}.bias"), &[n], Start::Zeros)?;
        let mut layer = LayerNorm::new(n, self.device).eps(eps);
        (layer.weight, layer.bias) = (Some(weight), Some(bias));
        Ok(layer)
    }
    /// `name.weight` [n].
    ///
    /// # Errors
    /// As [`Source::weight`].
    pub fn rms_norm(&mut self, name: &str, n: usize, eps: f64) -> Result<RMSNorm<B>> {
        let weight = self.weight(&format!("{name}.weight"), &[n], Start::Ones)?;
        let mut layer = RMSNorm::new(n, self.device).eps(eps);
        layer.weight = Some(weight);
        Ok(layer)
    }
    /// Checks that every weight of the file was used, except those whose names end with one of
    /// these.
    ///
    /// # Errors
    /// `Format` with a name that is left: a model without that weight is another model.
    pub fn finish(self, ignored: &[&str]) -> Result<()> {
        let Some((tensors, _)) = self.file else { return Ok(()) };
        match tensors.keys().find(|name| !ignored.iter().any(|end| name.ends_with(end))) {
            None => Ok(()),
            Some(name) => Err(Error::format(format!(
                "the file has \"{name}\", for which this architecture, with this config, has no place"
            ))),
        }
    }
}
