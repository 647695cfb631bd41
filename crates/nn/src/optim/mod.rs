//! Optimisers: how weights follow their gradients.
//!
//! An optimiser keeps its state by the parameter's name, so that it can be saved and put back. The arithmetic of a
//! step is one elementwise formula per tensor that changes, which every backend runs as one kernel.
//!
//! **Numbers that change from step to step** (the learning rate, Adam's bias corrections) are computed here in f64,
//! rounded once to the type in which the parameter is computed, and given to the formula as operands of shape [], so
//! that a step never needs another kernel than the step before. Powers are `power`, not the platform's.
//! **Numbers that stay** (momentum, eps) are attributes of the formula.
//!
//! f16 and bf16 parameters take their step in f32 with a state in f32, and are rounded once.

mod adam;
mod sgd;
mod state;

pub use adam::{Adam, AdamKind, AdamW};
pub use sgd::Sgd;
pub use state::{ParamState, States};

use crate::Module;
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_tensor::Gradients;

/// Changes a module's parameters by their gradients.
pub trait Optimizer<B: Backend> {
    /// One step: every parameter that is not frozen and has a gradient gets a new value.
    ///
    /// # Errors
    /// `InvalidArgument` if a setting is out of its range; `Autograd` if no parameter at all has a gradient here: those
    /// of the weights before the last step, say; `OutOfMemory` or what the device reports, after which some
    /// parameters may have made the step and others not.
    fn step(&mut self, module: &dyn Module<B>, gradients: &Gradients<B>) -> Result<()>;
    /// The learning rate.
    fn lr(&self) -> f64;
    /// Sets the learning rate of the steps to come.
    fn set_lr(&mut self, lr: f64);
}

/// `base` to a whole power, by squaring: the same bits on every machine, and a function of the step's number alone.
pub(crate) fn power(base: f64, mut exponent: u64) -> f64 {
    let (mut square, mut out) = (base, 1.0);
    while exponent > 0 {
        if exponent & 1 == 1 {
            out *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    out
}

/// That settings are in their ranges: (name, value, is it fine, what it should be).
fn check(op: &str, settings: &[(&str, f64, bool, &str)]) -> Result<()> {
    match settings.iter().find(|s| !s.2) {
        None => Ok(()),
        Some((name, value, _, range)) => {
            Err(Error::argument(format!("{op}: {name} is {value}, and should be {range}")))
        }
    }
}

/// What is allowed for a learning rate or a weight decay.
fn not_negative(v: f64) -> bool {
    v >= 0.0 && v.is_finite()
}

/// What is allowed for a decay rate.
fn below_one(v: f64) -> bool {
    (0.0..1.0).contains(&v)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_those_of_repeated_multiplication() {
        for (base, exponent, want) in
            [(0.9, 0, 1.0), (0.9, 1, 0.9), (2.0, 10, 1024.0), (0.5, 1074, 5e-324), (0.999, 1 << 40, 0.0)]
        {
            assert_eq!(power(base, exponent), want, "{base} to the power of {exponent}");
        }
        let slow = (0..1000).fold(1.0, |p, _| p * 0.999);
        assert!((power(0.999, 1000) / slow - 1.0f64).abs() < 1e-13);
    }
}
