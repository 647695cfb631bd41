//! `Layer`: a module that maps one tensor to one tensor; and `Sequential`, a chain of them.

use crate::Module;
use crate::module::Visit;
use elinvar_ops::Backend;
use elinvar_tensor::Tensor;

/// A module that maps one tensor to one tensor.
pub trait Layer<B: Backend>: Module<B> {
    /// The output for an input.
    ///
    /// # Panics
    /// If the input does not fit; [`elinvar_tensor::try_run`] returns the error instead.
    fn forward(&self, x: &Tensor<B>) -> Tensor<B>;
}

impl<B: Backend, L: Layer<B> + ?Sized> Layer<B> for Box<L> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        (**self).forward(x)
    }
}

/// Layers one after the other. Their names are `0`, `1`, ...
#[derive(Default)]
pub struct Sequential<B: Backend> {
    layers: Vec<Box<dyn Layer<B>>>,
}

impl<B: Backend> Sequential<B> {
    /// No layers: the output is the input.
    pub fn new() -> Self {
        Sequential { layers: vec![] }
    }
    /// The same chain with one more layer at its end.
    #[must_use]
    pub fn with(mut self, layer: impl Layer<B> + 'static) -> Self {
        self.push(layer);
        self
    }
    /// Appends a layer.
    pub fn push(&mut self, layer: impl Layer<B> + 'static) {
        self.layers.push(Box::new(layer));
    }
    /// The layers.
    pub fn layers(&self) -> &[Box<dyn Layer<B>>] {
        &self.layers
    }
    /// Number of layers.
    pub fn len(&self) -> usize {
        self.layers.len()
    }
    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }
}

impl<B: Backend> Module<B> for Sequential<B> {
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
        visit.module(name, &"Sequential", |visit| {
            self.layers.iter().enumerate().for_each(|(i, l)| l.visit(&i.to_string(), visit));
        });
    }
}

impl<B: Backend> Layer<B> for Sequential<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        self.layers.iter().fold(x.clone(), |x, layer| layer.forward(&x))
    }
}
