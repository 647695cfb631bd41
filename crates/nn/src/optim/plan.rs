//! `Plan`: the settings of a group of parameters, by name, as they are checked and saved.

use super::{Range, Rule, Setting, sorted};
use elinvar_core::{Error, Result};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The settings of a group of parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan<R> {
    pub lr: f64,
    pub weight_decay: f64,
    pub maximize: bool,
    pub rule: R,
}

/// PyTorch's settings that select an implementation, or that its schedules add.
const IGNORED: &[&str] = &[
    "params",
    "param_names",
    "initial_lr",
    "foreach",
    "fused",
    "capturable",
    "differentiable",
    "base_momentum",
    "max_momentum",
    "max_lr",
    "min_lr",
];

impl<R: Rule> Plan<R> {
    /// All settings.
    pub fn table(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        let mut all = vec![
            ("lr", Setting::Number(&mut self.lr, Range::NotNegative)),
            ("weight_decay", Setting::Number(&mut self.weight_decay, Range::NotNegative)),
            ("maximize", Setting::Flag(&mut self.maximize)),
        ];
        all.extend(self.rule.settings());
        all
    }
    pub fn check(mut self) -> Result<()> {
        let fault = self.table().iter().find_map(|(name, s)| s.fault(name)).or_else(|| self.rule.conflict());
        fault.map_or(Ok(()), |fault| Err(Error::argument(format!("{}: {fault}", R::NAME))))
    }
    pub fn set(&mut self, name: &str, to: &Value) -> Result<()> {
        let mut table = self.table();
        let known = table.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", ");
        let Some((_, setting)) = table.iter_mut().find(|(n, _)| *n == name) else {
            return Err(Error::argument(format!(
                "{}: there is no setting {name}; there are {known}",
                R::NAME
            )));
        };
        setting
            .set(to)
            .map_err(|what| Error::argument(format!("{}: {name} is {to}, and should be {what}", R::NAME)))
    }
    /// The settings by PyTorch's names.
    pub fn describe(mut self) -> Map<String, Value> {
        let mut all: Map<String, Value> =
            sorted(self.table().into_iter().map(|(name, s)| (name.to_owned(), s.get())));
        all.insert(DECOUPLED.to_owned(), self.rule.decoupled().into());
        all.insert(OPTIMIZER.to_owned(), R::NAME.into());
        all
    }
    /// Loads the settings of a saved group.
    pub fn take(&mut self, group: &Map<String, Value>) -> Result<()> {
        let own: BTreeSet<&str> = sorted(self.table().iter().map(|(n, _)| *n));
        for (name, value) in group {
            if own.contains(name.as_str()) {
                self.set(name, value)?;
            }
        }
        for (name, value) in group {
            let name = name.as_str();
            let is = match name {
                DECOUPLED => Value::from(self.rule.decoupled()),
                OPTIMIZER => Value::from(R::NAME),
                _ if own.contains(name) || IGNORED.contains(&name) || name == SCALE => continue,
                _ => {
                    return Err(Error::argument(format!(
                        "{}: the state has a setting {name}, which this optimiser has not",
                        R::NAME
                    )));
                }
            };
            if *value != is {
                return Err(Error::argument(format!(
                    "{}: the state was made with {name} {value}, and this optimiser has {is}",
                    R::NAME
                )));
            }
        }
        self.check()
    }
}

/// Key of a saved group: is weight decay decoupled?
const DECOUPLED: &str = "decoupled_weight_decay";
/// Key of a saved group: the optimiser's name.
const OPTIMIZER: &str = "optimizer";
/// Key of a saved group: the factor of the optimiser's learning rate.
pub(super) const SCALE: &str = "lr_scale";
