//! The weights of attention, for those who need them in memory: attention with dropout, and layers
//! that return them.

use super::{add, eq, le, logical_not, logical_or, masked_fill, matmul, mul, reshape, softmax, transpose};
use crate::prelude::*;
use crate::value::{broadcast, cast};

/// softmax(scale * q k^T + mask) for each batch and head, in the compute dtype, with `scale` 1 /
/// sqrt(d) unless given; a query that sees no key has weights of 0.
///
/// * q: [b, h, l, d]   k: [b, j, s, d]   mask: broadcasts to [b, h, l, s]
/// * y: [b, h, l, s]
///
/// Each of the j key heads serves h / j query heads. A bool mask is true where a key takes part, a
/// float mask is added. With `is_causal` query i sees keys 0..=i.
///
/// # Errors
/// `ShapeMismatch` if sizes do not fit; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn weights<V: Value>(q: &V, k: &V, mask: Option<&V>, is_causal: bool, scale: Option<f64>) -> Result<V> {
    let (&[b, h, l, d], &[_, j, s, _]) = (&q.shape()[..], &k.shape()[..]) else {
        return Err(Error::shape(format!(
            "attention: q {}, k {}; they should be [b, heads, length, size]",
            q.shape(),
            k.shape()
        )));
    };
    if !h.is_multiple_of(j) {
        return Err(Error::shape(format!("attention: {h} query heads do not divide among {j} key heads")));
    }
    let compute = q.dtype().compute();
    let (q, k) = (cast(q, compute)?, cast(k, compute)?);
    // Query heads that share a key head become additional rows.
    let tall = reshape::to_shape(&q, &Shape::new(&[b, j, h / j.max(1) * l, d])?)?;
    let scale = q.scalar_like(scale.unwrap_or(1.0 / (d as f64).sqrt()))?;
    let scores = mul(&matmul(&tall, &transpose(&k, -1, -2)?)?, &scale)?;
    let mut scores = reshape::to_shape(&scores, &Shape::new(&[b, h, l, s])?)?;
    let mut hidden = match mask {
        None => None,
        Some(mask) if mask.dtype() == DType::Bool => Some(logical_not(mask)?),
        Some(mask) => {
            let mask = cast(mask, compute)?;
            let hidden = eq(&mask, &mask.scalar_like(f64::NEG_INFINITY)?)?;
            scores = add(&scores, &masked_fill(&mask, &hidden, 0.0)?)?;
            Some(hidden)
        }
    };
    if is_causal {
        let later = logical_not(&seen(&q, l, s)?)?;
        hidden = Some(hidden.map_or(Ok(later.clone()), |hidden| logical_or(&hidden, &later))?);
    }
    let Some(hidden) = hidden else { return softmax(&scores, -1) };
    let hidden = broadcast(&hidden, scores.shape())?;
    // The lowest finite number instead of -inf: a row of -inf would be NaN, in the gradient too.
    // Masked weights are exactly 0 either way, except in a row without any key; those are set to 0.
    let lowest = if compute == DType::F64 { f64::MIN } else { f64::from(f32::MIN) };
    let p = softmax(&masked_fill(&scores, &hidden, lowest)?, -1)?;
    masked_fill(&p, &hidden, 0.0)
}

/// True where key j is at or before query i: [l, s].
pub(super) fn seen<V: Value>(like: &V, l: usize, s: usize) -> Result<V> {
    let count = |n: usize, shape: &[usize]| {
        let v = (0..n as i64).collect::<Vec<_>>();
        Ok::<_, Error>(V::from_array(Array::from_vec(like.device(), v, shape)?))
    };
    le(&count(s, &[1, s])?, &count(l, &[l, 1])?)
}

/// p v for weights [b, h, l, s] and values [b, j, s, v]: [b, h, l, v], in the dtype of the weights.
///
/// # Errors
/// `ShapeMismatch` if sizes do not fit; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn weighted<V: Value>(p: &V, v: &V) -> Result<V> {
    let (&[b, h, l, s], &[_, j, _, width]) = (&p.shape()[..], &v.shape()[..]) else {
        return Err(Error::shape(format!("attention: v {}; it should be [b, heads, s, v]", v.shape())));
    };
    let tall = reshape::to_shape(p, &Shape::new(&[b, j, h / j.max(1) * l, s])?)?;
    let y = matmul(&tall, &cast(v, p.dtype())?)?;
    reshape::to_shape(&y, &Shape::new(&[b, h, l, width])?)
}
