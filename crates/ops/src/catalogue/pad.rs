//! pad: elements added around axes, or removed: a constant, or elements of the tensor near its
//! edge.

use super::view::{self, Part, Run};
use super::{index_select, slice};
use crate::prelude::*;

/// The values of the padding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// One value.
    Constant(Scalar),
    /// The tensor mirrored at its edge, which is not repeated.
    Reflect,
    /// The element at the edge.
    Replicate,
    /// The tensor repeated from its other end. Elements that are removed at one end are removed
    /// first, and not repeated at the other.
    Circular,
}

impl Mode {
    /// The name under which a padding of so many axes is in the table of autocast, if it is.
    fn listed(self, axes: usize) -> &'static str {
        match (self, axes) {
            (Mode::Reflect, 1) => "reflection_pad1d",
            (Mode::Reflect, 2) => "reflection_pad2d",
            (Mode::Replicate, 1) => "replication_pad1d",
            (Mode::Replicate, 2) => "replication_pad2d",
            (Mode::Replicate, 3) => "replication_pad3d",
            (Mode::Constant(_) | Mode::Reflect | Mode::Replicate | Mode::Circular, _) => "pad",
        }
    }
    fn check(self, n: usize, before: isize, after: isize) -> Option<&'static str> {
        let most = before.max(after);
        match self {
            Mode::Constant(_) => None,
            Mode::Reflect if most > 0 && most >= n as isize => {
                Some("a reflection must be shorter than its axis")
            }
            Mode::Replicate if most > 0 && n == 0 => Some("an empty axis has no edge to repeat"),
            Mode::Circular if most > n as isize => Some("an axis goes around once at most"),
            Mode::Reflect | Mode::Replicate | Mode::Circular => None,
        }
    }
    /// The source index, on an axis of `n`, of position `i`, also outside the axis.
    fn source(self, i: isize, n: isize) -> isize {
        match self {
            Mode::Reflect if i < 0 => -i,
            Mode::Reflect if i >= n => 2 * (n - 1) - i,
            Mode::Circular => unreachable!("it goes around what is left, not around the axis"),
            Mode::Constant(_) | Mode::Reflect | Mode::Replicate => i.clamp(0, n - 1),
        }
    }
}

/// `x` with elements added at both ends of its last axes: `amounts` holds the number before and
/// after for the last axis, then for the one before it, and so on. Negative numbers remove
/// elements.
///
/// # Errors
/// `InvalidArgument` if there are more pairs than axes, or they remove more than there is, or the
/// mode does not allow the amount; `DTypeMismatch` if the value does not fit x; `OutOfMemory`.
pub fn pad<V: Value>(x: &V, amounts: &[isize], mode: Mode) -> Result<V> {
    autocast!(mode.listed(amounts.len() / 2), x => pad(x, amounts, mode));
    let shape = x.shape().clone();
    let (pairs, odd) = amounts.as_chunks::<2>();
    if !odd.is_empty() || pairs.len() > shape.rank() {
        return Err(Error::argument(format!(
            "pad: {amounts:?} for shape {shape}; there must be two amounts for each axis padded, the last axis first"
        )));
    }
    let mut dims = Dims::from_slice(&shape);
    for (k, &[before, after]) in pairs.iter().enumerate() {
        let axis = shape.rank() - 1 - k;
        let n = shape[axis];
        let wrong = |why: &str| {
            Error::argument(format!("pad: {before} and {after} at axis {axis} of shape {shape}; {why}"))
        };
        let cut = before.min(0).saturating_add(after.min(0)).unsigned_abs();
        if cut > n {
            return Err(wrong("more is cut off than there is"));
        }
        // Where a tensor goes around, it goes around what is left of it.
        let left = if mode == Mode::Circular { n - cut } else { n };
        if let Some(why) = mode.check(left, before, after) {
            return Err(wrong(why));
        }
        dims[axis] = n
            .checked_add_signed(before)
            .and_then(|n| n.checked_add_signed(after))
            .or_else(|| n.checked_add_signed(after).and_then(|n| n.checked_add_signed(before)))
            .ok_or_else(|| wrong("that is more than can be addressed"))?;
    }
    let padded = Shape::new(&dims)?;
    match mode {
        Mode::Constant(value) => constant(x, pairs, &padded, value),
        Mode::Reflect | Mode::Replicate | Mode::Circular => mirrored(x, pairs, mode),
    }
}

fn constant<V: Value>(x: &V, pairs: &[[isize; 2]], padded: &Shape, value: Scalar) -> Result<V> {
    value.fits(x.dtype()).map_err(|e| e.at("pad"))?;
    if x.shape() == padded && pairs.iter().flatten().all(|&p| p == 0) {
        return Ok(x.clone());
    }
    let rank = padded.rank();
    let amounts = |axis: usize| pairs.get(rank - 1 - axis).copied().unwrap_or([0, 0]);
    let (mut kept, mut at) = (Vec::with_capacity(rank), Vec::with_capacity(rank));
    for (axis, &n) in x.shape().iter().enumerate() {
        let [before, after] = amounts(axis);
        let cut = |p: isize| p.min(0).unsigned_abs();
        let len = n - cut(before) - cut(after);
        kept.push(Run { start: cut(before), len, step: 1 });
        at.push(Run { start: before.max(0) as usize, len, step: 1 });
    }
    view::assemble(&[&slice::runs(x, &kept)?], padded, value, vec![Part::Slice(at.into())])
}

/// One axis after the other, by index.
fn mirrored<V: Value>(x: &V, pairs: &[[isize; 2]], mode: Mode) -> Result<V> {
    let mut y = x.clone();
    for (k, &[before, after]) in pairs.iter().enumerate().filter(|(_, p)| **p != [0, 0]) {
        let axis = x.shape().rank() - 1 - k;
        let n = x.shape()[axis] as isize;
        let cut = |p: isize| p.min(0).abs();
        let (first, left) = (cut(before), n - cut(before) - cut(after));
        let from = (-before..n + after).map(|i| match mode {
            Mode::Circular => (first + (i - first).rem_euclid(left)) as i64,
            Mode::Constant(_) | Mode::Reflect | Mode::Replicate => mode.source(i, n) as i64,
        });
        let count = (n + before + after) as usize;
        y = index_select(&y, axis as isize, &view::numbers(x, count, from)?)?;
    }
    Ok(y)
}

/// By name: operand x; attributes pad, mode and value.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let mode = match a.str("mode")? {
        "constant" => Mode::Constant(a.maybe("value", Args::scalar)?.unwrap_or(Scalar::Int(0))),
        "reflect" => Mode::Reflect,
        "replicate" => Mode::Replicate,
        "circular" => Mode::Circular,
        other => {
            return Err(Error::argument(format!(
                "pad: mode {other}; there are constant, reflect, replicate and circular"
            )));
        }
    };
    Ok(vec![pad(a.input("x")?, &a.dims("pad")?, mode)?])
}
