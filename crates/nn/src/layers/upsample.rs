//! `Upsample`: resizing of spatial axes, by the nearest element unless another mode is chosen.

use crate::{Layer, Module};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_ops::catalogue::interpolate::{Interpolation, Target};
use elinvar_tensor::{OrFail, Sizes, Tensor};
use std::fmt;

/// Resizes the one to three spatial axes of x: [n, c, spatial..].
#[derive(Clone, Debug, Module)]
#[module(display)]
pub struct Upsample {
    #[module(skip)]
    target: Target,
    #[module(skip)]
    mode: Interpolation,
}

impl Upsample {
    /// To these sizes, one per spatial axis or one for all, by the nearest element.
    ///
    /// # Panics
    /// If a size is negative.
    #[track_caller]
    pub fn size(sizes: impl Sizes) -> Self {
        Upsample { target: Target::Size(sizes.to_shape().or_fail().to_vec()), mode: Interpolation::Nearest }
    }
    /// By these factors, one per spatial axis or one for all, by the nearest element.
    pub fn factor(factors: &[f64]) -> Self {
        Upsample { target: Target::Scale(factors.to_vec()), mode: Interpolation::Nearest }
    }
    /// Interpolates: linear, bilinear or trilinear, by the number of axes.
    #[must_use]
    pub fn linear(mut self) -> Self {
        self.mode = Interpolation::Linear { align_corners: false };
        self
    }
    /// Interpolates with aligned corners: the centres of the corner elements are fixed.
    #[must_use]
    pub fn linear_with_aligned_corners(mut self) -> Self {
        self.mode = Interpolation::Linear { align_corners: true };
        self
    }
    /// In this mode.
    #[must_use]
    pub fn mode(mut self, mode: Interpolation) -> Self {
        self.mode = mode;
        self
    }
}

impl<B: Backend> Layer<B> for Upsample {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        op::interpolate(x, &self.target, self.mode).or_fail()
    }
}

impl fmt::Display for Upsample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::Size(sizes) => write!(f, "Upsample(to {sizes:?}, ")?,
            Target::Scale(factors) => write!(f, "Upsample(by {factors:?}, ")?,
        }
        f.write_str(match self.mode {
            Interpolation::Nearest => "nearest)",
            Interpolation::NearestExact => "nearest, exact)",
            Interpolation::Area => "area)",
            Interpolation::Cubic { align_corners: false } => "bicubic)",
            Interpolation::Cubic { align_corners: true } => "bicubic, corners aligned)",
            Interpolation::AntialiasedLinear { .. } => "bilinear, antialiased)",
            Interpolation::AntialiasedCubic { .. } => "bicubic, antialiased)",
            Interpolation::Linear { align_corners: false } => "linear)",
            Interpolation::Linear { align_corners: true } => "linear, corners aligned)",
        })
    }
}
