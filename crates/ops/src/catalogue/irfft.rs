//! irfft: the inverse of rfft, from half a spectrum to real numbers.

use super::fourier::{Norm, lines};
use crate::prelude::*;

/// The real numbers whose transform along axis `dim` begins with the complex numbers `x`
/// [.., n / 2 + 1, 2], pairs (re, im) along the last axis, which `dim` does not count.
///
/// `n`: the length of the result, by default 2 (m - 1) for m elements; x is cut, or filled with
/// zeros, to n / 2 + 1. The imaginary parts of the first element, and of the last one if n is even,
/// are not read. Storage floats run in f32 and are rounded once. The same under `Precision::Fast`.
///
/// # Errors
/// `ShapeMismatch` if the last axis does not hold pairs; `InvalidArgument` if there is no such axis
/// or the length is 0; `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn irfft<V: Value>(x: &V, n: Option<usize>, dim: isize, norm: Norm) -> Result<V> {
    autocast!("irfft", x => irfft(x, n, dim, norm));
    let axis = lines::without_pairs("irfft", x.shape())?.axis("irfft", dim)?;
    lines::inverse_real("irfft", x, axis, n, norm)
}

/// By name: operand x; attributes n, dim (-1) and norm (backward).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dim = a.maybe("dim", Args::dim)?.unwrap_or(-1);
    Ok(vec![irfft(a.input("x")?, a.maybe("n", Args::size)?, dim, Norm::of(a)?)?])
}
