//! fold: patches in columns added up to an image (col2im), the opposite of unfold. Overlaps add in
//! the order of the columns' elements.

use super::unfold::{self, Patches};
use super::view::{self, Run};
use super::{index_add, reshape, slice};
use crate::prelude::*;

/// Columns `x` [n, c * kernel, windows] (or without n) added up to images [n, c, h, w] of `size`
/// (h, w).
///
/// # Errors
/// `ShapeMismatch` if x is not what unfold gives for such images; `InvalidArgument` if no window
/// fits; `OutOfMemory`.
pub fn fold<V: Value>(x: &V, size: [usize; 2], patches: &Patches) -> Result<V> {
    let [rows, cols] = patches.windows("fold", size)?;
    let taps = patches.kernel[0] * patches.kernel[1];
    let (n, depth, columns) = match x.shape()[..] {
        [n, depth, columns] => (Some(n), depth, columns),
        [depth, columns] => (None, depth, columns),
        _ => return Err(wrong(x.shape(), taps, rows * cols)),
    };
    if !depth.is_multiple_of(taps) || columns != rows * cols {
        return Err(wrong(x.shape(), taps, rows * cols));
    }
    let (images, channels) = (n.unwrap_or(1), depth / taps);
    let padded = patches.padded(size);
    let flat = reshape::to_shape(x, &Shape::new(&[images, channels, taps * columns])?)?;
    let plane = view::zeros(x, &Shape::new(&[images, channels, padded[0] * padded[1]])?)?;
    let at = |i: usize, window: usize, tap: usize| window * patches.stride[i] + tap * patches.dilation[i];
    let index = pairs(patches.kernel).flat_map(|(i, j)| {
        pairs([rows, cols]).map(move |(r, c)| (at(0, r, i) * padded[1] + at(1, c, j)) as i64)
    });
    let index = view::numbers(x, taps * columns, index)?;
    let sum = index_add(&plane, 2, &index, &flat, Scalar::Int(1))?;
    let image = reshape::to_shape(&sum, &Shape::new(&[images, channels, padded[0], padded[1]])?)?;
    let inside = |i: usize| Run { start: patches.padding[i], len: size[i], step: 1 };
    let image = slice::runs(&image, &[Run::all(images), Run::all(channels), inside(0), inside(1)])?;
    match n {
        Some(_) => Ok(image),
        None => reshape::to_shape(&image, &Shape::new(&[channels, size[0], size[1]])?),
    }
}

fn pairs(n: [usize; 2]) -> impl Iterator<Item = (usize, usize)> {
    (0..n[0]).flat_map(move |i| (0..n[1]).map(move |j| (i, j)))
}

fn wrong(shape: &Shape, taps: usize, windows: usize) -> Error {
    Error::shape(format!("fold: columns of shape {shape}; these windows ask for [n, c * {taps}, {windows}]"))
}

/// By name: operand x; attributes output_size, kernel_size, dilation, padding and stride.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![fold(a.input("x")?, unfold::pair(a, "output_size")?, &unfold::patches(a)?)?])
}
