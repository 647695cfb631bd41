//! bmm: one matrix product for each batch.

use super::matmul::Matmul;
use crate::prelude::*;

/// x[b, m, k] * y[b, k, n] for each b. (`matmul` also takes vectors, and broadcasts batches.)
///
/// # Errors
/// `ShapeMismatch` if the ranks are not 3, or the batches or the inner sizes differ;
/// `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn bmm<V: Value>(x: &V, y: &V) -> Result<V> {
    autocast!("bmm", x, y => bmm(x, y));
    check("bmm", x.shape(), y.shape())?;
    V::apply(Matmul::with(x), &[x, y]).map_err(|e| e.at("bmm"))
}

/// Checks that two shapes are batches of matrices, and the same number of them.
///
/// # Errors
/// `ShapeMismatch`.
pub(super) fn check(op: &str, x: &Shape, y: &Shape) -> Result<()> {
    if x.rank() == 3 && y.rank() == 3 && x[0] == y[0] {
        return Ok(());
    }
    Err(Error::shape(format!("{op}: operands of shapes {x} and {y}; they must be [b, m, k] and [b, k, n]")))
}

/// By name: operands x and y.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![bmm(a.input("x")?, a.input("y")?)?])
}
