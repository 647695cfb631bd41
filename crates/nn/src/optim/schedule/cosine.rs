//! Schedules along a cosine: from base_lr down to eta_min.

use super::{Schedule, check_factor, check_steps, cosine};
use elinvar_core::Result;

/// eta_min + (base_lr - eta_min) * (1 + cos(pi * step / t_max)) / 2. After t_max it rises again, as
/// in PyTorch.
#[derive(Clone, Copy, Debug)]
pub struct CosineAnnealingLr {
    t_max: u64,
    eta_min: f64,
}

impl CosineAnnealingLr {
    /// Down to 0 in step `t_max`.
    ///
    /// # Errors
    /// `InvalidArgument` if `t_max` is 0.
    pub fn new(t_max: u64) -> Result<Self> {
        Self::with_min(t_max, 0.0)
    }
    /// Down to `eta_min` in step `t_max`.
    ///
    /// # Errors
    /// `InvalidArgument` if `t_max` is 0 or `eta_min` negative.
    pub fn with_min(t_max: u64, eta_min: f64) -> Result<Self> {
        check_steps("CosineAnnealingLr", "t_max", t_max)?;
        check_factor("CosineAnnealingLr", "eta_min", eta_min)?;
        Ok(CosineAnnealingLr { t_max, eta_min })
    }
}

impl Schedule for CosineAnnealingLr {
    fn lr(&self, base_lr: f64, step: u64) -> f64 {
        // The cosine has period 2 t_max; large steps are reduced exactly.
        let step = (u128::from(step) % (2 * u128::from(self.t_max))) as f64;
        self.eta_min + (base_lr - self.eta_min) * cosine(step / self.t_max as f64)
    }
}

/// As [`CosineAnnealingLr`] with warm restarts: each period begins at base_lr again.
#[derive(Clone, Copy, Debug)]
pub struct CosineAnnealingWarmRestarts {
    t_0: u64,
    t_mult: u64,
    eta_min: f64,
}

impl CosineAnnealingWarmRestarts {
    /// A first period of `t_0` steps; each further one is `t_mult` times as long.
    ///
    /// # Errors
    /// `InvalidArgument` if `t_0` or `t_mult` is 0, or `eta_min` negative.
    pub fn new(t_0: u64, t_mult: u64, eta_min: f64) -> Result<Self> {
        check_steps("CosineAnnealingWarmRestarts", "t_0", t_0)?;
        check_steps("CosineAnnealingWarmRestarts", "t_mult", t_mult)?;
        check_factor("CosineAnnealingWarmRestarts", "eta_min", eta_min)?;
        Ok(CosineAnnealingWarmRestarts { t_0, t_mult, eta_min })
    }
}

impl Schedule for CosineAnnealingWarmRestarts {
    fn lr(&self, base_lr: f64, step: u64) -> f64 {
        let (mut at, mut period) = (step, self.t_0);
        if self.t_mult == 1 {
            at %= period;
        } else {
            // Each period is at least twice as long as the one before: at most 64 iterations.
            while at >= period {
                at -= period;
                period = period.saturating_mul(self.t_mult);
            }
        }
        self.eta_min + (base_lr - self.eta_min) * cosine(at as f64 / period as f64)
    }
}
