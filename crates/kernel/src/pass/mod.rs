//! Rewriting kernels without changing a bit of what they compute.
//!
//! Each pass leaves a valid kernel valid, and is a function of the kernel alone. What they may rely on is what the
//! instructions say; so none of them knows that x * 1 is x for a float (it is, but for the bits of a NaN), and none
//! moves an addition.

mod constant_folding;
mod cse;
mod dce;
mod licm;
pub mod lower;
mod renumber;
mod replacement;
mod strength_reduction;

pub use constant_folding::fold_constants;
pub use cse::share;
pub use dce::remove_dead;
pub use licm::hoist;
pub use lower::{Lacking, Wants, lower};
pub use renumber::compact;
pub use strength_reduction::shift_powers;

use crate::ir::Kernel;

/// All passes, in the order in which they help each other.
pub fn optimise(k: &mut Kernel) {
    fold_constants(k);
    shift_powers(k);
    // What nobody needs would else be shared with what somebody needs much later, and be kept until then.
    remove_dead(k);
    share(k);
    hoist(k);
    // Out of loops, what was computed in two of them is computed twice in one place.
    share(k);
    remove_dead(k);
}
