//! Learning rate schedules.
//!
//! A schedule is a function of the step number alone, so a run that resumes from a checkpoint needs
//! only that number. Steps count from 0, and may be epochs instead. [`ReduceLrOnPlateau`] depends
//! on results instead, and has a state.
//!
//! ```
//! use elinvar_nn::optim::schedule::{CosineAnnealingLr, Schedule, Warmup};
//!
//! # fn main() -> elinvar_core::Result<()> {
//! let schedule = Warmup::new(100, CosineAnnealingLr::new(900)?);
//! assert_eq!(schedule.lr(0.1, 100), 0.1);
//! assert!(schedule.lr(0.1, 1000) < 1e-12);
//! // In a training loop: optimizer.set_lr(schedule.lr(base_lr, step));
//! # Ok(())
//! # }
//! ```
//!
//! Everything is computed in f64 with the project's own cosine and powers: the same bits on every
//! machine.

mod combine;
mod cosine;
mod decay;
mod one_cycle;
mod plateau;

pub use combine::{LambdaLr, SequentialLr, Warmup};
pub use cosine::{CosineAnnealingLr, CosineAnnealingWarmRestarts};
pub use decay::{ConstantLr, ExponentialLr, LinearLr, MultiStepLr, PolynomialLr, StepLr};
pub use one_cycle::{Anneal, OneCycleLr};
pub use plateau::{PlateauMode, PlateauState, ReduceLrOnPlateau, ThresholdMode};

use elinvar_core::{Error, Result};
use elinvar_ops::lane::Lane;

/// A learning rate schedule.
pub trait Schedule {
    /// The learning rate of a step (counted from 0), for the base learning rate `base_lr`.
    fn lr(&self, base_lr: f64, step: u64) -> f64;
}

impl<S: Schedule + ?Sized> Schedule for Box<S> {
    fn lr(&self, base_lr: f64, step: u64) -> f64 {
        (**self).lr(base_lr, step)
    }
}

/// (1 + cos(pi * part)) / 2: from 1 at 0 to 0 at 1.
fn cosine(part: f64) -> f64 {
    (1.0 + Lane::cos(std::f64::consts::PI * part)) / 2.0
}

/// Checks a setting.
fn check(op: &str, name: &str, value: impl std::fmt::Display, is_fine: bool, should: &str) -> Result<()> {
    if is_fine {
        Ok(())
    } else {
        Err(Error::argument(format!("{op}: {name} is {value}, and should be {should}")))
    }
}

/// Checks that a factor is not negative or NaN.
fn check_factor(op: &str, name: &str, v: f64) -> Result<()> {
    check(op, name, v, v >= 0.0 && v.is_finite(), "0 or more")
}

/// Checks that a number of steps is not 0.
fn check_steps(op: &str, name: &str, n: u64) -> Result<()> {
    check(op, name, n, n > 0, "1 or more")
}
