//! The result of a backward pass: a gradient per variable.

use crate::Tensor;
use elinvar_core::Result;
use elinvar_ops::backend::Backend;
use elinvar_ops::value::widen;
use elinvar_ops::{Value, catalogue};
use std::collections::BTreeMap;

/// Gradients by variable. A variable on which the outputs do not depend has none.
#[derive(Clone)]
pub struct Gradients<B: Backend> {
    /// By node id, which is the order in which variables were created.
    by: BTreeMap<u64, (Option<Box<str>>, Tensor<B>)>,
}

impl<B: Backend> Default for Gradients<B> {
    fn default() -> Self {
        Gradients { by: BTreeMap::new() }
    }
}

impl<B: Backend> std::fmt::Debug for Gradients<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.by.values().map(|(n, t)| (n.as_deref().unwrap_or("-"), t.shape())))
            .finish()
    }
}

impl<B: Backend> Gradients<B> {
    /// No gradients.
    pub fn new() -> Self {
        Self::default()
    }
    pub(crate) fn insert(&mut self, key: u64, name: Option<&str>, g: Tensor<B>) {
        self.by.insert(key, (name.map(Box::from), g));
    }
    pub(crate) fn of_node(&self, id: u64) -> Option<&Tensor<B>> {
        self.by.get(&id).map(|(_, g)| g)
    }
    fn key(x: &Tensor<B>) -> Option<u64> {
        x.node().map(|node| node.id)
    }
    /// The gradient with respect to this variable.
    pub fn get(&self, variable: &Tensor<B>) -> Option<&Tensor<B>> {
        self.by.get(&Self::key(variable)?).map(|(_, g)| g)
    }
    /// The gradient with respect to the variable of this name (see [`Tensor::named`]).
    pub fn by_name(&self, name: &str) -> Option<&Tensor<B>> {
        self.by.values().find(|(n, _)| n.as_deref() == Some(name)).map(|(_, g)| g)
    }
    /// The gradient with respect to this variable, removed from the set.
    pub fn take(&mut self, variable: &Tensor<B>) -> Option<Tensor<B>> {
        self.by.remove(&Self::key(variable)?).map(|(_, g)| g)
    }
    /// Replaces the gradient of a variable, by a clipped one for example.
    pub fn set(&mut self, variable: &Tensor<B>, g: Tensor<B>) {
        if let Some(node) = variable.node() {
            self.insert(node.id, node.name.as_deref(), g);
        }
    }
    /// All gradients with the names of their variables, in the order in which the variables were
    /// created.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&str>, &Tensor<B>)> {
        self.by.values().map(|(n, g)| (n.as_deref(), g))
    }
    /// Number of variables that have a gradient.
    pub fn len(&self) -> usize {
        self.by.len()
    }
    /// Has no variable a gradient?
    pub fn is_empty(&self) -> bool {
        self.by.is_empty()
    }
    /// Multiplies every gradient by a number, such as 1 / n for the mean of n accumulated batches.
    /// The number is not rounded as gradients of a storage float are.
    ///
    /// # Errors
    /// `OutOfMemory`, after which the gradients are as they were.
    pub fn scale(&mut self, factor: f64) -> Result<()> {
        let scaled = |g: &Tensor<B>| widen([g], |[g]| catalogue::mul(g, &g.scalar_like(factor)?));
        let new = self.by.values().map(|(_, g)| scaled(g)).collect::<Result<Vec<_>>>()?;
        self.by.values_mut().zip(new).for_each(|((_, g), new)| *g = new);
        Ok(())
    }
    /// Adds the gradients of another pass (gradient accumulation). The variables are the same as
    /// long as no optimiser step is made in between.
    ///
    /// # Errors
    /// `OutOfMemory`, after which some gradients are added and others are not.
    pub fn accumulate(&mut self, other: Gradients<B>) -> Result<()> {
        for (key, (name, g)) in other.by {
            let sum = match self.by.get(&key) {
                Some((_, mine)) => catalogue::add(mine, &g)?,
                None => g,
            };
            self.by.insert(key, (name, sum));
        }
        Ok(())
    }
}
