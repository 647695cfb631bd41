//! householder_product: the first columns of a product of reflections.

use super::linalg::triangular::solved;
use super::linalg::{self, batched, block, check, eye, matrices, product, rows_of, sizes, turned, units};
use super::{add, expand, mul, reshape, sub, tril};
use crate::prelude::*;

/// The first n columns of H1 H2 .. Hk, with `Hi = I - tau[i] v v^T`, of which v is 0 above row i, 1
/// in it, and column i of `x` below it.
///
/// x: [.., m, n], m >= n   tau: [.., k], k <= n   result: [.., m, n]
///
/// # Errors
/// `ShapeMismatch`; `DTypeMismatch` if operands are not both of f32 or of f64; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn householder_product<V: Value>(x: &V, tau: &V) -> Result<V> {
    autocast!("householder_product", x, tau => householder_product(x, tau));
    check("householder_product", x)?;
    linalg::check_pair("householder_product", x, tau)?;
    let (lead, [m, n]) = sizes(x);
    let k = match &tau.shape()[..] {
        [batch @ .., k] if *batch == lead[..] => *k,
        _ => {
            return Err(Error::shape(format!(
                "householder_product: matrices {} and factors {}; their batches must be equal",
                x.shape(),
                tau.shape()
            )));
        }
    };
    if n > m || k > n {
        return Err(Error::shape(format!(
            "householder_product: matrices {} and {k} factors; there must be as many rows as columns, \
             and as many columns as factors, at least",
            x.shape()
        )));
    }
    if x.shape().numel() == 0 || k == 0 {
        return units(x, &lead, m, n);
    }
    let a = matrices(x)?;
    let b = a.shape()[0];
    let tau = reshape::to_shape(tau, &Shape::new(&[b, k, 1])?)?;
    let v = add(&tril(&block(&a, 0..m, 0..k)?, -1)?, &eye(&a, m, k)?)?;
    // The product is I - V T V^T, and T^-1 diag(tau) = I + diag(tau) G, with G what is above the
    // diagonal of V^T V.
    let gram = mul(&product(&turned(&v)?, &v)?, &tau)?;
    let right = solved(&gram, &mul(&turned(&rows_of(&v, 0..n)?)?, &tau)?, true, true)?;
    let ones = expand(&eye(&a, m, n)?, &Shape::new(&[b, m, n])?)?;
    batched(&sub(&ones, &product(&v, &right)?)?, &lead)
}

/// By name: operands x and tau.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![householder_product(a.input("x")?, a.input("tau")?)?])
}
