//! affine_grid: the positions for `grid_sample` that an affine map makes of those of an image.

use super::matmul::Matmul;
use super::{reshape, transpose};
use crate::prelude::*;
use elinvar_core::host::with_capacity;

/// The coordinates of the elements of an axis, which goes from -1 to 1.
fn coordinate(i: usize, n: usize, align_corners: bool) -> f64 {
    match (n, align_corners) {
        (1, _) => 0.0,
        (_, true) => (2 * i) as f64 / (n - 1) as f64 - 1.0,
        (_, false) => (2 * i + 1) as f64 / n as f64 - 1.0,
    }
}

/// The grid that reads an image through an affine map: position (x, y, 1) of a result of this size
/// reads `theta` times it.
///
/// * theta: [n, 2, 3]   size: [n, c, h, w]   y: [n, h, w, 2]
/// * or theta: [n, 3, 4]   size: [n, c, d, h, w]   y: [n, d, h, w, 3]
///
/// `align_corners` is that of [`grid_sample`](fn@super::grid_sample). Storage floats run in f32 and
/// are rounded once.
///
/// # Errors
/// `ShapeMismatch` if theta and the size do not fit; `InvalidArgument` if a size is 0;
/// `DTypeMismatch` if theta is not of floats; `OutOfMemory`.
pub fn affine_grid<V: Value>(theta: &V, size: &[usize], align_corners: bool) -> Result<V> {
    autocast!("affine_grid", theta => affine_grid(theta, size, align_corners));
    let axes = size.len().wrapping_sub(2);
    let [n, ..] = *size else { return Err(Error::shape("affine_grid: a size without axes; it should be [n, c, h, w]")) };
    if !matches!(axes, 2 | 3) || theta.shape()[..] != [n, axes, axes + 1] {
        return Err(Error::shape(format!(
            "affine_grid: theta {} for size {size:?}; they should be [n, 2, 3] and [n, c, h, w], or [n, 3, 4] and [n, c, \
             d, h, w]",
            theta.shape()
        )));
    }
    if size.contains(&0) {
        return Err(Error::argument(format!("affine_grid: size {size:?}; all of it must be above 0")));
    }
    if !theta.dtype().is_float() {
        return Err(Error::dtype(format!(
            "affine_grid: not defined for {}; convert with to_dtype to a float type",
            theta.dtype()
        )));
    }
    let spatial = &size[2..];
    let mut grid = Dims::from_elem(n, 1);
    grid.extend(spatial.iter().copied().chain([axes]));
    let grid = Shape::new(&grid)?;
    let points: usize = spatial.iter().product();
    let mut base = with_capacity(points.saturating_mul(axes + 1))?;
    for point in 0..points {
        let mut rest = point;
        // The last axis comes first, and goes fastest.
        for &n in spatial.iter().rev() {
            base.push(coordinate(rest % n, n, align_corners));
            rest /= n;
        }
        base.push(1.0);
    }
    widen([theta], |[theta]| {
        let base = V::from_array(Array::from_f64s(theta.device(), base, &[points, axes + 1], theta.dtype())?);
        let y = V::apply(Matmul::with(theta), &[&base, &transpose(theta, 1, 2)?])?;
        reshape::to_shape(&y, &grid)
    })
}

/// By name: operand theta; attributes size and align_corners (false if missing).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let align_corners = a.maybe("align_corners", Args::bool)?.unwrap_or(false);
    Ok(vec![affine_grid(a.input("theta")?, &a.sizes("size")?, align_corners)?])
}
