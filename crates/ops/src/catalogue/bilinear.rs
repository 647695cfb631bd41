//! bilinear: a form that is linear in each of two operands.

use super::{add, matmul, mul, permute, reshape, sum, unsqueeze};
use crate::autocast;
use crate::prelude::*;

/// `y[.., o] = sum over i, j of x1[.., i] * weight[o, i, j] * x2[.., j] + bias[o]`
///
/// # Errors
/// `ShapeMismatch`; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn bilinear<V: Value>(x1: &V, x2: &V, weight: &V, bias: Option<&V>) -> Result<V> {
    let (a, b) = (x1.shape(), x2.shape());
    let fits = match (&weight.shape()[..], a.last(), b.last()) {
        ([o, i, j], Some(m), Some(n)) => {
            i == m && j == n && a[..a.rank() - 1] == b[..b.rank() - 1] && bias.is_none_or(|b| b.shape()[..] == [*o])
        }
        _ => false,
    };
    if !fits {
        return Err(Error::shape(format!(
            "bilinear: operands of shapes {a} and {b} with a weight of shape {}; they must be [.., i], [.., j] and \
             [o, i, j], a bias [o]",
            weight.shape()
        )));
    }
    let form = |[x1, x2, weight]: [&V; 3]| {
        let [o, i, j] = weight.shape()[..] else { unreachable!("checked above") };
        let n: usize = x1.shape()[..x1.shape().rank() - 1].iter().product();
        let flat = reshape::to_shape(x1, &Shape::new(&[n, i])?)?;
        let by_row = reshape::to_shape(&permute(weight, &[1, 0, 2])?, &Shape::new(&[i, o * j])?)?;
        let half = reshape::to_shape(&matmul(&flat, &by_row)?, &Shape::new(&[n, o, j])?)?;
        let x2 = unsqueeze(&reshape::to_shape(x2, &Shape::new(&[n, j])?)?, 1)?;
        let y = sum(&mul(&half, &x2)?, Some(&[-1]), false)?;
        let mut dims = Dims::from_slice(&x1.shape()[..x1.shape().rank() - 1]);
        dims.push(o);
        reshape::to_shape(&y, &Shape::new(&dims)?)
    };
    match bias {
        None => autocast::run("bilinear", [x1, x2, weight], |x| widen(x, form)),
        Some(bias) => autocast::run("bilinear", [x1, x2, weight, bias], |x| {
            widen(x, |[x1, x2, weight, bias]| add(&form([x1, x2, weight])?, bias))
        }),
    }
}

/// By name: operands x1, x2, weight, and bias if there is one.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![bilinear(a.input("x1")?, a.input("x2")?, a.input("weight")?, a.optional("bias"))?])
}
