//! movedim: some axes moved to other positions, the others kept in order. A view.

use super::permute;
use crate::prelude::*;

/// `x` with axis `source[i]` at position `destination[i]` of the result; the other axes keep their
/// order. A view.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, one is named twice, or the lists differ in length.
pub fn movedim<V: Value>(x: &V, source: &[isize], destination: &[isize]) -> Result<V> {
    let shape = x.shape();
    if source.len() != destination.len() {
        return Err(Error::argument(format!(
            "movedim: axes {source:?} to {destination:?}; both lists must be of one length"
        )));
    }
    let (from, to) = (shape.axes("movedim", source)?, shape.axes("movedim", destination)?);
    let mut rest = (0..shape.rank()).filter(|a| !from.contains(a));
    let axes: Dims = (0..shape.rank())
        .map(|place| match to.iter().position(|&t| t == place) {
            Some(i) => from[i],
            None => rest.next().expect("as many axes stay as places are left"),
        })
        .collect();
    permute::to_axes(x, &axes)
}

/// By name: operand x; attributes source and destination.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![movedim(a.input("x")?, &a.dims("source")?, &a.dims("destination")?)?])
}
