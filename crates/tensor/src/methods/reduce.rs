//! Methods that reduce or scan axes.

use super::binary::Operand;
use super::table::methods;
use crate::Tensor;
use crate::fail::OrFail;
use crate::sizes::{Axes, Integer, MaybeAxis};
use elinvar_core::{DType, Result};
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue as op;
use elinvar_ops::value::cast;

/// Table of reductions with two forms: over everything, and over some axes.
macro_rules! reductions {
    ($($doc:literal $all:ident $try_all:ident $some:ident $try_some:ident $f:path;)*) => {
        methods! {$(
            #[doc = concat!($doc, ", over all elements.")]
            fn $all, $try_all() -> Tensor<B> = |x| $f(x, None, false);
            #[doc = concat!($doc, ", over some axes, which stay with size 1 if `keepdim`.")]
            fn $some, $try_some(dims: impl Axes, keepdim: bool) -> Tensor<B> =
                |x| $f(x, Some(&dims.axes()), keepdim);
        )*}
    };
}

reductions! {
    "The sum; integers and bool sum to i64" sum try_sum sum_dim try_sum_dim op::sum;
    "The arithmetic mean" mean try_mean mean_dim try_mean_dim op::mean;
    "The product; integers and bool to i64" prod try_prod prod_dim try_prod_dim op::prod;
    "The largest element; NaN wins, ties share the gradient" amax try_amax amax_dim try_amax_dim op::amax;
    "The smallest element; NaN wins, ties share the gradient" amin try_amin amin_dim try_amin_dim op::amin;
    "The sum of what is not NaN" nansum try_nansum nansum_dim try_nansum_dim op::nansum;
    "The mean of what is not NaN" nanmean try_nanmean nanmean_dim try_nanmean_dim op::nanmean;
    "log(sum(exp(x))), without overflow" logsumexp try_logsumexp logsumexp_dim try_logsumexp_dim op::logsumexp;
    "Is any element not zero? (bool)" any try_any any_dim try_any_dim op::any;
    "Is no element zero? (bool)" all try_all all_dim try_all_dim op::all;
}

/// Reductions over some axes of the elements as another dtype: PyTorch's `dtype`.
macro_rules! typed_reductions {
    ($($doc:literal $name:ident $try_name:ident $f:path;)*) => {
        methods! {$(
            #[doc = concat!($doc, ", over some axes, of the elements converted to `dtype`.")]
            fn $name, $try_name(dims: impl Axes, keepdim: bool, dtype: DType) -> Tensor<B> =
                |x| $f(&cast(x, dtype)?, Some(&dims.axes()), keepdim);
        )*}
    };
}

typed_reductions! {
    "The sum" sum_as try_sum_as op::sum;
    "The arithmetic mean" mean_as try_mean_as op::mean;
    "The product" prod_as try_prod_as op::prod;
    "The sum of what is not NaN" nansum_as try_nansum_as op::nansum;
    "The mean of what is not NaN" nanmean_as try_nanmean_as op::nanmean;
}

/// The same of ops along an axis.
macro_rules! typed_rows {
    ($($doc:literal $name:ident $try_name:ident $f:path;)*) => {
        methods! {$(
            #[doc = concat!($doc, ", along an axis, of the elements converted to `dtype`.")]
            fn $name, $try_name(dim: impl Integer, dtype: DType) -> Tensor<B> =
                |x| $f(&cast(x, dtype)?, dim.to_isize());
        )*}
    };
}

typed_rows! {
    "exp(x) / sum(exp(x))" softmax_as try_softmax_as op::softmax;
    "log(softmax(x))" log_softmax_as try_log_softmax_as op::log_softmax;
    "Cumulative sums" cumsum_as try_cumsum_as op::cumsum;
    "Cumulative products" cumprod_as try_cumprod_as op::cumprod;
}

methods! {
    /// The largest element. NaN propagates; ties share the gradient.
    fn max, try_max() -> Tensor<B> = |x| op::amax(x, None, false);
    /// The smallest element. NaN propagates; ties share the gradient.
    fn min, try_min() -> Tensor<B> = |x| op::amin(x, None, false);
    /// The largest of an axis, and its first index (i64). NaN propagates. The gradient goes to that
    /// index.
    fn max_dim, try_max_dim(dim: impl Integer, keepdim: bool) -> (Tensor<B>, Tensor<B>) =
        |x| op::max(x, dim.to_isize(), keepdim);
    /// The smallest of an axis, and its first index (i64). NaN propagates. The gradient goes to
    /// that index.
    fn min_dim, try_min_dim(dim: impl Integer, keepdim: bool) -> (Tensor<B>, Tensor<B>) =
        |x| op::min(x, dim.to_isize(), keepdim);
    /// The first index (i64) of the largest element, of an axis or of the flattened tensor.
    fn argmax, try_argmax(dim: impl MaybeAxis, keepdim: bool) -> Tensor<B> = |x| op::argmax(x, dim.axis(), keepdim);
    /// The first index (i64) of the smallest element, of an axis or of the flattened tensor.
    fn argmin, try_argmin(dim: impl MaybeAxis, keepdim: bool) -> Tensor<B> = |x| op::argmin(x, dim.axis(), keepdim);
    /// The lower median of an axis, and its index (i64).
    fn median, try_median(dim: impl Integer, keepdim: bool) -> (Tensor<B>, Tensor<B>) =
        |x| op::median(x, dim.to_isize(), keepdim);
    /// The lower median of all elements.
    fn median_all, try_median_all() -> Tensor<B> = |x| op::median::all(x);
    /// The lower median of what is not NaN of an axis, and its index (i64).
    fn nanmedian, try_nanmedian(dim: impl Integer, keepdim: bool) -> (Tensor<B>, Tensor<B>) =
        |x| op::nanmedian(x, dim.to_isize(), keepdim);
    /// The lower median of all elements that are not NaN.
    fn nanmedian_all, try_nanmedian_all() -> Tensor<B> = |x| op::nanmedian::all(x);
    /// The smallest and the largest element, of an axis or of all.
    fn aminmax, try_aminmax(dim: impl MaybeAxis, keepdim: bool) -> (Tensor<B>, Tensor<B>) =
        |x| op::aminmax(x, dim.axis(), keepdim);
    /// The `k`-th smallest of an axis, counted from 1, and its index (i64).
    fn kthvalue, try_kthvalue(k: usize, dim: impl Integer, keepdim: bool) -> (Tensor<B>, Tensor<B>) =
        |x| op::kthvalue(x, k, dim.to_isize(), keepdim);
    /// The most frequent element of an axis, of several the smallest, and its last index (i64).
    fn mode, try_mode(dim: impl Integer, keepdim: bool) -> (Tensor<B>, Tensor<B>) =
        |x| op::mode(x, dim.to_isize(), keepdim);
    /// The elements at the fractions `q`, a number or a vector, of the way through a sorted axis,
    /// or through all elements.
    fn quantile, try_quantile(
        q: impl Operand<B>, dim: impl MaybeAxis, keepdim: bool, between: op::quantile::Between
    ) -> Tensor<B> = |x| q.with("quantile", x, |q| op::quantile(x, q, dim.axis(), keepdim, between));
    /// [`Tensor::quantile`] of what is not NaN.
    fn nanquantile, try_nanquantile(
        q: impl Operand<B>, dim: impl MaybeAxis, keepdim: bool, between: op::quantile::Between
    ) -> Tensor<B> = |x| q.with("nanquantile", x, |q| op::nanquantile(x, q, dim.axis(), keepdim, between));
    /// The variance and the mean over some axes, with divisor max(0, n - `correction`).
    fn var_mean, try_var_mean(dims: impl Axes, correction: f64, keepdim: bool) -> (Tensor<B>, Tensor<B>) =
        |x| op::var_mean(x, Some(&dims.axes()), correction, keepdim);
    /// The standard deviation and the mean over some axes, with divisor max(0, n - `correction`).
    fn std_mean, try_std_mean(dims: impl Axes, correction: f64, keepdim: bool) -> (Tensor<B>, Tensor<B>) =
        |x| op::std_mean(x, Some(&dims.axes()), correction, keepdim);
    /// The largest of an axis up to each element, and its last index (i64).
    fn cummax, try_cummax(dim: impl Integer) -> (Tensor<B>, Tensor<B>) = |x| op::cummax(x, dim.to_isize());
    /// The smallest of an axis up to each element, and its last index (i64).
    fn cummin, try_cummin(dim: impl Integer) -> (Tensor<B>, Tensor<B>) = |x| op::cummin(x, dim.to_isize());
    /// log(sum of e^x) along an axis up to each element.
    fn logcumsumexp, try_logcumsumexp(dim: impl Integer) -> Tensor<B> = |x| op::logcumsumexp(x, dim.to_isize());
    /// Differences of neighbours along an axis, `n` times, after `prepend` and `append` are put at
    /// its ends.
    fn diff, try_diff(
        n: usize, dim: impl Integer, prepend: Option<&Tensor<B>>, append: Option<&Tensor<B>>
    ) -> Tensor<B> = |x| op::diff(x, n, dim.to_isize(), prepend, append);
    /// The variance of all elements, with divisor n - 1.
    fn var, try_var() -> Tensor<B> = |x| op::var(x, None, 1.0, false);
    /// The variance over some axes, with divisor max(0, n - `correction`).
    fn var_dim, try_var_dim(dims: impl Axes, correction: f64, keepdim: bool) -> Tensor<B> =
        |x| op::var(x, Some(&dims.axes()), correction, keepdim);
    /// The standard deviation of all elements, with divisor n - 1.
    fn std, try_std() -> Tensor<B> = |x| op::std_(x, None, 1.0, false);
    /// The standard deviation over some axes, with divisor max(0, n - `correction`).
    fn std_dim, try_std_dim(dims: impl Axes, correction: f64, keepdim: bool) -> Tensor<B> =
        |x| op::std_(x, Some(&dims.axes()), correction, keepdim);
    /// The p-norm of all elements; `p` may be infinite.
    fn norm, try_norm(p: f64) -> Tensor<B> = |x| op::norm(x, p, None, false);
    /// The p-norm over some axes; `p` may be infinite.
    fn norm_dim, try_norm_dim(p: f64, dims: impl Axes, keepdim: bool) -> Tensor<B> =
        |x| op::norm(x, p, Some(&dims.axes()), keepdim);
    /// The number of non-zero elements, over all axes (i64).
    fn count_nonzero, try_count_nonzero() -> Tensor<B> = |x| op::count_nonzero(x, None);
    /// The number of non-zero elements (i64) over some axes.
    fn count_nonzero_dim, try_count_nonzero_dim(dims: impl Axes) -> Tensor<B> =
        |x| op::count_nonzero(x, Some(&dims.axes()));
    /// Cumulative sums along an axis.
    fn cumsum, try_cumsum(dim: impl Integer) -> Tensor<B> = |x| op::cumsum(x, dim.to_isize());
    /// Cumulative products along an axis.
    fn cumprod, try_cumprod(dim: impl Integer) -> Tensor<B> = |x| op::cumprod(x, dim.to_isize());
    /// exp(x) / sum(exp(x)) along an axis.
    fn softmax, try_softmax(dim: impl Integer) -> Tensor<B> = |x| op::softmax(x, dim.to_isize());
    /// log(softmax(x)) along an axis.
    fn log_softmax, try_log_softmax(dim: impl Integer) -> Tensor<B> = |x| op::log_softmax(x, dim.to_isize());
    /// x / max(its `p`-norm along an axis, eps).
    fn normalize, try_normalize(p: f64, dim: impl Integer, eps: f64) -> Tensor<B> =
        |x| op::normalize_rows(x, p, dim.to_isize(), eps);
    /// sum(x y) / (max(|x|, eps) max(|y|, eps)) along an axis of the broadcast operands.
    fn cosine_similarity, try_cosine_similarity(y: &Tensor<B>, dim: impl Integer, eps: f64) -> Tensor<B> =
        |x| op::cosine_similarity(x, y, dim.to_isize(), eps);
}
