//! Matrix products, convolutions, attention, and the norms and pooling used with them.

use super::table::methods;
use crate::Tensor;
use crate::fail::OrFail;
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue as op;

methods! {
    /// y[b, m, n] = sum over k of x[b, m, k] * w[b, k, n].
    fn bmm(w: &Tensor<B>) -> Tensor<B> = op::bmm;
    /// `x[i] * y[j]` of two vectors.
    fn outer(y: &Tensor<B>) -> Tensor<B> = op::outer;
    /// The sum of the products of two vectors.
    fn dot(y: &Tensor<B>) -> Tensor<B> = op::dot;
    /// x @ weight^T + bias, weight [out, in].
    fn linear(weight: &Tensor<B>, bias: Option<&Tensor<B>>) -> Tensor<B> = op::linear;
    /// Convolution of [n, c, l] with a weight [out, c / groups, k].
    fn conv1d(
        weight: &Tensor<B>, bias: Option<&Tensor<B>>, stride: &[usize], padding: &op::conv::Padding,
        dilation: &[usize], groups: usize
    ) -> Tensor<B> = op::conv1d;
    /// Convolution of [n, c, h, w] with a weight [out, c / groups, kh, kw].
    fn conv2d(
        weight: &Tensor<B>, bias: Option<&Tensor<B>>, stride: &[usize], padding: &op::conv::Padding,
        dilation: &[usize], groups: usize
    ) -> Tensor<B> = op::conv2d;
    /// Convolution of [n, c, d, h, w] with a weight [out, c / groups, kd, kh, kw].
    fn conv3d(
        weight: &Tensor<B>, bias: Option<&Tensor<B>>, stride: &[usize], padding: &op::conv::Padding,
        dilation: &[usize], groups: usize
    ) -> Tensor<B> = op::conv3d;
    /// The largest of each window of [n, c, h, w].
    fn max_pool2d(
        kernel_size: &[usize], stride: &[usize], padding: &[usize], dilation: &[usize], ceil_mode: bool
    ) -> Tensor<B> = op::max_pool2d;
    /// The mean of each window of [n, c, h, w].
    fn avg_pool2d(
        kernel_size: &[usize], stride: &[usize], padding: &[usize], ceil_mode: bool, count_include_pad: bool
    ) -> Tensor<B> = op::avg_pool2d;
    /// The mean of windows chosen so that the result has `output_size`.
    fn adaptive_avg_pool2d(output_size: &[usize]) -> Tensor<B> = op::adaptive_avg_pool2d;
    /// Mean 0 and variance 1 over the last axes, then scaled and shifted.
    fn layer_norm(
        normalized_shape: &[usize], weight: Option<&Tensor<B>>, bias: Option<&Tensor<B>>, eps: f64
    ) -> Tensor<B> = op::layer_norm;
    /// Divided by the root of the mean square over the last axes, then scaled. Without `eps`, the
    /// dtype's epsilon.
    fn rms_norm(normalized_shape: &[usize], weight: Option<&Tensor<B>>, eps: Option<f64>) -> Tensor<B> = op::rms_norm;
    /// Mean 0 and variance 1 over groups of channels, then scaled and shifted.
    fn group_norm(
        num_groups: usize, weight: Option<&Tensor<B>>, bias: Option<&Tensor<B>>, eps: f64
    ) -> Tensor<B> = op::group_norm;
    /// x * Phi(x), exactly or by tanh.
    fn gelu(approximate: op::gelu::Approximate) -> Tensor<B> = op::gelu;
    /// softmax(q k^T * scale) v with q [n, h, l, d], k and v [n, j, s, d].
    fn scaled_dot_product_attention(
        k: &Tensor<B>, v: &Tensor<B>, mask: Option<&Tensor<B>>, is_causal: bool, scale: Option<f64>, enable_gqa: bool
    ) -> Tensor<B> = op::scaled_dot_product_attention;
    /// Resized along the spatial axes.
    fn interpolate(target: &op::interpolate::Target, mode: op::interpolate::Interpolation) -> Tensor<B> =
        op::interpolate;
}

impl<B: Backend> Tensor<B> {
    /// Einstein summation over named axes: `Tensor::einsum("bik,bkj->bij", &[&x, &y])`.
    ///
    /// # Panics
    /// If the equation and the operands do not fit.
    #[track_caller]
    pub fn einsum(equation: &str, operands: &[&Tensor<B>]) -> Tensor<B> {
        op::einsum(equation, operands).or_fail()
    }
    /// beta * self + alpha * (x @ y).
    ///
    /// # Panics
    /// If shapes, dtypes or devices do not fit.
    #[track_caller]
    pub fn addmm(&self, x: &Tensor<B>, y: &Tensor<B>, beta: f64, alpha: f64) -> Tensor<B> {
        op::addmm(self, x, y, beta, alpha).or_fail()
    }
}
