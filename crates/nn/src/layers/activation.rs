//! Activations as layers. Those without settings are rows of a table.

use crate::{Layer, Module};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_ops::catalogue::gelu::Approximate;
use elinvar_tensor::{OrFail, Tensor};

macro_rules! activations {
    ($($doc:literal $name:ident $op:ident;)*) => {$(
        #[doc = concat!($doc, ", elementwise.")]
        #[derive(Clone, Copy, Debug, Default, Module)]
        pub struct $name;

        impl<B: Backend> Layer<B> for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
                op::$op(x).or_fail()
            }
        }
    )*};
}

activations! {
    "max(x, 0)" ReLU relu;
    "Hyperbolic tangent" Tanh tanh;
    "1 / (1 + e^-x)" Sigmoid sigmoid;
    "log(sigmoid(x))" LogSigmoid log_sigmoid;
    "x * sigmoid(x)" SiLU silu;
    "x * tanh(softplus(x))" Mish mish;
    "Scaled exponential linear unit" SELU selu;
    "x / (1 + |x|)" Softsign softsign;
    "x * min(max(x + 3, 0), 6) / 6" Hardswish hardswish;
}

/// x times the normal distribution function of x, elementwise.
#[derive(Clone, Copy, Debug, Default, Module)]
pub struct GELU {
    #[module(skip)]
    approximate: Approximate,
}

impl GELU {
    /// By the error function.
    pub fn new() -> Self {
        GELU { approximate: Approximate::None }
    }
    /// By the approximation with tanh.
    pub fn tanh() -> Self {
        GELU { approximate: Approximate::Tanh }
    }
}

impl<B: Backend> Layer<B> for GELU {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        op::gelu(x, self.approximate).or_fail()
    }
}

/// x where it is positive, `slope` times x elsewhere.
#[derive(Clone, Copy, Debug, Module)]
pub struct LeakyReLU {
    slope: f64,
}

impl LeakyReLU {
    /// With this slope for negative x; 0.01 is usual.
    pub fn new(slope: f64) -> Self {
        LeakyReLU { slope }
    }
}

impl<B: Backend> Layer<B> for LeakyReLU {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        x.leaky_relu(self.slope)
    }
}

/// x where it is positive, `alpha` * (e^x - 1) elsewhere.
#[derive(Clone, Copy, Debug, Module)]
pub struct ELU {
    alpha: f64,
}

impl ELU {
    /// With this limit for very negative x; 1 is usual.
    pub fn new(alpha: f64) -> Self {
        ELU { alpha }
    }
}

impl<B: Backend> Layer<B> for ELU {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        x.elu(self.alpha)
    }
}

/// log(1 + e^(beta x)) / beta, and x itself where beta x is above a threshold.
#[derive(Clone, Copy, Debug, Module)]
pub struct Softplus {
    beta: f64,
    threshold: f64,
}

impl Softplus {
    /// With beta 1 and threshold 20.
    pub fn new() -> Self {
        Softplus { beta: 1.0, threshold: 20.0 }
    }
    /// With another sharpness.
    #[must_use]
    pub fn beta(mut self, beta: f64) -> Self {
        self.beta = beta;
        self
    }
}

impl Default for Softplus {
    fn default() -> Self {
        Softplus::new()
    }
}

impl<B: Backend> Layer<B> for Softplus {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        x.softplus(self.beta, self.threshold)
    }
}

/// Positive numbers that sum to 1 along an axis.
#[derive(Clone, Copy, Debug, Module)]
pub struct Softmax {
    dim: isize,
}

impl Softmax {
    /// Along this axis, which may count from the end.
    pub fn new(dim: isize) -> Self {
        Softmax { dim }
    }
}

impl<B: Backend> Layer<B> for Softmax {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        op::softmax(x, self.dim).or_fail()
    }
}

/// The logarithm of [`Softmax`].
#[derive(Clone, Copy, Debug, Module)]
pub struct LogSoftmax {
    dim: isize,
}

impl LogSoftmax {
    /// Along this axis, which may count from the end.
    pub fn new(dim: isize) -> Self {
        LogSoftmax { dim }
    }
}

impl<B: Backend> Layer<B> for LogSoftmax {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        op::log_softmax(x, self.dim).or_fail()
    }
}
