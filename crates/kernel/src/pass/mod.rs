//! Passes: optimisation and lowering of kernels without changing a bit of what they compute.
//!
//! `constant_folding`, `strength_reduction`, `dce`, `cse`, `licm`; `lower`: legalisation for a
//! target; `renumber` and `replacement`: helpers.
//!
//! Each pass leaves a valid kernel valid, and is a function of the kernel alone. They may rely on
//! what the instructions say; so none of them knows that x * 1 is x for a float (it is, but for the
//! bits of a NaN), and none moves an addition.

mod constant_folding;
mod cse;
mod dce;
mod licm;
pub mod lower;
mod renumber;
mod replacement;
mod strength_reduction;

pub use constant_folding::constant_fold;
pub use cse::cse;
pub use dce::dce;
pub use licm::licm;
pub use lower::{Lanes, Legalize, Unsupported, lower};
pub use renumber::renumber;
pub use strength_reduction::strength_reduce;

use crate::ir::Kernel;

/// All passes, in the order in which they help each other.
pub fn optimize(k: &mut Kernel) {
    constant_fold(k);
    strength_reduce(k);
    // Dead code first: it would otherwise be shared with code much later, and be kept until then.
    dce(k);
    cse(k);
    licm(k);
    // Out of loops, what was computed in two of them is computed twice in one place.
    cse(k);
    dce(k);
}
