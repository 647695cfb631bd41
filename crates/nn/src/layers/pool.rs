//! Pooling over one to three spatial axes: the maximum or the average of each window.

use super::PerAxis;
use super::per_axis::By;
use crate::{Layer, Module};
use elinvar_core::Result;
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_tensor::{OrFail, Tensor};
use std::fmt;

/// [`MaxPool`] of [n, c, l].
pub type MaxPool1d = MaxPool<1>;
/// [`MaxPool`] of [n, c, h, w].
pub type MaxPool2d = MaxPool<2>;
/// [`MaxPool`] of [n, c, d, h, w].
pub type MaxPool3d = MaxPool<3>;
/// [`AvgPool`] of [n, c, l].
pub type AvgPool1d = AvgPool<1>;
/// [`AvgPool`] of [n, c, h, w].
pub type AvgPool2d = AvgPool<2>;
/// [`AvgPool`] of [n, c, d, h, w].
pub type AvgPool3d = AvgPool<3>;
/// [`AdaptiveAvgPool`] of [n, c, l].
pub type AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
/// [`AdaptiveAvgPool`] of [n, c, h, w].
pub type AdaptiveAvgPool2d = AdaptiveAvgPool<2>;
/// [`AdaptiveAvgPool`] of [n, c, d, h, w].
pub type AdaptiveAvgPool3d = AdaptiveAvgPool<3>;
/// [`AdaptiveMaxPool`] of [n, c, l].
pub type AdaptiveMaxPool1d = AdaptiveMaxPool<1>;
/// [`AdaptiveMaxPool`] of [n, c, h, w].
pub type AdaptiveMaxPool2d = AdaptiveMaxPool<2>;
/// [`AdaptiveMaxPool`] of [n, c, d, h, w].
pub type AdaptiveMaxPool3d = AdaptiveMaxPool<3>;

/// The largest element of each window of x: [n, c, spatial..], for `AXES` spatial axes.
#[derive(Clone, Debug, Module)]
#[module(display)]
pub struct MaxPool<const AXES: usize> {
    kernel: [usize; AXES],
    stride: [usize; AXES],
    padding: [usize; AXES],
    dilation: [usize; AXES],
    ceil_mode: bool,
}

impl<const AXES: usize> MaxPool<AXES> {
    /// Windows of this size, with a stride of the same size.
    pub fn new(kernel: impl PerAxis<AXES>) -> Self {
        const { assert!(AXES >= 1 && AXES <= 3, "there are pools of one to three axes") }
        let kernel = kernel.per_axis();
        MaxPool { kernel, stride: kernel, padding: [0; AXES], dilation: [1; AXES], ceil_mode: false }
    }
    /// Stride, the step between windows. Default: the size of a window.
    #[must_use]
    pub fn stride(mut self, stride: impl PerAxis<AXES>) -> Self {
        self.stride = stride.per_axis();
        self
    }
    /// Padding with -inf on both sides. Default: 0.
    #[must_use]
    pub fn padding(mut self, padding: impl PerAxis<AXES>) -> Self {
        self.padding = padding.per_axis();
        self
    }
    /// Dilation, the distance between a window's elements. Default: 1.
    #[must_use]
    pub fn dilation(mut self, dilation: impl PerAxis<AXES>) -> Self {
        self.dilation = dilation.per_axis();
        self
    }
    /// Ceil mode: the last window may extend beyond the end. Default: no.
    #[must_use]
    pub fn ceil_mode(mut self, ceil_mode: bool) -> Self {
        self.ceil_mode = ceil_mode;
        self
    }
    /// The maxima, and their row-major indices in their planes, of i64.
    ///
    /// # Panics
    /// If the input does not fit.
    #[track_caller]
    pub fn with_indices<B: Backend>(&self, x: &Tensor<B>) -> (Tensor<B>, Tensor<B>) {
        let run = match AXES {
            1 => op::max_pool1d::with_indices,
            2 => op::max_pool2d::with_indices,
            _ => op::max_pool3d::with_indices,
        };
        run(x, &self.kernel, &self.stride, &self.padding, &self.dilation, self.ceil_mode).or_fail()
    }
}

impl<B: Backend, const AXES: usize> Layer<B> for MaxPool<AXES> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        self.with_indices(x).0
    }
}

impl<const AXES: usize> fmt::Display for MaxPool<AXES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        windows(f, "MaxPool", self.kernel, self.stride, self.padding)
    }
}

fn windows<const AXES: usize>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    kernel: [usize; AXES],
    stride: [usize; AXES],
    padding: [usize; AXES],
) -> fmt::Result {
    write!(f, "{name}{AXES}d({}", By(&kernel))?;
    if stride != kernel {
        write!(f, ", stride {}", By(&stride))?;
    }
    if padding != [0; AXES] {
        write!(f, ", padding {}", By(&padding))?;
    }
    f.write_str(")")
}

/// The average of each window of x: [n, c, spatial..], for `AXES` spatial axes.
#[derive(Clone, Debug, Module)]
#[module(display)]
pub struct AvgPool<const AXES: usize> {
    kernel: [usize; AXES],
    stride: [usize; AXES],
    padding: [usize; AXES],
    ceil_mode: bool,
    count_include_pad: bool,
}

impl<const AXES: usize> AvgPool<AXES> {
    /// Windows of this size, with a stride of the same size.
    pub fn new(kernel: impl PerAxis<AXES>) -> Self {
        const { assert!(AXES >= 1 && AXES <= 3, "there are pools of one to three axes") }
        let kernel = kernel.per_axis();
        AvgPool { kernel, stride: kernel, padding: [0; AXES], ceil_mode: false, count_include_pad: true }
    }
    /// Stride, the step between windows. Default: the size of a window.
    #[must_use]
    pub fn stride(mut self, stride: impl PerAxis<AXES>) -> Self {
        self.stride = stride.per_axis();
        self
    }
    /// Padding with zeros on both sides. Default: 0.
    #[must_use]
    pub fn padding(mut self, padding: impl PerAxis<AXES>) -> Self {
        self.padding = padding.per_axis();
        self
    }
    /// Ceil mode: the last window may extend beyond the end. Default: no.
    #[must_use]
    pub fn ceil_mode(mut self, ceil_mode: bool) -> Self {
        self.ceil_mode = ceil_mode;
        self
    }
    /// Does the divisor count the padding? Default: yes.
    #[must_use]
    pub fn count_include_pad(mut self, count: bool) -> Self {
        self.count_include_pad = count;
        self
    }
}

impl<B: Backend, const AXES: usize> Layer<B> for AvgPool<AXES> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        let (ceil, count) = (self.ceil_mode, self.count_include_pad);
        let run = match AXES {
            1 => op::avg_pool1d,
            2 => op::avg_pool2d,
            _ => op::avg_pool3d,
        };
        run(x, &self.kernel, &self.stride, &self.padding, ceil, count).or_fail()
    }
}

impl<const AXES: usize> fmt::Display for AvgPool<AXES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        windows(f, "AvgPool", self.kernel, self.stride, self.padding)
    }
}

/// Averages over as many windows as make the output [n, c, sizes..], whatever the input's size.
#[derive(Clone, Debug, Module)]
#[module(display)]
pub struct AdaptiveAvgPool<const AXES: usize> {
    output: [usize; AXES],
}

impl<const AXES: usize> AdaptiveAvgPool<AXES> {
    /// An output of these sizes.
    pub fn new(output: impl PerAxis<AXES>) -> Self {
        const { assert!(AXES >= 1 && AXES <= 3, "there are pools of one to three axes") }
        AdaptiveAvgPool { output: output.per_axis() }
    }
    fn run<B: Backend>(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        match AXES {
            1 => op::adaptive_avg_pool1d(x, &self.output),
            2 => op::adaptive_avg_pool2d(x, &self.output),
            _ => op::adaptive_avg_pool3d(x, &self.output),
        }
    }
}

impl<B: Backend, const AXES: usize> Layer<B> for AdaptiveAvgPool<AXES> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        self.run(x).or_fail()
    }
}

impl<const AXES: usize> fmt::Display for AdaptiveAvgPool<AXES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdaptiveAvgPool{AXES}d({})", By(&self.output))
    }
}

/// The largest elements of as many windows as make the output [n, c, sizes..], whatever the input's
/// size.
#[derive(Clone, Debug, Module)]
#[module(display)]
pub struct AdaptiveMaxPool<const AXES: usize> {
    output: [usize; AXES],
}

impl<const AXES: usize> AdaptiveMaxPool<AXES> {
    /// An output of these sizes.
    pub fn new(output: impl PerAxis<AXES>) -> Self {
        const { assert!(AXES >= 1 && AXES <= 3, "there are pools of one to three axes") }
        AdaptiveMaxPool { output: output.per_axis() }
    }
    /// The maxima, and their row-major indices in their planes, of i64.
    ///
    /// # Panics
    /// If the input does not fit.
    #[track_caller]
    pub fn with_indices<B: Backend>(&self, x: &Tensor<B>) -> (Tensor<B>, Tensor<B>) {
        let result = match AXES {
            1 => op::adaptive_max_pool1d::with_indices(x, &self.output),
            2 => op::adaptive_max_pool2d::with_indices(x, &self.output),
            _ => op::adaptive_max_pool3d::with_indices(x, &self.output),
        };
        result.or_fail()
    }
}

impl<B: Backend, const AXES: usize> Layer<B> for AdaptiveMaxPool<AXES> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        self.with_indices(x).0
    }
}

impl<const AXES: usize> fmt::Display for AdaptiveMaxPool<AXES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdaptiveMaxPool{AXES}d({})", By(&self.output))
    }
}
