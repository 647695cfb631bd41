//! flip: some axes reversed. A view.

use super::slice::{self, Run};
use crate::prelude::*;

/// `x` with the order of the elements along `dims` reversed. A view.
///
/// # Errors
/// `InvalidArgument` if there is no such axis or one is named twice.
pub fn flip<V: Value>(x: &V, dims: &[isize]) -> Result<V> {
    let axes = x.shape().axes("flip", dims)?;
    let one = |(i, &n): (usize, &usize)| match n {
        2.. if axes.contains(&i) => Run { start: n - 1, len: n, step: -1 },
        _ => Run::all(n),
    };
    let runs: Vec<Run> = x.shape().iter().enumerate().map(one).collect();
    slice::runs(x, &runs)
}

/// By name: operand x; attribute dims.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![flip(a.input("x")?, &a.dims("dims")?)?])
}
