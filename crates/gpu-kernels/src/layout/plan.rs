//! The plan of a copy: may it go through shared memory?

use crate::launch::Machine;
use elinvar_core::DType;

/// Elements along each of the two axes, at least, for which a workgroup's tile is mostly full.
pub(super) const MIN_TRANSPOSE_SIDE_ELEMENTS: usize = 32;

/// May a copy be a transpose in shared memory, if its view is of that kind
/// (`copy::transposing_copy`)? It takes a barrier, and converts nothing.
pub fn may_transpose(from: DType, to: DType, machine: &Machine<'_>) -> bool {
    from == to && !machine.is_software
}
