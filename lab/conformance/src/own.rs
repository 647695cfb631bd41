//! The project's own cases, of ops for which a golden directory has none.
//!
//! Made by `tools/golden` from PyTorch in float64, in the format of the sample, and built into the
//! program as it is.

use crate::filter::Filter;
use crate::golden::{self, Case};
use elinvar_core::Result;
use std::collections::BTreeSet;

const INDEX: &[u8] = include_bytes!("../golden-own/index.json");
const TENSORS: &[u8] = include_bytes!("../golden-own/own.safetensors");

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
