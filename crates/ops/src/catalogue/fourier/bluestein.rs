//! Transforms of lengths with a large prime factor, as convolutions (Bluestein, "A linear filtering
//! approach to the computation of discrete Fourier transform", 1970).
//!
//! With j k = (j^2 + k^2 - (k - j)^2) / 2, `X[k] = c[k] sum over j of (x[j] c[j]) b[k - j]`, where
//! `c[j] = exp(-pi i j^2 / n)` and b is its conjugate: a convolution, by transforms of a length m
//! of at least 2 n - 1. The transform of b is a table.

use super::complex::{constant, forward, swapped, twiddled};
use super::tables::Table;
use crate::catalogue::narrow;
use crate::catalogue::pad::{Mode, pad};
use crate::prelude::*;

/// The forward transform, [rows, n, 2] to [rows, n, 2], by transforms of length `m`.
pub(super) fn convolved<B: Backend>(x: &Array<B>, m: usize) -> Result<Array<B>> {
    let n = x.shape()[1];
    let cos = constant(x, Table::ChirpCos { n }, &[n, 1])?;
    let sin = constant(x, Table::ChirpSin { n }, &[n, 2])?;
    let a = pad(&twiddled(x, 2, &cos, &sin)?, &[0, 0, 0, (m - n) as isize], Mode::Constant(Scalar::Int(0)))?;
    let re = constant(x, Table::SpectrumRe { n, m }, &[m, 1])?;
    let cross = constant(x, Table::SpectrumCross { n, m }, &[m, 2])?;
    let ab = twiddled(&forward(&a)?, 2, &re, &cross)?;
    let y = swapped(&forward(&swapped(&ab)?)?)?;
    twiddled(&narrow(&y, 1, 0, n)?, 2, &cos, &sin)
}
