//! `OneCycleLr`: up to a peak, then down far below the initial rate (Smith and Topin 2017).

use super::{Schedule, check, check_steps, cosine};
use elinvar_core::Result;

/// Interpolation between two learning rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anneal {
    /// Along a cosine.
    Cos,
    /// Linear.
    Linear,
}

/// One cycle; base_lr is its peak.
///
/// From base_lr / div_factor up to base_lr at step pct_start * total_steps - 1, then down to
/// base_lr / (div_factor * final_div_factor) at step total_steps - 1, where it stays. With three
/// phases, first down to the initial rate, at step 2 * pct_start * total_steps - 2. These steps may
/// be fractional.
#[derive(Clone, Copy, Debug)]
pub struct OneCycleLr {
    total_steps: u64,
    pct_start: f64,
    anneal: Anneal,
    div_factor: f64,
    final_div_factor: f64,
    three_phase: bool,
}

impl OneCycleLr {
    /// A cycle of this many steps with PyTorch's settings: 30% up, along cosines, from 1/25 of the
    /// peak to 1/250000.
    ///
    /// # Errors
    /// `InvalidArgument` if there are no steps.
    pub fn new(total_steps: u64) -> Result<Self> {
        check_steps("OneCycleLr", "total_steps", total_steps)?;
        Ok(OneCycleLr {
            total_steps,
            pct_start: 0.3,
            anneal: Anneal::Cos,
            div_factor: 25.0,
            final_div_factor: 1e4,
            three_phase: false,
        })
    }
    /// The fraction of steps in which the rate increases.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not in 0..=1.
    pub fn pct_start(mut self, pct_start: f64) -> Result<Self> {
        check("OneCycleLr", "pct_start", pct_start, (0.0..=1.0).contains(&pct_start), "in 0..=1")?;
        self.pct_start = pct_start;
        Ok(self)
    }
    /// The interpolation.
    #[must_use]
    pub fn anneal(mut self, anneal: Anneal) -> Self {
        self.anneal = anneal;
        self
    }
    /// The ratio of the peak to the initial rate, and of the initial to the final rate.
    ///
    /// # Errors
    /// `InvalidArgument` if one is not above 0.
    pub fn div_factors(mut self, div_factor: f64, final_div_factor: f64) -> Result<Self> {
        for (name, v) in [("div_factor", div_factor), ("final_div_factor", final_div_factor)] {
            check("OneCycleLr", name, v, v > 0.0 && v.is_finite(), "above 0")?;
        }
        (self.div_factor, self.final_div_factor) = (div_factor, final_div_factor);
        Ok(self)
    }
    /// Three phases: down to the initial rate as fast as up, before the rate decreases further.
    #[must_use]
    pub fn three_phase(mut self, three_phase: bool) -> Self {
        self.three_phase = three_phase;
        self
    }
}

impl Schedule for OneCycleLr {
    fn lr(&self, base_lr: f64, step: u64) -> f64 {
        let (first, last) = (base_lr / self.div_factor, base_lr / self.div_factor / self.final_div_factor);
        let peak = self.pct_start * self.total_steps as f64 - 1.0;
        let end = (self.total_steps - 1) as f64;
        let phases: &[(f64, f64, f64)] = if self.three_phase {
            &[(peak, first, base_lr), (2.0 * peak, base_lr, first), (end, first, last)]
        } else {
            &[(peak, first, base_lr), (end, base_lr, last)]
        };
        let step = step.min(self.total_steps - 1) as f64;
        let mut begin = 0.0;
        for &(until, from, to) in phases {
            if step <= until {
                // An empty phase is finished.
                let part = if until > begin { (step - begin) / (until - begin) } else { 1.0 };
                return match self.anneal {
                    Anneal::Cos => to + (from - to) * cosine(part),
                    Anneal::Linear => from + (to - from) * part,
                };
            }
            begin = until;
        }
        last
    }
}
