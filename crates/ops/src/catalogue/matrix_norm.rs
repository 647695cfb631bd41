//! matrix_norm: norms of matrices.

use super::linalg::check_floats;
use super::{abs, amax, amin, movedim, norm, reshape, sum, svdvals};
use crate::prelude::*;

/// Which norm of a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MatrixOrd {
    /// The root of the sum of squares.
    Fro,
    /// The sum of the singular values.
    Nuc,
    /// 1 and -1: the largest and smallest sum of magnitudes of a column; inf and -inf: of a row; 2
    /// and -2: the largest and smallest singular value.
    Number(f64),
}

impl MatrixOrd {
    /// The attribute ord (absent: fro): fro, nuc, or a number.
    fn of<V: Value>(a: &Args<V>) -> Result<MatrixOrd> {
        match a.attrs.get("ord") {
            None => Ok(MatrixOrd::Fro),
            Some(Attr::Str(s)) if s == "fro" => Ok(MatrixOrd::Fro),
            Some(Attr::Str(s)) if s == "nuc" => Ok(MatrixOrd::Nuc),
            Some(_) => Ok(MatrixOrd::Number(a.f64("ord")?)),
        }
    }
}

/// The norm `ord` of the matrices in axes `dim` (rows, columns) of `x`. Storage floats run in f32
/// and are rounded once.
///
/// # Errors
/// `InvalidArgument` if there are no such axes, they are one, there is no such norm, or it is that
/// of the largest or smallest of nothing; `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn matrix_norm<V: Value>(x: &V, ord: MatrixOrd, dim: [isize; 2], keepdim: bool) -> Result<V> {
    check_floats("matrix_norm", x)?;
    let axes = x.shape().axes("matrix_norm", &dim)?;
    let last = movedim(x, &[axes[0] as isize, axes[1] as isize], &[-2, -1])?;
    let y = widen([&last], |[last]| of_last(last, ord))?;
    if keepdim { reshape::to_shape(&y, &x.shape().without(&axes, true)) } else { Ok(y) }
}

/// The norms of the matrices in the last two axes.
fn of_last<V: Value>(x: &V, ord: MatrixOrd) -> Result<V> {
    let along = |axis: isize| sum(&abs(x)?, Some(&[axis]), true);
    let both = Some(&[-2, -1][..]);
    match ord {
        MatrixOrd::Fro => norm(x, 2.0, both, false),
        MatrixOrd::Nuc => sum(&svdvals::run("matrix_norm", x)?, Some(&[-1]), false),
        MatrixOrd::Number(p) if p.abs() == 2.0 => {
            let s = svdvals::run("matrix_norm", x)?;
            if p > 0.0 { amax(&s, Some(&[-1]), false) } else { amin(&s, Some(&[-1]), false) }
        }
        MatrixOrd::Number(p) if p.abs() == 1.0 || p.is_infinite() => {
            let sums = along(if p.is_infinite() { -1 } else { -2 })?;
            if p > 0.0 { amax(&sums, both, false) } else { amin(&sums, both, false) }
        }
        MatrixOrd::Number(p) => Err(Error::argument(format!(
            "matrix_norm: ord {p}; there are fro, nuc, 1, -1, 2, -2, inf and -inf"
        ))),
    }
}

/// By name: operand x; attributes ord (absent: fro), dim (absent: the last two axes), keepdim
/// (absent: false) and dtype.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dim = match a.maybe("dim", Args::dims)?.as_deref() {
        None => [-2, -1],
        Some(&[rows, columns]) => [rows, columns],
        Some(other) => return Err(Error::argument(format!("matrix_norm: axes {other:?}; there must be two"))),
    };
    let keepdim = super::linalg::flag(a, "keepdim", false)?;
    Ok(vec![matrix_norm(&a.converted()?, MatrixOrd::of(a)?, dim, keepdim)?])
}
