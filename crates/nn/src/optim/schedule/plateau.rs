//! `ReduceLrOnPlateau`: reduces the learning rate when results no longer improve.

use super::check;
use elinvar_core::{Error, Result};
use serde_json::{Map, Value};

/// The direction of improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlateauMode {
    /// Smaller ones: a loss.
    Min,
    /// Larger ones: an accuracy.
    Max,
}

/// The mode of the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdMode {
    /// Relative to the best result: better is below best * (1 - threshold), or above best *
    /// (1 + threshold).
    Rel,
    /// Absolute: better is below best - threshold, or above best + threshold.
    Abs,
}

/// Multiplies the learning rate by a factor when more than `patience` consecutive results are not
/// better than the best.
#[derive(Clone, Debug)]
pub struct ReduceLrOnPlateau {
    mode: PlateauMode,
    factor: f64,
    patience: u64,
    threshold: f64,
    threshold_mode: ThresholdMode,
    cooldown: u64,
    min_lr: f64,
    eps: f64,
    state: PlateauState,
}

/// The state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlateauState {
    /// The best result.
    pub best: Option<f64>,
    /// Number of consecutive results that were not better.
    pub num_bad_epochs: u64,
    /// Number of next results that are ignored.
    pub cooldown_counter: u64,
}

impl PlateauState {
    /// By PyTorch's names.
    pub fn to_json(&self) -> Value {
        let mut all = Map::new();
        all.insert("best".to_owned(), self.best.into());
        all.insert("num_bad_epochs".to_owned(), self.num_bad_epochs.into());
        all.insert("cooldown_counter".to_owned(), self.cooldown_counter.into());
        Value::Object(all)
    }
    /// By PyTorch's names. A best result of null, which is JSON's form of infinity, is `None`.
    ///
    /// # Errors
    /// `Format` if a field is missing or has another type.
    pub fn from_json(v: &Value) -> Result<Self> {
        let wrong = |name: &str, what: &str| {
            Error::format(format!(
                "ReduceLrOnPlateau: {name} of the state is {}, and should be {what}",
                v[name]
            ))
        };
        let count = |name: &str| v[name].as_u64().ok_or_else(|| wrong(name, "a whole number"));
        let best = match v.get("best") {
            Some(Value::Null) => None,
            Some(best) => Some(best.as_f64().ok_or_else(|| wrong("best", "a number or null"))?),
            None => return Err(wrong("best", "a number or null")),
        };
        Ok(PlateauState {
            best,
            num_bad_epochs: count("num_bad_epochs")?,
            cooldown_counter: count("cooldown_counter")?,
        })
    }
}

impl ReduceLrOnPlateau {
    /// With PyTorch's settings: factor 0.1, patience 10, relative threshold 1e-4.
    pub fn new(mode: PlateauMode) -> Self {
        ReduceLrOnPlateau {
            mode,
            factor: 0.1,
            patience: 10,
            threshold: 1e-4,
            threshold_mode: ThresholdMode::Rel,
            cooldown: 0,
            min_lr: 0.0,
            eps: 1e-8,
            state: PlateauState::default(),
        }
    }
    /// The factor of the learning rate.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not in 0..1.
    pub fn factor(mut self, factor: f64) -> Result<Self> {
        check("ReduceLrOnPlateau", "factor", factor, (0.0..1.0).contains(&factor), "in 0..1")?;
        self.factor = factor;
        Ok(self)
    }
    /// The number of consecutive results without improvement that are tolerated.
    #[must_use]
    pub fn patience(mut self, patience: u64) -> Self {
        self.patience = patience;
        self
    }
    /// The threshold of improvement.
    #[must_use]
    pub fn threshold(mut self, threshold: f64, mode: ThresholdMode) -> Self {
        (self.threshold, self.threshold_mode) = (threshold, mode);
        self
    }
    /// Cooldown: the number of results that are ignored after a reduction.
    #[must_use]
    pub fn cooldown(mut self, cooldown: u64) -> Self {
        self.cooldown = cooldown;
        self
    }
    /// The lower bound of the learning rate.
    #[must_use]
    pub fn min_lr(mut self, min_lr: f64) -> Self {
        self.min_lr = min_lr;
        self
    }
    /// A reduction of the learning rate by no more than this is not applied.
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }

    fn is_better(&self, metric: f64) -> bool {
        let none = match self.mode {
            PlateauMode::Min => f64::INFINITY,
            PlateauMode::Max => f64::NEG_INFINITY,
        };
        let best = self.state.best.unwrap_or(none);
        match (self.mode, self.threshold_mode) {
            (PlateauMode::Min, ThresholdMode::Rel) => metric < best * (1.0 - self.threshold),
            (PlateauMode::Min, ThresholdMode::Abs) => metric < best - self.threshold,
            (PlateauMode::Max, ThresholdMode::Rel) => metric > best * (1.0 + self.threshold),
            (PlateauMode::Max, ThresholdMode::Abs) => metric > best + self.threshold,
        }
    }
    /// Adds a result; returns the learning rate after it, from the one before. NaN is never better.
    pub fn step(&mut self, metric: f64, lr: f64) -> f64 {
        if self.is_better(metric) {
            self.state.best = Some(metric);
            self.state.num_bad_epochs = 0;
        } else {
            self.state.num_bad_epochs += 1;
        }
        if self.state.cooldown_counter > 0 {
            self.state.cooldown_counter -= 1;
            self.state.num_bad_epochs = 0;
        }
        if self.state.num_bad_epochs <= self.patience {
            return lr;
        }
        self.state.cooldown_counter = self.cooldown;
        self.state.num_bad_epochs = 0;
        let lower = (lr * self.factor).max(self.min_lr);
        if lr - lower > self.eps { lower } else { lr }
    }
    /// The state.
    pub fn state(&self) -> PlateauState {
        self.state
    }
    /// Restores a state.
    pub fn set_state(&mut self, state: PlateauState) {
        self.state = state;
    }
}
