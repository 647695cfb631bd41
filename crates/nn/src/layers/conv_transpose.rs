//! Transposed convolutions: each input element is added to the outputs from which a convolution
//! would read it.

use super::PerAxis;
use super::conv::divides;
use super::per_axis::By;
use crate::{Layer, Module, Param, init};
use elinvar_core::Result;
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_tensor::{Generator, OrFail, Tensor};
use std::fmt;

/// [`ConvTranspose`] of [n, c, l].
pub type ConvTranspose1d<B> = ConvTranspose<B, 1>;
/// [`ConvTranspose`] of [n, c, h, w].
pub type ConvTranspose2d<B> = ConvTranspose<B, 2>;
/// [`ConvTranspose`] of [n, c, d, h, w].
pub type ConvTranspose3d<B> = ConvTranspose<B, 3>;
/// The settings of a [`ConvTranspose1d`].
pub type ConvTranspose1dOptions = ConvTransposeOptions<1>;
/// The settings of a [`ConvTranspose2d`].
pub type ConvTranspose2dOptions = ConvTransposeOptions<2>;
/// The settings of a [`ConvTranspose3d`].
pub type ConvTranspose3dOptions = ConvTransposeOptions<3>;

/// Every x[n, c, i..] adds x * weight[c, o, tap..] to y[n, o, i * stride + tap * dilation -
/// padding, ..]; then bias\[o\].
///
/// x: [n, in, spatial..] or [in, spatial..]   weight: [in, out / groups, kernel..]   bias: \[out\]
/// y: [n, out, (spatial - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1,
/// ..]
#[derive(Debug, Module)]
#[module(display)]
pub struct ConvTranspose<B: Backend, const AXES: usize> {
    /// [in, out / groups, kernel..]
    pub weight: Param<B>,
    /// \[out\]
    pub bias: Option<Param<B>>,
    /// Stride, padding, dilation, groups.
    #[module(skip)]
    pub options: ConvTransposeOptions<AXES>,
}

/// The settings of a [`ConvTranspose`], each with PyTorch's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvTransposeOptions<const AXES: usize> {
    inputs: usize,
    outputs: usize,
    kernel: [usize; AXES],
    stride: [usize; AXES],
    padding: [usize; AXES],
    output_padding: [usize; AXES],
    dilation: [usize; AXES],
    groups: usize,
    bias: bool,
}

impl<const AXES: usize> ConvTransposeOptions<AXES> {
    /// Settings of a layer with these input and output channels and this kernel, to change and then
    /// to [`ConvTransposeOptions::init`].
    pub fn new(inputs: usize, outputs: usize, kernel: impl PerAxis<AXES>) -> Self {
        const { assert!(AXES >= 1 && AXES <= 3, "there are convolutions of one to three axes") }
        ConvTransposeOptions {
            inputs,
            outputs,
            kernel: kernel.per_axis(),
            stride: [1; AXES],
            padding: [0; AXES],
            output_padding: [0; AXES],
            dilation: [1; AXES],
            groups: 1,
            bias: true,
        }
    }
    /// Stride: the distance in the output between neighbours of the input. Default: 1.
    #[must_use]
    pub fn stride(mut self, stride: impl PerAxis<AXES>) -> Self {
        self.stride = stride.per_axis();
        self
    }
    /// Padding: how much is cropped on both sides of the output. Default: 0.
    #[must_use]
    pub fn padding(mut self, padding: impl PerAxis<AXES>) -> Self {
        self.padding = padding.per_axis();
        self
    }
    /// Additional size at the end of the output, which resolves the ambiguity of the input size of
    /// a strided convolution. Default: 0.
    #[must_use]
    pub fn output_padding(mut self, padding: impl PerAxis<AXES>) -> Self {
        self.output_padding = padding.per_axis();
        self
    }
    /// Dilation, the distance between taps. Default: 1.
    #[must_use]
    pub fn dilation(mut self, dilation: impl PerAxis<AXES>) -> Self {
        self.dilation = dilation.per_axis();
        self
    }
    /// Number of independent groups of channels. Default: 1.
    #[must_use]
    pub fn groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self
    }
    /// With a bias? Default: yes.
    #[must_use]
    pub fn bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }
    /// A layer of f32 with these settings; all weights start uniform in +-1 / sqrt(out / groups *
    /// taps), which is PyTorch's rule for the weight's second axis, though here that counts
    /// outputs.
    ///
    /// # Panics
    /// If the channels do not divide into the groups, or memory is exhausted.
    #[track_caller]
    pub fn init<B: Backend>(self, g: &mut Generator, device: &B::Device) -> ConvTranspose<B, AXES> {
        divides(&format!("conv_transpose{AXES}d"), self.inputs, self.outputs, self.groups).or_fail();
        let mut shape = vec![self.inputs, self.outputs / self.groups];
        shape.extend(self.kernel);
        let bound = init::default_bound(shape[1..].iter().product());
        let weight = Param::new(init::uniform(shape, bound, g, device));
        let bias = self.bias.then(|| Param::new(init::uniform(self.outputs, bound, g, device)));
        ConvTranspose { weight, bias, options: self }
    }
}

impl<B: Backend, const AXES: usize> ConvTranspose<B, AXES> {
    /// A layer of f32 with stride 1, no padding and a bias.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn new(
        inputs: usize,
        outputs: usize,
        kernel: impl PerAxis<AXES>,
        g: &mut Generator,
        device: &B::Device,
    ) -> Self {
        ConvTransposeOptions::new(inputs, outputs, kernel).init(g, device)
    }
    fn run(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        let o = &self.options;
        let (w, bias) = (self.weight.get(), self.bias.as_ref().map(Param::get));
        let run = match AXES {
            1 => op::conv_transpose1d,
            2 => op::conv_transpose2d,
            _ => op::conv_transpose3d,
        };
        run(x, &w, bias.as_ref(), &o.stride, &o.padding, &o.output_padding, o.groups, &o.dilation)
    }
}

impl<B: Backend, const AXES: usize> Layer<B> for ConvTranspose<B, AXES> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        self.run(x).or_fail()
    }
}

impl<B: Backend, const AXES: usize> fmt::Display for ConvTranspose<B, AXES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let o = &self.options;
        write!(f, "ConvTranspose{AXES}d({}, {}, {}", o.inputs, o.outputs, By(&o.kernel))?;
        let settings = [
            ("stride", o.stride, 1),
            ("padding", o.padding, 0),
            ("output padding", o.output_padding, 0),
            ("dilation", o.dilation, 1),
        ];
        for (name, value, usual) in settings {
            if value != [usual; AXES] {
                write!(f, ", {name} {}", By(&value))?;
            }
        }
        if o.groups != 1 {
            write!(f, ", {} groups", o.groups)?;
        }
        f.write_str(if self.bias.is_some() { ")" } else { ", no bias)" })
    }
}
