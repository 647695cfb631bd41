//! Reductions along axes: folds (sum, product, max, min), arg-folds, prefix scans, row-wise
//! formulas (softmax, norms), CTC.
//!
//! Rows are the last axes of a view, taken together in row-major order; their elements come through
//! [`source::StagedView`] in contiguous blocks, whatever the strides. Contiguous rows are reduced
//! one by one (`rowwise`, `block`); strided rows many at a time, one row per lane (`columns`).

mod arg_fold;
pub(crate) mod block;
mod columns;
pub(crate) mod combine;
mod ctc;
pub(crate) mod float;
mod fold;
mod kernels;
mod plan;
mod rowwise;
mod scan;
pub(crate) mod source;

pub(crate) use arg_fold::arg_fold;
pub(crate) use ctc::{lattice, lattice_grad};
pub(crate) use fold::{float_sum, max, min, prod, sum};
pub(crate) use plan::thresholds::INLINE_SUM_MAX_TERMS;
pub(crate) use rowwise::rowwise;
pub(crate) use rowwise::with_column_sums::rows_and_columns;
pub(crate) use scan::scan;

use elinvar_core::{DType, Error};

/// Work on floats that was asked for in another type.
pub(crate) fn not_float(what: &str, dtype: DType) -> Error {
    Error::dtype(format!("cpu: {what} is not defined for {dtype}; the op should have converted it first"))
}
