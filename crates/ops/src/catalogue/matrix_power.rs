//! matrix_power: a matrix times itself, n times; powers of the inverse for negative n.

use super::linalg::{sizes, units};
use super::{inv, matmul};
use crate::prelude::*;

/// The product of `n` factors `x`; of |n| inverses if n is negative; ones on the diagonal for 0.
///
/// x: [.., m, m], of any dtype that has products; of f32 or f64 if n is negative   result: as x
///
/// # Errors
/// `ShapeMismatch` if matrices are not square; `DTypeMismatch`; `OutOfMemory`.
pub fn matrix_power<V: Value>(x: &V, n: i64) -> Result<V> {
    let square = x.shape().rank() >= 2 && matches!(sizes(x).1, [a, b] if a == b);
    if !square {
        return Err(Error::shape(format!("matrix_power: operand {}; its matrices must be square", x.shape())));
    }
    if x.dtype() == DType::Bool {
        return Err(Error::dtype("matrix_power: not defined for bool; convert with to_dtype"));
    }
    if n == 0 {
        let (lead, [m, _]) = sizes(x);
        return units(x, &lead, m, m);
    }
    let mut base = if n < 0 { inv(x).map_err(|e| e.at("matrix_power"))? } else { x.clone() };
    let mut left = n.unsigned_abs();
    let mut power: Option<V> = None;
    loop {
        if left & 1 == 1 {
            power = Some(match power {
                Some(p) => matmul(&p, &base)?,
                None => base.clone(),
            });
        }
        left >>= 1;
        match power {
            Some(p) if left == 0 => return Ok(p),
            _ => base = matmul(&base, &base)?,
        }
    }
}

/// By name: operand x; attribute n.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![matrix_power(a.input("x")?, a.int("n")?)?])
}
