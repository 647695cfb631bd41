//! tile: NumPy's tile: as repeat, but missing entries are 1.

use super::repeat;
use crate::prelude::*;

/// `dims[i]` copies of `x` along axis `i`; if there are fewer entries than axes, the first axes are
/// not repeated.
///
/// # Errors
/// `OutOfMemory`.
pub fn tile<V: Value>(x: &V, dims: &[usize]) -> Result<V> {
    let missing = x.shape().rank().saturating_sub(dims.len());
    let all: Dims = std::iter::repeat_n(1, missing).chain(dims.iter().copied()).collect();
    repeat(x, &all).map_err(|e| e.at("tile"))
}

/// By name: operand x; attribute dims.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![tile(a.input("x")?, &a.sizes("dims")?)?])
}
