//! Plans of reductions: does a workgroup take whole rows, or the blocks of one? The one home of
//! their thresholds; no bit depends on them, as blocks are joints of the order.
//!
//! Rows that fill a device are not cut: another launch, which joins blocks, waits for the first.
//! How many rows that is follows the compute units (`launch/occupancy.rs`). The numbers were
//! measured on an H100; that other devices need as many for each unit is a guess, which measurement
//! on a small GPU would settle.

use crate::launch::{Machine, Plan, RegisterBudget};
use elinvar_core::order;
use std::fmt;

/// Rows for each compute unit from which a fold is not cut: workgroups of 128 invocations, of which
/// a unit holds more, but four keep its loads going.
const FOLD_ROWS_PER_UNIT: u32 = 4;
/// The same of an arg-fold, which has fewer loads under way: an element waits for the comparison
/// before it.
const ARG_FOLD_ROWS_PER_UNIT: u32 = 8;
/// The same of a scan. Cut, it reads and writes all elements twice, so it is cut only where units
/// would have no row at all.
const SCAN_ROWS_PER_UNIT: u32 = 1;
/// The same of row-wise ops, whose kernels keep more under way than a fold's.
const ROWWISE_ROWS_PER_UNIT: u32 = 2;
/// Long rows for each compute unit up to which they stay in registers. More take turns: while one's
/// elements come, another's are folded, and several are on a unit.
const REGISTER_ROWS_PER_UNIT: u32 = 2;
/// Compute units for each row from which so few rows are cut even where a workgroup folds blocks in
/// parallel: a row for each fourth unit keeps memory busy.
const UNITS_PER_PARALLEL_ROW: usize = 4;
/// Blocks that a workgroup folds in parallel: of as many invocations as leave room for another
/// workgroup on the unit.
pub(super) const PARALLEL_BLOCKS: u32 = 4;
/// Rounds of blocks up to which reading a row takes as long as another two launches that wait for
/// each other.
const MAX_PARALLEL_ROUNDS: usize = 2;
/// Elements of a piece of a long row of an arg-fold: 32 for each of 128 invocations.
pub(super) const PIECE_ELEMENTS: usize = 4096;
/// Pieces of a row, at most, that are not worth another launch.
const MAX_WHOLE_PIECES: usize = 2;
/// Blocks of a row of a scan, at most, that are not worth two more launches.
const MAX_WHOLE_SCAN_BLOCKS: usize = 8;

/// Which workgroups a row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReducePath {
    /// A workgroup has one row or several, whole: one launch.
    WholeRows,
    /// A workgroup for each block of a row, and launches that join blocks.
    MultiBlock,
}

/// Which workgroups a row of a row-wise op has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowwisePath {
    /// A workgroup has one row or several, whole.
    WholeRows {
        /// May the elements of a row stay in registers, where there is room for them?
        in_registers: bool,
    },
    /// A workgroup for each block of a row; a launch for each statistic, and one for the results.
    MultiBlock,
}

impl fmt::Display for ReducePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReducePath::WholeRows => "whole rows",
            ReducePath::MultiBlock => "multi-block",
        })
    }
}

impl fmt::Display for RowwisePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RowwisePath::WholeRows { in_registers: true } => "whole rows, may stay in registers",
            RowwisePath::WholeRows { in_registers: false } => "whole rows, read again",
            RowwisePath::MultiBlock => "multi-block",
        })
    }
}

const FULL: &str = "rows fill the device";
const SHORT: &str = "rows are too short to be cut";
const PARALLEL: &str = "a workgroup folds the blocks of a row in parallel";
const FEW: &str = "few long rows: their blocks fill the device";

/// The plan of a fold of rows of `n` elements.
pub fn fold(rows: usize, n: usize, machine: &Machine<'_>) -> Plan<ReducePath> {
    of_blocks(rows, n, FOLD_ROWS_PER_UNIT, machine)
}

/// The plan of an arg-fold.
pub fn arg_fold(rows: usize, n: usize, machine: &Machine<'_>) -> Plan<ReducePath> {
    if rows >= machine.units().filled_by(ARG_FOLD_ROWS_PER_UNIT) {
        Plan::new(ReducePath::WholeRows, FULL)
    } else if n <= MAX_WHOLE_PIECES * PIECE_ELEMENTS {
        Plan::new(ReducePath::WholeRows, SHORT)
    } else {
        Plan::new(ReducePath::MultiBlock, FEW)
    }
}

/// The plan of a scan.
pub fn scan(rows: usize, n: usize, machine: &Machine<'_>) -> Plan<ReducePath> {
    if rows >= machine.units().filled_by(SCAN_ROWS_PER_UNIT) {
        Plan::new(ReducePath::WholeRows, FULL)
    } else if n.div_ceil(order::SCAN_BLOCK) <= MAX_WHOLE_SCAN_BLOCKS {
        Plan::new(ReducePath::WholeRows, SHORT)
    } else {
        Plan::new(ReducePath::MultiBlock, FEW)
    }
}

/// The plan of a row-wise op.
pub fn rowwise(rows: usize, n: usize, machine: &Machine<'_>) -> Plan<RowwisePath> {
    let Plan { path, why } = of_blocks(rows, n, ROWWISE_ROWS_PER_UNIT, machine);
    let few = rows <= machine.units().filled_by(REGISTER_ROWS_PER_UNIT);
    let path = match path {
        ReducePath::MultiBlock => RowwisePath::MultiBlock,
        ReducePath::WholeRows => RowwisePath::WholeRows { in_registers: n <= 2 * order::BLOCK || few },
    };
    Plan { path, why }
}

fn of_blocks(rows: usize, n: usize, rows_per_unit: u32, machine: &Machine<'_>) -> Plan<ReducePath> {
    let units = machine.units();
    let in_parallel = machine.registers == RegisterBudget::Many
        && rows >= (units.filled_by(1) / UNITS_PER_PARALLEL_ROW).max(1)
        && n <= MAX_PARALLEL_ROUNDS * PARALLEL_BLOCKS as usize * order::BLOCK;
    if rows >= units.filled_by(rows_per_unit) {
        Plan::new(ReducePath::WholeRows, FULL)
    } else if n <= 2 * order::BLOCK {
        Plan::new(ReducePath::WholeRows, SHORT)
    } else if in_parallel {
        Plan::new(ReducePath::WholeRows, PARALLEL)
    } else {
        Plan::new(ReducePath::MultiBlock, FEW)
    }
}
