//! Gradients that are told before the pass has ended: as soon as nothing more can be added to them.
//!
//! A variable is older than the ops that read it, so a pass by itself comes to it last. Here the
//! graph is looked through for the oldest op that reads each variable; when the pass has left it
//! behind, the gradient is final. A segment that is recomputed may read whatever is older than it:
//! while there is one, nothing is final, and behind the last one the graph is looked through again.
//!
//! How it can be wrong: an op that adds to a gradient that was told. So an op that adds to nodes
//! which are not its operands has to say so ([`super::node::Recorded::reaches_beyond`]).

use crate::Tensor;
use crate::tape::gradients::Gradients;
use crate::tape::node::Node;
use elinvar_core::{Error, Result};
use elinvar_ops::backend::Backend;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// What is told: the place of a variable, and its gradient if it has one.
pub type Told<'t, B> = dyn FnMut(usize, Option<&Tensor<B>>) -> Result<()> + 't;

/// The variables of a pass that are to be told.
pub(crate) struct Finals<'f, 't, B: Backend> {
    /// Those that were not told yet: their places, by node.
    left: BTreeMap<u64, usize>,
    /// The oldest node that reads each, and the variable's node, as of the last look.
    order: BTreeSet<(u64, u64)>,
    /// The oldest node that may add to others than its operands. Before the first look all are to
    /// be expected.
    beyond: Option<u64>,
    told: &'f mut Told<'t, B>,
}

impl<'f, 't, B: Backend> Finals<'f, 't, B> {
    pub(crate) fn new(variables: &[&Tensor<B>], told: &'f mut Told<'t, B>) -> Result<Self> {
        let mut left = BTreeMap::new();
        for (place, x) in variables.iter().enumerate() {
            let Some(node) = x.node().filter(|node| node.is_leaf()) else {
                return Err(Error::argument(format!("backward_each: tensor {place} is no variable")));
            };
            if let Some(first) = left.insert(node.id, place) {
                return Err(Error::argument(format!(
                    "backward_each: tensors {first} and {place} are one variable; each is told once"
                )));
            }
        }
        Ok(Finals { left, order: BTreeSet::new(), beyond: Some(u64::MAX), told })
    }
    /// The node of the next variable whose gradient is final, if the pass has nodes up to `newest`
    /// before it (0 if it has none), all of which can be reached from `roots`.
    pub(crate) fn next(&mut self, newest: u64, roots: impl FnOnce() -> Vec<Arc<Node<B>>>) -> Option<u64> {
        if self.beyond.is_some_and(|node| node > newest) {
            self.look(roots());
        }
        let (oldest, _) = self.order.last()?;
        if self.beyond.is_some() || *oldest <= newest {
            return None;
        }
        self.order.pop_last().map(|(_, variable)| variable)
    }
    pub(crate) fn tell(&mut self, variable: u64, found: &Gradients<B>) -> Result<()> {
        match self.left.remove(&variable) {
            Some(place) => (self.told)(place, found.of_node(variable)),
            None => Ok(()),
        }
    }
    fn look(&mut self, mut roots: Vec<Arc<Node<B>>>) {
        let mut oldest: BTreeMap<u64, u64> = self.left.keys().map(|variable| (*variable, u64::MAX)).collect();
        let mut seen = HashSet::new();
        self.beyond = None;
        while let Some(node) = roots.pop() {
            if !seen.insert(node.id) {
                continue;
            }
            let reaches_beyond = node.operands(|operand| {
                if let Some(oldest) = oldest.get_mut(&operand.id) {
                    *oldest = node.id.min(*oldest);
                } else if !seen.contains(&operand.id) {
                    roots.push(operand.clone());
                }
            });
            if reaches_beyond {
                self.beyond = Some(self.beyond.map_or(node.id, |other| other.min(node.id)));
            }
        }
        self.order = oldest.into_iter().map(|(variable, oldest)| (oldest, variable)).collect();
    }
}
