//! The contents of a module, collected.

use super::Seen;
use crate::{AcrossShards, Buffer, Mode, Param, RandomState};
use elinvar_ops::Backend;

/// All mutable state of a module, in the order of the fields.
pub struct Leaves<'a, B: Backend> {
    /// Parameters; a shared one is listed under each of its names.
    pub params: Vec<(String, &'a Param<B>)>,
    /// Buffers.
    pub buffers: Vec<(String, &'a Buffer<B>)>,
    /// Modes.
    pub modes: Vec<&'a Mode>,
    /// Random number generators.
    pub randoms: Vec<(String, &'a RandomState)>,
    /// Layers that may take statistics over all gradient shards.
    pub across: Vec<&'a AcrossShards>,
}

impl<B: Backend> Default for Leaves<'_, B> {
    fn default() -> Self {
        Leaves { params: vec![], buffers: vec![], modes: vec![], randoms: vec![], across: vec![] }
    }
}

impl<'a, B: Backend> Leaves<'a, B> {
    pub(super) fn take(&mut self, name: &str, seen: Seen<'a, '_, B>) {
        match seen {
            Seen::Param(p) => self.params.push((name.to_owned(), p)),
            Seen::Buffer(b) => self.buffers.push((name.to_owned(), b)),
            Seen::Mode(m) => self.modes.push(m),
            Seen::Random(r) => self.randoms.push((name.to_owned(), r)),
            Seen::Across(a) => self.across.push(a),
            Seen::Begin(_) | Seen::End | Seen::Factor(..) => {}
        }
    }
    /// The parameters without duplicates: a shared one under its first name.
    pub fn unique(&self) -> Vec<(String, &'a Param<B>)> {
        let mut seen = std::collections::HashSet::new();
        self.params.iter().filter(|(_, p)| seen.insert(p.identity())).cloned().collect()
    }
}
