//! lstsq: least squares.

use super::linalg::householder::Qr;
use super::linalg::triangular::solved;
use super::linalg::{self, batched, check, check_dtype, product, sizes, together, turned};
use super::{squeeze, square, sub, sum, unsqueeze, view};
use crate::prelude::*;

/// (solution, residuals): X of least |`x` X - `y`|, the least of them where there are several, for
/// matrices of full rank, by QR (LAPACK's gels); and, if m > n, the squares of these norms, else an
/// empty tensor. Matrices that lack rank give infinities, NaN, or numbers without meaning.
///
/// x: [.., m, n]   y: [.., m, k], or vectors: the shape of x without its last axis
/// solution: [.., n, k]   residuals: [.., k]
///
/// # Errors
/// `ShapeMismatch`; `DTypeMismatch` if operands are not both of f32 or of f64; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn lstsq<V: Value>(x: &V, y: &V) -> Result<(V, V)> {
    autocast!("lstsq", x, y => lstsq(x, y));
    check("lstsq", x)?;
    check_dtype("lstsq", y)?;
    linalg::check_pair("lstsq", x, y)?;
    let rank = x.shape().rank();
    if y.shape().rank() > 0 && y.shape()[..] == x.shape()[..rank - 1] {
        let (solution, residuals) = lstsq(x, &unsqueeze(y, -1)?)?;
        return Ok((squeeze(&solution, Some(&[-1]))?, residuals));
    }
    check("lstsq", y)?;
    let ((_, [m, n]), (_, [rows, k])) = (sizes(x), sizes(y));
    if m != rows {
        return Err(Error::shape(format!(
            "lstsq: matrices {} and right-hand sides {}; {m} and {rows} must be equal",
            x.shape(),
            y.shape()
        )));
    }
    let (a, b, lead) = together("lstsq", x, y)?;
    let nothing = a.shape().numel() == 0 || k == 0;
    let solution = if nothing {
        view::full(&b, &Shape::new(&[a.shape()[0], n, k])?, Scalar::Int(0))?
    } else if m >= n {
        let all = V::apply_many(Qr { complete: false }, &[&a])?;
        solved(&all[1], &product(&turned(&all[0])?, &b)?, true, false)?
    } else {
        let all = V::apply_many(Qr { complete: false }, &[&turned(&a)?])?;
        product(&all[0], &solved(&turned(&all[1])?, &b, false, false)?)?
    };
    let residuals = if m > n {
        sum(&square(&sub(&product(&a, &solution)?, &b)?)?, Some(&[1]), false)?
    } else {
        return Ok((batched(&solution, &lead)?, view::full(&b, &Shape::new(&[0])?, Scalar::Int(0))?));
    };
    Ok((batched(&solution, &lead)?, batched(&residuals, &lead)?))
}

/// By name: operands x and y; attributes rcond (it is not used) and driver (absent: gels; there is
/// no other).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    if let Some(driver) = a.maybe("driver", Args::str)?
        && driver != "gels"
    {
        return Err(Error::unsupported(format!("lstsq: driver {driver}; there is gels")));
    }
    let (solution, residuals) = lstsq(a.input("x")?, a.input("y")?)?;
    Ok(vec![solution, residuals])
}
