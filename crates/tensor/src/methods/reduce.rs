//! Methods that reduce or scan axes.

use super::table::{Axes, methods};
use crate::Tensor;
use crate::fail::OrFail;
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue as op;

/// Table of reductions with two forms: over everything, and over some axes.
macro_rules! reductions {
    ($($doc:literal $all:ident $some:ident $f:path;)*) => {
        impl<B: Backend> Tensor<B> {$(
            #[doc = concat!($doc, ", over all elements.")]
            ///
            /// # Panics
            /// If the op is not defined for this dtype or for no elements, or if memory is
            /// exhausted.
            #[track_caller]
            pub fn $all(&self) -> Tensor<B> {
                $f(self, None, false).or_fail()
            }
            #[doc = concat!($doc, ", over some axes, which stay with size 1 if `keepdim`.")]
            ///
            /// # Panics
            /// If there is no such axis, the op is not defined for this dtype or for no elements,
            /// or memory is exhausted.
            #[track_caller]
            pub fn $some(&self, dims: impl Axes, keepdim: bool) -> Tensor<B> {
                $f(self, Some(&dims.list()), keepdim).or_fail()
            }
        )*}
    };
}

reductions! {
    "The sum; integers and bool sum to i64" sum sum_dim op::sum;
    "The arithmetic mean" mean mean_dim op::mean;
    "The product; integers and bool to i64" prod prod_dim op::prod;
    "The largest element; NaN wins, ties share the gradient" amax amax_dim op::amax;
    "The smallest element; NaN wins, ties share the gradient" amin amin_dim op::amin;
    "log(sum(exp(x))), without overflow" logsumexp logsumexp_dim op::logsumexp;
    "Is any element not zero? (bool)" any any_dim op::any;
    "Is no element zero? (bool)" all all_dim op::all;
}

methods! {
    /// The largest of an axis, and its first index (i64). NaN propagates. The gradient goes to that
    /// index.
    fn max_dim(dim: isize, keepdim: bool) -> (Tensor<B>, Tensor<B>) = op::max;
    /// The smallest of an axis, and its first index (i64). NaN propagates. The gradient goes to
    /// that index.
    fn min_dim(dim: isize, keepdim: bool) -> (Tensor<B>, Tensor<B>) = op::min;
    /// The first index (i64) of the largest element, of an axis or of the flattened tensor.
    fn argmax(dim: Option<isize>, keepdim: bool) -> Tensor<B> = op::argmax;
    /// The first index (i64) of the smallest element, of an axis or of the flattened tensor.
    fn argmin(dim: Option<isize>, keepdim: bool) -> Tensor<B> = op::argmin;
    /// The lower median of an axis, and its index (i64).
    fn median(dim: isize, keepdim: bool) -> (Tensor<B>, Tensor<B>) = op::median;
    /// Cumulative sums along an axis.
    fn cumsum(dim: isize) -> Tensor<B> = op::cumsum;
    /// Cumulative products along an axis.
    fn cumprod(dim: isize) -> Tensor<B> = op::cumprod;
    /// exp(x) / sum(exp(x)) along an axis.
    fn softmax(dim: isize) -> Tensor<B> = op::softmax;
    /// log(softmax(x)) along an axis.
    fn log_softmax(dim: isize) -> Tensor<B> = op::log_softmax;
}

impl<B: Backend> Tensor<B> {
    /// The largest element. NaN propagates; ties share the gradient.
    ///
    /// # Panics
    /// If there are no elements.
    #[track_caller]
    pub fn max(&self) -> Tensor<B> {
        self.amax()
    }
    /// The smallest element. NaN propagates; ties share the gradient.
    ///
    /// # Panics
    /// If there are no elements.
    #[track_caller]
    pub fn min(&self) -> Tensor<B> {
        self.amin()
    }
    /// The variance of all elements, with divisor n - 1.
    ///
    /// # Panics
    /// If the elements are not floats.
    #[track_caller]
    pub fn var(&self) -> Tensor<B> {
        op::var(self, None, 1.0, false).or_fail()
    }
    /// The variance over some axes, with divisor max(0, n - `correction`).
    ///
    /// # Panics
    /// If there is no such axis, or the elements are not floats.
    #[track_caller]
    pub fn var_dim(&self, dims: impl Axes, correction: f64, keepdim: bool) -> Tensor<B> {
        op::var(self, Some(&dims.list()), correction, keepdim).or_fail()
    }
    /// The standard deviation of all elements, with divisor n - 1.
    ///
    /// # Panics
    /// If the elements are not floats.
    #[track_caller]
    pub fn std(&self) -> Tensor<B> {
        op::std_(self, None, 1.0, false).or_fail()
    }
    /// The standard deviation over some axes, with divisor max(0, n - `correction`).
    ///
    /// # Panics
    /// If there is no such axis, or the elements are not floats.
    #[track_caller]
    pub fn std_dim(&self, dims: impl Axes, correction: f64, keepdim: bool) -> Tensor<B> {
        op::std_(self, Some(&dims.list()), correction, keepdim).or_fail()
    }
    /// The p-norm of all elements; `p` may be infinite.
    ///
    /// # Panics
    /// If the elements are not floats.
    #[track_caller]
    pub fn norm(&self, p: f64) -> Tensor<B> {
        op::norm(self, p, None, false).or_fail()
    }
    /// The p-norm over some axes; `p` may be infinite.
    ///
    /// # Panics
    /// If there is no such axis, or the elements are not floats.
    #[track_caller]
    pub fn norm_dim(&self, p: f64, dims: impl Axes, keepdim: bool) -> Tensor<B> {
        op::norm(self, p, Some(&dims.list()), keepdim).or_fail()
    }
    /// The number of non-zero elements, over all axes (i64).
    #[track_caller]
    pub fn count_nonzero(&self) -> Tensor<B> {
        op::count_nonzero(self, None).or_fail()
    }
}
