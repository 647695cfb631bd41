//! svdvals: singular values.

use super::linalg::svd::{Svd, values};
use super::linalg::{batched, check, matrices, shape, sizes};
use super::view;
use crate::prelude::*;

/// The singular values of the matrices of `x`, descending.
///
/// x: [.., m, n]   result: [.., min(m, n)]
///
/// # Errors
/// `ShapeMismatch` if x is no matrix; `DTypeMismatch` if it is not of f32 or f64; `OutOfMemory`.
pub fn svdvals<V: Value>(x: &V) -> Result<V> {
    autocast!("svdvals", x => svdvals(x));
    run("svdvals", x)
}

/// As [`svdvals`], for the op of this name.
///
/// # Errors
/// As [`svdvals`].
pub(super) fn run<V: Value>(op: &str, x: &V) -> Result<V> {
    check(op, x)?;
    let (lead, [m, n]) = sizes(x);
    if x.shape().numel() == 0 {
        return view::full(x, &shape(&lead, &[m.min(n)])?, Scalar::Int(0));
    }
    let a = matrices(x)?;
    // The gradient needs the vectors.
    let s = if V::records(&[x]) {
        V::apply_many(Svd { full: false }, &[&a])?.swap_remove(1)
    } else {
        V::from_array(values(a.array())?)
    };
    batched(&s, &lead)
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![svdvals(a.input("x")?)?])
}
