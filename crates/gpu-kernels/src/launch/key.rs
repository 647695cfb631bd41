//! Kernel keys: what tells kernels apart without building them.
//!
//! A key is a hash of 128 bits over everything that a kernel is built from: the kind of work, its
//! configuration, the formula's type and its attributes. Of a million kernels, two share a key with
//! a probability of 10^-27. Keys hold within a run of one program; on disk, kernels are known by
//! their code.

use std::any::TypeId;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The key of a kernel: kernels of one key are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(u64, u64);

impl Key {
    /// The key of a kind of work.
    pub fn of(kind: &'static str) -> Key {
        Key(0, 1).with(kind)
    }
    /// The key with one more thing that the kernel depends on.
    #[must_use]
    pub fn with<T: Hash + ?Sized>(self, what: &T) -> Key {
        let each = |start: u64| {
            let mut h = DefaultHasher::new();
            h.write_u64(start);
            what.hash(&mut h);
            h.finish()
        };
        Key(each(self.0), each(self.1))
    }
    /// The key with a formula: its type, and its attributes as `Debug` writes them (numbers are
    /// written so that nothing of them is lost).
    #[must_use]
    pub fn with_formula<F: Debug + 'static>(self, formula: &F) -> Key {
        let key = self.with(&TypeId::of::<F>());
        if size_of::<F>() == 0 { key } else { key.with(&format!("{formula:?}")) }
    }
}
