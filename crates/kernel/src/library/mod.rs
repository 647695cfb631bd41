//! The kernels of elinvar: functions from a description to a kernel, and from shapes to its launch.
//!
//! A kernel's bits do not depend on its form (vectors or not, which tile, 32-bit or 64-bit indices); forms are chosen for
//! speed alone, by whoever launches. Each file begins with what its kernel computes.
//!
//! A kind of work is a function from layouts, dtypes and attributes to a [`Work`], one launch, or to [`Steps`], several. Buffers
//! are operands in the order of `Backend`, then results; what else a launch needs is said there. An index that is not in range
//! leaves 1 in a buffer `refused`, which is 0 before.

pub mod arg_fold;
pub mod attention;
pub mod boxes;
pub mod chunks;
pub mod contract;
pub mod conv;
pub mod copy;
pub mod fill;
mod finish;
pub mod fold;
pub mod formula;
mod fragments;
pub mod gather;
mod held;
pub mod index;
pub mod key;
pub mod long_rows;
pub mod map;
pub mod matrix_units;
pub mod nonzero;
pub mod numbers;
pub mod pool;
pub mod pool_grad;
pub mod random;
pub mod row;
pub mod rows;
pub mod scan;
pub mod scatter;
pub mod sort;
pub mod steps;
pub mod turned;
pub mod update;

pub use formula::{Compute, Formula};
pub use key::Key;
pub use steps::{Room, Slot, Step, Steps};

use crate::build::{Builder, Val};
use crate::interp::Launch;
use crate::ir::{Builtin, Constant, Kernel, Scalar};
use std::fmt;

/// A kernel and what it is started with, but for the buffers. The kernel is built only when somebody asks for it: who runs
/// the same work again has it already, under its key.
pub struct Work<'a> {
    /// Which kernel.
    pub key: Key,
    build: Box<dyn Fn() -> Kernel + 'a>,
    /// Groups and parameters.
    pub launch: Launch,
    /// What goes into the last buffer, if there are more numbers than parameters may be.
    pub numbers: Option<Vec<Constant>>,
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
pub const MOST_GROUPS: u64 = 65535;

/// `n` workgroups as a grid: along x, and rows of them along y.
pub fn grid(n: u64) -> [u32; 3] {
    if n <= MOST_GROUPS {
        return [n as u32, 1, 1];
    }
    // A row of a round number, so that the last row is the only one that is not full.
    let across = 32768;
    [across as u32, n.div_ceil(across) as u32, 1]
}

/// The number of a workgroup in a [`grid`].
fn group_number(k: &Builder, s: Scalar) -> Val<'_> {
    k.group_id(1).to(s) * k.builtin(Builtin::GroupCount(0)).to(s) + k.group_id(0).to(s)
}
