//! kron: the Kronecker product: every element of x replaced by its product with y.

use super::{mul, reshape};
use crate::prelude::*;

/// y[i0 * n0 + j0, i1 * n1 + j1, ..] = x[i0, i1, ..] * y[j0, j1, ..], where y has shape
/// [n0, n1, ..]; the operand with fewer axes gets axes of size 1 in front.
///
/// # Errors
/// `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn kron<V: Value>(x: &V, y: &V) -> Result<V> {
    let rank = x.shape().rank().max(y.shape().rank());
    let sizes = |v: &V| -> Dims {
        std::iter::repeat_n(1, rank - v.shape().rank()).chain(v.shape().iter().copied()).collect()
    };
    let (a, b) = (sizes(x), sizes(y));
    // Axes of x and y in turn, each of size 1 in the other.
    let x = reshape::to_shape(x, &Shape::new(&a.iter().flat_map(|&n| [n, 1]).collect::<Dims>())?)?;
    let y = reshape::to_shape(y, &Shape::new(&b.iter().flat_map(|&n| [1, n]).collect::<Dims>())?)?;
    let product = mul(&x, &y).map_err(|e| e.at("kron"))?;
    reshape::to_shape(&product, &Shape::new(&a.iter().zip(&b).map(|(m, n)| m * n).collect::<Dims>())?)
}

/// By name: operands x and y.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![kron(a.input("x")?, a.input("y")?)?])
}
