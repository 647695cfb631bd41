//! The catalogue: every row, a file for each group.

mod attention;
mod conv;
mod elementwise;
mod gemm;
mod inference;
mod large;
mod models;
mod ops;
mod overhead;
mod reductions;
pub(crate) mod training;

use crate::harness::done;
use crate::row::{Row, Task};
use elinvar::ops::Backend;
use elinvar::{Backward, Result, Tensor};

/// All rows, in the order of the catalogue that all libraries share.
pub fn rows() -> Vec<Row> {
    [
        gemm::rows(),
        elementwise::rows(),
        reductions::rows(),
        conv::rows(),
        attention::rows(),
        training::rows(),
        inference::rows(),
        overhead::rows(),
        large::rows(),
        ops::rows(),
        models::rows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Work that gives one tensor.
fn forward<B: Backend>(work: impl Fn() -> Tensor<B>) -> impl FnMut() -> Result<()> {
    move || done(&work())
}

/// Work of f, then the gradients of its result by all the variables, with a gradient of ones.
fn both_ways<B: Backend>(
    f: impl Fn() -> Tensor<B> + 'static,
    variables: Vec<Tensor<B>>,
) -> impl FnMut() -> Result<()> {
    let ones = f().ones_like();
    move || {
        let y = f();
        let gradients = y.backward_with(&ones, Backward::default());
        done(&y)?;
        variables.iter().filter_map(|v| gradients.get(v)).try_for_each(done)
    }
}

/// Any work, for table rows of different closure types.
fn boxed(work: impl FnMut() -> Result<()> + 'static) -> Task {
    Box::new(work)
}
