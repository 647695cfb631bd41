//! Matrix products and other contractions.

use super::table::{functions, methods};
use crate::Tensor;
use crate::fail::OrFail;
use crate::sizes::Axes;
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
    /// beta * self + alpha * (x @ y), for batches of matrices.
    fn baddbmm, try_baddbmm(
        x: &Tensor<B>, y: &Tensor<B>, beta: impl Into<Scalar>, alpha: impl Into<Scalar>
    ) -> Tensor<B> = |input| op::baddbmm(input, x, y, beta.into(), alpha.into());
    /// x @ weight^T + bias, weight [out, in], or \[in\] for a result without the last axis.
    fn linear, try_linear(weight: &Tensor<B>, bias: Option<&Tensor<B>>) -> Tensor<B> = |x| op::linear(x, weight, bias);
}

functions! {
    /// Einstein summation over named axes: `Tensor::einsum("bik,bkj->bij", &[&x, &y])`.
    fn einsum, try_einsum(equation: &str, operands: &[&Tensor<B>]) -> Tensor<B> = op::einsum(equation, operands);
}
