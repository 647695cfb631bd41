//! Transforms of images: functions of an image and, for random augmentations, of the random numbers
//! of its sample.
//!
//! Images are [c, h, w] of f32. Pixels are copied or computed by exactly rounded IEEE operations,
//! so the result is the same on every machine.
//!
//! ```
//! use elinvar_core::{HostTensor, Shape};
//! use elinvar_nn::data::{Loader, Pairs, transform};
//! use std::sync::Arc;
//!
//! # let images = HostTensor::from_vec(vec![0.5f32; 4 * 3 * 8 * 8], Shape::new(&[4, 3, 8, 8])?)?;
//! # let labels = HostTensor::from_vec(vec![0i64; 4], Shape::new(&[4])?)?;
//! let loader = Loader::new(Arc::new(Pairs::new(images, labels)?), 2)?.shuffle(1).augment(1, |(x, y), random| {
//!     let x = transform::random_crop(&x, (8, 8), 2, random)?;
//!     let x = transform::random_flip(&x, 0.5, random)?;
//!     let x = transform::normalize(&x, &[0.5; 3], &[0.25; 3])?;
//!     Ok((transform::cutout(&x, 4, random)?, y))
//! });
//! # assert_eq!(loader.host_epoch(0, 0).count(), 2);
//! # Ok::<(), elinvar_core::Error>(())
//! ```

use crate::data::SampleRandom;
use elinvar_core::{Error, HostTensor, Result, Shape, host};

/// An image's channels, height and width, and its pixels.
fn image<'a>(op: &str, x: &'a HostTensor) -> Result<([usize; 3], &'a [f32])> {
    match (x.shape().dims(), x.as_slice::<f32>()) {
        (&[c, h, w], Ok(pixels)) => Ok(([c, h, w], pixels)),
        _ => Err(Error::shape(format!(
            "{op}: {} of {}; an image [c, h, w] of f32 would fit",
            x.shape(),
            x.dtype()
        ))),
    }
}

/// `(x - mean) / std`, by channel.
///
/// # Errors
/// `ShapeMismatch` if x is not an image, or has not as many channels as there are means and
/// deviations; `InvalidArgument` if a deviation is 0 or less, or not finite.
pub fn normalize(x: &HostTensor, mean: &[f32], std: &[f32]) -> Result<HostTensor> {
    let ([c, h, w], pixels) = image("normalize", x)?;
    if mean.len() != c || std.len() != c {
        return Err(Error::shape(format!(
            "normalize: {} means and {} deviations for {c} channels; one of each would fit",
            mean.len(),
            std.len()
        )));
    }
    if let Some(s) = std.iter().find(|s| !(s.is_finite() && **s > 0.0)) {
        return Err(Error::argument(format!(
            "normalize: a deviation of {s}; it should be above 0 and finite"
        )));
    }
    let mut out = host::with_capacity::<f32>(pixels.len())?;
    for i in 0..c {
        out.extend(pixels[i * h * w..][..h * w].iter().map(|p| (p - mean[i]) / std[i]));
    }
    HostTensor::from_vec(out, x.shape().clone())
}

/// The image flipped horizontally.
///
/// # Errors
/// `ShapeMismatch` if x is not an image.
pub fn flip(x: &HostTensor) -> Result<HostTensor> {
    let ([_, _, w], pixels) = image("flip", x)?;
    let mut out = host::with_capacity::<f32>(pixels.len())?;
    if w > 0 {
        pixels.chunks_exact(w).for_each(|row| out.extend(row.iter().rev()));
    }
    HostTensor::from_vec(out, x.shape().clone())
}

/// [`flip`] with probability `p`, by one random number.
///
/// # Errors
/// `ShapeMismatch` if x is not an image.
pub fn random_flip(x: &HostTensor, p: f32, random: &mut SampleRandom) -> Result<HostTensor> {
    if random.chance(p) {
        return flip(x);
    }
    image("random_flip", x)?;
    Ok(x.clone())
}

/// The part of height and width `size` whose upper left pixel is `(top, left)`. Pixels outside of
/// the image are 0.
///
/// # Errors
/// `ShapeMismatch` if x is not an image; `OutOfMemory`.
pub fn crop(x: &HostTensor, (top, left): (isize, isize), (h, w): (usize, usize)) -> Result<HostTensor> {
    let ([c, rows, columns], pixels) = image("crop", x)?;
    let shape = Shape::new(&[c, h, w])?;
    let mut out = host::filled(shape.numel(), 0.0f32)?;
    // Columns of the result that are inside of the image: those j for which 0 <= left + j <
    // columns.
    let from = left.min(0).unsigned_abs().min(w);
    let to = (columns as isize).saturating_sub(left).clamp(from as isize, w as isize) as usize;
    for i in 0..c {
        for j in 0..h {
            let Some(row) = top.checked_add_unsigned(j).and_then(|r| usize::try_from(r).ok()) else {
                continue;
            };
            if row >= rows || from == to {
                continue;
            }
            let start = (i * rows + row) * columns + left.saturating_add_unsigned(from) as usize;
            out[(i * h + j) * w..][from..to].copy_from_slice(&pixels[start..start + (to - from)]);
        }
    }
    HostTensor::from_vec(out, shape)
}

/// The central part of height and width `size`, rounded up and left.
///
/// # Errors
/// `ShapeMismatch` if x is not an image, or smaller.
pub fn center_crop(x: &HostTensor, (h, w): (usize, usize)) -> Result<HostTensor> {
    let ([_, rows, columns], _) = image("center_crop", x)?;
    if h > rows || w > columns {
        return Err(Error::shape(format!(
            "center_crop: {h} x {w} of an image {}; a smaller part would fit",
            x.shape()
        )));
    }
    crop(x, (((rows - h) / 2) as isize, ((columns - w) / 2) as isize), (h, w))
}

/// A part of height and width `size`, anywhere in the image with a border of `padding` zeros around
/// it; by two random numbers.
///
/// # Errors
/// `ShapeMismatch` if x is not an image, or smaller with its border.
pub fn random_crop(
    x: &HostTensor,
    (h, w): (usize, usize),
    padding: usize,
    random: &mut SampleRandom,
) -> Result<HostTensor> {
    let ([_, rows, columns], _) = image("random_crop", x)?;
    let room = |size: usize, part: usize| {
        size.checked_add(padding.saturating_mul(2)).filter(|s| *s <= isize::MAX as usize)?.checked_sub(part)
    };
    let (Some(down), Some(right)) = (room(rows, h), room(columns, w)) else {
        return Err(Error::shape(format!(
            "random_crop: {h} x {w} of an image {} with a border of {padding}; a smaller part would fit",
            x.shape()
        )));
    };
    let at = |room: usize, random: &mut SampleRandom| random.below(room + 1) as isize - padding as isize;
    let (top, left) = (at(down, random), at(right, random));
    crop(x, (top, left), (h, w))
}

/// Sets a square of `size` pixels to 0 in every channel; its centre is any pixel of the image, so
/// that the square may extend beyond the edge. By two random numbers.
///
/// DeVries and Taylor, "Improved regularization of convolutional neural networks with
/// cutout", 2017.
///
/// # Errors
/// `ShapeMismatch` if x is not an image.
pub fn cutout(x: &HostTensor, size: usize, random: &mut SampleRandom) -> Result<HostTensor> {
    let ([c, h, w], pixels) = image("cutout", x)?;
    let span = |n: usize, random: &mut SampleRandom| {
        let middle = random.below(n);
        let from = middle.saturating_sub(size / 2);
        (from, middle.saturating_add(size - size / 2).min(n).max(from))
    };
    let ((top, bottom), (left, right)) = (span(h, random), span(w, random));
    let mut out = pixels.to_vec();
    for i in 0..c {
        for j in top..bottom {
            out[(i * h + j) * w..][left..right].fill(0.0);
        }
    }
    HostTensor::from_vec(out, x.shape().clone())
}

/// Resizes to height and width `size`: along each axis, a pixel is the mean of those it covers,
/// weighted by a triangle.
///
/// Output `i` of `m`, from `n` pixels: with `s = n / m` and `r = max(s, 1)`, its centre is
/// `c = (i + 0.5) s`, and pixel `j` weighs `max(0, 1 - |j + 0.5 - c| / r)`, divided by the sum of
/// the weights. Columns first, then rows, in f64, rounded to f32 at the end. These are the
/// definitions of PyTorch's `interpolate(mode="bilinear", antialias=True)`.
///
/// # Errors
/// `ShapeMismatch` if x is not an image, or has no pixels; `OutOfMemory`.
pub fn resize(x: &HostTensor, (h, w): (usize, usize)) -> Result<HostTensor> {
    let ([c, rows, columns], pixels) = image("resize", x)?;
    if rows == 0 || columns == 0 {
        return Err(Error::shape(format!("resize: an image {} has no pixels to take from", x.shape())));
    }
    let shape = Shape::new(&[c, h, w])?;
    let across = weights(columns, w)?;
    let down = weights(rows, h)?;
    let mut wide = host::with_capacity::<f64>(Shape::new(&[c, rows, w])?.numel())?;
    for row in pixels.chunks_exact(columns) {
        wide.extend(across.iter().map(|(from, weights)| {
            weights.iter().zip(&row[*from..]).fold(0.0, |sum, (k, p)| sum + k * f64::from(*p))
        }));
    }
    let mut out = host::with_capacity::<f32>(shape.numel())?;
    for i in 0..c {
        for (from, weights) in &down {
            for j in 0..w {
                let at = |r: usize| wide[(i * rows + from + r) * w + j];
                let sum = weights.iter().enumerate().fold(0.0, |sum, (r, k)| sum + k * at(r));
                out.push(sum as f32);
            }
        }
    }
    HostTensor::from_vec(out, shape)
}

/// For each output, the first input pixel and the weights from there on.
fn weights(n: usize, m: usize) -> Result<Vec<(usize, Vec<f64>)>> {
    let scale = n as f64 / m as f64;
    let reach = scale.max(1.0);
    let mut all = host::with_capacity(m)?;
    for i in 0..m {
        let middle = (i as f64 + 0.5) * scale;
        let from = (middle - reach).floor().max(0.0) as usize;
        let to = ((middle + reach).ceil() as usize).min(n);
        let mut weights: Vec<f64> =
            (from..to).map(|j| (1.0 - (j as f64 + 0.5 - middle).abs() / reach).max(0.0)).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|k| *k /= sum);
        all.push((from, weights));
    }
    Ok(all)
}
