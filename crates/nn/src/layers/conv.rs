//! Convolutions (cross-correlations, as usual in deep learning) over one to three spatial axes.

use super::PerAxis;
use super::per_axis::By;
use crate::{Layer, Module, Param, Visit, init};
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_ops::catalogue::conv::Padding;
use elinvar_ops::catalogue::pad::Mode;
use elinvar_tensor::{Generator, OrFail, Tensor};
use std::fmt;

/// [`Conv`] of [n, c, l].
pub type Conv1d<B> = Conv<B, 1>;
/// [`Conv`] of [n, c, h, w].
pub type Conv2d<B> = Conv<B, 2>;
/// [`Conv`] of [n, c, d, h, w].
pub type Conv3d<B> = Conv<B, 3>;
/// The settings of a [`Conv1d`].
pub type Conv1dOptions = ConvOptions<1>;
/// The settings of a [`Conv2d`].
pub type Conv2dOptions = ConvOptions<2>;
/// The settings of a [`Conv3d`].
pub type Conv3dOptions = ConvOptions<3>;

/// y[n, o, i..] = sum over (c, taps) of x[n, c, i * stride + tap * dilation - padding, ..] *
/// weight[o, c, tap..],
/// + bias\[o\], for `AXES` spatial axes.
///
/// x: [n, in, spatial..] or [in, spatial..]   weight: [out, in / groups, kernel..]   bias: \[out\]
/// y: [n, out, spatial'..]
#[derive(Debug)]
pub struct Conv<B: Backend, const AXES: usize> {
    /// [out, in / groups, kernel..]
    pub weight: Param<B>,
    /// \[out\]
    pub bias: Option<Param<B>>,
    /// Stride, padding, dilation, groups.
    pub options: ConvOptions<AXES>,
}

/// Padding mode of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaddingMode {
    /// Zeros.
    Zeros,
    /// The input mirrored at its edge, without repeating the edge.
    Reflect,
    /// The element at the edge.
    Replicate,
    /// The input repeated periodically.
    Circular,
}

/// The settings of a [`Conv`], each with PyTorch's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvOptions<const AXES: usize> {
    inputs: usize,
    outputs: usize,
    kernel: [usize; AXES],
    stride: [usize; AXES],
    padding: Padding,
    padding_mode: PaddingMode,
    dilation: [usize; AXES],
    groups: usize,
    bias: bool,
}

impl<const AXES: usize> ConvOptions<AXES> {
    /// Settings of a layer with these input and output channels and this kernel, to change and then
    /// to [`ConvOptions::init`].
    pub fn new(inputs: usize, outputs: usize, kernel: impl PerAxis<AXES>) -> Self {
        const { assert!(AXES >= 1 && AXES <= 3, "there are convolutions of one to three axes") }
        ConvOptions {
            inputs,
            outputs,
            kernel: kernel.per_axis(),
            stride: [1; AXES],
            padding: Padding::Sizes(vec![0; AXES]),
            padding_mode: PaddingMode::Zeros,
            dilation: [1; AXES],
            groups: 1,
            bias: true,
        }
    }
    /// Stride, the step between windows. Default: 1.
    #[must_use]
    pub fn stride(mut self, stride: impl PerAxis<AXES>) -> Self {
        self.stride = stride.per_axis();
        self
    }
    /// Padding on both sides. Default: 0.
    #[must_use]
    pub fn padding(mut self, padding: impl PerAxis<AXES>) -> Self {
        self.padding = Padding::Sizes(padding.per_axis().to_vec());
        self
    }
    /// "Same" padding: the output is as large as the input. Needs stride 1.
    #[must_use]
    pub fn same(mut self) -> Self {
        self.padding = Padding::Same;
        self
    }
    /// No padding, the default.
    #[must_use]
    pub fn valid(mut self) -> Self {
        self.padding = Padding::Valid;
        self
    }
    /// Padding mode. Default: zeros.
    #[must_use]
    pub fn padding_mode(mut self, mode: PaddingMode) -> Self {
        self.padding_mode = mode;
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
    /// A layer of f32 with these settings; all weights start uniform in +-1 / sqrt(in / groups *
    /// taps).
    ///
    /// # Panics
    /// If the channels do not divide into the groups, or memory is exhausted.
    #[track_caller]
    pub fn init<B: Backend>(self, g: &mut Generator, device: &B::Device) -> Conv<B, AXES> {
        let shape = self.weight_shape().or_fail();
        let bound = init::default_bound(shape[1..].iter().product());
        let weight = Param::new(init::uniform(shape, bound, g, device));
        let bias = self.bias.then(|| Param::new(init::uniform(self.outputs, bound, g, device)));
        Conv { weight, bias, options: self }
    }
    /// A layer with these settings and existing weights; it has a bias if one is given.
    ///
    /// # Errors
    /// `ShapeMismatch` if they are not [out, in / groups, kernel..] and \[out\]; `DTypeMismatch` if
    /// they are not of one float type; `InvalidArgument` if the channels do not divide into the
    /// groups.
    pub fn from_weights<B: Backend>(
        self,
        weight: &Tensor<B>,
        bias: Option<&Tensor<B>>,
    ) -> Result<Conv<B, AXES>> {
        let (shape, dtype) = (self.weight_shape()?, weight.dtype());
        if weight.dims() != shape {
            return Err(Error::shape(format!(
                "conv{AXES}d: a weight of shape {}; it should be {shape:?}",
                weight.shape()
            )));
        }
        if let Some(b) = bias.filter(|b| b.dims() != [self.outputs]) {
            return Err(Error::shape(format!(
                "conv{AXES}d: a bias of shape {}; it should be [{}]",
                b.shape(),
                self.outputs
            )));
        }
        if let Some(odd) =
            bias.map(Tensor::dtype).into_iter().chain([dtype]).find(|d| *d != dtype || !d.is_float())
        {
            return Err(Error::dtype(format!(
                "conv{AXES}d: a weight of {dtype} and a bias of {odd}; both should be of one float type"
            )));
        }
        let (weight, bias) = (Param::new(weight.clone()), bias.map(|b| Param::new(b.clone())));
        Ok(Conv { weight, options: self.bias(bias.is_some()), bias })
    }
    /// [out, in / groups, kernel..]
    fn weight_shape(&self) -> Result<Vec<usize>> {
        divides(&format!("conv{AXES}d"), self.inputs, self.outputs, self.groups)?;
        let mut shape = vec![self.outputs, self.inputs / self.groups];
        shape.extend(self.kernel);
        Ok(shape)
    }
    /// The amounts of padding other than zeros: [before, after] of the last axis, of the one before
    /// it, and so on.
    fn amounts(&self) -> Result<Vec<isize>> {
        let wide = |n: usize| {
            isize::try_from(n).map_err(|_| Error::argument(format!("conv{AXES}d: padding {n} is too large")))
        };
        let mut all = vec![];
        for i in (0..AXES).rev() {
            let (before, after) = match &self.padding {
                Padding::Sizes(p) => (p[i], p[i]),
                Padding::Same => {
                    let all = self.kernel[i].saturating_sub(1).saturating_mul(self.dilation[i]);
                    (all / 2, all - all / 2)
                }
                Padding::Valid => (0, 0),
            };
            all.extend([wide(before)?, wide(after)?]);
        }
        Ok(all)
    }
}

/// Checks that the channels divide into groups.
pub(super) fn divides(op: &str, inputs: usize, outputs: usize, groups: usize) -> Result<()> {
    let divide = |n: usize| groups > 0 && n.is_multiple_of(groups);
    if divide(inputs) && divide(outputs) {
        Ok(())
    } else {
        Err(Error::argument(format!(
            "{op}: {inputs} input and {outputs} output channels do not divide into {groups} groups"
        )))
    }
}

impl<B: Backend, const AXES: usize> Conv<B, AXES> {
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
        ConvOptions::new(inputs, outputs, kernel).init(g, device)
    }
    fn run(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        let o = &self.options;
        let mode = match o.padding_mode {
            PaddingMode::Zeros => None,
            PaddingMode::Reflect => Some(Mode::Reflect),
            PaddingMode::Replicate => Some(Mode::Replicate),
            PaddingMode::Circular => Some(Mode::Circular),
        };
        let (w, bias) = (self.weight.get(), self.bias.as_ref().map(Param::get));
        match mode {
            None => self.conv(x, &w, bias.as_ref(), &o.padding),
            Some(mode) => {
                if o.padding == Padding::Same && o.stride != [1; AXES] {
                    return Err(Error::argument(format!(
                        "conv{AXES}d: padding same with stride {:?}; it goes with stride 1 only",
                        o.stride
                    )));
                }
                let x = op::pad(x, &o.amounts()?, mode).map_err(|e| e.at(format!("conv{AXES}d")))?;
                self.conv(&x, &w, bias.as_ref(), &Padding::Valid)
            }
        }
    }
    fn conv(
        &self,
        x: &Tensor<B>,
        w: &Tensor<B>,
        bias: Option<&Tensor<B>>,
        padding: &Padding,
    ) -> Result<Tensor<B>> {
        let o = &self.options;
        let run = match AXES {
            1 => op::conv1d,
            2 => op::conv2d,
            _ => op::conv3d,
        };
        run(x, w, bias, &o.stride, padding, &o.dilation, o.groups)
    }
}

impl<B: Backend, const AXES: usize> Module<B> for Conv<B, AXES> {
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
        visit.module(name, self, |visit| {
            visit.param("weight", &self.weight);
            if self.options.groups == 1 {
                visit.factor(&self.weight, true);
            }
            self.bias.visit("bias", visit);
        });
    }
}

impl<B: Backend, const AXES: usize> Layer<B> for Conv<B, AXES> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        self.run(x).or_fail()
    }
}

impl<B: Backend, const AXES: usize> fmt::Display for Conv<B, AXES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let o = &self.options;
        write!(f, "Conv{AXES}d({}, {}, {}", o.inputs, o.outputs, By(&o.kernel))?;
        if o.stride != [1; AXES] {
            write!(f, ", stride {}", By(&o.stride))?;
        }
        match &o.padding {
            Padding::Sizes(p) if p.iter().all(|p| *p == 0) => {}
            Padding::Sizes(p) => write!(f, ", padding {}", By(p))?,
            Padding::Same => write!(f, ", padding same")?,
            Padding::Valid => {}
        }
        match o.padding_mode {
            PaddingMode::Zeros => {}
            PaddingMode::Reflect => f.write_str(", reflected")?,
            PaddingMode::Replicate => f.write_str(", replicated")?,
            PaddingMode::Circular => f.write_str(", circular")?,
        }
        if o.dilation != [1; AXES] {
            write!(f, ", dilation {}", By(&o.dilation))?;
        }
        if o.groups != 1 {
            write!(f, ", {} groups", o.groups)?;
        }
        f.write_str(if self.bias.is_some() { ")" } else { ", no bias)" })
    }
}
