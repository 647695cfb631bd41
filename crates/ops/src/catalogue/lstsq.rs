//! lstsq: least squares.

use super::linalg::householder::Qr;
use super::linalg::pseudo::{LeastSquares, Reciprocal};
use super::linalg::triangular::solved;
use super::linalg::{self, batched, check, check_dtype, product, sizes, together, turned};
use super::{gt, mul, narrow, squeeze, square, sub, sum, unsqueeze, view};
use crate::prelude::*;
use crate::value::cast;

/// How least squares are solved: LAPACK's drivers, by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Driver {
    /// By QR, for matrices of full rank; others give infinities, NaN, or numbers without meaning.
    Gels,
    /// By singular values, for matrices of any rank, without giving them or residuals.
    #[default]
    Gelsy,
    /// By singular values, for matrices of any rank.
    Gelsd,
    /// The same.
    Gelss,
}

impl Driver {
    /// The driver of this name.
    fn parse(name: &str) -> Option<Self> {
        match name {
            "gels" => Some(Driver::Gels),
            "gelsy" => Some(Driver::Gelsy),
            "gelsd" => Some(Driver::Gelsd),
            "gelss" => Some(Driver::Gelss),
            _ => None,
        }
    }
}

/// (solution, residuals, rank, singular values): X of least |`x` X - `y`|, the least of them where
/// there are several. All but [`Driver::Gels`] count as rank (i64) the singular values above
/// `rcond` times the largest, and the others for 0; without `rcond` it is the larger size times the
/// distance from 1 to the next number. Residuals are the squares of the norms, if m > n; what a
/// driver does not give is empty, \[0\]. Only the solution and the residuals have gradients.
///
/// x: [.., m, n]   y: [.., m, k], or vectors: the shape of x without its last axis
/// solution: [.., n, k]   residuals: [.., k]   rank: [..]   singular values: [.., min(m, n)]
///
/// # Errors
/// `ShapeMismatch`; `DTypeMismatch` if operands are not both of f32 or of f64; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn lstsq<V: Value>(x: &V, y: &V, rcond: Option<f64>, driver: Driver) -> Result<(V, V, V, V)> {
    autocast!("lstsq", x, y => lstsq(x, y, rcond, driver));
    check("lstsq", x)?;
    check_dtype("lstsq", y)?;
    linalg::check_pair("lstsq", x, y)?;
    let rank = x.shape().rank();
    if y.shape().rank() > 0 && y.shape()[..] == x.shape()[..rank - 1] {
        let (solution, residuals, rank, s) = lstsq(x, &unsqueeze(y, -1)?, rcond, driver)?;
        return Ok((squeeze(&solution, Some(&[-1]))?, residuals, rank, s));
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
    let by_values = driver != Driver::Gels;
    let none = |dtype| Array::full(x.device(), &Shape::new(&[0])?, Scalar::Int(0), dtype).map(V::from_array);
    let (mut rank, mut values) = (none(DType::I64)?, none(x.dtype())?);
    let solution = if by_values && !nothing {
        let eps = if x.dtype() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
        let rtol = rcond.unwrap_or(m.max(n) as f64 * eps);
        let all = V::apply_many(LeastSquares { bound: Reciprocal { atol: 0.0, rtol } }, &[&a, &b])?;
        let s = all[1].detached();
        let bound = mul(&narrow(&s, 1, 0, 1)?, &s.scalar_like(rtol)?)?;
        rank = batched(&sum(&cast(&gt(&s, &bound)?, DType::I64)?, Some(&[1]), false)?, &lead)?;
        if driver != Driver::Gelsy {
            values = batched(&s, &lead)?;
        }
        all[0].clone()
    } else if nothing {
        if by_values {
            rank = V::from_array(Array::full(x.device(), &Shape::new(&lead)?, Scalar::Int(0), DType::I64)?);
        }
        if matches!(driver, Driver::Gelsd | Driver::Gelss) {
            values = view::full(&b, &linalg::shape(&lead, &[m.min(n)])?, Scalar::Int(0))?;
        }
        view::full(&b, &Shape::new(&[a.shape()[0], n, k])?, Scalar::Int(0))?
    } else if m >= n {
        let all = V::apply_many(Qr { complete: false }, &[&a])?;
        solved(&all[1], &product(&turned(&all[0])?, &b)?, true, false)?
    } else {
        let all = V::apply_many(Qr { complete: false }, &[&turned(&a)?])?;
        product(&all[0], &solved(&turned(&all[1])?, &b, false, false)?)?
    };
    let residuals = if m > n && driver != Driver::Gelsy {
        batched(&sum(&square(&sub(&product(&a, &solution)?, &b)?)?, Some(&[1]), false)?, &lead)?
    } else {
        none(x.dtype())?
    };
    Ok((batched(&solution, &lead)?, residuals, rank, values))
}

/// By name: operands x and y; attributes rcond and driver (absent: gelsy).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let driver = match a.maybe("driver", Args::str)? {
        None => Driver::default(),
        Some(name) => Driver::parse(name).ok_or_else(|| {
            Error::argument(format!("lstsq: driver {name}; there are gels, gelsy, gelsd and gelss"))
        })?,
    };
    let rcond = a.maybe("rcond", Args::f64)?;
    let (solution, residuals, rank, values) = lstsq(a.input("x")?, a.input("y")?, rcond, driver)?;
    Ok(vec![solution, residuals, rank, values])
}
