//! Pools of images: the largest or the average of each window.

use super::Pair;
use crate::{Layer, Module};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_tensor::{OrFail, Tensor};
use std::fmt;

/// The largest element of each window of x: [n, c, h, w].
#[derive(Clone, Debug, Module)]
#[module(display)]
pub struct MaxPool2d {
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    ceil_mode: bool,
}

impl MaxPool2d {
    /// Windows of this size, side by side.
    pub fn new(kernel: impl Pair) -> Self {
        let kernel = kernel.pair();
        MaxPool2d { kernel, stride: kernel, padding: [0, 0], dilation: [1, 1], ceil_mode: false }
    }
    /// Step between windows. At first the size of a window.
    #[must_use]
    pub fn stride(mut self, stride: impl Pair) -> Self {
        self.stride = stride.pair();
        self
    }
    /// -inf on both sides. At first none.
    #[must_use]
    pub fn padding(mut self, padding: impl Pair) -> Self {
        self.padding = padding.pair();
        self
    }
    /// Distance between a window's elements. At first 1.
    #[must_use]
    pub fn dilation(mut self, dilation: impl Pair) -> Self {
        self.dilation = dilation.pair();
        self
    }
    /// Lets the last window hang over the end. At first not.
    #[must_use]
    pub fn ceil_mode(mut self, ceil_mode: bool) -> Self {
        self.ceil_mode = ceil_mode;
        self
    }
}

impl<B: Backend> Layer<B> for MaxPool2d {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        op::max_pool2d(x, &self.kernel, &self.stride, &self.padding, &self.dilation, self.ceil_mode).or_fail()
    }
}

impl fmt::Display for MaxPool2d {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        windows(f, "MaxPool2d", self.kernel, self.stride, self.padding)
    }
}

fn windows(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
) -> fmt::Result {
    write!(f, "{name}({}x{}", kernel[0], kernel[1])?;
    if stride != kernel {
        write!(f, ", stride {}x{}", stride[0], stride[1])?;
    }
    if padding != [0, 0] {
        write!(f, ", padding {}x{}", padding[0], padding[1])?;
    }
    f.write_str(")")
}

/// The average of each window of x: [n, c, h, w].
#[derive(Clone, Debug, Module)]
#[module(display)]
pub struct AvgPool2d {
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    ceil_mode: bool,
    count_include_pad: bool,
}

impl AvgPool2d {
    /// Windows of this size, side by side.
    pub fn new(kernel: impl Pair) -> Self {
        let kernel = kernel.pair();
        AvgPool2d { kernel, stride: kernel, padding: [0, 0], ceil_mode: false, count_include_pad: true }
    }
    /// Step between windows. At first the size of a window.
    #[must_use]
    pub fn stride(mut self, stride: impl Pair) -> Self {
        self.stride = stride.pair();
        self
    }
    /// Zeros on both sides. At first none.
    #[must_use]
    pub fn padding(mut self, padding: impl Pair) -> Self {
        self.padding = padding.pair();
        self
    }
    /// Lets the last window hang over the end. At first not.
    #[must_use]
    pub fn ceil_mode(mut self, ceil_mode: bool) -> Self {
        self.ceil_mode = ceil_mode;
        self
    }
    /// Do zeros of the padding count as elements? At first yes.
    #[must_use]
    pub fn count_include_pad(mut self, count: bool) -> Self {
        self.count_include_pad = count;
        self
    }
}

impl<B: Backend> Layer<B> for AvgPool2d {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        let (ceil, count) = (self.ceil_mode, self.count_include_pad);
        op::avg_pool2d(x, &self.kernel, &self.stride, &self.padding, ceil, count).or_fail()
    }
}

impl fmt::Display for AvgPool2d {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        windows(f, "AvgPool2d", self.kernel, self.stride, self.padding)
    }
}

/// Averages over as many windows as make the output [n, c, height, width], whatever the input's size.
#[derive(Clone, Debug, Module)]
#[module(display)]
pub struct AdaptiveAvgPool2d {
    output: [usize; 2],
}

impl AdaptiveAvgPool2d {
    /// An output of this height and width.
    pub fn new(output: impl Pair) -> Self {
        AdaptiveAvgPool2d { output: output.pair() }
    }
}

impl<B: Backend> Layer<B> for AdaptiveAvgPool2d {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        op::adaptive_avg_pool2d(x, &self.output).or_fail()
    }
}

impl fmt::Display for AdaptiveAvgPool2d {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdaptiveAvgPool2d({}x{})", self.output[0], self.output[1])
    }
}
