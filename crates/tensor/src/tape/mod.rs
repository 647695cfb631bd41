//! The tape: the graph of recorded ops, and the backward pass over it.

pub(crate) mod backward;
pub(crate) mod checkpoint;
pub(crate) mod derivative;
pub(crate) mod finals;
mod free;
pub(crate) mod gradients;
pub(crate) mod mode;
pub(crate) mod node;

pub use backward::{Backward, Seed, backward, backward_each};
pub use checkpoint::checkpoint;
pub use finals::Told;
pub use gradients::Gradients;
pub use mode::{enable_grad, is_grad_enabled, no_grad};
pub use node::Hook;
