//! Launches: kernels by key, launch arguments, sequences of launches, occupancy; what plans know of
//! a device, and what a plan is.

pub mod args;
pub mod key;
pub mod machine;
pub mod occupancy;
pub mod plan;
pub mod sequence;

pub use key::Key;
pub use machine::{MAX_BLOCK_THREADS, Machine, RegisterBudget, WorkgroupLimits};
pub use occupancy::ComputeUnits;
pub use plan::Plan;
pub use sequence::{BufferSlot, BufferSpec, LaunchSequence, SequenceStep};

use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::interp::Launch;
use elinvar_kernel::ir::{Builtin, Constant, Kernel, Scalar};
use std::fmt;

/// A kernel and what it is started with, but for the buffers. The kernel is built only when it is
/// asked for: a caller that runs the same work again has it already, under its key.
pub struct Work<'a> {
    /// Which kernel.
    pub key: Key,
    build: Box<dyn Fn() -> Kernel + 'a>,
    /// Groups and parameters.
    pub launch: Launch,
    /// What goes into the last buffer, if there are more numbers than parameters may be.
    pub args: Option<Vec<Constant>>,
}

impl Work<'_> {
    /// The kernel, built anew.
    pub fn kernel(&self) -> Kernel {
        (self.build)()
    }
}

impl fmt::Debug for Work<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("key", &self.key).field("launch", &self.launch).finish_non_exhaustive()
    }
}

/// Most workgroups along an axis that every device starts.
pub const MAX_GROUPS: u64 = 65535;

/// `n` workgroups as a grid: along x, and rows of them along y.
pub fn grid(n: u64) -> [u32; 3] {
    if n <= MAX_GROUPS {
        return [n as u32, 1, 1];
    }
    // A row of a round number, so that the last row is the only one that is not full.
    let across = 32768;
    [across as u32, n.div_ceil(across) as u32, 1]
}

/// The number of a workgroup in a [`grid`].
pub(crate) fn linear_group_id(k: &Builder, s: Scalar) -> Val<'_> {
    k.group_id(1).to(s) * k.builtin(Builtin::GroupCount(0)).to(s) + k.group_id(0).to(s)
}
