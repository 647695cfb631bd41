//! On whose behalf something runs, and what it takes at least.

use std::fmt::{self, Display};

/// The call of an op, or of its gradient, on whose behalf something runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// The op's name; that of the kind of work if no op asked for it; empty if neither is known.
    pub name: &'static str,
    /// Is it the op's gradient?
    pub gradient: bool,
}

impl Call {
    /// No call.
    pub const NONE: Call = Call { name: "", gradient: false };
    /// Is there none?
    pub fn is_none(self) -> bool {
        self.name.is_empty()
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if self.gradient { f.write_str(" (gradient)") } else { Ok(()) }
    }
}

/// The least that work takes: of results and operands each element once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes that are read and written.
    pub bytes: u64,
    /// Floating-point operations, counted for products, convolutions and attention: a fused
    /// multiply-add is two. 0 elsewhere.
    pub flops: u64,
}
