//! repeat: copies of the whole tensor along each axis.

use super::{expand, reshape};
use crate::prelude::*;

/// `repeats[i]` copies of `x` along axis `i`; if there are more repeats than axes, new leading axes
/// are added.
///
/// # Errors
/// `InvalidArgument` if there are fewer repeats than axes; `OutOfMemory`.
pub fn repeat<V: Value>(x: &V, repeats: &[usize]) -> Result<V> {
    let shape = x.shape();
    let Some(new) = repeats.len().checked_sub(shape.rank()) else {
        return Err(Error::argument(format!(
            "repeat: {repeats:?} has {} entries, and shape {shape} has {} axes; there must be one for each",
            repeats.len(),
            shape.rank()
        )));
    };
    let sizes: Dims = std::iter::repeat_n(1, new).chain(shape.iter().copied()).collect();
    // An axis of copies before every axis, expanded, then merged with it.
    let (mut split, mut wide, mut merged) = (Dims::new(), Dims::new(), Dims::new());
    for (&n, &r) in sizes.iter().zip(repeats) {
        if r != 1 {
            split.push(1);
            wide.push(r);
        }
        split.push(n);
        wide.push(n);
        let total = n.checked_mul(r);
        merged.push(
            total.ok_or_else(|| Error::memory(format!("repeat: {r} times {n} elements are too many")))?,
        );
    }
    let merged = Shape::new(&merged)?;
    let x = reshape::to_shape(x, &Shape::new(&split)?)?;
    reshape::to_shape(&expand(&x, &Shape::new(&wide)?)?, &merged)
}

/// By name: operand x; attribute repeats.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![repeat(a.input("x")?, &a.sizes("repeats")?)?])
}
