//! Discrete Fourier transforms: what `fft`, `ifft`, `rfft`, `irfft` and their
//! forms over several axes share.
//!
//! There is no complex dtype: complex numbers are pairs (re, im) along a last axis of two
//! (ADR 29). The arithmetic, which all backends share, is that of
//! [`Fused::Fourier`]: a level for each prime factor of the length
//! (Cooley and Tukey 1965), of twos as sums and differences, of other primes as a product with a
//! matrix of cosines and sines; lengths with a larger prime factor are convolutions (Bluestein
//! 1970). A backend that has no such kernel runs it as maps and products.

mod bluestein;
pub(super) mod complex;
pub(super) mod lines;
pub mod plan;
pub(super) mod real;
pub mod tables;
pub mod windows;

use crate::backend::{FourierKind, Fused};
use crate::prelude::*;
use elinvar_core::host;

/// By which number results are multiplied: PyTorch's `norm`. n is the transform's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Norm {
    /// 1 for forward transforms, 1/n for inverse ones.
    #[default]
    Backward,
    /// 1/n for forward transforms, 1 for inverse ones.
    Forward,
    /// 1/sqrt(n) for both.
    Ortho,
}

impl Norm {
    /// The factor of a transform of length n.
    pub(super) fn factor(self, direction: Direction, n: usize) -> f64 {
        match (self, direction) {
            (Norm::Ortho, _) => 1.0 / (n as f64).sqrt(),
            (Norm::Backward, Direction::Forward) | (Norm::Forward, Direction::Inverse) => 1.0,
            (Norm::Backward, Direction::Inverse) | (Norm::Forward, Direction::Forward) => 1.0 / n as f64,
        }
    }

    /// The attribute norm: backward (also if missing), forward or ortho.
    pub(super) fn of<V: Value>(a: &Args<V>) -> Result<Norm> {
        match a.maybe("norm", Args::str)? {
            None | Some("backward") => Ok(Norm::Backward),
            Some("forward") => Ok(Norm::Forward),
            Some("ortho") => Ok(Norm::Ortho),
            Some(other) => {
                Err(Error::argument(format!("{}: norm {other}; there are backward, forward and ortho", a.op)))
            }
        }
    }
}

/// The sign of the exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// exp(-2 pi i j k / n)
    Forward,
    /// exp(+2 pi i j k / n)
    Inverse,
}

impl Direction {
    /// The other one.
    pub fn opposite(self) -> Direction {
        match self {
            Direction::Forward => Direction::Inverse,
            Direction::Inverse => Direction::Forward,
        }
    }
}

/// Its operand must be of floats.
pub(super) fn check_float<V: Value>(op: &str, x: &V) -> Result<()> {
    if x.dtype().is_float() {
        return Ok(());
    }
    Err(Error::dtype(format!("{op}: not defined for {}; convert with to_dtype to a float type", x.dtype())))
}

/// Its operand must have pairs along its last axis, and an axis before them.
pub(super) fn check_pairs<V: Value>(op: &str, x: &V) -> Result<()> {
    check_float(op, x)?;
    match x.shape()[..] {
        [.., _, 2] => Ok(()),
        _ => Err(Error::shape(format!(
            "{op}: operand {} is not [.., n, 2]; complex numbers are pairs (re, im) along the last axis",
            x.shape()
        ))),
    }
}

/// The transform of [before, after, ..] as one work of the backend, if it has such, or composed, of
/// [before * after, ..].
pub(super) fn fused<B: Backend>(
    x: &Array<B>,
    kind: FourierKind,
    n: usize,
    scale: f64,
    composed: impl FnOnce(&Array<B>) -> Result<Array<B>>,
) -> Result<Array<B>> {
    let [before, after] = [x.shape()[0], x.shape()[1]];
    let shape = match kind {
        FourierKind::Complex(_) => Shape::new(&[before, after, n, 2])?,
        FourierKind::Real => Shape::new(&[before, after, n / 2 + 1, 2])?,
        FourierKind::InverseReal => Shape::new(&[before, after, n])?,
    };
    if shape.numel() == 0 {
        // Of no rows, n may be any number: there are no tables to make.
        return Array::full(x.device(), &shape, Scalar::Float(0.0), x.dtype());
    }
    // Tables of as many numbers are made before there is a result. Of a view, n is no size of
    // memory.
    drop(host::with_capacity::<[f64; 2]>(n)?);
    let work = Fused::Fourier { kind, n, scale };
    if let Some(all) = B::fused(x.device(), &work, &[x.view()])? {
        let y = all.into_iter().next().expect("a transform has one result");
        return Ok(Array::placed(x.device(), y, shape, x.dtype()));
    }
    let mut rows: Dims = x.shape()[1..].iter().copied().collect();
    rows[0] = before * after;
    complex::shaped(&composed(&complex::shaped(x, &rows)?)?, &shape)
}
