//! How rows lie side by side, as plain data: made by the plan, read by the kernels.

use crate::reduce::source::Axis;
use elinvar_core::Dims;

/// How the rows of some operands of one shape lie.
#[derive(Clone)]
pub(in crate::reduce) struct RowGrid {
    pub(in crate::reduce) shape: Dims,
    /// Axes of the shape that are rows, and of these the first of those that are columns.
    pub(in crate::reduce) kept: usize,
    pub(in crate::reduce) from: usize,
    /// What is before the columns.
    pub(in crate::reduce) matrices: usize,
    pub(in crate::reduce) columns: usize,
    /// Elements of a row.
    pub(in crate::reduce) n: usize,
    /// Do columns lie side by side? Or else rows.
    pub(in crate::reduce) upright: bool,
}

/// Rows that go side by side, and how each operand is read, without its elements.
pub(in crate::reduce) struct ColumnLayout {
    pub(in crate::reduce) grid: RowGrid,
    pub(in crate::reduce) operands: Vec<OperandAxes>,
}

/// The axes of an operand.
#[derive(Clone)]
pub(in crate::reduce) struct OperandAxes {
    pub(in crate::reduce) outer: Vec<Axis>,
    /// From a row to the next.
    pub(in crate::reduce) step: isize,
    pub(in crate::reduce) inner: Vec<Axis>,
}
