//! lu_solve: the solution of a system of which the LU factors are known.

use super::linalg::lu::ordered;
use super::linalg::triangular::solved;
use super::linalg::{self, batched, check, check_dtype, check_square, exchanges, sizes, together, turned};
use super::{argsort, expand, reshape, sub, view};
use crate::prelude::*;
use crate::value::cast;

/// X of A X = `y`, or X A = `y` without `left`, with A that of which `lu` and `pivots` are what
/// [`lu_factor`](fn@super::lu_factor) gives; with `adjoint` of its transpose. Batches of A and `y`
/// broadcast.
///
/// lu: [.., n, n]   pivots: [.., n] (i32)   y: [.., n, k], or [.., k, n] without `left`   result:
/// as y
///
/// # Errors
/// `ShapeMismatch`; `DTypeMismatch` if `lu` and `y` are not both of f32 or of f64, or `pivots` not
/// of i32; `InvalidArgument` if a pivot names no row (where there is more than one);
/// `DeviceMismatch`; `OutOfMemory`.
pub fn lu_solve<V: Value>(lu: &V, pivots: &V, y: &V, left: bool, adjoint: bool) -> Result<V> {
    autocast!("lu_solve", lu, y => lu_solve(lu, pivots, y, left, adjoint));
    let n = check_square("lu_solve", lu)?;
    check("lu_solve", y)?;
    check_pivots("lu_solve", lu, pivots)?;
    linalg::check_pair("lu_solve", lu, y)?;
    let (_, [rows, columns]) = sizes(y);
    if n != if left { rows } else { columns } {
        return Err(Error::shape(format!(
            "lu_solve: matrices {} and right-hand sides {}; {n} and {} must be equal",
            lu.shape(),
            y.shape(),
            if left { rows } else { columns }
        )));
    }
    let (a, b, lead) = together("lu_solve", lu, y)?;
    if b.shape().numel() == 0 {
        return batched(&b, &lead);
    }
    let pivots = numbered(pivots, &lead)?;
    let own = view::numbers(&pivots, n, 0..n as i64)?;
    let order = exchanges::composed(&exchanges::orders(&own, &pivots, n)?)?;
    let of = if left { b } else { turned(&b)? };
    let x = if adjoint == left {
        let inner = solved(&turned(&a)?, &of, false, false)?;
        ordered(&solved(&turned(&a)?, &inner, true, true)?, &argsort(&order, 1, false)?)?
    } else {
        let inner = solved(&a, &ordered(&of, &order)?, false, true)?;
        solved(&a, &inner, true, false)?
    };
    batched(&if left { x } else { turned(&x)? }, &lead)
}

/// Checks that pivots are of i32, one for each row of each matrix of `x`.
///
/// # Errors
/// `DTypeMismatch`, `ShapeMismatch`, `DeviceMismatch`.
pub(super) fn check_pivots<V: Value>(op: &str, x: &V, pivots: &V) -> Result<()> {
    check_dtype(op, x)?;
    crate::array::one_device(op, &[x.array(), pivots.array()])?;
    if pivots.dtype() != DType::I32 {
        return Err(Error::dtype(format!("{op}: pivots of {}; they must be of i32", pivots.dtype())));
    }
    if pivots.shape()[..] != x.shape()[..x.shape().rank() - 1] {
        return Err(Error::shape(format!(
            "{op}: factors {} and pivots {}; pivots must have the shape of factors without its last axis",
            x.shape(),
            pivots.shape()
        )));
    }
    Ok(())
}

/// Pivots with these batches, as one axis, counted from 0: [b, n] of i64.
fn numbered<V: Value>(pivots: &V, lead: &[usize]) -> Result<V> {
    let n = pivots.shape()[pivots.shape().rank() - 1];
    let all = expand(&cast(pivots, DType::I64)?, &linalg::shape(lead, &[n])?)?;
    let all = reshape::to_shape(&all, &Shape::new(&[lead.iter().product(), n])?)?;
    sub(&all, &all.scalar_like(1i64)?)
}

/// By name: operands x (the factors), pivots and y; attributes left (absent: true) and adjoint
/// (absent: false).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (left, adjoint) = (linalg::flag(a, "left", true)?, linalg::flag(a, "adjoint", false)?);
    Ok(vec![lu_solve(a.input("x")?, a.input("pivots")?, a.input("y")?, left, adjoint)?])
}
