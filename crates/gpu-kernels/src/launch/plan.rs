//! A plan: the path that a problem takes on a machine, and the reason for it.

use std::fmt;

/// What a plan function answers. Its family's `plan.rs` makes it from the problem and the machine
/// alone; `ELINVAR_EXPLAIN=1` prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan<P> {
    /// Which kernels, and with which tile.
    pub path: P,
    /// Why.
    pub why: &'static str,
}

impl<P> Plan<P> {
    /// A path, and why it is taken.
    pub const fn new(path: P, why: &'static str) -> Plan<P> {
        Plan { path, why }
    }
}

impl<P: fmt::Display> fmt::Display for Plan<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}
