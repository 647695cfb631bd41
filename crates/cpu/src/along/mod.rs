//! Work along axes: folds, scans, row-wise formulas, sorting.
//!
//! Rows are the last axes of a view, taken together in row-major order; their elements come through
//! [`stage::Stage`] in contiguous blocks, whatever the strides.

mod columns;
mod fold;
mod lanes;
mod stage;

pub(crate) use fold::fold;
