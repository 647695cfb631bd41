//! The plan of elementwise fusion: how many maps a kernel takes, and which maps of few elements are
//! computed again wherever they are read. The one home of thresholds; no bit depends on them.

use super::map::MapChoice;
use crate::formula::Compute;
use crate::launch::Machine;

/// Maps in one kernel, at most: their results are held in registers.
pub const MAX_FUSED_MAPS: usize = 16;
/// As how many a formula counts that is not light, where kernels should be short: one in a kernel,
/// with the few light ones around it.
const HEAVY_MAPS: usize = 12;
/// Operands of one kernel, at most.
const MAX_OPERANDS: usize = 8;
/// Buffers of a kernel that are no operands, at least: a result, and numbers that are too many for
/// parameters.
const OTHER_BUFFERS: usize = 2;
/// Elements of a map that others compute where they read it, at most, and of those others: beyond,
/// a heavy formula takes longer than a launch.
const MAX_BROADCAST_ELEMENTS: usize = 1 << 12;
const MAX_READER_ELEMENTS: usize = 1 << 21;

/// As how many of [`MAX_FUSED_MAPS`] a map counts.
pub fn weight(machine: &Machine<'_>, is_light: bool) -> usize {
    if machine.needs_short_kernels && !is_light { HEAVY_MAPS } else { 1 }
}

/// Operands of one kernel, at most. WebGPU promises 8 buffers.
pub fn max_operands(machine: &Machine<'_>) -> usize {
    MAX_OPERANDS.min((machine.buffers as usize).saturating_sub(OTHER_BUFFERS))
}

/// Do operands and results fit into one kernel?
pub fn fits(machine: &Machine<'_>, operands: usize, results: usize) -> bool {
    // Numbers are the other of the two.
    operands + results + OTHER_BUFFERS - 1 <= machine.buffers as usize
}

/// Are few elements computed by what reads them? Not where a launch is a call, and every
/// instruction counts.
pub fn recomputes_broadcasts(machine: &Machine<'_>) -> bool {
    !machine.is_software && !machine.needs_short_kernels
}

/// Is a map of `few` elements worth to be computed again for each of `many`?
pub fn is_worth_recomputing(few: usize, many: usize) -> bool {
    many > few && few <= MAX_BROADCAST_ELEMENTS && many <= MAX_READER_ELEMENTS
}

/// The kernel of fused maps that compute in a type; `is_light`: all of them are.
pub fn kernel(machine: &Machine<'_>, compute: Compute, is_light: bool) -> MapChoice {
    // Elementary functions of f64 are hundreds of operations. On the processor a vector is as many
    // times the code, for which its compiler takes more than as many times as long.
    let is_long = machine.is_software && compute == Compute::F64 && !is_light;
    let all = MapChoice::default();
    if machine.needs_short_kernels || is_long { MapChoice { most: 1, ..all } } else { all }
}
