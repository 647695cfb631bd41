//! Methods that choose elements by index or by condition.

use super::table::methods;
use crate::Tensor;
use crate::fail::OrFail;
use elinvar_core::Scalar;
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue as op;

methods! {
    /// y[i, j, ..] = x[index[i, j, ..], j, ..] for axis 0, and likewise for others; index is i64.
    fn gather(dim: isize, index: &Tensor<B>) -> Tensor<B> = op::gather;
    /// A copy with `src` written at the indices in `index` along an axis.
    fn scatter(dim: isize, index: &Tensor<B>, src: &Tensor<B>) -> Tensor<B> = op::scatter;
    /// A copy with a value written at the indices in `index` along an axis.
    fn scatter_value(dim: isize, index: &Tensor<B>, value: Scalar) -> Tensor<B> = op::scatter::value;
    /// A copy with `src` added, in order, at the indices in `index` along an axis.
    fn scatter_add(dim: isize, index: &Tensor<B>, src: &Tensor<B>) -> Tensor<B> = op::scatter_add;
    /// The slices of an axis at the indices of a 1-d i64 tensor.
    fn index_select(dim: isize, index: &Tensor<B>) -> Tensor<B> = op::index_select;
    /// As `gather`, with x and index broadcast outside of the axis; without an axis, on the
    /// flattened x.
    fn take_along_dim(index: &Tensor<B>, dim: Option<isize>) -> Tensor<B> = op::take_along_dim;
    /// The elements where a mask is true, in one axis.
    fn masked_select(mask: &Tensor<B>) -> Tensor<B> = op::masked_select;
    /// The indices of the non-zero elements, [n, rank], i64.
    fn nonzero() -> Tensor<B> = op::nonzero;
    /// 1 at the index of the class in a new last axis, 0 elsewhere, of i64.
    fn one_hot(num_classes: usize) -> Tensor<B> = op::one_hot;
    /// Sorted along an axis, stable, NaN as the largest: the values, and their original indices
    /// (i64).
    fn sort(dim: isize, descending: bool) -> (Tensor<B>, Tensor<B>) = op::sort;
    /// The indices (i64) that would sort an axis.
    fn argsort(dim: isize, descending: bool) -> Tensor<B> = op::argsort;
    /// The `k` largest (or smallest) of an axis, sorted, and their original indices (i64).
    fn topk(k: usize, dim: isize, largest: bool) -> (Tensor<B>, Tensor<B>) = op::topk;
    /// The distinct values, sorted; the index of each element's value among them; the count of
    /// each.
    fn unique(dim: Option<isize>) -> op::unique::Unique<Tensor<B>> = op::unique;
    /// The index at which each of `values` would be inserted into this sorted tensor.
    fn searchsorted(values: &Tensor<B>, right: bool) -> Tensor<B> = op::searchsorted;
    /// Clamped to `min..=max`; both bounds are optional.
    fn clamp(min: Option<Scalar>, max: Option<Scalar>) -> Tensor<B> = op::clamp;
    /// Clamped between two tensors, which broadcast.
    fn clamp_tensor(min: Option<&Tensor<B>>, max: Option<&Tensor<B>>) -> Tensor<B> = op::clamp::clamp_tensor;
    /// x + weight * (y - x).
    fn lerp(y: &Tensor<B>, weight: &Tensor<B>) -> Tensor<B> = op::lerp;
    /// x + value * t1 * t2.
    fn addcmul(t1: &Tensor<B>, t2: &Tensor<B>, value: f64) -> Tensor<B> = op::addcmul;
}

impl<B: Backend> Tensor<B> {
    /// This (bool) tensor as a condition: `x` where it is true, `y` elsewhere, all broadcast.
    ///
    /// # Panics
    /// If this is not bool, or shapes, dtypes or devices do not fit.
    #[track_caller]
    pub fn where_(&self, x: &Tensor<B>, y: &Tensor<B>) -> Tensor<B> {
        op::where_(self, x, y).or_fail()
    }
    /// `value` where the mask is true.
    ///
    /// # Panics
    /// If the mask is not bool or does not broadcast.
    #[track_caller]
    pub fn masked_fill(&self, mask: &Tensor<B>, value: impl Into<Scalar>) -> Tensor<B> {
        op::masked_fill(self, mask, value).or_fail()
    }
    /// A copy with `alpha * src` added, in order, to the slices of an axis at the indices of a 1-d
    /// tensor.
    ///
    /// # Panics
    /// If an index is out of range or shapes do not fit.
    #[track_caller]
    pub fn index_add(
        &self,
        dim: isize,
        index: &Tensor<B>,
        src: &Tensor<B>,
        alpha: impl Into<Scalar>,
    ) -> Tensor<B> {
        op::index_add(self, dim, index, src, alpha).or_fail()
    }
    /// A copy with a value in the slices of an axis at the indices of a 1-d tensor.
    ///
    /// # Panics
    /// If an index is out of range.
    #[track_caller]
    pub fn index_fill(&self, dim: isize, index: &Tensor<B>, value: impl Into<Scalar>) -> Tensor<B> {
        op::index_fill(self, dim, index, value).or_fail()
    }
}
