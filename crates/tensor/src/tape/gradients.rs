//! What a backward pass gives: a gradient per variable.

use crate::Tensor;
use elinvar_core::Result;
use elinvar_ops::backend::Backend;
use elinvar_ops::{Value, catalogue};
use std::collections::BTreeMap;

/// Gradients by variable. A variable that the outputs do not depend on has none.
#[derive(Clone)]
pub struct Gradients<B: Backend> {
    /// By the number of the node, which is the order in which variables were made.
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
    fn key(x: &Tensor<B>) -> Option<u64> {
        x.node().map(|node| node.id)
    }
    /// The gradient by this variable.
    pub fn get(&self, variable: &Tensor<B>) -> Option<&Tensor<B>> {
        self.by.get(&Self::key(variable)?).map(|(_, g)| g)
    }
    /// The gradient by the variable of this name (see [`Tensor::named`]).
    pub fn by_name(&self, name: &str) -> Option<&Tensor<B>> {
        self.by.values().find(|(n, _)| n.as_deref() == Some(name)).map(|(_, g)| g)
    }
    /// The gradient by this variable, taken out.
    pub fn take(&mut self, variable: &Tensor<B>) -> Option<Tensor<B>> {
        self.by.remove(&Self::key(variable)?).map(|(_, g)| g)
    }
    /// Puts another gradient in the place of a variable's: a clipped one, say.
    pub fn set(&mut self, variable: &Tensor<B>, g: Tensor<B>) {
        if let Some(node) = variable.node() {
            self.insert(node.id, node.name.as_deref(), g);
        }
    }
    /// All gradients with the names of their variables, in the order in which the variables were
    /// made.
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
    /// Multiplies every gradient with a number: after several batches were added up, to make their
    /// mean of it.
    ///
    /// # Errors
    /// `OutOfMemory`, after which the gradients are as they were.
    pub fn scale(&mut self, factor: f64) -> Result<()> {
        let scaled = |g: &Tensor<B>| catalogue::mul(g, &g.scalar_like(factor)?);
        let new = self.by.values().map(|(_, g)| scaled(g)).collect::<Result<Vec<_>>>()?;
        self.by.values_mut().zip(new).for_each(|((_, g), new)| *g = new);
        Ok(())
    }
    /// Adds the gradients of another pass: what several small batches give together. They are of
    /// the same variables as long as no optimiser has made a step in between.
    ///
    /// # Errors
    /// `OutOfMemory`, after which some are added and others not.
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
