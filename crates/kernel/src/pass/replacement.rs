//! Replacement map: what stands for the values that a pass removed.

use crate::ir::{Region, Value};

/// A table by the numbers of values, which have no gaps: every pass looks up every operand.
#[derive(Default)]
pub(super) struct Replacements(Vec<Option<Value>>);

impl Replacements {
    /// `new` stands for `old` from now on.
    pub(super) fn put(&mut self, old: Value, new: Value) {
        let at = old.0 as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, None);
        }
        self.0[at] = Some(new);
    }
    /// Names what stands for a value; one that nothing stands for stays.
    pub(super) fn replace(&self, v: &mut Value) {
        if let Some(&Some(new)) = self.0.get(v.0 as usize) {
            *v = new;
        }
    }
    /// The same for what a region yields.
    pub(super) fn replace_yields(&self, r: &mut Region) {
        r.yields.iter_mut().for_each(|v| self.replace(v));
    }
}
