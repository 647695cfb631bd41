//! nonzero: the positions of elements that are not zero. NaN is not zero. The size of the result
//! depends on the values, so this synchronises with the device.

use super::view;
use crate::array;
use crate::prelude::*;
use crate::recording;

/// The coordinate along an axis of an element with a given row-major position: (position / stride)
/// % size.
#[derive(Clone, Copy, Debug)]
struct Coordinate;

impl IntMap<3> for Coordinate {
    const NAME: &'static str = "nonzero";
    #[inline(always)]
    fn int<I: Int>(&self, [number, stride, size]: [I; 3]) -> I {
        number.div_trunc(stride).rem_trunc(size)
    }
}
compile_int_map! { 3 Coordinate; }

/// The row-major positions (i64) of the elements that are not zero, ascending, as a vector.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn numbers<V: Value>(x: &V) -> Result<V> {
    recording::refuse("nonzero: counting")?;
    let (buffer, n) = <V::B as Compute>::nonzero(x.device(), x.array().view())?;
    Ok(V::from_array(Array::new(x.device(), buffer, Shape::new(&[n])?, DType::I64)))
}

/// The coordinates of the elements of `x` that are not zero, as i64 [n, rank], in row-major order.
/// NaN counts.
///
/// # Errors
/// `OutOfMemory`.
pub fn nonzero<V: Value>(x: &V) -> Result<V> {
    let at = numbers(x)?;
    let shape = x.shape();
    let column = at.array().reshape(&Shape::new(&[at.shape().numel(), 1])?)?;
    let rows = Layout::contiguous(shape.clone());
    let strides: V = view::numbers(x, shape.rank(), rows.strides().iter().map(|&s| s as i64))?;
    let sizes: V = view::numbers(x, shape.rank(), shape.iter().map(|&n| n as i64))?;
    Ok(V::from_array(array::map_int(&Coordinate, [&column, strides.array(), sizes.array()])?))
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![nonzero(a.input("x")?)?])
}
