//! `Pad`: elements added at the ends of the last axes.

use crate::{Layer, Module};
use elinvar_core::Scalar;
use elinvar_ops::Backend;
use elinvar_ops::catalogue::pad::Mode;
use elinvar_tensor::{Axes, Tensor};
use std::fmt;

/// Elements added at both ends of the last axes: PyTorch's ZeroPad, ConstantPad, ReflectionPad,
/// ReplicationPad and CircularPad of any number of axes.
#[derive(Clone, Debug, Module)]
#[module(display)]
pub struct Pad {
    amounts: Vec<isize>,
    #[module(skip)]
    mode: Mode,
}

impl Pad {
    /// Zero padding; `amounts` has the number before and after for the last axis, then for the one
    /// before it, and so on. Negative amounts crop.
    pub fn zeros(amounts: impl Axes) -> Self {
        Pad::constant(amounts, 0)
    }
    /// Padding with this value, by amounts as in [`Pad::zeros`].
    pub fn constant(amounts: impl Axes, value: impl Into<Scalar>) -> Self {
        Pad { amounts: amounts.axes().to_vec(), mode: Mode::Constant(value.into()) }
    }
    /// The input mirrored at its edge, without repeating the edge, by amounts as in [`Pad::zeros`].
    pub fn reflect(amounts: impl Axes) -> Self {
        Pad { amounts: amounts.axes().to_vec(), mode: Mode::Reflect }
    }
    /// The element at the edge, by amounts as in [`Pad::zeros`].
    pub fn replicate(amounts: impl Axes) -> Self {
        Pad { amounts: amounts.axes().to_vec(), mode: Mode::Replicate }
    }
    /// The input repeated periodically, by amounts as in [`Pad::zeros`].
    pub fn circular(amounts: impl Axes) -> Self {
        Pad { amounts: amounts.axes().to_vec(), mode: Mode::Circular }
    }
}

impl<B: Backend> Layer<B> for Pad {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        x.pad(&self.amounts, self.mode)
    }
}

impl fmt::Display for Pad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pad({:?}, ", self.amounts)?;
        match self.mode {
            Mode::Constant(v) => write!(f, "{v})"),
            Mode::Reflect => f.write_str("reflected)"),
            Mode::Replicate => f.write_str("replicated)"),
            Mode::Circular => f.write_str("circular)"),
        }
    }
}
