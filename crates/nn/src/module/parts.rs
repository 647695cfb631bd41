//! The submodules of a module, each with its number of weights.

use super::Seen;
use elinvar_ops::Backend;
use std::collections::HashSet;

/// A submodule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its full name; empty for the module itself.
    pub name: String,
    /// Its text in a summary: `Linear(3, 2)`; empty for a list.
    pub shown: String,
    /// Its nesting depth.
    pub depth: usize,
    /// Number of weights of it and its submodules. Those that are shared inside of it count once.
    pub weights: usize,
    /// How many of these are frozen.
    pub frozen: usize,
}

/// The visitor that collects the submodules.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) all: Vec<Part>,
    /// The open submodules, outermost first, with the parameters seen in each.
    open: Vec<(usize, HashSet<usize>)>,
}

impl Parts {
    pub(super) fn take<B: Backend>(&mut self, name: &str, seen: Seen<'_, '_, B>) {
        match seen {
            Seen::Begin(shown) => {
                let (name, shown, depth) = (name.to_owned(), shown.to_string(), self.open.len());
                self.open.push((self.all.len(), HashSet::new()));
                self.all.push(Part { name, shown, depth, weights: 0, frozen: 0 });
            }
            Seen::End => _ = self.open.pop(),
            Seen::Param(p) => {
                let value = p.get();
                for (i, known) in &mut self.open {
                    if known.insert(p.identity()) {
                        self.all[*i].weights += value.numel();
                        self.all[*i].frozen += if value.is_variable() { 0 } else { value.numel() };
                    }
                }
            }
            Seen::Factor(..) | Seen::Buffer(_) | Seen::Mode(_) | Seen::Random(_) | Seen::Across(_) => {}
        }
    }
}
