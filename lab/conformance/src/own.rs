//! The project's own cases, of ops for which a golden directory has none, and of what it does not
//! have of others.
//!
//! Made by `tools/golden` from PyTorch in float64, in the format of the sample, and built into the
//! program as it is.

use crate::filter::Filter;
use crate::golden::{self, Case};
use elinvar_core::Result;
use std::collections::BTreeSet;

const INDEX: &[u8] = include_bytes!("../golden-own/index.json");
const TENSORS: &[u8] = include_bytes!("../golden-own/own.safetensors");

/// The tag of a case of what other collections do not have of an op: a mode, an operand.
const EXTENDS: &str = "extends";

/// Puts the cases with the tag `extends`, of those that the filter selects, behind the others of
/// their ops.
///
/// # Errors
/// `Format` if the archive was damaged when it was made.
pub fn extend(cases: &mut Vec<Case>, filter: &Filter) -> Result<()> {
    let all = golden::from_archive(INDEX, TENSORS, filter)?;
    golden::put_behind(cases, all.into_iter().filter(|c| c.tags.iter().any(|tag| tag == EXTENDS)));
    Ok(())
}

/// The cases that the filter selects, of all ops but `others`, which have cases from another
/// collection: so no op is judged by two collections, and no case runs twice.
///
/// # Errors
/// `Format` if the archive was damaged when it was made.
pub fn cases(filter: &Filter, others: &BTreeSet<String>) -> Result<Vec<Case>> {
    let mut cases = golden::from_archive(INDEX, TENSORS, filter)?;
    cases.retain(|c| !others.contains(&c.op));
    Ok(cases)
}
