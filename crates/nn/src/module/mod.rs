//! `Module`: a thing with named parameters, buffers and a mode, which a walk finds.
//!
//! There is one method to implement, [`Module::visit`], and `#[derive(Module)]` writes it: it walks
//! over the fields. Everything else (state dicts, freezing, the summary) is a walk that somebody
//! takes.
//!
//! What can change (weights, running statistics, the mode) lives in cells, so every walk goes over
//! `&self`, a parameter can be shared by two layers (tied weights), and `forward(&self)` can keep
//! statistics. The names are those of PyTorch: `encoder.layers.0.weight`.
//!
//! A field of a type that is no module is a compile error, so nothing is forgotten in silence. A
//! bare tensor belongs into a [`Buffer`] or a [`Param`]:
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
pub use state::{LoadReport, StateDict, Strict};

use crate::{Buffer, Mode, Param, RandomState};
use elinvar_core::{DType, Result};
use elinvar_ops::Backend;
use std::fmt::Display;

/// Something that has parameters, buffers, a mode, or parts that have: a layer, a network, a list
/// of layers; or a plain value that has none of these.
pub trait Module<B: Backend>: Send + Sync {
    /// Shows this module's parts to `visit`, under this name. Written by `#[derive(Module)]`.
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>);

    /// Everything in this module that can change, with its name.
    fn leaves(&self) -> Leaves<'_, B> {
        let mut all = Leaves::default();
        self.visit("", &mut Visit::new(&mut |name, seen| all.take(name, seen)));
        all
    }
    /// The parameters, in the order of the fields; a shared one once.
    fn parameters(&self) -> Vec<&Param<B>> {
        self.leaves().unique().into_iter().map(|(_, p)| p).collect()
    }
    /// The parameters with their names; a shared one once, under its first name.
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
        state::save(&self.leaves())
    }
    /// Takes parameters and buffers from a state dict. Everything is checked, and moved to the
    /// device, before the first one changes: after an error the module is as it was.
    ///
    /// A shared parameter is not missing as long as one of its names is there.
    ///
    /// # Errors
    /// `ShapeMismatch` or `DTypeMismatch` with the name; `InvalidArgument` if the names of a shared
    /// parameter have different values, or, if strict, with the names that are missing and
    /// unexpected; `OutOfMemory`.
    fn load_state_dict(&self, from: &StateDict, strict: Strict) -> Result<LoadReport> {
        state::load(&self.leaves(), from, strict, false)
    }
    /// As [`Module::load_state_dict`], but floats of another dtype are converted to that of the
    /// module, rounded once: a checkpoint of f16 for a model of f32, say.
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
    /// Makes all parameters constants: they get no gradients, and optimisers pass them by.
    fn freeze(&self) {
        self.parameters().iter().for_each(|p| p.freeze());
    }
    /// Makes all parameters variables again.
    fn unfreeze(&self) {
        self.parameters().iter().for_each(|p| p.unfreeze());
    }
    /// Makes the parameters constants for one of whose names `which` is true: all but the last
    /// layer, say.
    fn freeze_where(&self, which: &dyn Fn(&str) -> bool) {
        self.leaves().params.iter().filter(|(name, _)| which(name)).for_each(|(_, p)| p.freeze());
    }
    /// Makes the parameters variables again for one of whose names `which` is true.
    fn unfreeze_where(&self, which: &dyn Fn(&str) -> bool) {
        self.leaves().params.iter().filter(|(name, _)| which(name)).for_each(|(_, p)| p.unfreeze());
    }
    /// The module itself and the modules inside of it, outer ones first, with their numbers of
    /// weights.
    fn parts(&self) -> Vec<Part> {
        let mut parts = parts::Parts::default();
        self.visit("", &mut Visit::new(&mut |name, seen| parts.take(name, seen)));
        parts.all
    }
    /// Moves parameters and buffers to another device. After an error the module is where it was.
    ///
    /// # Errors
    /// `OutOfMemory`, or what the devices report.
    fn to_device(&self, device: &B::Device) -> Result<()> {
        state::to_device(&self.leaves(), device)
    }
    /// Makes all parameters and all buffers of floats another float dtype.
    ///
    /// # Errors
    /// `DTypeMismatch` if `dtype` is not of floats; `OutOfMemory`, after which some may be
    /// converted and others not.
    fn to_dtype(&self, dtype: DType) -> Result<()> {
        state::to_dtype(&self.leaves(), dtype)
    }
    /// Has the device keep, beside the weights of linear layers and of convolutions of one group,
    /// copies in the order in which products read them
    /// ([`Tensor::prepack`](elinvar_tensor::Tensor::prepack)): for inference. No bit of any result
    /// changes; a step of an optimiser drops the copies of what it changes. Gives the number of
    /// weights that have one now.
    ///
    /// # Errors
    /// `OutOfMemory`, after which some weights may have their copies and others not.
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
    /// A table of the parts with their numbers of weights, and the totals.
    fn summary(&self) -> String {
        let mut rows = summary::Rows::default();
        self.visit("", &mut Visit::new(&mut |name, seen| rows.take(name, seen)));
        rows.table(&self.leaves())
    }
}

/// What a walk over a module meets.
pub enum Seen<'a, 'k, B: Backend> {
    /// A module begins, shown like this in a summary; what follows until its `End` is inside.
    Begin(&'k dyn Display),
    /// The module that began last and has not ended yet ends.
    End,
    /// A parameter.
    Param(&'a Param<B>),
    /// A parameter that was met, or will be, and that a layer multiplies by as it is, \[in, out\],
    /// or turned if that is said.
    Factor(&'a Param<B>, bool),
    /// A buffer.
    Buffer(&'a Buffer<B>),
    /// A mode.
    Mode(&'a Mode),
    /// A source of random numbers.
    Random(&'a RandomState),
}

/// A walk over a module: knows the name so far, and whom to tell.
pub struct Visit<'a, 'v, B: Backend> {
    path: String,
    see: &'v mut dyn FnMut(&str, Seen<'a, '_, B>),
}

impl<'a, 'v, B: Backend> Visit<'a, 'v, B> {
    /// A walk that calls `see` with each full name and what is there.
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
    /// [out, in, kernel..]. It is visited as a parameter besides.
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
    /// A source of random numbers of this name.
    pub fn random(&mut self, name: &str, r: &'a RandomState) {
        self.under(name, |v| (v.see)(&v.path, Seen::Random(r)));
    }
    /// The walk's own root has no name and adds no dot.
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
