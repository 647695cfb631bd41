//! Schedules made of others, and of functions.

use super::{Schedule, check};
use elinvar_core::Result;

/// base_lr times a function of the step.
#[derive(Clone, Copy, Debug)]
pub struct LambdaLr<F>(pub F);

impl<F: Fn(u64) -> f64> Schedule for LambdaLr<F> {
    fn lr(&self, base_lr: f64, step: u64) -> f64 {
        base_lr * (self.0)(step)
    }
}

/// Linear warmup, then another schedule from its step 0.
///
/// Step t of n is base_lr * (t + 1) / (n + 1), where base_lr is the other schedule's rate at its
/// step 0: no step has a rate of 0, and none has the full rate before the other schedule begins.
#[derive(Clone, Copy, Debug)]
pub struct Warmup<S> {
    steps: u64,
    then: S,
}

impl<S: Schedule> Warmup<S> {
    /// `steps` steps up, then `then`.
    pub fn new(steps: u64, then: S) -> Self {
        Warmup { steps, then }
    }
}

impl<S: Schedule> Schedule for Warmup<S> {
    fn lr(&self, base_lr: f64, step: u64) -> f64 {
        if step >= self.steps {
            return self.then.lr(base_lr, step - self.steps);
        }
        self.then.lr(base_lr, 0) * ((step as f64 + 1.0) / (self.steps as f64 + 1.0))
    }
}

/// Schedules one after the other, each from its step 0.
pub struct SequentialLr {
    first: Box<dyn Schedule + Send + Sync>,
    /// Each with its first step.
    then: Vec<(u64, Box<dyn Schedule + Send + Sync>)>,
}

impl SequentialLr {
    /// This schedule from step 0.
    pub fn new(first: impl Schedule + Send + Sync + 'static) -> Self {
        SequentialLr { first: Box::new(first), then: vec![] }
    }
    /// Another one from this step on.
    ///
    /// # Errors
    /// `InvalidArgument` if the schedule before begins there or later.
    pub fn then(mut self, milestone: u64, schedule: impl Schedule + Send + Sync + 'static) -> Result<Self> {
        let last = self.then.last().map_or(0, |(m, _)| *m);
        let should = format!("above {last}, where the schedule before it begins");
        check("SequentialLr", "a milestone", milestone, milestone > last, &should)?;
        self.then.push((milestone, Box::new(schedule)));
        Ok(self)
    }
}

impl Schedule for SequentialLr {
    fn lr(&self, base_lr: f64, step: u64) -> f64 {
        match self.then.iter().rev().find(|(milestone, _)| *milestone <= step) {
            Some((milestone, s)) => s.lr(base_lr, step - milestone),
            None => self.first.lr(base_lr, step),
        }
    }
}

impl std::fmt::Debug for SequentialLr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let milestones: Vec<u64> = self.then.iter().map(|(m, _)| *m).collect();
        f.debug_struct("SequentialLr").field("milestones", &milestones).finish_non_exhaustive()
    }
}
