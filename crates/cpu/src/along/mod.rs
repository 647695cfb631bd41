//! Work along axes: folds, scans, row-wise formulas, sorting.
//!
//! Rows are the last axes of a view, taken together in row-major order; their elements come through
//! [`stage::Stage`] in contiguous blocks, whatever the strides.

mod abreast;
mod arg_fold;
mod columns;
mod digits;
pub(crate) mod float;
mod fold;
mod held;
pub(crate) mod lanes;
mod lattice;
mod merge;
mod network;
mod rows;
mod scan;
mod sort;
pub(crate) mod stage;
mod task;
mod terms;

pub(crate) use arg_fold::arg_fold;
pub(crate) use columns::rows_and_columns;
pub(crate) use fold::{float_sum, max, min, prod, sum};
pub(crate) use lattice::{lattice, lattice_grad};
pub(crate) use rows::rows;
pub(crate) use scan::scan;
pub(crate) use sort::sort;

use elinvar_core::{DType, Error};

/// Work on floats that was asked for in another type.
pub(crate) fn not_float(what: &str, dtype: DType) -> Error {
    Error::dtype(format!("cpu: {what} is not defined for {dtype}; the op should have converted it first"))
}
