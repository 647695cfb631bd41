//! Schedules that multiply the learning rate by a factor: step, exponential, linear and polynomial
//! decay.

use super::{Schedule, check, check_factor, check_steps};
use crate::optim::power;
use elinvar_core::Result;
use elinvar_ops::lane::Lane;

/// base_lr * gamma^floor(step / step_size)
#[derive(Clone, Copy, Debug)]
pub struct StepLr {
    step_size: u64,
    gamma: f64,
}

impl StepLr {
    /// Multiplies by `gamma` every `step_size` steps.
    ///
    /// # Errors
    /// `InvalidArgument` if `step_size` is 0 or `gamma` negative.
    pub fn new(step_size: u64, gamma: f64) -> Result<Self> {
        check_steps("StepLr", "step_size", step_size)?;
        check_factor("StepLr", "gamma", gamma)?;
        Ok(StepLr { step_size, gamma })
    }
}

impl Schedule for StepLr {
    fn lr(&self, base_lr: f64, step: u64) -> f64 {
        base_lr * power(self.gamma, step / self.step_size)
    }
}

/// base_lr * gamma^(number of milestones reached)
#[derive(Clone, Debug)]
pub struct MultiStepLr {
    milestones: Vec<u64>,
    gamma: f64,
}

impl MultiStepLr {
    /// Multiplies by `gamma` at each milestone; a duplicate counts twice.
    ///
    /// # Errors
    /// `InvalidArgument` if `gamma` is negative.
    pub fn new(milestones: &[u64], gamma: f64) -> Result<Self> {
        check_factor("MultiStepLr", "gamma", gamma)?;
        Ok(MultiStepLr { milestones: milestones.to_vec(), gamma })
    }
}

impl Schedule for MultiStepLr {
    fn lr(&self, base_lr: f64, step: u64) -> f64 {
        let reached = self.milestones.iter().filter(|m| **m <= step).count();
        base_lr * power(self.gamma, reached as u64)
    }
}

/// base_lr * gamma^step
#[derive(Clone, Copy, Debug)]
pub struct ExponentialLr {
    gamma: f64,
}

impl ExponentialLr {
    /// Multiplies by `gamma` in every step.
    ///
    /// # Errors
    /// `InvalidArgument` if `gamma` is negative.
    pub fn new(gamma: f64) -> Result<Self> {
        check_factor("ExponentialLr", "gamma", gamma)?;
        Ok(ExponentialLr { gamma })
    }
}

impl Schedule for ExponentialLr {
    fn lr(&self, base_lr: f64, step: u64) -> f64 {
        base_lr * power(self.gamma, step)
    }
}

/// base_lr * factor for the first steps, then base_lr.
#[derive(Clone, Copy, Debug)]
pub struct ConstantLr {
    factor: f64,
    total_iters: u64,
}

impl ConstantLr {
    /// Multiplies by `factor` in the first `total_iters` steps.
    ///
    /// # Errors
    /// `InvalidArgument` if `factor` is negative.
    pub fn new(factor: f64, total_iters: u64) -> Result<Self> {
        check_factor("ConstantLr", "factor", factor)?;
        Ok(ConstantLr { factor, total_iters })
    }
}

impl Schedule for ConstantLr {
    fn lr(&self, base_lr: f64, step: u64) -> f64 {
        if step < self.total_iters { base_lr * self.factor } else { base_lr }
    }
}

/// base_lr times a factor that is interpolated linearly between two values, and constant after
/// that.
#[derive(Clone, Copy, Debug)]
pub struct LinearLr {
    start_factor: f64,
    end_factor: f64,
    total_iters: u64,
}

impl LinearLr {
    /// From `start_factor` in step 0 to `end_factor` in step `total_iters`.
    ///
    /// # Errors
    /// `InvalidArgument` if a factor is negative or `total_iters` is 0.
    pub fn new(start_factor: f64, end_factor: f64, total_iters: u64) -> Result<Self> {
        check_factor("LinearLr", "start_factor", start_factor)?;
        check_factor("LinearLr", "end_factor", end_factor)?;
        check_steps("LinearLr", "total_iters", total_iters)?;
        Ok(LinearLr { start_factor, end_factor, total_iters })
    }
}

impl Schedule for LinearLr {
    fn lr(&self, base_lr: f64, step: u64) -> f64 {
        if step >= self.total_iters {
            return base_lr * self.end_factor;
        }
        let part = step as f64 / self.total_iters as f64;
        base_lr * (self.start_factor + (self.end_factor - self.start_factor) * part)
    }
}

/// base_lr * (1 - step / total_iters)^power, and 0 after that.
#[derive(Clone, Copy, Debug)]
pub struct PolynomialLr {
    total_iters: u64,
    power: f64,
}

impl PolynomialLr {
    /// To 0 in step `total_iters`; a power of 1 is linear.
    ///
    /// # Errors
    /// `InvalidArgument` if `total_iters` is 0, or `power` is not above 0.
    pub fn new(total_iters: u64, power: f64) -> Result<Self> {
        check_steps("PolynomialLr", "total_iters", total_iters)?;
        check("PolynomialLr", "power", power, power > 0.0 && power.is_finite(), "above 0")?;
        Ok(PolynomialLr { total_iters, power })
    }
}

impl Schedule for PolynomialLr {
    fn lr(&self, base_lr: f64, step: u64) -> f64 {
        let left = self.total_iters.saturating_sub(step) as f64 / self.total_iters as f64;
        base_lr * if self.power == 1.0 { left } else { Lane::pow(left, self.power) }
    }
}
