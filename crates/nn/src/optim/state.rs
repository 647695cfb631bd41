//! `OptimizerState`: the state of an optimiser on the host, by PyTorch's names.
//!
//! PyTorch numbers the parameters in the order in which they were given to the optimiser, group by
//! group, where elinvar uses names. [`OptimizerState::numbered`] and [`OptimizerState::named`]
//! convert between both.

use crate::{Module, StateDict};
use elinvar_core::{Error, HostTensor, Result};
use elinvar_ops::Backend;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The state of an optimiser on the host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OptimizerState {
    /// By the parameter's name (or number), then by PyTorch's key: `step`, `exp_avg`,
    /// `momentum_buffer`, ...
    pub state: BTreeMap<String, BTreeMap<String, HostTensor>>,
    /// The settings by PyTorch's names, with the names (or numbers) of the `params`. First the
    /// group of the parameters that are in no other, then the others in the order of creation.
    /// Empty if the settings are not part of the state.
    pub param_groups: Vec<Map<String, Value>>,
}

/// Tensors of a state are called `state.NAME.KEY` in a file.
const PREFIX: &str = "state.";

impl OptimizerState {
    /// The flat form for a file of tensors: `state.NAME.exp_avg`, ...; and the groups as JSON, for
    /// the file's metadata.
    pub fn to_tensors(&self) -> (StateDict, String) {
        let mut tensors = StateDict::new();
        for (name, keys) in &self.state {
            for (key, t) in keys {
                tensors.insert(format!("{PREFIX}{name}.{key}"), t.clone());
            }
        }
        let groups = self.param_groups.iter().cloned().map(Value::Object).collect::<Value>();
        (tensors, groups.to_string())
    }
    /// From the flat form; without groups, loading does not change settings.
    ///
    /// # Errors
    /// `Format` if a tensor has another kind of name, or the groups are not JSON of this form.
    pub fn from_tensors(tensors: &StateDict, groups: Option<&str>) -> Result<Self> {
        let mut state: BTreeMap<String, BTreeMap<String, HostTensor>> = BTreeMap::new();
        for (full, t) in tensors {
            // Keys have no dots, names of parameters may. The name of a bare parameter is empty.
            let (name, key) = full
                .strip_prefix(PREFIX)
                .and_then(|rest| rest.rsplit_once('.'))
                .filter(|(_, key)| !key.is_empty())
                .ok_or_else(|| {
                    Error::format(format!(
                        "optimizer state: a tensor is called \"{full}\", and should be called {PREFIX}NAME.KEY"
                    ))
                })?;
            state.entry(name.to_owned()).or_default().insert(key.to_owned(), t.clone());
        }
        let param_groups = match groups {
            None => vec![],
            Some(text) => serde_json::from_str(text).map_err(|e| {
                Error::format(format!("optimizer state: param_groups is not a JSON list of objects: {e}"))
            })?,
        };
        Ok(OptimizerState { state, param_groups })
    }
    /// Parameters by their positions in `names`, as in PyTorch. See [`names_of`].
    ///
    /// # Errors
    /// `InvalidArgument` if the state is of a parameter that is not in the list.
    pub fn numbered(&self, names: &[String]) -> Result<Self> {
        let places: BTreeMap<&str, usize> = names.iter().enumerate().map(|(i, n)| (n.as_str(), i)).collect();
        self.renamed(
            &|name| places.get(name).map(usize::to_string),
            &|id| id.as_str().and_then(|name| places.get(name)).map(|i| Value::from(*i)),
            "not in the list of names",
        )
    }
    /// Parameters by their names, from a state in which they are numbered: `names` are those of the
    /// parameters in the order in which they were given to the optimiser. See [`names_of`].
    ///
    /// # Errors
    /// `InvalidArgument` if the state has a number beyond the list.
    pub fn named(&self, names: &[String]) -> Result<Self> {
        let at = |i: Option<usize>| i.and_then(|i| names.get(i));
        self.renamed(
            &|id| at(id.parse().ok()).cloned(),
            &|id| at(id.as_u64().and_then(|i| usize::try_from(i).ok())).map(|n| Value::from(n.as_str())),
            &format!("not the number of one of the {} parameters", names.len()),
        )
    }
    fn renamed(
        &self,
        name: &dyn Fn(&str) -> Option<String>,
        param: &dyn Fn(&Value) -> Option<Value>,
        fault: &str,
    ) -> Result<Self> {
        let wrong = |id: &dyn std::fmt::Display| Error::argument(format!("optimizer state: {id} is {fault}"));
        let mut new = OptimizerState::default();
        for (id, keys) in &self.state {
            new.state.insert(name(id).ok_or_else(|| wrong(&format!("\"{id}\"")))?, keys.clone());
        }
        for group in &self.param_groups {
            let mut group = group.clone();
            if let Some(Value::Array(params)) = group.get_mut("params") {
                for p in params {
                    *p = param(p).ok_or_else(|| wrong(p))?;
                }
            }
            new.param_groups.push(group);
        }
        Ok(new)
    }
    /// The states of several workers as one. Each has those of some parameters, in the order of the
    /// workers, and all have the same groups.
    pub(crate) fn merged(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut parts = parts.into_iter();
        let mut all = parts.next().unwrap_or_default();
        for part in parts {
            all.state.extend(part.state);
            for (group, more) in all.param_groups.iter_mut().zip(part.param_groups) {
                if let (Some(Value::Array(to)), Some(Value::Array(from))) =
                    (group.get_mut("params"), more.get("params"))
                {
                    to.extend(from.iter().cloned());
                }
            }
        }
        all
    }
    /// The part of these parameters, with these groups.
    pub(crate) fn part(&self, names: &BTreeSet<&str>, groups: std::ops::Range<usize>) -> Self {
        let of = |(name, keys): (&String, &BTreeMap<String, HostTensor>)| {
            names.contains(name.as_str()).then(|| (name.clone(), keys.clone()))
        };
        OptimizerState {
            state: self.state.iter().filter_map(of).collect(),
            param_groups: self.param_groups.get(groups).unwrap_or_default().to_vec(),
        }
    }
}

/// The names of a module's parameters in their order: that of `model.parameters()` in PyTorch, if
/// the model is the same.
pub fn names_of<B: Backend>(module: &dyn Module<B>) -> Vec<String> {
    module.named_parameters().into_iter().map(|(name, _)| name).collect()
}
