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

/// Puts the cases that the filter selects behind the others of their ops. A case that is there
/// already is not added.
///
/// # Errors
/// `Format` if the archive was damaged when it was made.
pub fn add(cases: &mut Vec<Case>, filter: &Filter) -> Result<()> {
    golden::put_behind(cases, golden::from_archive(INDEX, TENSORS, filter)?);
    Ok(())
}
