//! rfft: the discrete Fourier transform of real numbers along one axis.

use super::fourier::{Norm, lines};
use crate::prelude::*;

/// The first n / 2 + 1 elements of the transform of the real numbers `x` along axis `dim`, as pairs
/// (re, im) along a new last axis; the others are theirs conjugated.
///
/// `n`: the axis is cut, or filled with zeros, to this length. `norm`: the factor of the result.
/// Storage floats run in f32 and are rounded once. The same under `Precision::Fast`.
///
/// # Errors
/// `InvalidArgument` if there is no such axis or its length is 0; `ShapeMismatch` if x is a scalar;
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn rfft<V: Value>(x: &V, n: Option<usize>, dim: isize, norm: Norm) -> Result<V> {
    autocast!("rfft", x => rfft(x, n, dim, norm));
    lines::real("rfft", x, x.shape().axis("rfft", dim)?, n, norm)
}

/// By name: operand x; attributes n, dim (-1) and norm (backward).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dim = a.maybe("dim", Args::dim)?.unwrap_or(-1);
    Ok(vec![rfft(a.input("x")?, a.maybe("n", Args::size)?, dim, Norm::of(a)?)?])
}
