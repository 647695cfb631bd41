//! State dicts: saving and loading of a module.
//!
//! How it can be wrong: a load that fails half-way. So everything is checked and uploaded first;
//! after that only cells are written, which cannot fail.

use super::Leaves;
use crate::Reader;
use crate::param::same_kind;
use elinvar_core::{DType, Error, HostTensor, Result};
use elinvar_ops::Backend;
use elinvar_tensor::Tensor;
use std::collections::{BTreeMap, BTreeSet};

/// Parameters and buffers on the host, by name.
pub type StateDict = BTreeMap<String, HostTensor>;

/// Must the names of a state dict and of a module be the same?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strict {
    /// A missing or an unexpected name is an error.
    Yes,
    /// Missing names keep their values, unexpected ones are ignored; the report lists both.
    No,
}

/// The differences found by a load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Names of the module that the state dict lacks.
    pub missing: Vec<String>,
    /// Names of the state dict that the module lacks.
    pub unexpected: Vec<String>,
}

/// A parameter or a buffer by its name.
struct Slot<'a, B: Backend> {
    name: &'a str,
    value: Tensor<B>,
    /// Slots with the same value are handles on one parameter.
    identity: usize,
    set: Box<dyn Fn(&Tensor<B>) -> Result<()> + 'a>,
}

fn slots<'a, B: Backend>(leaves: &'a Leaves<'a, B>) -> Result<Vec<Slot<'a, B>>> {
    let params = leaves.params.iter().map(|(name, p)| Slot {
        name,
        value: p.get(),
        identity: p.identity(),
        set: Box::new(|v| p.set(v)),
    });
    let buffers = leaves.buffers.iter().map(|(name, b)| Slot {
        name,
        value: b.get(),
        identity: std::ptr::from_ref(*b).addr(),
        set: Box::new(|v| b.set(v)),
    });
    let all: Vec<Slot<'a, B>> = params.chain(buffers).collect();
    let mut names = BTreeSet::new();
    match all.iter().find(|s| !names.insert(s.name)) {
        None => Ok(all),
        Some(s) => Err(Error::argument(format!(
            "state_dict: two parts of the model are called \"{}\"; give one another name with #[module(rename = \"..\")]",
            s.name
        ))),
    }
}

pub(crate) fn save<B: Backend>(leaves: &Leaves<'_, B>, read: &mut Reader<'_, B>) -> Result<StateDict> {
    slots(leaves)?
        .iter()
        .map(|s| Ok((s.name.to_owned(), read(s.value.array()).map_err(|e| e.at(s.name))?)))
        .collect()
}

pub(super) fn load<B: Backend>(
    leaves: &Leaves<'_, B>,
    from: &StateDict,
    strict: Strict,
    cast: bool,
) -> Result<LoadReport> {
    const OP: &str = "load_state_dict";
    let slots = slots(leaves)?;
    let names: BTreeSet<&str> = slots.iter().map(|s| s.name).collect();
    let given: BTreeMap<usize, (&str, &HostTensor)> =
        slots.iter().filter_map(|s| Some((s.identity, (s.name, from.get(s.name)?)))).collect();
    let report = LoadReport {
        missing: slots
            .iter()
            .filter(|s| !given.contains_key(&s.identity))
            .map(|s| s.name.to_owned())
            .collect(),
        unexpected: from.keys().filter(|k| !names.contains(k.as_str())).cloned().collect(),
    };
    let mut ready = vec![];
    for s in &slots {
        let Some(new) = from.get(s.name) else { continue };
        let converts = cast && new.dtype().is_float() && s.value.dtype().is_float();
        let dtype = if converts { s.value.dtype() } else { new.dtype() };
        same_kind("part of the model", s.value.shape(), s.value.dtype(), new.shape(), dtype)
            .map_err(|e| e.at(s.name).at(OP))?;
        let (other_name, other) = given[&s.identity];
        if other_name != s.name {
            // Bytes are compared, because a weight may be NaN.
            if other.data().to_le_bytes() != new.data().to_le_bytes() {
                return Err(Error::argument(format!(
                    "{OP}: \"{}\" and \"{other_name}\" are one parameter of the model, and have different values",
                    s.name
                )));
            }
            continue;
        }
        ready.push((s, new));
    }
    if strict == Strict::Yes && !(report.missing.is_empty() && report.unexpected.is_empty()) {
        return Err(Error::argument(format!(
            "{OP}: {}; load with Strict::No to take what fits",
            sentence(&report)
        )));
    }
    let ready = ready
        .into_iter()
        .map(|(s, new)| {
            let upload = || {
                let new = Tensor::from_host(new.clone(), s.value.device())?;
                let same = new.dtype() == s.value.dtype();
                if same { Ok(new) } else { Ok(Tensor::from_array(new.array().cast(s.value.dtype())?)) }
            };
            Ok((s, upload().map_err(|e: Error| e.at(s.name).at(OP))?))
        })
        .collect::<Result<Vec<_>>>()?;
    ready.iter().try_for_each(|(s, new)| (s.set)(new))?;
    Ok(report)
}

/// The first few names, and the number of others: a wrong file lacks all of them.
fn sentence(report: &LoadReport) -> String {
    const SHOWN: usize = 8;
    let list = |names: &[String]| {
        let first = names.iter().take(SHOWN).map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(", ");
        match names.len().saturating_sub(SHOWN) {
            0 => first,
            more => format!("{first} and {more} more"),
        }
    };
    let missing =
        (!report.missing.is_empty()).then(|| format!("the state dict lacks {}", list(&report.missing)));
    let unexpected =
        (!report.unexpected.is_empty()).then(|| format!("the model has no {}", list(&report.unexpected)));
    missing.into_iter().chain(unexpected).collect::<Vec<_>>().join(", and ")
}

pub(super) fn to_device<B: Backend>(leaves: &Leaves<'_, B>, device: &B::Device) -> Result<()> {
    let slots = slots(leaves)?;
    let mut moved = BTreeMap::new();
    for s in &slots {
        if s.value.device() != device && !moved.contains_key(&s.identity) {
            moved.insert(
                s.identity,
                (s, s.value.copy_to::<B>(device).map_err(|e| e.at(s.name).at("to_device"))?),
            );
        }
    }
    moved.values().try_for_each(|(s, new)| (s.set)(new))
}

pub(super) fn to_dtype<B: Backend>(leaves: &Leaves<'_, B>, dtype: DType) -> Result<()> {
    if !dtype.is_float() {
        return Err(Error::dtype(format!(
            "to_dtype: weights of {dtype} could not be trained; ask for a float type"
        )));
    }
    leaves.params.iter().try_for_each(|(name, p)| p.convert(dtype).map_err(|e| e.at(name)))?;
    leaves.buffers.iter().try_for_each(|(name, b)| b.convert(dtype).map_err(|e| e.at(name)))
}
