//! instance_norm: each channel of each sample shifted and scaled to mean 0 and variance 1; then
//! weight and bias per channel.

use super::normalize::{check_eps, normalize};
use super::reshape;
use crate::prelude::*;

/// y = (x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance over the spatial
/// axes. The variance divides by the number of elements.
///
/// x: [n, c, spatial..]   weight, bias: \[c\]
/// y: as x. Storage floats run in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch` if x has no spatial axis or weight and bias do not have one number per channel;
/// `InvalidArgument` if a channel has a single element, whose variance is 0, or eps is negative or
/// not finite; `DTypeMismatch`;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn instance_norm<V: Value>(x: &V, weight: Option<&V>, bias: Option<&V>, eps: f64) -> Result<V> {
    autocast!("instance_norm", x; weight, bias => back instance_norm(x, weight, bias, eps));
    let s = x.shape();
    if s.rank() < 3 {
        return Err(Error::shape(format!("instance_norm: input {s} should be [n, c, spatial..]")));
    }
    if s[2..].iter().product::<usize>() == 1 {
        return Err(Error::argument(format!(
            "instance_norm: a channel of input {s} has one element; a variance needs two at least"
        )));
    }
    let axes: Dims = (2..s.rank()).collect();
    check_eps("instance_norm", eps)?;
    per_channel_operand("instance_norm", s, "weight", weight)?;
    per_channel_operand("instance_norm", s, "bias", bias)?;
    let column = |v: Option<&V>| v.map(|v| reshape::to_shape(v, &per_channel(s))).transpose();
    normalize(x, &axes, column(weight)?.as_ref(), column(bias)?.as_ref(), eps)
}

/// [c, 1, 1, ..], which broadcasts against [n, c, spatial..].
pub(super) fn per_channel(s: &Shape) -> Shape {
    let mut dims = Dims::from_elem(1, s.rank() - 1);
    dims[0] = s[1];
    Shape::new(&dims).expect("as many as there are channels")
}

/// Checks that an operand has one number for each channel of an input [n, c, spatial..].
///
/// # Errors
/// `ShapeMismatch`.
pub(super) fn per_channel_operand<V: Value>(op: &str, input: &Shape, what: &str, v: Option<&V>) -> Result<()> {
    match v {
        Some(v) if v.shape()[..] != input[1..2] => Err(Error::shape(format!(
            "{op}: input {input} has {} channels, {what} has shape {}; both must have as many",
            input[1],
            v.shape()
        ))),
        _ => Ok(()),
    }
}

/// By name: operands x, weight and bias if there are; attribute eps.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![instance_norm(a.input("x")?, a.optional("weight"), a.optional("bias"), a.f64("eps")?)?])
}
