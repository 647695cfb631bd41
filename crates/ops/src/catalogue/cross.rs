//! cross: the cross product of vectors of three elements.

use super::{mul, roll, sub};
use crate::prelude::*;
use crate::value::broadcast;

/// The cross product along `dim`, or the first axis of size 3, of the broadcast operands.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `ShapeMismatch` if it is not of size 3 or the shapes
/// do not broadcast; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn cross<V: Value>(x: &V, y: &V, dim: Option<isize>) -> Result<V> {
    autocast!("cross", x, y => cross(x, y, dim));
    let shape = x.shape().broadcast(y.shape(), "cross")?;
    let axis = match dim {
        Some(dim) => Some(shape.axis("cross", dim)?).filter(|&a| shape.get(a) == Some(&3)),
        None => shape.iter().position(|&n| n == 3),
    };
    let Some(axis) = axis else {
        return Err(Error::shape(format!(
            "cross: operands of shapes {} and {}; the axis must be of size 3 in both",
            x.shape(),
            y.shape()
        )));
    };
    let (x, y) = (broadcast(x, &shape)?, broadcast(y, &shape)?);
    widen([&x, &y], |[x, y]| {
        let next = |v: &V, by: isize| roll(v, &[-by], Some(&[axis as isize]));
        sub(&mul(&next(x, 1)?, &next(y, 2)?)?, &mul(&next(x, 2)?, &next(y, 1)?)?)
    })
}

/// By name: operands x and y; attribute dim (null: the first axis of size 3).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![cross(a.input("x")?, a.input("y")?, a.maybe("dim", Args::dim)?)?])
}
