//! `Module`: a type with named parameters, buffers and a mode, which a visitor finds.
//!
//! There is one method to implement, [`Module::visit`], and `#[derive(Module)]` writes it: it
//! visits the fields. Everything else (state dicts, freezing, the summary) is a visitor.
//!
//! Mutable state (weights, running statistics, the mode) is in cells, so every visitor takes
//! `&self`, a parameter can be shared by two layers (tied weights), and `forward(&self)` can update
//! statistics. The names are those of PyTorch: `encoder.layers.0.weight`.
//!
//! A field of a type that is not a module is a compile error, so nothing is forgotten silently. A
//! bare tensor belongs in a [`Buffer`] or a [`Param`]:
//! ```
//! # use elinvar_nn::{Backend, Buffer, Module};
//! #[derive(Module)]
//! struct Positions<B: Backend> {
//!     table: Buffer<B>,
//!     #[module(skip)]
//!     started: std::time::Duration,
//! }
//! ```
//! ```compile_fail
//! # use elinvar_nn::{Backend, Module, Tensor};
//! #[derive(Module)]
//! struct Positions<B: Backend> {
//!     table: Tensor<B>,
//! }
//! ```

mod leaves;
mod parts;
mod plain;
mod rename;
mod state;
mod summary;

pub use leaves::Leaves;
pub use parts::Part;
pub use rename::Rename;
pub(crate) use state::save;
pub use state::{LoadReport, StateDict, Strict};

use crate::{AcrossShards, Buffer, Mode, Param, RandomState};
use elinvar_core::{DType, Result};
use elinvar_ops::Backend;
use std::fmt::Display;

/// A type with parameters, buffers, a mode, or parts with those: a layer, a network, a list of
/// layers; or a plain value without any of these.
pub trait Module<B: Backend>: Send + Sync {
    /// Visits this module's parts, under this name. Written by `#[derive(Module)]`.
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>);

    /// All mutable state of this module, with names.
    fn leaves(&self) -> Leaves<'_, B> {
        let mut all = Leaves::default();
        self.visit("", &mut Visit::new(&mut |name, seen| all.take(name, seen)));
        all
    }
    /// The parameters without duplicates, in the order of the fields.
    fn parameters(&self) -> Vec<&Param<B>> {
        self.leaves().unique().into_iter().map(|(_, p)| p).collect()
    }
    /// The parameters with their names, without duplicates: a shared one under its first name.
    fn named_parameters(&self) -> Vec<(String, &Param<B>)> {
        self.leaves().unique()
    }
    /// Number of weights in all parameters; a shared one counts once.
    fn num_parameters(&self) -> usize {
        self.parameters().iter().map(|p| p.get().numel()).sum()
    }
    /// All parameters and buffers on the host, by PyTorch's names and in its layouts. Waits for the
    /// device.
    ///
    /// # Errors
    /// `InvalidArgument` if two have the same name; what the device reports.
    fn state_dict(&self) -> Result<StateDict> {
        save(&self.leaves(), &mut |x| x.to_host())
    }
    /// Loads parameters and buffers from a state dict. Everything is checked, and uploaded, before
    /// the first one changes: after an error the module is unchanged.
    ///
    /// A shared parameter is not missing as long as one of its names is present.
    ///
    /// # Errors
    /// `ShapeMismatch` or `DTypeMismatch` with the name; `InvalidArgument` if the names of a shared
    /// parameter have different values, or, if strict, with the names that are missing and
    /// unexpected; `OutOfMemory`.
    fn load_state_dict(&self, from: &StateDict, strict: Strict) -> Result<LoadReport> {
        state::load(&self.leaves(), from, strict, false)
    }
    /// As [`Module::load_state_dict`], but floats of another dtype are converted to that of the
    /// module, rounded once: a checkpoint of f16 for a model of f32, for example.
    ///
    /// # Errors
    /// As [`Module::load_state_dict`]; `DTypeMismatch` if one side is of floats and the other is
    /// not.
    fn load_state_dict_cast(&self, from: &StateDict, strict: Strict) -> Result<LoadReport> {
        state::load(&self.leaves(), from, strict, true)
    }
    /// Sets training mode: dropout drops, batch norm uses and records the batch's statistics.
    fn train(&self) {
        self.leaves().modes.iter().for_each(|m| m.set_training(true));
    }
    /// Sets evaluation mode: dropout passes through, batch norm uses the running statistics.
    fn eval(&self) {
        self.leaves().modes.iter().for_each(|m| m.set_training(false));
    }
    /// Freezes all parameters: they get no gradients, and optimisers skip them.
    fn freeze(&self) {
        self.parameters().iter().for_each(|p| p.freeze());
    }
    /// Unfreezes all parameters.
    fn unfreeze(&self) {
        self.parameters().iter().for_each(|p| p.unfreeze());
    }
    /// Freezes the parameters for one of whose names `which` is true: all except those of the last
    /// layer, for example.
    fn freeze_where(&self, which: &dyn Fn(&str) -> bool) {
        self.leaves().params.iter().filter(|(name, _)| which(name)).for_each(|(_, p)| p.freeze());
    }
    /// Unfreezes the parameters for one of whose names `which` is true.
    fn unfreeze_where(&self, which: &dyn Fn(&str) -> bool) {
        self.leaves().params.iter().filter(|(name, _)| which(name)).for_each(|(_, p)| p.unfreeze());
    }
    /// The module and its submodules, outer ones first, with their numbers of weights.
    fn parts(&self) -> Vec<Part> {
        let mut parts = parts::Parts::default();
        self.visit("", &mut Visit::new(&mut |name, seen| parts.take(name, seen)));
        parts.all
    }
    /// Moves parameters and buffers to another device. After an error the module is unchanged.
    ///
    /// # Errors
    /// `OutOfMemory`, or what the devices report.
    fn to_device(&self, device: &B::Device) -> Result<()> {
        state::to_device(&self.leaves(), device)
    }
    /// Converts all parameters and all float buffers to another float dtype.
    ///
    /// # Errors
    /// `DTypeMismatch` if `dtype` is not of floats; `OutOfMemory`, after which some may be
    /// converted and others not.
    fn to_dtype(&self, dtype: DType) -> Result<()> {
        state::to_dtype(&self.leaves(), dtype)
    }
    /// Packs the weights of linear layers and of convolutions of one group for products
    /// ([`Tensor::prepack`](elinvar_tensor::Tensor::prepack)): for inference. No bit of any result
    /// changes; a step of an optimiser drops the packed copies of the weights that it updates.
    /// Returns the number of weights that have a packed copy now.
    ///
    /// # Errors
    /// `OutOfMemory`, after which some weights may have a packed copy and others not.
    fn prepack(&self) -> Result<usize> {
        let mut factors = vec![];
        self.visit(
            "",
            &mut Visit::new(&mut |_, seen| {
                if let Seen::Factor(weight, turned) = seen {
                    factors.push((weight, turned));
                }
            }),
        );
        let mut all = std::collections::HashSet::new();
        let mut kept = 0;
        for (weight, turned) in factors {
            let value = weight.get();
            let matrix = if turned { value.flatten(1, -1).t() } else { value };
            if all.insert(weight.identity()) && matrix.array().prepack()? {
                kept += 1;
            }
        }
        Ok(kept)
    }
    /// A table of the submodules with their numbers of weights, and the totals.
    fn summary(&self) -> String {
        let mut rows = summary::Rows::default();
        self.visit("", &mut Visit::new(&mut |name, seen| rows.take(name, seen)));
        rows.table(&self.leaves())
    }
}

/// An item of a visit of a module.
pub enum Seen<'a, 'k, B: Backend> {
    /// A module begins, shown like this in a summary; the items until its `End` are inside of it.
    Begin(&'k dyn Display),
    /// The innermost open module ends.
    End,
    /// A parameter.
    Param(&'a Param<B>),
    /// A parameter, visited as such too, that a layer multiplies by: as \[in, out\], or transposed
    /// if the flag is set.
    Factor(&'a Param<B>, bool),
    /// A buffer.
    Buffer(&'a Buffer<B>),
    /// A mode.
    Mode(&'a Mode),
    /// A random number generator.
    Random(&'a RandomState),
    /// Whether a layer takes statistics over all gradient shards.
    Across(&'a AcrossShards),
}

/// A visit of a module: the name so far, and the visitor.
pub struct Visit<'a, 'v, B: Backend> {
    path: String,
    see: &'v mut dyn FnMut(&str, Seen<'a, '_, B>),
}

impl<'a, 'v, B: Backend> Visit<'a, 'v, B> {
    /// A visit that calls `see` with each full name and item.
    pub fn new(see: &'v mut dyn FnMut(&str, Seen<'a, '_, B>)) -> Self {
        Visit { path: String::new(), see }
    }
    /// A module of this name, shown in a summary as `shown`; `inside` visits its parts.
    pub fn module(&mut self, name: &str, shown: &dyn Display, inside: impl FnOnce(&mut Self)) {
        self.under(name, |v| {
            (v.see)(&v.path, Seen::Begin(shown));
            inside(v);
            (v.see)(&v.path, Seen::End);
        });
    }
    /// A parameter of this name.
    pub fn param(&mut self, name: &str, p: &'a Param<B>) {
        self.under(name, |v| (v.see)(&v.path, Seen::Param(p)));
    }
    /// A layer multiplies by this parameter \[in, out\], or, if `turned`, \[out, in\] or
    /// [out, in, kernel..]. It is also visited as a parameter.
    pub fn factor(&mut self, p: &'a Param<B>, turned: bool) {
        (self.see)(&self.path, Seen::Factor(p, turned));
    }
    /// A buffer of this name.
    pub fn buffer(&mut self, name: &str, b: &'a Buffer<B>) {
        self.under(name, |v| (v.see)(&v.path, Seen::Buffer(b)));
    }
    /// A mode of this name.
    pub fn mode(&mut self, name: &str, m: &'a Mode) {
        self.under(name, |v| (v.see)(&v.path, Seen::Mode(m)));
    }
    /// A random number generator of this name.
    pub fn random(&mut self, name: &str, r: &'a RandomState) {
        self.under(name, |v| (v.see)(&v.path, Seen::Random(r)));
    }
    /// Of this name, whether a layer takes statistics over all gradient shards.
    pub fn across_shards(&mut self, name: &str, a: &'a AcrossShards) {
        self.under(name, |v| (v.see)(&v.path, Seen::Across(a)));
    }
    /// The root has no name and adds no dot.
    fn under(&mut self, name: &str, f: impl FnOnce(&mut Self)) {
        let before = self.path.len();
        if before > 0 && !name.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
        f(self);
        self.path.truncate(before);
    }
}
