//! Saved states of an optimiser, checked and uploaded.

use super::descent::Descent;
use super::group::Rate;
use super::kept::Kept;
use super::plan::SCALE;
use super::{Named, Rule, sorted};
use elinvar_core::{Error, HostTensor, Result, Shape};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_tensor::Tensor;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

impl<B: Backend, R: Rule> Descent<B, R> {
    /// Loads the settings of saved groups, if there are any.
    pub(super) fn take_groups(
        &mut self,
        parameters: &Named<'_, B>,
        saved: &[Map<String, Value>],
    ) -> Result<()> {
        let Some(first) = saved.first() else { return Ok(()) };
        if saved.len() != self.groups.len() + 1 {
            return Err(Error::argument(format!(
                "the state has {} parameter groups, and the optimiser {}, counting that of the parameters in no group",
                saved.len(),
                self.groups.len() + 1
            )));
        }
        let names: BTreeSet<&str> = sorted(parameters.iter().map(|(n, _)| n.as_str()));
        for (i, group) in saved.iter().enumerate() {
            for name in group.get("params").and_then(Value::as_array).into_iter().flatten() {
                let name = name.as_str().ok_or_else(|| {
                    Error::argument(format!("group {i} has a parameter {name}; give it a name with named()"))
                })?;
                if !names.contains(name) {
                    return Err(unknown(name));
                }
                let is = self.group_of(name);
                if is != i {
                    return Err(Error::argument(format!(
                        "\"{name}\" is in group {i} of the state, and in group {is} of the optimiser"
                    )));
                }
            }
        }
        self.plan.take(first).map_err(|e| e.at("group 0"))?;
        let base = self.plan.lr;
        for (i, (group, saved)) in self.groups.iter_mut().zip(&saved[1..]).enumerate() {
            let mut plan = self.plan;
            plan.take(saved).map_err(|e| e.at(format!("group {}", i + 1)))?;
            let scale = match saved.get(SCALE) {
                None => None,
                Some(v) => Some(v.as_f64().ok_or_else(|| {
                    Error::argument(format!("group {}: {SCALE} is {v}, and should be a number", i + 1))
                })?),
            };
            group.rate = match (scale, group.rate) {
                (Some(factor), _) => Rate::Scaled(factor),
                // PyTorch's groups have only absolute learning rates, which its schedules scale
                // together.
                (None, Rate::Scaled(_)) if base > 0.0 => Rate::Scaled(plan.lr / base),
                (None, _) => Rate::Fixed(plan.lr),
            };
            let table = plan.table().into_iter().filter(|(n, _)| *n != "lr");
            group.settings = sorted(table.map(|(n, s)| (n.to_owned(), s.get())));
        }
        Ok(())
    }
}

/// The key of the number of steps.
pub(super) const STEP: &str = "step";

/// The number of steps as a tensor: f32 as in PyTorch, or f64 if f32 cannot represent it.
pub(super) fn count(step: u64) -> Result<HostTensor> {
    let narrow = step as f32;
    if narrow as u64 == step {
        HostTensor::from_vec(vec![narrow], Shape::scalar())
    } else {
        HostTensor::from_vec(vec![step as f64], Shape::scalar())
    }
}

pub(super) fn unknown(name: &str) -> Error {
    Error::argument(format!("the state is of a parameter \"{name}\", which the module has not"))
}

/// Uploads the state of a parameter.
pub(super) fn restore<B: Backend, R: Rule>(
    rule: &R,
    value: &Tensor<B>,
    keys: &BTreeMap<String, HostTensor>,
) -> Result<Kept<B>> {
    let wide = value.dtype().compute();
    let (keeps, numbers) = (rule.keeps_for(value.shape()), rule.numbers());
    let number = |key: &str| match keys.get(key) {
        None => Ok(None),
        Some(t) if t.shape().numel() == 1 => Ok(Some(t.to_f64_vec()[0])),
        Some(t) => Err(Error::shape(format!("{key} has shape {}, and should be one number", t.shape()))),
    };
    let known = |key: &str| key == STEP || keeps.iter().chain(numbers).any(|(k, _)| *k == key);
    if let Some(key) = keys.keys().find(|k| !known(k)) {
        return Err(Error::argument(format!("the state has {key}, which the optimiser does not keep")));
    }
    let missing = |key: &str| Error::argument(format!("the state lacks {key}"));
    let step = match number(STEP)? {
        // 2^53: f64 represents every integer up to there.
        Some(v) if v.fract() == 0.0 && (0.0..=9007199254740992.0).contains(&v) => v as u64,
        Some(v) => return Err(Error::argument(format!("step is {v}, and should be a number of steps"))),
        None if R::COUNTS => return Err(missing(STEP)),
        None => 1,
    };
    let mut kept = Kept { step, ..Kept::default() };
    for (key, _) in numbers {
        kept.numbers.insert(key, number(key)?.ok_or_else(|| missing(key))?);
    }
    for (key, _) in &keeps {
        let t = keys.get(*key).ok_or_else(|| missing(key))?;
        // PyTorch's states have the dtype of the parameter.
        let shape = rule.state_shape(key, value.shape())?;
        if *t.shape() != shape || (t.dtype() != wide && t.dtype() != value.dtype()) {
            return Err(Error::new(
                if *t.shape() != shape {
                    elinvar_core::ErrorKind::ShapeMismatch
                } else {
                    elinvar_core::ErrorKind::DTypeMismatch
                },
                format!("{key} is {} {}, and should be {wide} {shape}", t.dtype(), t.shape()),
            ));
        }
        kept.tensors.insert(key, Array::from_host(value.device(), t.clone())?.cast(wide)?);
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_core::DType;

    #[test]
    fn steps_are_counted_exactly_in_a_file() {
        for (step, dtype) in [(0, DType::F32), (1 << 24, DType::F32), ((1 << 24) + 1, DType::F64)] {
            let t = count(step).unwrap();
            assert_eq!((t.to_f64_vec()[0], t.dtype()), (step as f64, dtype));
        }
    }
}
