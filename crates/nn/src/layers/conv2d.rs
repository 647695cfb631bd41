//! `Conv2d`: cross-correlation of images.

use super::Pair;
use crate::{Layer, Module, Param, init};
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_ops::catalogue::conv::Padding;
use elinvar_tensor::{Generator, OrFail, Tensor};
use std::fmt;

/// y[n, o, i, j] = sum over (c, a, b) of x[n, c, i * stride + a * dilation - padding, ..] * weight[o, c, a, b], + bias\[o\]
///
/// x: [n, in, h, w]   weight: [out, in / groups, kh, kw]   bias: \[out\]   y: [n, out, h', w']
#[derive(Debug, Module)]
#[module(display)]
pub struct Conv2d<B: Backend> {
    /// [out, in / groups, kh, kw]
    pub weight: Param<B>,
    /// \[out\]
    pub bias: Option<Param<B>>,
    /// Stride, padding, dilation, groups.
    #[module(skip)]
    pub options: Conv2dOptions,
}

/// The settings of a [`Conv2d`], each with PyTorch's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conv2dOptions {
    inputs: usize,
    outputs: usize,
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: Padding,
    dilation: [usize; 2],
    groups: usize,
    bias: bool,
}

impl Conv2dOptions {
    /// Settings of a layer of so many input and output channels and this kernel, to change and then to
    /// [`Conv2dOptions::init`].
    pub fn new(inputs: usize, outputs: usize, kernel: impl Pair) -> Self {
        Conv2dOptions {
            inputs,
            outputs,
            kernel: kernel.pair(),
            stride: [1, 1],
            padding: Padding::Sizes(vec![0, 0]),
            dilation: [1, 1],
            groups: 1,
            bias: true,
        }
    }
    /// Step between windows. At first 1.
    #[must_use]
    pub fn stride(mut self, stride: impl Pair) -> Self {
        self.stride = stride.pair();
        self
    }
    /// Zeros on both sides. At first none.
    #[must_use]
    pub fn padding(mut self, padding: impl Pair) -> Self {
        self.padding = Padding::Sizes(padding.pair().to_vec());
        self
    }
    /// As many zeros as make the output as large as the input. Needs stride 1.
    #[must_use]
    pub fn same(mut self) -> Self {
        self.padding = Padding::Same;
        self
    }
    /// Distance between taps. At first 1.
    #[must_use]
    pub fn dilation(mut self, dilation: impl Pair) -> Self {
        self.dilation = dilation.pair();
        self
    }
    /// Groups of channels that do not see each other. At first 1.
    #[must_use]
    pub fn groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self
    }
    /// With a bias? At first yes.
    #[must_use]
    pub fn bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }
    /// A layer of f32 with these settings; all weights start uniform in +-1 / sqrt(in / groups * kh * kw).
    ///
    /// # Panics
    /// If the channels do not divide into the groups, or memory is exhausted.
    #[track_caller]
    pub fn init<B: Backend>(self, g: &mut Generator, device: &B::Device) -> Conv2d<B> {
        self.check().or_fail();
        let [kh, kw] = self.kernel;
        let shape = [self.outputs, self.inputs / self.groups, kh, kw];
        let bound = init::default_bound(shape[1..].iter().product());
        let weight = Param::new(init::uniform(shape, bound, g, device));
        let bias = self.bias.then(|| Param::new(init::uniform(self.outputs, bound, g, device)));
        Conv2d { weight, bias, options: self }
    }
    fn check(&self) -> Result<()> {
        let divide = |n: usize| self.groups > 0 && n.is_multiple_of(self.groups);
        if divide(self.inputs) && divide(self.outputs) {
            Ok(())
        } else {
            Err(Error::argument(format!(
                "conv2d: {} input and {} output channels do not divide into {} groups",
                self.inputs, self.outputs, self.groups
            )))
        }
    }
}

impl<B: Backend> Conv2d<B> {
    /// A layer of f32 with stride 1, no padding and a bias.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn new(
        inputs: usize,
        outputs: usize,
        kernel: impl Pair,
        g: &mut Generator,
        device: &B::Device,
    ) -> Self {
        Conv2dOptions::new(inputs, outputs, kernel).init(g, device)
    }
}

impl<B: Backend> Layer<B> for Conv2d<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        let o = &self.options;
        let bias = self.bias.as_ref().map(Param::get);
        op::conv2d(x, &self.weight.get(), bias.as_ref(), &o.stride, &o.padding, &o.dilation, o.groups)
            .or_fail()
    }
}

impl<B: Backend> fmt::Display for Conv2d<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let o = &self.options;
        write!(f, "Conv2d({}, {}, {}x{}", o.inputs, o.outputs, o.kernel[0], o.kernel[1])?;
        if o.stride != [1, 1] {
            write!(f, ", stride {}x{}", o.stride[0], o.stride[1])?;
        }
        match &o.padding {
            Padding::Sizes(p) if p.iter().all(|p| *p == 0) => {}
            Padding::Sizes(p) => write!(f, ", padding {}x{}", p[0], p[1])?,
            Padding::Same => write!(f, ", padding same")?,
            Padding::Valid => {}
        }
        if o.dilation != [1, 1] {
            write!(f, ", dilation {}x{}", o.dilation[0], o.dilation[1])?;
        }
        if o.groups != 1 {
            write!(f, ", {} groups", o.groups)?;
        }
        f.write_str(if self.bias.is_some() { ")" } else { ", no bias)" })
    }
}
