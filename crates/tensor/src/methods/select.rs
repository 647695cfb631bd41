//! Methods that choose elements by index or by condition.

use super::binary::{MaybeNumber, Operand};
use super::table::methods;
use crate::Tensor;
use crate::fail::OrFail;
use crate::sizes::{Integer, MaybeAxis};
use elinvar_core::{Result, Scalar};
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue as op;

methods! {
    /// y[i, j, ..] = x[index[i, j, ..], j, ..] for axis 0, and likewise for others; index is i64.
    fn gather, try_gather(dim: impl Integer, index: &Tensor<B>) -> Tensor<B> = |x| op::gather(x, dim.to_isize(), index);
    /// A copy with `src` written at the indices in `index` along an axis.
    fn scatter, try_scatter(dim: impl Integer, index: &Tensor<B>, src: &Tensor<B>) -> Tensor<B> =
        |x| op::scatter(x, dim.to_isize(), index, src);
    /// A copy with a value written at the indices in `index` along an axis.
    fn scatter_value, try_scatter_value(dim: impl Integer, index: &Tensor<B>, value: impl Into<Scalar>) -> Tensor<B> =
        |x| op::scatter::value(x, dim.to_isize(), index, value.into());
    /// A copy with `src` added, in order, at the indices in `index` along an axis.
    fn scatter_add, try_scatter_add(dim: impl Integer, index: &Tensor<B>, src: &Tensor<B>) -> Tensor<B> =
        |x| op::scatter_add(x, dim.to_isize(), index, src);
    /// The slices of an axis at the indices of a 1-d i64 tensor.
    fn index_select, try_index_select(dim: impl Integer, index: &Tensor<B>) -> Tensor<B> =
        |x| op::index_select(x, dim.to_isize(), index);
    /// A copy with `alpha * src` added, in order, to the slices of an axis at the indices of a 1-d
    /// tensor.
    fn index_add, try_index_add(
        dim: impl Integer, index: &Tensor<B>, src: &Tensor<B>, alpha: impl Into<Scalar>
    ) -> Tensor<B> = |x| op::index_add(x, dim.to_isize(), index, src, alpha.into());
    /// A copy with a value in the slices of an axis at the indices of a 1-d tensor.
    fn index_fill, try_index_fill(dim: impl Integer, index: &Tensor<B>, value: impl Into<Scalar>) -> Tensor<B> =
        |x| op::index_fill(x, dim.to_isize(), index, value.into());
    /// A copy with the slices of an axis at the indices of a 1-d tensor replaced by those of `src`.
    fn index_copy, try_index_copy(dim: impl Integer, index: &Tensor<B>, src: &Tensor<B>) -> Tensor<B> =
        |x| op::index_copy(x, dim.to_isize(), index, src);
    /// A copy with the slices of `src` reduced into those of an axis at the indices of a 1-d
    /// tensor.
    fn index_reduce, try_index_reduce(
        dim: impl Integer, index: &Tensor<B>, src: &Tensor<B>, reduce: op::scatter_reduce::Reduce, include_self: bool
    ) -> Tensor<B> = |x| op::index_reduce(x, dim.to_isize(), index, src, reduce, include_self);
    /// A copy with `src` reduced into the elements at the indices in `index` along an axis.
    fn scatter_reduce, try_scatter_reduce(
        dim: impl Integer, index: &Tensor<B>, src: &Tensor<B>, reduce: op::scatter_reduce::Reduce, include_self: bool
    ) -> Tensor<B> = |x| op::scatter_reduce(x, dim.to_isize(), index, src, reduce, include_self);
    /// The reduction of each segment of an axis; an empty one gives `initial`.
    fn segment_reduce, try_segment_reduce(
        reduce: op::scatter_reduce::Reduce, segments: op::segment_reduce::Segments<'_, Tensor<B>>,
        axis: impl Integer, initial: Option<f64>
    ) -> Tensor<B> = |x| op::segment_reduce(x, reduce, segments, axis.to_isize(), initial);
    /// A copy whose elements where a mask is true are the first of `source`, in order.
    fn masked_scatter, try_masked_scatter(mask: &Tensor<B>, source: &Tensor<B>) -> Tensor<B> =
        |x| op::masked_scatter(x, mask, source);
    /// The elements at row-major positions, in the shape of `index`.
    fn take, try_take(index: &Tensor<B>) -> Tensor<B> = |x| op::take(x, index);
    /// A copy with the elements at row-major positions replaced by `source`, or `source` added.
    fn put, try_put(index: &Tensor<B>, source: &Tensor<B>, accumulate: bool) -> Tensor<B> =
        |x| op::put(x, index, source, accumulate);
    /// Is each element one of `test_elements` (or, if `invert`, none of them)? (bool)
    fn isin, try_isin(test_elements: &Tensor<B>, invert: bool) -> Tensor<B> =
        |x| op::isin(x, test_elements, invert);
    /// As `gather`, with x and index broadcast outside of the axis; without an axis, on the
    /// flattened x.
    fn take_along_dim, try_take_along_dim(index: &Tensor<B>, dim: impl MaybeAxis) -> Tensor<B> =
        |x| op::take_along_dim(x, index, dim.axis());
    /// The elements where a mask is true, in one axis.
    fn masked_select, try_masked_select(mask: &Tensor<B>) -> Tensor<B> = |x| op::masked_select(x, mask);
    /// `value` where the mask is true.
    fn masked_fill, try_masked_fill(mask: &Tensor<B>, value: impl Into<Scalar>) -> Tensor<B> =
        |x| op::masked_fill(x, mask, value.into());
    /// The indices of the non-zero elements, [n, rank], i64.
    fn nonzero, try_nonzero() -> Tensor<B> = |x| op::nonzero(x);
    /// 1 at the index of the class in a new last axis, 0 elsewhere, of i64.
    fn one_hot, try_one_hot(num_classes: usize) -> Tensor<B> = |x| op::one_hot(x, num_classes);
    /// The rows of `weight` [rows, columns] that bags of these indices name, reduced: [bags,
    /// columns].
    fn embedding_bag, try_embedding_bag(
        weight: &Tensor<B>, bags: op::embedding_bag::Bags<'_, Tensor<B>>
    ) -> Tensor<B> = |x| op::embedding_bag(x, weight, bags);
    /// The rows of `weight` [rows, columns] that this tensor of indices names: [.., columns]. The
    /// row `padding_idx` gets no gradient.
    fn embedding, try_embedding(weight: &Tensor<B>, padding_idx: impl MaybeAxis) -> Tensor<B> =
        |x| op::embedding(x, weight, padding_idx.axis());
    /// How often (i64) each of 0, 1, .. occurs in this vector of integers, for `min_length` of them
    /// at least.
    fn bincount, try_bincount(min_length: usize) -> Tensor<B> = |x| op::bincount(x, min_length);
    /// Sorted along an axis, stable, NaN as the largest: the values, and their original indices
    /// (i64).
    fn sort, try_sort(dim: impl Integer, descending: bool) -> (Tensor<B>, Tensor<B>) =
        |x| op::sort(x, dim.to_isize(), descending);
    /// The indices (i64) that would sort an axis.
    fn argsort, try_argsort(dim: impl Integer, descending: bool) -> Tensor<B> =
        |x| op::argsort(x, dim.to_isize(), descending);
    /// The `k` largest (or smallest) of an axis, sorted, and their original indices (i64).
    fn topk, try_topk(k: usize, dim: impl Integer, largest: bool) -> (Tensor<B>, Tensor<B>) =
        |x| op::topk(x, k, dim.to_isize(), largest);
    /// The distinct values, sorted; the index of each element's value among them; the count of
    /// each.
    fn unique, try_unique(dim: impl MaybeAxis) -> op::unique::Unique<Tensor<B>> = |x| op::unique(x, dim.axis());
    /// The elements, or slices of an axis, that differ from the one before them; for each element
    /// its place among them; the count of each.
    fn unique_consecutive, try_unique_consecutive(dim: impl MaybeAxis) -> op::unique::Unique<Tensor<B>> =
        |x| op::unique_consecutive(x, dim.axis());
    /// The coordinates of these row-major positions in a tensor of this shape, one tensor per axis.
    fn unravel_index, try_unravel_index(shape: &[usize]) -> Vec<Tensor<B>> = |x| op::unravel_index(x, shape);
    /// How many elements lie in each of `bins` parts of `min..=max`, or of the range of the
    /// elements if both are 0.
    fn histc, try_histc(bins: usize, min: f64, max: f64) -> Tensor<B> = |x| op::histc(x, bins, min, max);
    /// How many elements lie in each part of a range, or the sum of their weights, and the edges.
    fn histogram, try_histogram(
        bins: op::histogram::Bins<'_, Tensor<B>>, weight: Option<&Tensor<B>>, density: bool
    ) -> (Tensor<B>, Tensor<B>) = |x| op::histogram(x, bins, weight, density);
    /// The sum of the `weights` of the elements that are 0, 1, ..
    fn bincount_weighted, try_bincount_weighted(weights: &Tensor<B>, min_length: usize) -> Tensor<B> =
        |x| op::bincount::weighted(x, weights, min_length);
    /// [`Tensor::searchsorted`] in rows that `sorter`, an index of each, puts in order.
    fn searchsorted_by, try_searchsorted_by(sorter: &Tensor<B>, values: &Tensor<B>, right: bool) -> Tensor<B> =
        |x| op::searchsorted::by(x, sorter, values, right);
    /// The index at which each of `values` would be inserted into this sorted row, or these rows.
    fn searchsorted, try_searchsorted(values: &Tensor<B>, right: bool) -> Tensor<B> =
        |x| op::searchsorted(x, values, right);
    /// The index at which each element would be inserted into a sorted row of boundaries.
    fn bucketize, try_bucketize(boundaries: &Tensor<B>, right: bool) -> Tensor<B> =
        |x| op::searchsorted(boundaries, x, right);
    /// Clamped to `min..=max`; either bound may be `None`.
    fn clamp, try_clamp(min: impl MaybeNumber, max: impl MaybeNumber) -> Tensor<B> =
        |x| op::clamp(x, min.maybe_number(), max.maybe_number());
    /// Clamped between two tensors, which broadcast.
    fn clamp_tensor, try_clamp_tensor(min: Option<&Tensor<B>>, max: Option<&Tensor<B>>) -> Tensor<B> =
        |x| op::clamp::clamp_tensor(x, min, max);
    /// x + weight * (y - x).
    fn lerp, try_lerp(y: &Tensor<B>, weight: impl Operand<B>) -> Tensor<B> = |x| match weight.number() {
        Some(weight) => op::lerp::lerp_by(x, y, weight.to_f64()),
        None => weight.with("lerp", x, |weight| op::lerp(x, y, weight)),
    };
    /// x + value * t1 * t2.
    fn addcmul, try_addcmul(t1: &Tensor<B>, t2: &Tensor<B>, value: f64) -> Tensor<B> =
        |x| op::addcmul(x, t1, t2, value);
    /// x + value * t1 / t2.
    fn addcdiv, try_addcdiv(t1: &Tensor<B>, t2: &Tensor<B>, value: f64) -> Tensor<B> =
        |x| op::addcdiv(x, t1, t2, value);
    /// x * y + z, rounded once.
    fn fma, try_fma(y: &Tensor<B>, z: &Tensor<B>) -> Tensor<B> = |x| op::fma(x, y, z);
}
