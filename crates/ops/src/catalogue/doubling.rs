//! Prefix reductions by doubling: after round r each element holds what the 2^r elements that end
//! at it give, so log2 of the length rounds are needed, each over the whole axis.
//!
//! For functions that a backend has no scan of. The order is a tree, the same on every device.

use super::{concat, narrow};
use crate::prelude::*;

/// Combines each element of `x`, which is several tensors of one shape, with all before it along
/// `axis`: `f(earlier, later)` must be associative.
///
/// # Errors
/// Those of `f`; `OutOfMemory`.
pub(super) fn scan<V: Value, const N: usize>(
    mut x: [V; N],
    axis: usize,
    f: impl Fn(&[V; N], &[V; N]) -> Result<[V; N]>,
) -> Result<[V; N]> {
    let n = x[0].shape()[axis];
    let part = |x: &[V; N], start: usize, len: usize| -> Result<Vec<V>> {
        x.iter().map(|x| narrow::run(x, axis, start, len)).collect()
    };
    let array = |v: Vec<V>| -> [V; N] { v.try_into().expect("one per tensor") };
    let mut distance = 1;
    while distance < n {
        let left = n - distance;
        let new = f(&array(part(&x, 0, left)?), &array(part(&x, distance, left)?))?;
        let head = part(&x, 0, distance)?;
        let both = head.iter().zip(&new).map(|(h, y)| concat(&[h, y], axis as isize));
        x = array(both.collect::<Result<_>>()?);
        distance *= 2;
    }
    Ok(x)
}
