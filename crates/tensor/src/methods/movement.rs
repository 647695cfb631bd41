//! Methods that rearrange elements or view them differently.

use super::table::{functions, methods};
use crate::Tensor;
use crate::fail::OrFail;
use crate::sizes::{Axes, Integer, MaybeAxes, MaybeAxis, Sizes, counts};
use elinvar_core::Result;
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue as op;

methods! {
    /// The same elements, row-major, in another shape; one size may be -1, and is inferred. A view
    /// where possible.
    fn reshape, try_reshape(sizes: impl Sizes) -> Tensor<B> = |x| op::reshape(x, &sizes.sizes());
    /// Two axes swapped. A view.
    fn transpose, try_transpose(dim0: impl Integer, dim1: impl Integer) -> Tensor<B> =
        |x| op::transpose(x, dim0.to_isize(), dim1.to_isize());
    /// The last two axes swapped: a matrix transposed. A view.
    fn t, try_t() -> Tensor<B> = |x| op::transpose(x, -1, -2);
    /// The axes in another order. A view.
    fn permute, try_permute(dims: impl Axes) -> Tensor<B> = |x| op::permute(x, &dims.axes());
    /// Axes moved to other positions, the others keeping their order. A view.
    fn movedim, try_movedim(source: impl Axes, destination: impl Axes) -> Tensor<B> =
        |x| op::movedim(x, &source.axes(), &destination.axes());
    /// Axes of size 1 repeated to `shape`; new axes are in front. -1 keeps the size of an axis. A
    /// view.
    fn expand, try_expand(shape: impl Sizes) -> Tensor<B> = |x| op::expand::expand_sizes(x, &shape.sizes());
    /// Another name of [`Tensor::expand`].
    fn broadcast_to, try_broadcast_to(shape: impl Sizes) -> Tensor<B> =
        |x| op::expand::expand_sizes(x, &shape.sizes());
    /// The opposite of broadcasting: summed over the axes along which `shape` would be repeated.
    fn sum_to, try_sum_to(shape: impl Sizes) -> Tensor<B> = |x| elinvar_ops::value::sum_to(x, &shape.to_shape()?);
    /// The whole tensor repeated along each axis; surplus entries add new axes in front.
    fn repeat, try_repeat(repeats: impl Sizes) -> Tensor<B> = |x| op::repeat(x, &counts("repeat", &repeats.sizes())?);
    /// NumPy's tile: as `repeat`, but fewer entries than axes are allowed.
    fn tile, try_tile(dims: impl Sizes) -> Tensor<B> = |x| op::tile(x, &counts("tile", &dims.sizes())?);
    /// Each element repeated, along an axis or in the flattened tensor.
    fn repeat_interleave, try_repeat_interleave(repeats: usize, dim: impl MaybeAxis) -> Tensor<B> =
        |x| op::repeat_interleave(x, repeats, dim.axis());
    /// Each index of an axis, or element of the flattened tensor, as often as `repeats` says.
    fn repeat_interleave_by, try_repeat_interleave_by(repeats: &Tensor<B>, dim: impl MaybeAxis) -> Tensor<B> =
        |x| op::repeat_interleave::by(x, repeats, dim.axis());
    /// Turned by `k` quarters in the plane of two axes. A view.
    fn rot90, try_rot90(k: isize, dims: impl Axes) -> Tensor<B> = |x| op::rot90(x, k, &dims.axes());
    /// Matrices, in two axes of the result, that have the rows as their diagonals.
    fn diag_embed, try_diag_embed(offset: isize, dim1: impl Integer, dim2: impl Integer) -> Tensor<B> =
        |x| op::diag_embed(x, offset, dim1.to_isize(), dim2.to_isize());
    /// Channels [n, c, ..] of several groups interleaved.
    fn channel_shuffle, try_channel_shuffle(groups: usize) -> Tensor<B> = |x| op::channel_shuffle(x, groups);
    /// One index of an axis; the axis is removed. A view.
    fn select, try_select(dim: impl Integer, index: impl Integer) -> Tensor<B> =
        |x| op::select(x, dim.to_isize(), index.to_isize());
    /// `length` indices of an axis from `start` on. A view.
    fn narrow, try_narrow(dim: impl Integer, start: impl Integer, length: usize) -> Tensor<B> =
        |x| op::narrow(x, dim.to_isize(), start.to_isize(), length);
    /// Axes reversed. A view.
    fn flip, try_flip(dims: impl Axes) -> Tensor<B> = |x| op::flip(x, &dims.axes());
    /// Elements moved along axes; what leaves at one end enters at the other. Without axes: in the
    /// flattened tensor.
    fn roll, try_roll(shifts: impl Axes, dims: impl MaybeAxes) -> Tensor<B> =
        |x| op::roll(x, &shifts.axes(), dims.maybe_axes().as_deref());
    /// Parts of `size` along an axis; the last may be smaller. Views.
    fn split, try_split(size: usize, dim: impl Integer) -> Vec<Tensor<B>> = |x| op::split(x, size, dim.to_isize());
    /// Parts of the given sizes along an axis. Views.
    fn split_sizes, try_split_sizes(sizes: impl Sizes, dim: impl Integer) -> Vec<Tensor<B>> =
        |x| op::split::sizes(x, &counts("split_sizes", &sizes.sizes())?, dim.to_isize());
    /// At most `chunks` parts of equal size along an axis; the last may be smaller. Views.
    fn chunk, try_chunk(chunks: usize, dim: impl Integer) -> Vec<Tensor<B>> = |x| op::chunk(x, chunks, dim.to_isize());
    /// The slices along an axis, which is removed. Views.
    fn unbind, try_unbind(dim: impl Integer) -> Vec<Tensor<B>> = |x| op::unbind(x, dim.to_isize());
    /// Padding, or cropping by negative amounts: [left of the last axis, right of it, left of the
    /// one before, ...].
    fn pad, try_pad(amounts: impl Axes, mode: op::pad::Mode) -> Tensor<B> = |x| op::pad(x, &amounts.axes(), mode);
    /// Without any axis of size 1. A view.
    fn squeeze, try_squeeze() -> Tensor<B> = |x| op::squeeze(x, None);
    /// Without these axes, where they have size 1. A view.
    fn squeeze_dim, try_squeeze_dim(dims: impl Axes) -> Tensor<B> = |x| op::squeeze(x, Some(&dims.axes()));
    /// A new axis of size 1. A view.
    fn unsqueeze, try_unsqueeze(dim: impl Integer) -> Tensor<B> = |x| op::unsqueeze(x, dim.to_isize());
    /// Axes `start_dim..=end_dim` merged into one.
    fn flatten, try_flatten(start_dim: impl Integer, end_dim: impl Integer) -> Tensor<B> =
        |x| op::flatten(x, start_dim.to_isize(), end_dim.to_isize());
    /// Zero above the given diagonal of the last two axes.
    fn tril, try_tril(diagonal: impl Integer) -> Tensor<B> = |x| op::tril(x, diagonal.to_isize());
    /// Zero below the given diagonal of the last two axes.
    fn triu, try_triu(diagonal: impl Integer) -> Tensor<B> = |x| op::triu(x, diagonal.to_isize());
    /// The rows and columns (i64, [2, n]) of the lower triangle of a matrix, on this tensor's
    /// device.
    fn tril_indices, try_tril_indices(rows: usize, columns: usize, offset: impl Integer) -> Tensor<B> =
        |x| op::tril_indices(x, rows, columns, offset.to_isize());
    /// The rows and columns (i64, [2, n]) of the upper triangle of a matrix, on this tensor's
    /// device.
    fn triu_indices, try_triu_indices(rows: usize, columns: usize, offset: impl Integer) -> Tensor<B> =
        |x| op::triu_indices(x, rows, columns, offset.to_isize());
    /// A diagonal of two axes, as a new last axis. A view.
    fn diagonal, try_diagonal(offset: impl Integer, dim1: impl Integer, dim2: impl Integer) -> Tensor<B> =
        |x| op::diagonal(x, offset.to_isize(), dim1.to_isize(), dim2.to_isize());
    /// A matrix's diagonal, or the matrix with this diagonal.
    fn diag, try_diag(offset: impl Integer) -> Tensor<B> = |x| op::diag(x, offset.to_isize());
    /// The sum of a matrix's diagonal.
    fn trace, try_trace() -> Tensor<B> = |x| op::trace(x);
    /// Windows along an axis, as a new last axis.
    fn unfold_dim, try_unfold_dim(dimension: impl Integer, size: usize, step: usize) -> Tensor<B> =
        |x| op::unfold_dim(x, dimension.to_isize(), size, step);
    /// Patches of images as columns (im2col).
    fn unfold, try_unfold(patches: &op::unfold::Patches) -> Tensor<B> = |x| op::unfold(x, patches);
    /// Columns added up to images: the opposite of [`Tensor::unfold`] (col2im).
    fn fold, try_fold(size: [usize; 2], patches: &op::unfold::Patches) -> Tensor<B> = |x| op::fold(x, size, patches);
    /// Row-major without gaps: the tensor itself, or a copy.
    fn contiguous, try_contiguous() -> Tensor<B> =
        |x| Ok(Tensor::with_node(x.array().contiguous()?, x.node().cloned()));
}

functions! {
    /// The matrix that has several along its diagonal. A vector is a row, a scalar one element.
    fn block_diag, try_block_diag(x: &[&Tensor<B>]) -> Tensor<B> = op::block_diag(x);
    /// Tensors concatenated along an axis.
    fn concat, try_concat(all: &[&Tensor<B>], dim: impl Integer) -> Tensor<B> = op::concat(all, dim.to_isize());
    /// Tensors of one shape concatenated along a new axis.
    fn stack, try_stack(all: &[&Tensor<B>], dim: impl Integer) -> Tensor<B> = op::stack(all, dim.to_isize());
    /// For vectors, tensors of one common shape that hold each one's coordinates: NumPy's `ij`
    /// order, or with `xy` the first two axes swapped.
    fn meshgrid, try_meshgrid(all: &[&Tensor<B>], xy: bool) -> Vec<Tensor<B>> = op::meshgrid(all, xy);
}
