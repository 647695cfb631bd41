//! `Group`: a parameter group with its own settings.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Parameters that are trained with their own settings. A parameter belongs to the first group that
/// matches its name; settings that a group does not set are the optimiser's.
///
/// ```
/// # use elinvar_nn::optim::Group;
/// let no_decay = Group::matching(|name| name.ends_with("bias")).weight_decay(0.0);
/// let slow = Group::matching(|name| name.starts_with("encoder.")).lr_scale(0.1);
/// ```
#[derive(Clone)]
pub struct Group {
    matches: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    pub(super) rate: Rate,
    pub(super) settings: BTreeMap<String, Value>,
}

/// A group's learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rate {
    /// A factor of the optimiser's.
    Scaled(f64),
    /// Independent of the optimiser's.
    Fixed(f64),
}

impl Rate {
    pub(super) fn of(self, lr: f64) -> f64 {
        match self {
            Rate::Scaled(factor) => factor * lr,
            Rate::Fixed(lr) => lr,
        }
    }
}

impl Group {
    /// The parameters whose names match.
    pub fn matching(name: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Group { matches: Arc::new(name), rate: Rate::Scaled(1.0), settings: BTreeMap::new() }
    }
    /// A learning rate of this factor times the optimiser's: schedules apply to it too.
    #[must_use]
    pub fn lr_scale(mut self, factor: f64) -> Self {
        self.rate = Rate::Scaled(factor);
        self
    }
    /// This learning rate, independent of the optimiser's: schedules do not apply to it.
    #[must_use]
    pub fn lr(mut self, lr: f64) -> Self {
        self.rate = Rate::Fixed(lr);
        self
    }
    /// Weight decay.
    #[must_use]
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        self.set("weight_decay", weight_decay)
    }
    /// Another setting by its name in PyTorch: `eps`, `betas` (a list), `momentum`, ... A step of
    /// an optimiser that does not have the setting is an error.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.settings.insert(name.to_owned(), value.into());
        self
    }
    /// Does a parameter of this name match?
    pub fn has(&self, name: &str) -> bool {
        (self.matches)(name)
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("rate", &self.rate)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
