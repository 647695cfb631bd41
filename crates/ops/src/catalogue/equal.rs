//! equal: have two tensors the same shape and elements?

use super::{all, eq};
use crate::array;
use crate::prelude::*;

/// Is every element of `x` that of `y`, and their shape the same? A bool of shape []. NaN differs
/// from itself.
///
/// # Errors
/// `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn equal<V: Value>(x: &V, y: &V) -> Result<V> {
    if x.shape() == y.shape() {
        return all(&eq(x, y)?, None, false);
    }
    let both = [x.array(), y.array()];
    array::one_device("equal", &both)?;
    if V::autocast().is_none() {
        array::one_dtype("equal", &both)?;
    }
    Ok(V::from_array(Array::scalar(x.device(), Scalar::Bool(false), DType::Bool)?))
}

/// By name: operands x and y.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![equal(a.input("x")?, a.input("y")?)?])
}
