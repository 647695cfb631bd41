//! Transforms of lengths with a large prime factor, as convolutions (Bluestein, "A linear filtering
//! approach to the computation of discrete Fourier transform", 1970).
//!
//! With j k = (j^2 + k^2 - (k - j)^2) / 2, `X[k] = c[k] sum over j of (x[j] c[j]) b[k - j]`, where
//! `c[j] = exp(-pi i j^2 / n)` and b is its conjugate: a convolution, by transforms of a smooth
//! length m of at least 2 n - 1.

use super::Direction;
use super::complex::{constant, pairs, twiddled};
use super::tables::Table;
use crate::catalogue::pad::{Mode, pad};
use crate::catalogue::{flip, fma, mul, narrow};
use crate::prelude::*;

/// [rows, n, 2] to [rows, n, 2], by transforms of length `m`.
pub(super) fn convolved<B: Backend>(
    x: &Array<B>,
    m: usize,
    direction: Direction,
    scale: f64,
) -> Result<Array<B>> {
    let n = x.shape()[1];
    let cos = constant(x, Table::ChirpCos { n }, &[n, 1])?;
    let sin = constant(x, Table::ChirpSin { n, direction }, &[n, 2])?;
    let a = pad(&twiddled(x, 2, &cos, &sin)?, &[0, 0, 0, (m - n) as isize], Mode::Constant(Scalar::Int(0)))?;
    let b = constant(x, Table::Chirp { n, m, direction: direction.opposite() }, &[1, m, 2])?;
    let (a, b) = (pairs(&a, Direction::Forward, 1.0)?, pairs(&b, Direction::Forward, 1.0)?);
    // (re + i im)(re' + i im') = re (re', im') + im (-im', re')
    let part = |v: &Array<B>, k| narrow(v, 2, k, 1);
    let signs = Array::from_f64s(x.device(), vec![-1.0, 1.0], &[2], x.dtype())?;
    let crossed = mul(&flip(&b, &[2])?, &signs)?;
    let ab = fma(&part(&a, 1)?, &crossed, &mul(&part(&a, 0)?, &b)?)?;
    let y = pairs(&ab, Direction::Inverse, scale / m as f64)?;
    twiddled(&narrow(&y, 1, 0, n)?, 2, &cos, &sin)
}
