//! Linear algebra: factorisations of matrices in the last two axes, batches in those before.

use super::table::{functions, methods};
use crate::Tensor;
use crate::fail::OrFail;
use elinvar_core::Result;
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue as op;
use elinvar_ops::catalogue::lstsq::Driver;
use elinvar_ops::catalogue::matrix_norm::MatrixOrd;
use elinvar_ops::catalogue::qr::QrMode;

methods! {
    /// The product of `n` factors; of inverses if `n` is negative.
    fn matrix_power, try_matrix_power(n: i64) -> Tensor<B> = |x| op::matrix_power(x, n);
    /// A norm of the matrices in axes `dim` (rows, columns).
    fn matrix_norm, try_matrix_norm(ord: MatrixOrd, dim: [isize; 2], keepdim: bool) -> Tensor<B> =
        |x| op::matrix_norm(x, ord, dim, keepdim);
    /// The exponentials of matrices.
    fn matrix_exp, try_matrix_exp() -> Tensor<B> = |x| op::matrix_exp(x);
    /// L with L L^T = x, of symmetric positive definite matrices, whose lower triangle is read;
    /// with `upper` its transpose, from the upper one. NaN from the first pivot on that is not
    /// positive.
    fn cholesky, try_cholesky(upper: bool) -> Tensor<B> = |x| op::cholesky(x, upper);
    /// [`Tensor::cholesky`], and 0 or the number, from 1, of the first pivot that is not positive.
    fn cholesky_ex, try_cholesky_ex(upper: bool) -> (Tensor<B>, Tensor<B>) = |x| op::cholesky_ex(x, upper);
    /// X of x X = y, or X x = y without `left`, with a triangle of x.
    fn solve_triangular, try_solve_triangular(
        y: &Tensor<B>, upper: bool, left: bool, unitriangular: bool
    ) -> Tensor<B> = |x| op::solve_triangular(x, y, upper, left, unitriangular);
    /// X of x X = y, or X x = y without `left`. A singular matrix gives infinities and NaN.
    fn solve, try_solve(y: &Tensor<B>, left: bool) -> Tensor<B> = |x| op::solve(x, y, left);
    /// The inverses of matrices. A singular matrix gives infinities and NaN.
    fn inv, try_inv() -> Tensor<B> = |x| op::inv(x);
    /// [`Tensor::inv`], and 0 or the number, from 1, of the first pivot that is 0.
    fn inv_ex, try_inv_ex() -> (Tensor<B>, Tensor<B>) = |x| op::inv_ex(x);
    /// The pseudoinverses of matrices, by singular values above `atol` and `rtol` times the
    /// largest.
    fn pinv, try_pinv(atol: Option<f64>, rtol: Option<f64>, hermitian: bool) -> Tensor<B> =
        |x| op::pinv(x, atol, rtol, hermitian);
    /// (LU, pivots): factors in one matrix, and with which row, from 1, each was exchanged; rows
    /// stay where they are without `pivot`.
    fn lu_factor, try_lu_factor(pivot: bool) -> (Tensor<B>, Tensor<B>) = |x| op::lu_factor(x, pivot);
    /// [`Tensor::lu_factor`], and 0 or the number, from 1, of the first pivot that is 0.
    fn lu_factor_ex, try_lu_factor_ex(pivot: bool) -> (Tensor<B>, Tensor<B>, Tensor<B>) =
        |x| op::lu_factor_ex(x, pivot);
    /// (P, L, U) with x = P L U; without `pivot` P is empty and x = L U.
    fn lu, try_lu(pivot: bool) -> (Tensor<B>, Tensor<B>, Tensor<B>) = |x| op::lu(x, pivot);
    /// X of A X = y, or X A = y without `left`, of the matrices whose [`Tensor::lu_factor`] this
    /// and `pivots` are; of their transposes with `adjoint`.
    fn lu_solve, try_lu_solve(pivots: &Tensor<B>, y: &Tensor<B>, left: bool, adjoint: bool) -> Tensor<B> =
        |x| op::lu_solve(x, pivots, y, left, adjoint);
    /// (LD, pivots) of symmetric matrices, as LAPACK's sytrf gives them.
    fn ldl_factor, try_ldl_factor() -> (Tensor<B>, Tensor<B>) = |x| op::ldl_factor(x);
    /// [`Tensor::ldl_factor`], and 0 or the number, from 1, of the first block of D that is 0.
    fn ldl_factor_ex, try_ldl_factor_ex() -> (Tensor<B>, Tensor<B>, Tensor<B>) =
        |x| op::ldl_factor_ex(x);
    /// X of A X = y, of the matrices whose [`Tensor::ldl_factor`] this and `pivots` are.
    fn ldl_solve, try_ldl_solve(pivots: &Tensor<B>, y: &Tensor<B>) -> Tensor<B> =
        |x| op::ldl_solve(x, pivots, y);
    /// The determinants of matrices.
    fn det, try_det() -> Tensor<B> = |x| op::det(x);
    /// (sign, logabsdet) of the determinants of matrices.
    fn slogdet, try_slogdet() -> (Tensor<B>, Tensor<B>) = |x| op::slogdet(x);
    /// (Q, R) with x = Q R, with the signs of LAPACK.
    fn qr, try_qr(mode: QrMode) -> (Tensor<B>, Tensor<B>) = |x| op::qr(x, mode);
    /// The first columns of the product of the reflections whose vectors are below the diagonal.
    fn householder_product, try_householder_product(tau: &Tensor<B>) -> Tensor<B> =
        |x| op::householder_product(x, tau);
    /// (solution, residuals, rank, singular values) of least squares; what the driver does not give
    /// is empty.
    fn lstsq, try_lstsq(
        y: &Tensor<B>, rcond: Option<f64>, driver: Driver
    ) -> (Tensor<B>, Tensor<B>, Tensor<B>, Tensor<B>) = |x| op::lstsq(x, y, rcond, driver);
    /// (L, V): eigenvalues of symmetric matrices, ascending, and eigenvectors as columns.
    fn eigh, try_eigh(upper: bool) -> (Tensor<B>, Tensor<B>) = |x| op::eigh(x, upper);
    /// The eigenvalues of symmetric matrices, ascending.
    fn eigvalsh, try_eigvalsh(upper: bool) -> Tensor<B> = |x| op::eigvalsh(x, upper);
    /// (U, S, V^T) with x = U diag(S) V^T, S descending.
    fn svd, try_svd(full_matrices: bool) -> (Tensor<B>, Tensor<B>, Tensor<B>) = |x| op::svd(x, full_matrices);
    /// The singular values of matrices, descending.
    fn svdvals, try_svdvals() -> Tensor<B> = |x| op::svdvals(x);
}

functions! {
    /// The product of several matrices, in the order that costs least.
    fn multi_dot, try_multi_dot(x: &[&Tensor<B>]) -> Tensor<B> = op::multi_dot(x);
}
