//! Renaming of a state dict: to load a checkpoint of a whole network into one of its parts, or the
//! reverse.

use super::StateDict;
use elinvar_core::{Error, Result};
use std::collections::btree_map::Entry;

/// Renames the tensors of a state dict.
pub trait Rename: Sized {
    /// Renames each tensor by `f`; those for which it returns `None` are dropped.
    ///
    /// # Errors
    /// `InvalidArgument` if two get the same name.
    fn rename(self, f: impl FnMut(&str) -> Option<String>) -> Result<Self>;

    /// The tensors whose names begin with `prefix` and a dot, without both.
    #[must_use]
    fn strip_prefix(self, prefix: &str) -> Self;

    /// Puts `prefix` and a dot before every name.
    #[must_use]
    fn add_prefix(self, prefix: &str) -> Self;
}

impl Rename for StateDict {
    fn rename(self, mut f: impl FnMut(&str) -> Option<String>) -> Result<Self> {
        let mut out = StateDict::new();
        for (old, tensor) in self {
            let Some(new) = f(&old) else { continue };
            match out.entry(new) {
                Entry::Vacant(place) => _ = place.insert(tensor),
                Entry::Occupied(place) => {
                    return Err(Error::argument(format!(
                        "rename: \"{old}\" would become \"{}\", which is taken; give every tensor a name of its own",
                        place.key()
                    )));
                }
            }
        }
        Ok(out)
    }
    fn strip_prefix(self, prefix: &str) -> Self {
        let short = |name: &str| Some(name.strip_prefix(prefix)?.strip_prefix('.')?.to_owned());
        self.into_iter().filter_map(|(name, tensor)| Some((short(&name)?, tensor))).collect()
    }
    fn add_prefix(self, prefix: &str) -> Self {
        self.into_iter().map(|(name, tensor)| (format!("{prefix}.{name}"), tensor)).collect()
    }
}
