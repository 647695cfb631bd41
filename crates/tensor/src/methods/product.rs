//! Matrix products and other contractions.

use super::table::{functions, methods};
use crate::Tensor;
use crate::fail::OrFail;
use crate::sizes::{Axes, Integer, MaybeAxis};
use elinvar_core::{Result, Scalar};
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue as op;

methods! {
    /// NumPy's matrix product: x[b.., m, k] @ w[b.., k, n] gives [b.., m, n]; a vector is a row on
    /// the left and a column on the right, batches broadcast.
    fn matmul, try_matmul(w: &Tensor<B>) -> Tensor<B> = |x| op::matmul(x, w);
    /// y[b, m, n] = sum over k of x[b, m, k] * w[b, k, n].
    fn bmm, try_bmm(w: &Tensor<B>) -> Tensor<B> = |x| op::bmm(x, w);
    /// `x[i] * y[j]` of two vectors.
    fn outer, try_outer(y: &Tensor<B>) -> Tensor<B> = |x| op::outer(x, y);
    /// The sum of the products of two vectors.
    fn dot, try_dot(y: &Tensor<B>) -> Tensor<B> = |x| op::dot(x, y);
    /// The Kronecker product.
    fn kron, try_kron(y: &Tensor<B>) -> Tensor<B> = |x| op::kron(x, y);
    /// The sum over axis `dims_x[i]` of x together with axis `dims_y[i]` of y, for all i.
    fn tensordot, try_tensordot(y: &Tensor<B>, dims_x: impl Axes, dims_y: impl Axes) -> Tensor<B> =
        |x| op::tensordot(x, y, &dims_x.axes(), &dims_y.axes());
    /// beta * self + alpha * (x @ y).
    fn addmm, try_addmm(
        x: &Tensor<B>, y: &Tensor<B>, beta: impl Into<Scalar>, alpha: impl Into<Scalar>
    ) -> Tensor<B> = |input| op::addmm(input, x, y, beta.into(), alpha.into());
    /// beta * self + alpha * (x @ y), of a matrix and a vector.
    fn addmv, try_addmv(
        x: &Tensor<B>, y: &Tensor<B>, beta: impl Into<Scalar>, alpha: impl Into<Scalar>
    ) -> Tensor<B> = |input| op::addmv(input, x, y, beta.into(), alpha.into());
    /// beta * self + alpha * `x[i] * y[j]`, of two vectors.
    fn addr, try_addr(
        x: &Tensor<B>, y: &Tensor<B>, beta: impl Into<Scalar>, alpha: impl Into<Scalar>
    ) -> Tensor<B> = |input| op::addr(input, x, y, beta.into(), alpha.into());
    /// The sum of x * y over an axis.
    fn vecdot, try_vecdot(y: &Tensor<B>, dim: impl Integer) -> Tensor<B> = |x| op::vecdot(x, y, dim.to_isize());
    /// The cross product along an axis, or the first one of size 3.
    fn cross, try_cross(y: &Tensor<B>, dim: impl MaybeAxis) -> Tensor<B> = |x| op::cross(x, y, dim.axis());
    /// The distances of all pairs of rows [.., m, k] and [.., n, k]: [.., m, n].
    fn cdist, try_cdist(y: &Tensor<B>, p: f64) -> Tensor<B> = |x| op::cdist(x, y, p);
    /// The distances of all pairs of different rows of this matrix.
    fn pdist, try_pdist(p: f64) -> Tensor<B> = |x| op::pdist(x, p);
    /// The `p`-norm of x - y + eps over the last axis.
    fn pairwise_distance, try_pairwise_distance(y: &Tensor<B>, p: f64, eps: f64, keepdim: bool) -> Tensor<B> =
        |x| op::pairwise_distance(x, y, p, eps, keepdim);
    /// The sum over i and j of `x[.., i] * weight[o, i, j] * y[.., j]`, and a bias \[o\].
    fn bilinear, try_bilinear(y: &Tensor<B>, weight: &Tensor<B>, bias: Option<&Tensor<B>>) -> Tensor<B> =
        |x| op::bilinear(x, y, weight, bias);
    /// beta * self + alpha * (x @ y), for batches of matrices.
    fn baddbmm, try_baddbmm(
        x: &Tensor<B>, y: &Tensor<B>, beta: impl Into<Scalar>, alpha: impl Into<Scalar>
    ) -> Tensor<B> = |input| op::baddbmm(input, x, y, beta.into(), alpha.into());
    /// beta * self + alpha * (x @ y), summed over batches of matrices.
    fn addbmm, try_addbmm(
        x: &Tensor<B>, y: &Tensor<B>, beta: impl Into<Scalar>, alpha: impl Into<Scalar>
    ) -> Tensor<B> = |input| op::addbmm(input, x, y, beta.into(), alpha.into());
    /// x @ weight^T + bias, weight [out, in], or \[in\] for a result without the last axis.
    fn linear, try_linear(weight: &Tensor<B>, bias: Option<&Tensor<B>>) -> Tensor<B> = |x| op::linear(x, weight, bias);
}

functions! {
    /// Einstein summation over named axes: `Tensor::einsum("bik,bkj->bij", &[&x, &y])`.
    fn einsum, try_einsum(equation: &str, operands: &[&Tensor<B>]) -> Tensor<B> = op::einsum(equation, operands);
}
