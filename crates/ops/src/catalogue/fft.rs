//! fft: the discrete Fourier transform along one axis. Complex numbers are pairs.

use super::fourier::{Direction, Norm, lines};
use crate::prelude::*;

/// `X[k] = sum over j of x[j] exp(-2 pi i j k / n)`, along axis `dim` of the complex numbers
/// `x` [.., n, 2], whose last axis holds pairs (re, im) and is not counted by `dim`.
///
/// `n`: the axis is cut, or filled with zeros, to this length. `norm`: the factor of the result.
/// Storage floats run in f32 and are rounded once. The same under `Precision::Fast`.
///
/// # Errors
/// `ShapeMismatch` if the last axis does not hold pairs; `InvalidArgument` if there is no such axis
/// or its length is 0; `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn fft<V: Value>(x: &V, n: Option<usize>, dim: isize, norm: Norm) -> Result<V> {
    autocast!("fft", x => fft(x, n, dim, norm));
    let axis = lines::without_pairs("fft", x.shape())?.axis("fft", dim)?;
    lines::complex("fft", x, axis, n, norm, Direction::Forward)
}

/// By name: operand x; attributes n, dim (-1) and norm (backward).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dim = a.maybe("dim", Args::dim)?.unwrap_or(-1);
    Ok(vec![fft(a.input("x")?, a.maybe("n", Args::size)?, dim, Norm::of(a)?)?])
}
