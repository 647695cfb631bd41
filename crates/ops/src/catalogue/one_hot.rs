//! one_hot: class numbers as rows with a single 1.

use super::gather::as_index;
use super::{scatter, unsqueeze, view};
use crate::prelude::*;

/// For every class number in `x` a row of `num_classes` zeros with a 1 at that index: i64
/// [x.., num_classes].
///
/// # Errors
/// `InvalidArgument` if a number is not in `0..num_classes`; `DTypeMismatch` if x is not of
/// integers; `OutOfMemory`.
pub fn one_hot<V: Value>(x: &V, num_classes: usize) -> Result<V> {
    let at = unsqueeze(&as_index("one_hot", x)?, -1)?;
    let mut dims = Dims::from_slice(x.shape());
    dims.push(num_classes);
    let zeros = view::zeros(&at, &Shape::new(&dims)?)?;
    scatter::value(&zeros, -1, &at, Scalar::Int(1)).map_err(|e| e.at("one_hot"))
}

/// The number of classes, one more than the largest element of `x`; synchronises with the device.
///
/// # Errors
/// `InvalidArgument` if x is empty; `DTypeMismatch` if it is not of integers.
pub fn classes<V: Value>(x: &V) -> Result<usize> {
    let most =
        super::amax(&as_index("one_hot", x)?, None, false).map_err(|e| e.at("one_hot"))?.array().to_host()?;
    Ok(usize::try_from(most.as_slice::<i64>()?[0]).map_or(0, |n| n.saturating_add(1)))
}

/// By name: operand x; attribute num_classes (-1: one more than the largest number).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let x = a.input("x")?;
    let n = if a.int("num_classes")? == -1 { classes(x)? } else { a.size("num_classes")? };
    Ok(vec![one_hot(x, n)?])
}
