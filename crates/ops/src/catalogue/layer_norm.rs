//! layer_norm: each row, over the last axes, shifted and scaled to mean 0 and variance 1; then
//! weight and bias.

use super::normalize::{check_eps, normalize, shaped};
use crate::prelude::*;

/// The last axes, which must be of the sizes `normalized`.
///
/// # Errors
/// `ShapeMismatch`.
pub(super) fn last_axes(op: &str, shape: &Shape, normalized: &[usize]) -> Result<Dims> {
    let fits = !normalized.is_empty() && shape.ends_with(normalized);
    if fits {
        Ok((shape.rank() - normalized.len()..shape.rank()).collect())
    } else {
        Err(Error::shape(format!(
            "{op}: input {shape} should end in the normalized shape {normalized:?} (of one axis at least)"
        )))
    }
}

/// y = (x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance over the last
/// axes, which have the sizes `normalized_shape`. The variance divides by the number of elements.
///
/// x: [.., s..]   weight, bias: [s..]   y: as x. Storage floats run in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch` if x does not end in `normalized_shape` or weight and bias are not of it;
/// `InvalidArgument` if eps is negative or not finite; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn layer_norm<V: Value>(
    x: &V,
    normalized_shape: &[usize],
    weight: Option<&V>,
    bias: Option<&V>,
    eps: f64,
) -> Result<V> {
    autocast!("layer_norm", x; weight, bias => back layer_norm(x, normalized_shape, weight, bias, eps));
    let axes = last_axes("layer_norm", x.shape(), normalized_shape)?;
    check_eps("layer_norm", eps)?;
    shaped("layer_norm", "weight", weight, normalized_shape)?;
    shaped("layer_norm", "bias", bias, normalized_shape)?;
    normalize(x, &axes, weight, bias, eps)
}

/// By name: operands x, weight and bias if there are; attributes normalized_shape and eps.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let shape = a.sizes("normalized_shape")?;
    Ok(vec![layer_norm(a.input("x")?, &shape, a.optional("weight"), a.optional("bias"), a.f64("eps")?)?])
}
