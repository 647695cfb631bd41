//! `Embedding`: a row of a table for each index.

use crate::{Layer, Module, Param, init};
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_tensor::{Generator, Integer, OrFail, Tensor};
use std::fmt;

/// y[.., :] = weight[x[..], :]
///
/// x: [..] of i64   weight: [rows, columns]   y: [.., columns]
#[derive(Debug, Module)]
#[module(display)]
pub struct Embedding<B: Backend> {
    /// [rows, columns]
    pub weight: Param<B>,
    padding: Option<isize>,
}

impl<B: Backend> Embedding<B> {
    /// A table of f32, initially normally distributed with mean 0 and standard deviation 1.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn new(rows: usize, columns: usize, g: &mut Generator, device: &B::Device) -> Self {
        Embedding { weight: Param::new(init::normal([rows, columns], 1.0, g, device)), padding: None }
    }
    /// An existing table, of trained word vectors for example. Freeze `weight` to exclude it from
    /// training.
    ///
    /// # Errors
    /// `ShapeMismatch` if it is not a matrix; `DTypeMismatch` if it is not of floats.
    pub fn from_pretrained(weight: &Tensor<B>) -> Result<Self> {
        if weight.rank() != 2 {
            return Err(Error::shape(format!(
                "embedding: a weight of shape {}; it should be [rows, columns]",
                weight.shape()
            )));
        }
        if !weight.dtype().is_float() {
            return Err(Error::dtype(format!(
                "embedding: a weight of {}; it should be of floats",
                weight.dtype()
            )));
        }
        Ok(Embedding { weight: Param::new(weight.clone()), padding: None })
    }
    /// Tied weights: the table is another layer's parameter.
    pub fn tied(weight: &Param<B>) -> Self {
        Embedding { weight: weight.share(), padding: None }
    }
    /// The row of index `padding`, which may count from the end, is set to 0 and gets no gradient.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    #[track_caller]
    pub fn padding(mut self, padding: impl Integer) -> Self {
        let padding = padding.to_isize();
        let weight = self.weight.get().detach();
        let rows = weight.dims()[0];
        let at = if padding < 0 { padding.saturating_add_unsigned(rows) } else { padding };
        let at = Tensor::from_vec(vec![at as i64], 1, weight.device());
        self.weight = Param::new(weight.index_fill(0, &at, 0.0));
        self.padding = Some(padding);
        self
    }
}

impl<B: Backend> Layer<B> for Embedding<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        op::embedding(x, &self.weight.get(), self.padding).or_fail()
    }
}

impl<B: Backend> fmt::Display for Embedding<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = self.weight.get();
        write!(f, "Embedding({}, {})", weight.size(0), weight.size(1))
    }
}
