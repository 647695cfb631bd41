//! Cases of conventions at the edges of ops, which other collections lack: sums of short integers,
//! bounds in the other order, axes that are not there.
//!
//! Made of the OpInfo samples of PyTorch in float64, in the format of the sample, and built into
//! the program as they are.

use crate::filter::Filter;
use crate::golden::{self, Case};
use elinvar_core::Result;

const INDEX: &[u8] = include_bytes!("../golden-edges/index.json");
const TENSORS: &[u8] = include_bytes!("../golden-edges/edges.safetensors");

/// Puts the cases that the filter selects behind the others of their ops, which stay consecutive.
/// A case that is there already is not added.
///
/// # Errors
/// `Format` if the archive was damaged when it was made.
pub fn add(cases: &mut Vec<Case>, filter: &Filter) -> Result<()> {
    for case in golden::from_archive(INDEX, TENSORS, filter)? {
        if cases.iter().all(|c| c.id != case.id) {
            let last = cases.iter().rposition(|c| c.op == case.op);
            cases.insert(last.map_or(cases.len(), |i| i + 1), case);
        }
    }
    Ok(())
}
