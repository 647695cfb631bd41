//! Activations as layers: two tables, without and with settings, and the few that are more than an
//! op.

use crate::{Layer, Module, Param};
use elinvar_core::{DType, Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::autocast::run as in_scope;
use elinvar_ops::catalogue as op;
use elinvar_ops::catalogue::gelu::Approximate;
use elinvar_ops::lane::Lane;
use elinvar_ops::map::{Map, map};
use elinvar_tensor::{Integer, OrFail, Tensor};
use std::fmt;

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
    "min(max(x + 3, 0), 6) / 6" Hardsigmoid hardsigmoid;
    "min(max(x, 0), 6)" ReLU6 relu6;
    "x - tanh(x)" Tanhshrink tanhshrink;
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

macro_rules! activations_with_settings {
    ($($(#[$doc:meta])* $name:ident $op:ident($($set:ident: $t:ty = $text:literal),*);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Module)]
        pub struct $name {
            $($set: $t,)*
        }

        impl $name {
            #[doc = concat!("With ", $($text,)* ".")]
            pub fn new($($set: $t),*) -> Self {
                $name { $($set),* }
            }
        }

        impl<B: Backend> Layer<B> for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
                op::$op(x, $(self.$set),*).or_fail()
            }
        }
    )*};
}

activations_with_settings! {
    /// x where it is positive, `slope` times x elsewhere.
    LeakyReLU leaky_relu(slope: f64 = "this slope for negative x; 0.01 is usual");
    /// x where it is positive, `alpha` * (e^x - 1) elsewhere.
    ELU elu(alpha: f64 = "this limit for very negative x; 1 is usual");
    /// max(0, x) + min(0, `alpha` * (e^(x / alpha) - 1)): an [`ELU`] without a kink for any alpha.
    CELU celu(alpha: f64 = "this limit for very negative x; 1 is usual");
    /// x clamped to `min..=max`.
    Hardtanh hardtanh(min: f64 = "this least value, usually -1, ", max: f64 = "and this largest, usually 1");
    /// x where |x| is above `lambda`, 0 elsewhere.
    Hardshrink hardshrink(lambda: f64 = "this bound; 0.5 is usual");
    /// x moved by `lambda` towards 0, and 0 where |x| is at most `lambda`.
    Softshrink softshrink(lambda: f64 = "this bound; 0.5 is usual");
    /// x where it is above `threshold`, `value` elsewhere.
    Threshold threshold(threshold: f64 = "this threshold ", value: f64 = "and this value at and below it");
    /// Positive numbers that sum to 1 along an axis.
    Softmax softmax(dim: isize = "this axis, which may count from the end");
    /// The logarithm of [`Softmax`].
    LogSoftmax log_softmax(dim: isize = "this axis, which may count from the end");
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

/// x where it is positive, a weight times x elsewhere; one weight for all, or one per channel.
///
/// x: [n, c, ..], or of any shape with one weight   weight: \[1\] or \[c\]   y: as x
#[derive(Debug, Module)]
#[module(display)]
pub struct PReLU<B: Backend> {
    /// \[1\] or \[c\], initially 0.25.
    pub weight: Param<B>,
}

/// x where x > 0, w x elsewhere
#[derive(Clone, Copy, Debug)]
struct Bent;

impl Map<2> for Bent {
    const NAME: &'static str = "prelu";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, w]: [L; 2]) -> L {
        L::select(x.gt(L::lit(0.0)), x, w * x)
    }
}
elinvar_ops::compile_map! { 2 Bent; }

impl<B: Backend> PReLU<B> {
    /// With this many weights of f32: 1, or one per channel.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn new(weights: usize, device: &B::Device) -> Self {
        PReLU { weight: Param::new(Tensor::full(weights, 0.25, DType::F32, device)) }
    }
    fn run(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        let weight = self.weight.get();
        if weight.numel() == 1 {
            return in_scope("prelu", [x, &weight], |all| map(Bent, all));
        }
        if x.rank() < 2 || x.dims()[1] != weight.numel() {
            return Err(Error::shape(format!(
                "prelu: input {}; with {n} weights it should be [n, {n}, ..]",
                x.shape(),
                n = weight.numel()
            )));
        }
        let mut column = vec![1; x.rank()];
        column[1] = -1;
        in_scope("prelu", [x, &weight], |[x, w]| map(Bent, [x, &op::reshape(w, &column)?]))
    }
}

impl<B: Backend> Layer<B> for PReLU<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        self.run(x).or_fail()
    }
}

impl<B: Backend> fmt::Display for PReLU<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PReLU({})", self.weight.get().numel())
    }
}

/// Gated linear unit: the first half of an axis times the sigmoid of the second (Dauphin and
/// others, 2017).
#[derive(Clone, Copy, Debug, Module)]
pub struct GLU {
    dim: isize,
}

impl GLU {
    /// By halves of this axis, which may count from the end.
    pub fn new(dim: impl Integer) -> Self {
        GLU { dim: dim.to_isize() }
    }
}

/// a * sigmoid(b)
#[derive(Clone, Copy, Debug)]
struct Gated;

impl Map<2> for Gated {
    const NAME: &'static str = "glu";
    #[inline(always)]
    fn lane<L: Lane>(&self, [a, b]: [L; 2]) -> L {
        a * b.sigmoid()
    }
}
elinvar_ops::compile_map! { 2 Gated; }

/// silu(a) * b
#[derive(Clone, Copy, Debug)]
struct Swish;

impl Map<2> for Swish {
    const NAME: &'static str = "swiglu";
    #[inline(always)]
    fn lane<L: Lane>(&self, [a, b]: [L; 2]) -> L {
        a * a.sigmoid() * b
    }
}
elinvar_ops::compile_map! { 2 Swish; }

impl<B: Backend> Layer<B> for GLU {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        halves("glu", x, self.dim).and_then(|[a, b]| map(Gated, [&a, &b])).or_fail()
    }
}

/// silu(first half) * second half of an axis, which may count from the end (Shazeer, 2020).
///
/// # Panics
/// If there is no such axis or its size is odd.
#[track_caller]
pub fn swiglu<B: Backend>(x: &Tensor<B>, dim: impl Integer) -> Tensor<B> {
    halves("swiglu", x, dim.to_isize()).and_then(|[a, b]| map(Swish, [&a, &b])).or_fail()
}

fn halves<B: Backend>(name: &str, x: &Tensor<B>, dim: isize) -> Result<[Tensor<B>; 2]> {
    let at = if dim < 0 { dim.saturating_add_unsigned(x.rank()) } else { dim };
    let n = usize::try_from(at).ok().and_then(|a| x.dims().get(a)).filter(|n| n.is_multiple_of(2));
    let n = n.ok_or_else(|| {
        Error::shape(format!(
            "{name}: axis {dim} of input {}; it should exist and have an even size",
            x.shape()
        ))
    })?;
    Ok([op::narrow(x, dim, 0, n / 2)?, op::narrow(x, dim, (n / 2) as isize, n / 2)?])
}
