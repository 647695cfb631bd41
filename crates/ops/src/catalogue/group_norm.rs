//! group_norm: each group of channels of each sample shifted and scaled to mean 0 and variance 1;
//! then weight and bias per channel.

use super::instance_norm::per_channel_operand;
use super::normalize::{check_eps, normalize};
use super::reshape;
use crate::prelude::*;

/// y = (x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance over the channels
/// of a group and all spatial axes. The variance divides by the number of elements.
///
/// x: [n, c, spatial..]   weight, bias: \[c\]
/// y: as x. Storage floats run in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch` if x has no channels or weight and bias do not have one number per channel;
/// `InvalidArgument` if the channels do not divide into the groups, or eps is negative or not
/// finite; `DTypeMismatch`;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn group_norm<V: Value>(
    x: &V,
    num_groups: usize,
    weight: Option<&V>,
    bias: Option<&V>,
    eps: f64,
) -> Result<V> {
    autocast!("group_norm", x; weight, bias => back group_norm(x, num_groups, weight, bias, eps));
    let s = x.shape();
    if s.rank() < 2 {
        return Err(Error::shape(format!("group_norm: input {s} should be [n, c, spatial..]")));
    }
    let (n, c) = (s[0], s[1]);
    if num_groups == 0 || !c.is_multiple_of(num_groups) {
        return Err(Error::argument(format!(
            "group_norm: the {c} channels of input {s} do not divide into {num_groups} groups"
        )));
    }
    check_eps("group_norm", eps)?;
    per_channel_operand("group_norm", s, "weight", weight)?;
    per_channel_operand("group_norm", s, "bias", bias)?;
    let per = c / num_groups;
    let column =
        |v: Option<&V>| v.map(|v| reshape::to_shape(v, &Shape::new(&[num_groups, per, 1])?)).transpose();
    let flat = reshape::to_shape(x, &Shape::new(&[n, num_groups, per, s[2..].iter().product()])?)?;
    let y = normalize(&flat, &[2, 3], column(weight)?.as_ref(), column(bias)?.as_ref(), eps)?;
    reshape::to_shape(&y, s)
}

/// By name: operands x, weight and bias if there are; attributes num_groups and eps.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (groups, eps) = (a.size("num_groups")?, a.f64("eps")?);
    Ok(vec![group_norm(a.input("x")?, groups, a.optional("weight"), a.optional("bias"), eps)?])
}
