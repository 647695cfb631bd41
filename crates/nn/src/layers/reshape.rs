//! Layers that only rearrange elements: flatten, unflatten, pixel shuffle and its inverse,
//! identity.

use crate::{Layer, Module};
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_tensor::{Integer, OrFail, Sizes, Tensor};
use std::fmt;

/// The identity, a placeholder for an optional layer.
#[derive(Clone, Copy, Debug, Default, Module)]
pub struct Identity;

impl<B: Backend> Layer<B> for Identity {
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        x.clone()
    }
}

/// Merges axes `start..=end` into one.
#[derive(Clone, Debug, Module)]
pub struct Flatten {
    start: isize,
    end: isize,
}

impl Flatten {
    /// Everything but the batch: axes 1 to the last.
    pub fn new() -> Self {
        Flatten { start: 1, end: -1 }
    }
    /// These axes, which may count from the end.
    pub fn axes(start: impl Integer, end: impl Integer) -> Self {
        Flatten { start: start.to_isize(), end: end.to_isize() }
    }
}

impl Default for Flatten {
    fn default() -> Self {
        Flatten::new()
    }
}

impl<B: Backend> Layer<B> for Flatten {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        x.flatten(self.start, self.end)
    }
}

/// Splits one axis into several: the inverse of [`Flatten`].
#[derive(Clone, Debug, Module)]
#[module(display)]
pub struct Unflatten {
    dim: isize,
    sizes: Vec<isize>,
}

impl Unflatten {
    /// Axis `dim`, which may count from the end, becomes axes of these sizes; one of them may
    /// be -1.
    pub fn new(dim: impl Integer, sizes: impl Sizes) -> Self {
        Unflatten { dim: dim.to_isize(), sizes: sizes.sizes().to_vec() }
    }
    fn run<B: Backend>(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        let rank = x.rank();
        let at = if self.dim < 0 { self.dim.saturating_add_unsigned(rank) } else { self.dim };
        let at = usize::try_from(at).ok().filter(|&a| a < rank && !self.sizes.is_empty()).ok_or_else(|| {
            Error::argument(format!(
                "unflatten: axis {} of input {} as {:?}; the axis should exist and become one axis at least",
                self.dim,
                x.shape(),
                self.sizes
            ))
        })?;
        // The other sizes are given explicitly, so that a -1 can only be a part of this axis.
        let mut sizes: Vec<isize> = x.dims().iter().map(|&n| n as isize).collect();
        sizes.splice(at..=at, self.sizes.iter().copied());
        op::reshape(x, &sizes).map_err(|e| e.at("unflatten"))
    }
}

impl<B: Backend> Layer<B> for Unflatten {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        self.run(x).or_fail()
    }
}

impl fmt::Display for Unflatten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unflatten({} as {:?})", self.dim, self.sizes)
    }
}

/// Channels to pixels: y[.., c, i * r + a, j * r + b] = x[.., c * r * r + a * r + b, i, j]
///
/// x: [.., c * r * r, h, w]   y: [.., c, h * r, w * r]
#[derive(Clone, Copy, Debug, Module)]
#[module(display)]
pub struct PixelShuffle {
    factor: usize,
}

/// Pixels to channels: the inverse of [`PixelShuffle`].
///
/// x: [.., c, h * r, w * r]   y: [.., c * r * r, h, w]
#[derive(Clone, Copy, Debug, Module)]
#[module(display)]
pub struct PixelUnshuffle {
    factor: usize,
}

impl PixelShuffle {
    /// With this factor r.
    pub fn new(factor: usize) -> Self {
        PixelShuffle { factor }
    }
}

impl PixelUnshuffle {
    /// With this factor r.
    pub fn new(factor: usize) -> Self {
        PixelUnshuffle { factor }
    }
}

/// The leading axes (as one), channels, height and width of images.
fn image<B: Backend>(name: &str, x: &Tensor<B>) -> Result<(Vec<isize>, [usize; 3])> {
    let [lead @ .., c, h, w] = x.dims() else {
        return Err(Error::shape(format!("{name}: input {}; it should be [.., c, h, w]", x.shape())));
    };
    Ok((lead.iter().map(|&n| n as isize).collect(), [*c, *h, *w]))
}

/// `lead`, and then these.
fn behind(lead: &[isize], sizes: &[usize]) -> Vec<isize> {
    lead.iter().copied().chain(sizes.iter().map(|&n| n as isize)).collect()
}

impl<B: Backend> Layer<B> for PixelShuffle {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        let r = self.factor;
        let run = || -> Result<Tensor<B>> {
            let (lead, [c, h, w]) = image("pixel_shuffle", x)?;
            let square = r.checked_mul(r).filter(|&s| s > 0 && c.is_multiple_of(s)).ok_or_else(|| {
                Error::shape(format!(
                    "pixel_shuffle: {c} channels of input {} do not divide by the factor {r} squared",
                    x.shape()
                ))
            })?;
            let c = c / square;
            let apart = op::reshape(x, &behind(&lead, &[c, r, r, h, w]))?;
            let n = lead.len() as isize;
            // [.., c, a, b, i, j] to [.., c, i, a, j, b]
            let order: Vec<isize> = (0..=n).chain([n + 3, n + 1, n + 4, n + 2]).collect();
            let times = |n: usize| {
                n.checked_mul(r)
                    .ok_or_else(|| Error::shape(format!("pixel_shuffle: a side of {n} times {r}")))
            };
            op::reshape(&op::permute(&apart, &order)?, &behind(&lead, &[c, times(h)?, times(w)?]))
        };
        run().or_fail()
    }
}

impl<B: Backend> Layer<B> for PixelUnshuffle {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        let r = self.factor;
        let run = || -> Result<Tensor<B>> {
            let (lead, [c, h, w]) = image("pixel_unshuffle", x)?;
            if r == 0 || !h.is_multiple_of(r) || !w.is_multiple_of(r) {
                return Err(Error::shape(format!(
                    "pixel_unshuffle: height {h} and width {w} of input {} do not divide by the factor {r}",
                    x.shape()
                )));
            }
            let (h, w) = (h / r, w / r);
            let apart = op::reshape(x, &behind(&lead, &[c, h, r, w, r]))?;
            let n = lead.len() as isize;
            // [.., c, i, a, j, b] to [.., c, a, b, i, j]
            let order: Vec<isize> = (0..=n).chain([n + 2, n + 4, n + 1, n + 3]).collect();
            op::reshape(&op::permute(&apart, &order)?, &behind(&lead, &[c * r * r, h, w]))
        };
        run().or_fail()
    }
}

impl fmt::Display for PixelShuffle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PixelShuffle({})", self.factor)
    }
}

impl fmt::Display for PixelUnshuffle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PixelUnshuffle({})", self.factor)
    }
}
