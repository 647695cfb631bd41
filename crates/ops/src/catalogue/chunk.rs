//! chunk: an axis divided into a number of parts of equal size. Views.

use super::split;
use crate::prelude::*;
use elinvar_core::host::filled;

/// `x` divided along `dim` into parts of ceil(n / chunks) elements; the last may be smaller, and
/// there may be fewer than `chunks`. An empty axis gives `chunks` empty parts. Views.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or `chunks` is 0.
pub fn chunk<V: Value>(x: &V, chunks: usize, dim: isize) -> Result<Vec<V>> {
    if chunks == 0 {
        return Err(Error::argument("chunk: 0 chunks; there must be one at least"));
    }
    let axis = x.shape().axis("chunk", dim)?;
    match x.shape().get(axis) {
        Some(0) => split::sizes(x, &filled(chunks, 0)?, dim),
        Some(&n) => split::sizes(x, &split::even("chunk", n, n.div_ceil(chunks))?, dim),
        None => Err(Error::argument("chunk: a scalar has no axis to cut")),
    }
}

/// By name: operand x; attributes chunks and dim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    chunk(a.input("x")?, a.size("chunks")?, a.dim("dim")?)
}
