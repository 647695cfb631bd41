//! channel_shuffle: channels of several groups interleaved.

use super::{reshape, transpose};
use crate::prelude::*;

/// The channels of `x` [n, c, ..] in another order: the first of each of `groups` groups, then the
/// second of each.
///
/// # Errors
/// `ShapeMismatch` if x has fewer than three axes; `InvalidArgument` if the channels are not that
/// many groups; `OutOfMemory`.
pub fn channel_shuffle<V: Value>(x: &V, groups: usize) -> Result<V> {
    let shape = x.shape();
    if shape.rank() < 3 {
        return Err(Error::shape(format!("channel_shuffle: shape {shape}; it must be [n, c, ..]")));
    }
    let channels = shape[1];
    if groups == 0 || !channels.is_multiple_of(groups) {
        return Err(Error::argument(format!(
            "channel_shuffle: {channels} channels in {groups} groups; it must divide them"
        )));
    }
    let mut dims = Dims::from_slice(shape);
    dims[1] = groups;
    dims.insert(2, channels / groups);
    let apart = reshape::to_shape(x, &Shape::new(&dims)?)?;
    reshape::to_shape(&transpose(&apart, 1, 2)?, shape)
}

/// By name: operand x; attribute groups.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![channel_shuffle(a.input("x")?, a.size("groups")?)?])
}
