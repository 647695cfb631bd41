//! Methods that rearrange elements or view them differently.

use super::table::{Axes, methods};
use crate::Tensor;
use crate::create::Sizes;
use crate::fail::OrFail;
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue as op;

methods! {
    /// The same elements, row-major, in another shape; one size may be -1. A view where possible.
    fn reshape(sizes: &[isize]) -> Tensor<B> = op::reshape;
    /// Two axes swapped. A view.
    fn transpose(dim0: isize, dim1: isize) -> Tensor<B> = op::transpose;
    /// The axes in another order. A view.
    fn permute(dims: &[isize]) -> Tensor<B> = op::permute;
    /// Axes moved to other positions, the others keeping their order. A view.
    fn movedim(source: &[isize], destination: &[isize]) -> Tensor<B> = op::movedim;
    /// The whole tensor repeated along each axis; surplus entries add new axes in front.
    fn repeat(repeats: &[usize]) -> Tensor<B> = op::repeat;
    /// NumPy's tile: as `repeat`, but fewer entries than axes are allowed.
    fn tile(dims: &[usize]) -> Tensor<B> = op::tile;
    /// Each element repeated, along an axis or in the flattened tensor.
    fn repeat_interleave(repeats: usize, dim: Option<isize>) -> Tensor<B> = op::repeat_interleave;
    /// One index of an axis; the axis is removed. A view.
    fn select(dim: isize, index: isize) -> Tensor<B> = op::select;
    /// `length` indices of an axis from `start` on. A view.
    fn narrow(dim: isize, start: isize, length: usize) -> Tensor<B> = op::narrow;
    /// Axes reversed. A view.
    fn flip(dims: &[isize]) -> Tensor<B> = op::flip;
    /// Elements moved along axes; what leaves at one end enters at the other. Without axes: in the
    /// flattened tensor.
    fn roll(shifts: &[isize], dims: Option<&[isize]>) -> Tensor<B> = op::roll;
    /// Parts of `size` along an axis; the last may be smaller. Views.
    fn split(size: usize, dim: isize) -> Vec<Tensor<B>> = op::split;
    /// Parts of the given sizes along an axis. Views.
    fn split_sizes(sizes: &[usize], dim: isize) -> Vec<Tensor<B>> = op::split::sizes;
    /// At most `chunks` parts of equal size along an axis; the last may be smaller. Views.
    fn chunk(chunks: usize, dim: isize) -> Vec<Tensor<B>> = op::chunk;
    /// The slices along an axis, which is removed. Views.
    fn unbind(dim: isize) -> Vec<Tensor<B>> = op::unbind;
    /// Padding, or cropping by negative amounts: [left of the last axis, right of it, left of the
    /// one before, ...].
    fn pad(amounts: &[isize], mode: op::pad::Mode) -> Tensor<B> = op::pad;
    /// A new axis of size 1. A view.
    fn unsqueeze(dim: isize) -> Tensor<B> = op::unsqueeze;
    /// Axes `start_dim..=end_dim` merged into one.
    fn flatten(start_dim: isize, end_dim: isize) -> Tensor<B> = op::flatten;
    /// Zero above the given diagonal of the last two axes.
    fn tril(diagonal: isize) -> Tensor<B> = op::tril;
    /// Zero below the given diagonal of the last two axes.
    fn triu(diagonal: isize) -> Tensor<B> = op::triu;
    /// A diagonal of two axes, as a new last axis. A view.
    fn diagonal(offset: isize, dim1: isize, dim2: isize) -> Tensor<B> = op::diagonal;
    /// A matrix's diagonal, or the matrix with this diagonal.
    fn diag(offset: isize) -> Tensor<B> = op::diag;
    /// The sum of a matrix's diagonal.
    fn trace() -> Tensor<B> = op::trace;
    /// Windows along an axis, as a new last axis.
    fn unfold_dim(dimension: isize, size: usize, step: usize) -> Tensor<B> = op::unfold_dim;
    /// Patches of images as columns (im2col).
    fn unfold(patches: &op::unfold::Patches) -> Tensor<B> = op::unfold;
}

impl<B: Backend> Tensor<B> {
    /// The last two axes swapped: a matrix transposed. A view.
    ///
    /// # Panics
    /// If there are fewer than two axes.
    #[track_caller]
    pub fn t(&self) -> Tensor<B> {
        op::transpose(self, -1, -2).or_fail()
    }
    /// Axes of size 1 repeated to `shape`; new axes are in front. A view.
    ///
    /// # Panics
    /// If the shape does not broadcast to `shape`.
    #[track_caller]
    pub fn expand(&self, shape: impl Sizes) -> Tensor<B> {
        shape.to_shape().and_then(|s| op::expand(self, &s)).or_fail()
    }
    /// Another name of [`Tensor::expand`].
    ///
    /// # Panics
    /// If the shape does not broadcast to `shape`.
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Sizes) -> Tensor<B> {
        self.expand(shape)
    }
    /// The opposite of broadcasting: summed over the axes along which `shape` would be repeated.
    ///
    /// # Panics
    /// If `shape` does not broadcast to this tensor's shape.
    #[track_caller]
    pub fn sum_to(&self, shape: impl Sizes) -> Tensor<B> {
        shape.to_shape().and_then(|s| elinvar_ops::value::sum_to(self, &s)).or_fail()
    }
    /// Without any axis of size 1. A view.
    #[track_caller]
    pub fn squeeze(&self) -> Tensor<B> {
        op::squeeze(self, None).or_fail()
    }
    /// Without these axes, where they have size 1. A view.
    ///
    /// # Panics
    /// If there is no such axis.
    #[track_caller]
    pub fn squeeze_dim(&self, dims: impl Axes) -> Tensor<B> {
        op::squeeze(self, Some(&dims.list())).or_fail()
    }
    /// Row-major without gaps: the tensor itself, or a copy.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn contiguous(&self) -> Tensor<B> {
        let array = self.array().contiguous().or_fail();
        Tensor::with_node(array, self.node().cloned())
    }
    /// Tensors concatenated along an axis.
    ///
    /// # Panics
    /// If their other sizes, dtypes or devices differ, or there is none.
    #[track_caller]
    pub fn concat(all: &[&Tensor<B>], dim: isize) -> Tensor<B> {
        op::concat(all, dim).or_fail()
    }
    /// Tensors of one shape concatenated along a new axis.
    ///
    /// # Panics
    /// If their shapes, dtypes or devices differ, or there is none.
    #[track_caller]
    pub fn stack(all: &[&Tensor<B>], dim: isize) -> Tensor<B> {
        op::stack(all, dim).or_fail()
    }
}
