//! Convolutions, pools, norms, attention, recurrent networks: what layers are made of.

use super::table::methods;
use crate::fail::OrFail;
use crate::sizes::{Sizes, counts};
use crate::{Generator, Tensor};
use elinvar_core::{Dims, Result};
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue as op;
use op::batch_norm::BatchNorm;
use op::conv::Padding;
use op::multi_head_attention::{HeadWeights, MhaParts, MhaWeights};
use op::recurrent::{RnnOptions, RnnWeights};
use op::scaled_dot_product_attention::{Drops, with_dropout};

/// The padding of a convolution: numbers, for all spatial axes or each, or a [`Padding`].
pub trait IntoPadding {
    /// The padding.
    ///
    /// # Errors
    /// `InvalidArgument` if a number is negative.
    fn into_padding(self, op: &str) -> Result<Padding>;
}
impl<S: Sizes> IntoPadding for S {
    fn into_padding(self, op: &str) -> Result<Padding> {
        Ok(Padding::Sizes(counts(op, &self.sizes())?.to_vec()))
    }
}
impl IntoPadding for Padding {
    fn into_padding(self, _: &str) -> Result<Padding> {
        Ok(self)
    }
}
impl IntoPadding for &Padding {
    fn into_padding(self, _: &str) -> Result<Padding> {
        Ok(self.clone())
    }
}

/// Several lists of sizes.
fn windows<const N: usize>(op: &str, all: [&[isize]; N]) -> Result<Vec<Dims>> {
    all.iter().map(|sizes| counts(op, sizes)).collect()
}

methods! {
    /// The largest elements of windows put back to where they were, at the second result of a max
    /// pool; 0 elsewhere.
    fn max_unpool1d, try_max_unpool1d(
        indices: &Tensor<B>, kernel_size: &[usize], stride: &[usize], padding: &[usize],
        output_size: Option<&[usize]>
    ) -> Tensor<B> = |x| op::max_unpool1d(x, indices, kernel_size, stride, padding, output_size);
    /// The largest elements of windows put back to where they were, at the second result of a max
    /// pool; 0 elsewhere.
    fn max_unpool2d, try_max_unpool2d(
        indices: &Tensor<B>, kernel_size: &[usize], stride: &[usize], padding: &[usize],
        output_size: Option<&[usize]>
    ) -> Tensor<B> = |x| op::max_unpool2d(x, indices, kernel_size, stride, padding, output_size);
    /// The largest elements of windows put back to where they were, at the second result of a max
    /// pool; 0 elsewhere.
    fn max_unpool3d, try_max_unpool3d(
        indices: &Tensor<B>, kernel_size: &[usize], stride: &[usize], padding: &[usize],
        output_size: Option<&[usize]>
    ) -> Tensor<B> = |x| op::max_unpool3d(x, indices, kernel_size, stride, padding, output_size);
    /// Convolution of [n, c, l] with a weight [out, c / groups, k]; the batch may be absent.
    fn conv1d, try_conv1d(
        weight: &Tensor<B>, bias: Option<&Tensor<B>>, stride: impl Sizes, padding: impl IntoPadding,
        dilation: impl Sizes, groups: usize
    ) -> Tensor<B> = |x| {
        let (stride, dilation) = (counts("conv1d", &stride.sizes())?, counts("conv1d", &dilation.sizes())?);
        op::conv1d(x, weight, bias, &stride, &padding.into_padding("conv1d")?, &dilation, groups)
    };
    /// The transposed convolution: what [`Tensor::conv1d`] reads, this adds to. Weight [c, out /
    /// groups, k].
    fn conv_transpose1d, try_conv_transpose1d(
        weight: &Tensor<B>, bias: Option<&Tensor<B>>, stride: impl Sizes, padding: impl Sizes,
        output_padding: impl Sizes, groups: usize, dilation: impl Sizes
    ) -> Tensor<B> = |x| {
        let name = "conv_transpose1d";
        let (stride, padding) = (counts(name, &stride.sizes())?, counts(name, &padding.sizes())?);
        let (extra, dilation) = (counts(name, &output_padding.sizes())?, counts(name, &dilation.sizes())?);
        op::conv_transpose1d(x, weight, bias, &stride, &padding, &extra, groups, &dilation)
    };
    /// Convolution of [n, c, h, w] with a weight [out, c / groups, kh, kw]; the batch may be
    /// absent.
    fn conv2d, try_conv2d(
        weight: &Tensor<B>, bias: Option<&Tensor<B>>, stride: impl Sizes, padding: impl IntoPadding,
        dilation: impl Sizes, groups: usize
    ) -> Tensor<B> = |x| {
        let (stride, dilation) = (counts("conv2d", &stride.sizes())?, counts("conv2d", &dilation.sizes())?);
        op::conv2d(x, weight, bias, &stride, &padding.into_padding("conv2d")?, &dilation, groups)
    };
    /// The transposed convolution: what [`Tensor::conv2d`] reads, this adds to. Weight [c, out /
    /// groups, kh, kw].
    fn conv_transpose2d, try_conv_transpose2d(
        weight: &Tensor<B>, bias: Option<&Tensor<B>>, stride: impl Sizes, padding: impl Sizes,
        output_padding: impl Sizes, groups: usize, dilation: impl Sizes
    ) -> Tensor<B> = |x| {
        let name = "conv_transpose2d";
        let (stride, padding) = (counts(name, &stride.sizes())?, counts(name, &padding.sizes())?);
        let (extra, dilation) = (counts(name, &output_padding.sizes())?, counts(name, &dilation.sizes())?);
        op::conv_transpose2d(x, weight, bias, &stride, &padding, &extra, groups, &dilation)
    };
    /// Convolution of [n, c, d, h, w] with a weight [out, c / groups, kd, kh, kw]; the batch may be
    /// absent.
    fn conv3d, try_conv3d(
        weight: &Tensor<B>, bias: Option<&Tensor<B>>, stride: impl Sizes, padding: impl IntoPadding,
        dilation: impl Sizes, groups: usize
    ) -> Tensor<B> = |x| {
        let (stride, dilation) = (counts("conv3d", &stride.sizes())?, counts("conv3d", &dilation.sizes())?);
        op::conv3d(x, weight, bias, &stride, &padding.into_padding("conv3d")?, &dilation, groups)
    };
    /// The transposed convolution: what [`Tensor::conv3d`] reads, this adds to. Weight [c, out /
    /// groups, kd, kh, kw].
    fn conv_transpose3d, try_conv_transpose3d(
        weight: &Tensor<B>, bias: Option<&Tensor<B>>, stride: impl Sizes, padding: impl Sizes,
        output_padding: impl Sizes, groups: usize, dilation: impl Sizes
    ) -> Tensor<B> = |x| {
        let name = "conv_transpose3d";
        let (stride, padding) = (counts(name, &stride.sizes())?, counts(name, &padding.sizes())?);
        let (extra, dilation) = (counts(name, &output_padding.sizes())?, counts(name, &dilation.sizes())?);
        op::conv_transpose3d(x, weight, bias, &stride, &padding, &extra, groups, &dilation)
    };
    /// The largest of each window of [n, c, l].
    fn max_pool1d, try_max_pool1d(
        kernel_size: impl Sizes, stride: impl Sizes, padding: impl Sizes, dilation: impl Sizes, ceil_mode: bool
    ) -> Tensor<B> = |x| {
        let all = windows("max_pool1d", [&kernel_size.sizes(), &stride.sizes(), &padding.sizes(), &dilation.sizes()])?;
        op::max_pool1d(x, &all[0], &all[1], &all[2], &all[3], ceil_mode)
    };
    /// As [`Tensor::max_pool1d`], with where each element came from (i64): its row-major number in
    /// its plane.
    fn max_pool1d_with_indices, try_max_pool1d_with_indices(
        kernel_size: impl Sizes, stride: impl Sizes, padding: impl Sizes, dilation: impl Sizes, ceil_mode: bool
    ) -> (Tensor<B>, Tensor<B>) = |x| {
        let all = windows("max_pool1d", [&kernel_size.sizes(), &stride.sizes(), &padding.sizes(), &dilation.sizes()])?;
        op::max_pool1d::with_indices(x, &all[0], &all[1], &all[2], &all[3], ceil_mode)
    };
    /// The mean of each window of [n, c, l].
    fn avg_pool1d, try_avg_pool1d(
        kernel_size: impl Sizes, stride: impl Sizes, padding: impl Sizes, ceil_mode: bool, count_include_pad: bool
    ) -> Tensor<B> = |x| {
        let all = windows("avg_pool1d", [&kernel_size.sizes(), &stride.sizes(), &padding.sizes()])?;
        op::avg_pool1d(x, &all[0], &all[1], &all[2], ceil_mode, count_include_pad)
    };
    /// The mean of windows chosen so that the result has `output_size`.
    fn adaptive_avg_pool1d, try_adaptive_avg_pool1d(output_size: impl Sizes) -> Tensor<B> =
        |x| op::adaptive_avg_pool1d(x, &counts("adaptive_avg_pool1d", &output_size.sizes())?);
    /// The largest of windows chosen so that the result has `output_size`.
    fn adaptive_max_pool1d, try_adaptive_max_pool1d(output_size: impl Sizes) -> Tensor<B> =
        |x| op::adaptive_max_pool1d(x, &counts("adaptive_max_pool1d", &output_size.sizes())?);
    /// The largest of each window of [n, c, h, w].
    fn max_pool2d, try_max_pool2d(
        kernel_size: impl Sizes, stride: impl Sizes, padding: impl Sizes, dilation: impl Sizes, ceil_mode: bool
    ) -> Tensor<B> = |x| {
        let all = windows("max_pool2d", [&kernel_size.sizes(), &stride.sizes(), &padding.sizes(), &dilation.sizes()])?;
        op::max_pool2d(x, &all[0], &all[1], &all[2], &all[3], ceil_mode)
    };
    /// As [`Tensor::max_pool2d`], with where each element came from (i64): its row-major number in
    /// its plane.
    fn max_pool2d_with_indices, try_max_pool2d_with_indices(
        kernel_size: impl Sizes, stride: impl Sizes, padding: impl Sizes, dilation: impl Sizes, ceil_mode: bool
    ) -> (Tensor<B>, Tensor<B>) = |x| {
        let all = windows("max_pool2d", [&kernel_size.sizes(), &stride.sizes(), &padding.sizes(), &dilation.sizes()])?;
        op::max_pool2d::with_indices(x, &all[0], &all[1], &all[2], &all[3], ceil_mode)
    };
    /// The mean of each window of [n, c, h, w].
    fn avg_pool2d, try_avg_pool2d(
        kernel_size: impl Sizes, stride: impl Sizes, padding: impl Sizes, ceil_mode: bool, count_include_pad: bool
    ) -> Tensor<B> = |x| {
        let all = windows("avg_pool2d", [&kernel_size.sizes(), &stride.sizes(), &padding.sizes()])?;
        op::avg_pool2d(x, &all[0], &all[1], &all[2], ceil_mode, count_include_pad)
    };
    /// The sum of each window, divided by this number.
    fn avg_pool2d_with_divisor, try_avg_pool2d_with_divisor(
        kernel_size: impl Sizes, stride: impl Sizes, padding: impl Sizes, ceil_mode: bool, divisor: usize
    ) -> Tensor<B> = |x| {
        let all = windows("avg_pool2d", [&kernel_size.sizes(), &stride.sizes(), &padding.sizes()])?;
        op::avg_pool2d::with_divisor(x, [&all[0], &all[1], &all[2]], ceil_mode, true, Some(divisor))
    };
    /// The mean of windows chosen so that the result has `output_size`.
    fn adaptive_avg_pool2d, try_adaptive_avg_pool2d(output_size: impl Sizes) -> Tensor<B> =
        |x| op::adaptive_avg_pool2d(x, &counts("adaptive_avg_pool2d", &output_size.sizes())?);
    /// The largest of windows chosen so that the result has `output_size`.
    fn adaptive_max_pool2d, try_adaptive_max_pool2d(output_size: impl Sizes) -> Tensor<B> =
        |x| op::adaptive_max_pool2d(x, &counts("adaptive_max_pool2d", &output_size.sizes())?);
    /// The largest of each window of [n, c, d, h, w].
    fn max_pool3d, try_max_pool3d(
        kernel_size: impl Sizes, stride: impl Sizes, padding: impl Sizes, dilation: impl Sizes, ceil_mode: bool
    ) -> Tensor<B> = |x| {
        let all = windows("max_pool3d", [&kernel_size.sizes(), &stride.sizes(), &padding.sizes(), &dilation.sizes()])?;
        op::max_pool3d(x, &all[0], &all[1], &all[2], &all[3], ceil_mode)
    };
    /// As [`Tensor::max_pool3d`], with where each element came from (i64): its row-major number in
    /// its plane.
    fn max_pool3d_with_indices, try_max_pool3d_with_indices(
        kernel_size: impl Sizes, stride: impl Sizes, padding: impl Sizes, dilation: impl Sizes, ceil_mode: bool
    ) -> (Tensor<B>, Tensor<B>) = |x| {
        let all = windows("max_pool3d", [&kernel_size.sizes(), &stride.sizes(), &padding.sizes(), &dilation.sizes()])?;
        op::max_pool3d::with_indices(x, &all[0], &all[1], &all[2], &all[3], ceil_mode)
    };
    /// The mean of each window of [n, c, d, h, w].
    fn avg_pool3d, try_avg_pool3d(
        kernel_size: impl Sizes, stride: impl Sizes, padding: impl Sizes, ceil_mode: bool, count_include_pad: bool
    ) -> Tensor<B> = |x| {
        let all = windows("avg_pool3d", [&kernel_size.sizes(), &stride.sizes(), &padding.sizes()])?;
        op::avg_pool3d(x, &all[0], &all[1], &all[2], ceil_mode, count_include_pad)
    };
    /// The sum of each window, divided by this number.
    fn avg_pool3d_with_divisor, try_avg_pool3d_with_divisor(
        kernel_size: impl Sizes, stride: impl Sizes, padding: impl Sizes, ceil_mode: bool, divisor: usize
    ) -> Tensor<B> = |x| {
        let all = windows("avg_pool3d", [&kernel_size.sizes(), &stride.sizes(), &padding.sizes()])?;
        op::avg_pool3d::with_divisor(x, [&all[0], &all[1], &all[2]], ceil_mode, true, Some(divisor))
    };
    /// The mean of windows chosen so that the result has `output_size`.
    fn adaptive_avg_pool3d, try_adaptive_avg_pool3d(output_size: impl Sizes) -> Tensor<B> =
        |x| op::adaptive_avg_pool3d(x, &counts("adaptive_avg_pool3d", &output_size.sizes())?);
    /// The largest of windows chosen so that the result has `output_size`.
    fn adaptive_max_pool3d, try_adaptive_max_pool3d(output_size: impl Sizes) -> Tensor<B> =
        |x| op::adaptive_max_pool3d(x, &counts("adaptive_max_pool3d", &output_size.sizes())?);
    /// Resized along the spatial axes.
    fn interpolate, try_interpolate(
        target: &op::interpolate::Target, mode: op::interpolate::Interpolation
    ) -> Tensor<B> = |x| op::interpolate(x, target, mode);
    /// Read at the positions that a grid names.
    fn grid_sample, try_grid_sample(
        grid: &Tensor<B>, sampling: op::grid_sample::Sampling, padding: op::grid_sample::Padding, align_corners: bool
    ) -> Tensor<B> = |x| op::grid_sample(x, grid, sampling, padding, align_corners);
    /// The positions that this affine map reads, for `grid_sample`.
    fn affine_grid, try_affine_grid(size: impl Sizes, align_corners: bool) -> Tensor<B> =
        |theta| op::affine_grid(theta, &counts("affine_grid", &size.sizes())?, align_corners);
    /// Mean 0 and variance 1 over the last axes, then scaled and shifted.
    fn layer_norm, try_layer_norm(
        normalized_shape: impl Sizes, weight: Option<&Tensor<B>>, bias: Option<&Tensor<B>>, eps: f64
    ) -> Tensor<B> = |x| op::layer_norm(x, &counts("layer_norm", &normalized_shape.sizes())?, weight, bias, eps);
    /// Divided by the root of the mean square over the last axes, then scaled. Without `eps`, the
    /// dtype's epsilon.
    fn rms_norm, try_rms_norm(
        normalized_shape: impl Sizes, weight: Option<&Tensor<B>>, eps: Option<f64>
    ) -> Tensor<B> = |x| op::rms_norm(x, &counts("rms_norm", &normalized_shape.sizes())?, weight, eps);
    /// Mean 0 and variance 1 over groups of channels, then scaled and shifted.
    fn group_norm, try_group_norm(
        num_groups: usize, weight: Option<&Tensor<B>>, bias: Option<&Tensor<B>>, eps: f64
    ) -> Tensor<B> = |x| op::group_norm(x, num_groups, weight, bias, eps);
    /// Mean 0 and variance 1 over the spatial axes of each channel of each sample, then scaled and
    /// shifted.
    fn instance_norm, try_instance_norm(
        weight: Option<&Tensor<B>>, bias: Option<&Tensor<B>>, eps: f64
    ) -> Tensor<B> = |x| op::instance_norm(x, weight, bias, eps);
    /// Each channel shifted and scaled by its mean and variance over batch and spatial axes in
    /// training, else by the running ones; then weight and bias.
    fn batch_norm, try_batch_norm(
        running: Option<(&Tensor<B>, &Tensor<B>)>, weight: Option<&Tensor<B>>, bias: Option<&Tensor<B>>,
        training: bool, momentum: f64, eps: f64
    ) -> BatchNorm<Tensor<B>> = |x| op::batch_norm(x, running, weight, bias, training, momentum, eps);
    /// softmax(q k^T * scale) v with q [n, h, l, d], k and v [n, j, s, d].
    fn scaled_dot_product_attention, try_scaled_dot_product_attention(
        k: &Tensor<B>, v: &Tensor<B>, mask: Option<&Tensor<B>>, is_causal: bool, scale: Option<f64>, enable_gqa: bool
    ) -> Tensor<B> = |q| op::scaled_dot_product_attention(q, k, v, mask, is_causal, scale, enable_gqa);
    /// The same with dropout of the attention weights.
    fn scaled_dot_product_attention_with_dropout, try_scaled_dot_product_attention_with_dropout(
        k: &Tensor<B>, v: &Tensor<B>, mask: Option<&Tensor<B>>, is_causal: bool, scale: Option<f64>, enable_gqa: bool,
        drops: Option<Drops<'_, Tensor<B>>>
    ) -> Tensor<B> = |q| with_dropout(q, k, v, mask, is_causal, scale, enable_gqa, drops);
    /// Attention with several heads over projections of this query, a key and a value: the result,
    /// and the attention weights if they are asked for.
    fn multi_head_attention, try_multi_head_attention(
        key: &Tensor<B>, value: &Tensor<B>, weights: MhaWeights<'_, Tensor<B>>,
        key_padding_mask: Option<&Tensor<B>>, attn_mask: Option<&Tensor<B>>, heads: usize, batch_first: bool,
        give: HeadWeights
    ) -> (Tensor<B>, Option<Tensor<B>>) = |query| op::multi_head_attention(
        query, key, value, weights, key_padding_mask, attn_mask, heads, batch_first, give
    );
    /// The same with a projection each for query, key and value, and with keys that are added.
    fn multi_head_attention_parts, try_multi_head_attention_parts(
        key: &Tensor<B>, value: &Tensor<B>, weights: MhaParts<'_, Tensor<B>>,
        key_padding_mask: Option<&Tensor<B>>, attn_mask: Option<&Tensor<B>>, heads: usize, batch_first: bool,
        give: HeadWeights
    ) -> (Tensor<B>, Option<Tensor<B>>) = |query| op::multi_head_attention::parts(
        query, key, value, weights, key_padding_mask, attn_mask, heads, batch_first, give
    );
    /// A recurrent network, h' = tanh(w_ih x + b_ih + w_hh h + b_hh): y, h.
    fn rnn_tanh, try_rnn_tanh(
        state: Option<&Tensor<B>>, weights: &[RnnWeights<'_, Tensor<B>>], options: RnnOptions
    ) -> (Tensor<B>, Tensor<B>) = |x| op::rnn_tanh(x, state, weights, options);
    /// A recurrent network, h' = max(w_ih x + b_ih + w_hh h + b_hh, 0): y, h.
    fn rnn_relu, try_rnn_relu(
        state: Option<&Tensor<B>>, weights: &[RnnWeights<'_, Tensor<B>>], options: RnnOptions
    ) -> (Tensor<B>, Tensor<B>) = |x| op::rnn_relu(x, state, weights, options);
    /// A long short-term memory: y, h, c.
    fn lstm, try_lstm(
        state: Option<(&Tensor<B>, &Tensor<B>)>, weights: &[RnnWeights<'_, Tensor<B>>], options: RnnOptions
    ) -> (Tensor<B>, Tensor<B>, Tensor<B>) = |x| op::lstm(x, state, weights, options);
    /// A long short-term memory with a projection of each output, or of none: y, h, c.
    fn lstm_projected, try_lstm_projected(
        state: Option<(&Tensor<B>, &Tensor<B>)>, weights: &[RnnWeights<'_, Tensor<B>>], projections: &[&Tensor<B>],
        options: RnnOptions
    ) -> (Tensor<B>, Tensor<B>, Tensor<B>) = |x| op::lstm::projected(x, state, weights, projections, options);
    /// Gated recurrent units: y, h.
    fn gru, try_gru(
        state: Option<&Tensor<B>>, weights: &[RnnWeights<'_, Tensor<B>>], options: RnnOptions
    ) -> (Tensor<B>, Tensor<B>) = |x| op::gru(x, state, weights, options);
    /// x where it is above 0, else x times a number: in training a random one for each element,
    /// between the bounds, otherwise their mean.
    fn rrelu, try_rrelu(lower: f64, upper: f64, rng: &mut Generator, training: bool) -> Tensor<B> = |x| {
        let slopes = match training {
            true => op::rrelu::Slopes::Drawn(rng.next_stream()),
            false => op::rrelu::Slopes::Mean,
        };
        op::rrelu(x, lower, upper, slopes)
    };
    /// In training each element is 0 with probability `p`, else x / (1 - p).
    fn dropout, try_dropout(p: f64, rng: &mut Generator, training: bool) -> Tensor<B> =
        |x| op::dropout(x, p, rng.next_stream(), training);
}
