//! `Tensor<B>`: methods, operators, printing, and the tape that gives exact gradients.
//!
//! Tracking is a property of the value. A tensor made by [`Tensor::requires_grad`] is a variable;
//! tensors that are computed from it record how. [`Tensor::backward`] walks the tape back and
//! returns [`Gradients`] by variable.

mod autocast;
mod check;
mod create;
mod fail;
mod graph;
mod index;
mod methods;
mod print;
mod random;
mod sizes;
mod stream;
mod tape;
mod tensor;

#[doc(hidden)]
pub use autocast::isolated;
pub use autocast::{autocast, autocast_dtype, autocast_off, try_autocast};
pub use check::{check_gradient, numerical_gradient};
pub use create::TensorData;
pub use fail::{OrFail, try_run};
pub use graph::Graph;
pub use index::{Index, Indices, step};
pub use methods::{IntoPadding, MaybeNumber, Operand};
pub use random::Generator;
pub use sizes::{Axes, Integer, MaybeAxes, MaybeAxis, Sizes};
pub use stream::{Event, Pinned, Stream, Transfer};
pub use tape::{
    Backward, Gradients, Hook, Seed, Told, backward, backward_each, checkpoint, enable_grad, is_grad_enabled,
    no_grad,
};
pub use tensor::{HookHandle, Tensor};
