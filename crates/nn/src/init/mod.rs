//! Initialisation of weights.
//!
//! Bounds and standard deviations are computed in f64 by IEEE operations alone, so they are the
//! same on every machine; random numbers come from a [`Generator`], so the same seed gives the same
//! weights on every device.

mod special;

use crate::Module;
use elinvar_core::{DType, Error, Result, Shape};
use elinvar_ops::Backend;
use elinvar_tensor::{Generator, OrFail, Sizes, Tensor};

/// The fan that the variance is scaled by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fan {
    /// Fan-in: keeps the variance of the forward pass.
    In,
    /// Fan-out: keeps the variance of the backward pass.
    Out,
}

/// The recommended gain for the activation after a weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gain {
    /// None, a sigmoid, or a convolution: 1.
    Linear,
    /// Tanh: 5/3.
    Tanh,
    /// ReLU: sqrt(2).
    Relu,
    /// Leaky ReLU of this slope: sqrt(2 / (1 + slope^2)).
    LeakyRelu(f64),
    /// SELU: 3/4.
    Selu,
}

impl Gain {
    /// The factor.
    pub fn factor(self) -> f64 {
        match self {
            Gain::Linear => 1.0,
            Gain::Tanh => 5.0 / 3.0,
            Gain::Relu => 2f64.sqrt(),
            Gain::LeakyRelu(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
            Gain::Selu => 0.75,
        }
    }
}

/// Fan-in and fan-out of a weight [out, in, taps..].
///
/// # Errors
/// `ShapeMismatch` if there are fewer than two axes.
pub fn fans(shape: &Shape) -> Result<(usize, usize)> {
    let [o, i, taps @ ..] = shape.dims() else {
        return Err(Error::shape(format!(
            "init: a weight of shape {shape} has no inputs and outputs to count"
        )));
    };
    let taps: usize = taps.iter().product();
    Ok((i * taps, o * taps))
}

/// 1 / sqrt(fan_in), the bound of PyTorch's default for linear and convolution layers; 0 if there
/// are no inputs.
pub fn default_bound(fan_in: usize) -> f64 {
    if fan_in == 0 { 0.0 } else { 1.0 / (fan_in as f64).sqrt() }
}

/// Uniform in -bound..bound, of f32.
///
/// # Panics
/// If memory is exhausted.
#[track_caller]
pub fn uniform<B: Backend>(
    shape: impl Sizes,
    bound: f64,
    g: &mut Generator,
    device: &B::Device,
) -> Tensor<B> {
    g.uniform(-bound, bound, shape, DType::F32, device)
}

/// Normally distributed around 0, of f32.
///
/// # Panics
/// If memory is exhausted.
#[track_caller]
pub fn normal<B: Backend>(shape: impl Sizes, std: f64, g: &mut Generator, device: &B::Device) -> Tensor<B> {
    g.normal(0.0, std, shape, DType::F32, device)
}

/// Zeros, of f32.
///
/// # Panics
/// If memory is exhausted.
#[track_caller]
pub fn zeros<B: Backend>(shape: impl Sizes, device: &B::Device) -> Tensor<B> {
    Tensor::zeros(shape, DType::F32, device)
}

/// Ones, of f32.
///
/// # Panics
/// If memory is exhausted.
#[track_caller]
pub fn ones<B: Backend>(shape: impl Sizes, device: &B::Device) -> Tensor<B> {
    Tensor::ones(shape, DType::F32, device)
}

/// He and others (2015): uniform with the standard deviation gain / sqrt(fan).
///
/// # Panics
/// If the shape has fewer than two axes, or memory is exhausted.
#[track_caller]
pub fn kaiming_uniform<B: Backend>(
    shape: impl Sizes,
    fan: Fan,
    gain: Gain,
    g: &mut Generator,
    device: &B::Device,
) -> Tensor<B> {
    let shape = shape.to_shape().or_fail();
    // A uniform distribution of bound b has the standard deviation b / sqrt(3).
    uniform(&shape, 3f64.sqrt() * kaiming(&shape, fan, gain).or_fail(), g, device)
}

/// He and others (2015): normal with the standard deviation gain / sqrt(fan).
///
/// # Panics
/// If the shape has fewer than two axes, or memory is exhausted.
#[track_caller]
pub fn kaiming_normal<B: Backend>(
    shape: impl Sizes,
    fan: Fan,
    gain: Gain,
    g: &mut Generator,
    device: &B::Device,
) -> Tensor<B> {
    let shape = shape.to_shape().or_fail();
    normal(&shape, kaiming(&shape, fan, gain).or_fail(), g, device)
}

/// Glorot and Bengio (2010): uniform with the standard deviation gain * sqrt(2 /
/// (fan_in + fan_out)).
///
/// # Panics
/// If the shape has fewer than two axes, or memory is exhausted.
#[track_caller]
pub fn xavier_uniform<B: Backend>(
    shape: impl Sizes,
    gain: Gain,
    g: &mut Generator,
    device: &B::Device,
) -> Tensor<B> {
    let shape = shape.to_shape().or_fail();
    uniform(&shape, 3f64.sqrt() * xavier(&shape, gain).or_fail(), g, device)
}

/// Glorot and Bengio (2010): normal with the standard deviation gain * sqrt(2 /
/// (fan_in + fan_out)).
///
/// # Panics
/// If the shape has fewer than two axes, or memory is exhausted.
#[track_caller]
pub fn xavier_normal<B: Backend>(
    shape: impl Sizes,
    gain: Gain,
    g: &mut Generator,
    device: &B::Device,
) -> Tensor<B> {
    let shape = shape.to_shape().or_fail();
    normal(&shape, xavier(&shape, gain).or_fail(), g, device)
}

fn kaiming(shape: &Shape, fan: Fan, gain: Gain) -> Result<f64> {
    let (i, o) = fans(shape)?;
    let n = match fan {
        Fan::In => i,
        Fan::Out => o,
    };
    Ok(gain.factor() * default_bound(n))
}

fn xavier(shape: &Shape, gain: Gain) -> Result<f64> {
    let (i, o) = fans(shape)?;
    Ok(gain.factor() * 2f64.sqrt() * default_bound(i + o))
}

/// Normally distributed with this mean and standard deviation, of f32, within `low..=high`.
///
/// # Panics
/// If the bounds contain no number, or memory is exhausted.
#[track_caller]
pub fn trunc_normal<B: Backend>(
    shape: impl Sizes,
    mean: f64,
    std: f64,
    low: f64,
    high: f64,
    g: &mut Generator,
    device: &B::Device,
) -> Tensor<B> {
    special::trunc_normal(shape, [mean, std, low, high], g, device).or_fail()
}

/// Saxe and others (2013): a matrix [out, in * taps] with orthonormal rows, or columns if there are
/// more rows, times a factor; of f32.
///
/// Computed on the host in f64 by Householder reflections of a normal matrix, so it is the same on
/// every device.
///
/// # Panics
/// If the shape has fewer than two axes, or memory is exhausted.
#[track_caller]
pub fn orthogonal<B: Backend>(
    shape: impl Sizes,
    gain: Gain,
    g: &mut Generator,
    device: &B::Device,
) -> Tensor<B> {
    special::orthogonal(shape, gain.factor(), g, device).or_fail()
}

/// A constant, of f32.
///
/// # Panics
/// If memory is exhausted.
#[track_caller]
pub fn constant<B: Backend>(shape: impl Sizes, value: f64, device: &B::Device) -> Tensor<B> {
    Tensor::full(shape, value, DType::F32, device)
}

/// Ones on the diagonal of a matrix [out, in], of f32: a linear layer that is the identity.
///
/// # Panics
/// If memory is exhausted.
#[track_caller]
pub fn eye<B: Backend>(rows: usize, columns: usize, device: &B::Device) -> Tensor<B> {
    special::dirac([rows, columns], 1, device).or_fail()
}

/// A convolution [out, in / groups, taps..] that is the identity on the channels of each group, as
/// far as there are inputs: ones at the middle taps, of f32.
///
/// # Panics
/// If the shape has fewer than two axes, the outputs do not divide into the groups, or memory is
/// exhausted.
#[track_caller]
pub fn dirac<B: Backend>(shape: impl Sizes, groups: usize, device: &B::Device) -> Tensor<B> {
    special::dirac(shape, groups, device).or_fail()
}

/// Initialises a module: `f` gets the name and value of each parameter, and returns a new value, or
/// `None` to keep it. A shared parameter is visited once, under its first name.
///
/// ```
/// # use elinvar_nn::{Backend, Generator, Module, init};
/// # fn f<B: Backend>(net: &impl Module<B>, g: &mut Generator, device: &B::Device) -> elinvar_core::Result<()> {
/// init::apply(net, |name, p| {
///     name.ends_with(".weight").then(|| init::trunc_normal(p.shape(), 0.0, 0.02, -2.0, 2.0, g, device))
/// })
/// # }
/// ```
///
/// # Errors
/// `ShapeMismatch`, `DTypeMismatch` with the name if a value does not fit; the parameters before it
/// are changed.
pub fn apply<B: Backend>(
    module: &(impl Module<B> + ?Sized),
    mut f: impl FnMut(&str, &Tensor<B>) -> Option<Tensor<B>>,
) -> Result<()> {
    for (name, p) in module.named_parameters() {
        if let Some(value) = f(&name, &p.get().detach()) {
            p.set(&value).map_err(|e| e.at(&name))?;
        }
    }
    Ok(())
}
