//! take: elements of a tensor by their row-major positions.

use super::{flatten, reshape, take_along_dim};
use crate::prelude::*;

/// The elements of `x`, flattened, at the positions in `index`, which may count from the end; in
/// the shape of `index`.
///
/// # Errors
/// `InvalidArgument` if a position does not exist; `DTypeMismatch` if the index is not of integers;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn take<V: Value>(x: &V, index: &V) -> Result<V> {
    let y = take_along_dim(&flatten::all(x)?, &flatten::all(index)?, Some(0)).map_err(|e| e.at("take"))?;
    reshape::to_shape(&y, index.shape())
}

/// By name: operands x and index.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![take(a.input("x")?, a.input("index")?)?])
}
