//! Matrix products.
//!
//! A matrix by columns is its transpose by rows, so that C^T = op(B)^T op(A)^T is the library's
//! product of views, and what comes out lies as C does. Nothing is copied but C into its gaps.

use crate::raw::Raw;
use crate::region::Runs;
use crate::types::{BackendError, BackendResult, BackendTranspose};
use elinvar_core::{DType, Scalar, Shape};
use elinvar_ops::backend::{CompiledEpilogue, Epilogue};
use elinvar_ops::casting::Halves;
use elinvar_ops::lane::Lane;
use elinvar_ops::map::Compiled;
use elinvar_ops::{Array, Backend, catalogue, compile_epilogue};

/// The 16-bit type to which the factors of a mixed product are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// IEEE binary16.
    F16,
    /// bfloat16.
    BF16,
}

/// A matrix, or a batch of them.
#[derive(Clone, Copy)]
pub(crate) struct Matrix {
    pub ptr: u64,
    /// Elements from one column to the next.
    pub ld: usize,
    /// Elements from one matrix to the next.
    pub stride: usize,
}

/// C = alpha op(A) op(B) + beta C.
pub(crate) struct Product {
    pub call: &'static str,
    pub trans_a: BackendTranspose,
    pub trans_b: BackendTranspose,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub alpha: f64,
    pub beta: f64,
    pub batch: usize,
    pub a: Matrix,
    pub b: Matrix,
    pub c: Matrix,
    /// The type of the elements, and what the factors are rounded to before.
    pub of: (DType, Option<Rounding>),
}

/// alpha sum. The factor is an operand, not an attribute: a kernel is built for a formula, and
/// would be built again for each number in it.
#[derive(Clone, Copy, Debug)]
struct Scale;
impl Epilogue<1> for Scale {
    const NAME: &'static str = "scale";
    #[inline(always)]
    fn lane<L: Lane>(&self, sum: L, [alpha]: [L; 1]) -> L {
        alpha * sum
    }
}

/// beta c + alpha sum, each product rounded, as `addmm` does.
#[derive(Clone, Copy, Debug)]
struct ScaleAndAdd;
impl Epilogue<3> for ScaleAndAdd {
    const NAME: &'static str = "scale_and_add";
    #[inline(always)]
    fn lane<L: Lane>(&self, sum: L, [c, alpha, beta]: [L; 3]) -> L {
        beta * c + alpha * sum
    }
}
compile_epilogue! { 1 Scale; 3 ScaleAndAdd; }

/// A number as the elements have it.
fn rounded(x: f64, dtype: DType) -> f64 {
    if dtype == DType::F32 { f64::from(x as f32) } else { x }
}

impl Product {
    pub fn run<B: Backend>(self, raw: &Raw<B>) -> BackendResult<()> {
        raw.check_ready()?;
        let Product { call, m, n, k, batch, a, b, c, of: (dtype, rounding), .. } = self;
        let (at, bt) = (self.trans_a.is_transposed(), self.trans_b.is_transposed());
        let [a_rows, a_columns] = if at { [k, m] } else { [m, k] };
        let [b_rows, b_columns] = if bt { [n, k] } else { [k, n] };
        for (what, ld, rows) in [("lda", a.ld, a_rows), ("ldb", b.ld, b_rows), ("ldc", c.ld, m)] {
            if ld < rows.max(1) {
                return Err(BackendError::InvalidArgument(format!(
                    "{call}: {what} is {ld}; it must be at least {}, the rows as stored, and 1",
                    rows.max(1)
                )));
            }
        }
        let (d, alpha, beta) = (raw.device(), rounded(self.alpha, dtype), rounded(self.beta, dtype));
        let matrix = |what, x: Matrix, shape: [usize; 2], strides: [usize; 2], rows, columns| {
            let runs = Runs::of(rows, [(batch, x.stride), (columns, x.ld)]);
            let (shape, strides) = ([batch, shape[0], shape[1]], [x.stride, strides[0], strides[1]]);
            raw.operand(call, what, x.ptr, &shape, &strides, runs, dtype)
        };
        let to = matrix("c_ptr", c, [n, m], [c.ld, 1], m, n)?;
        to.is_apart_from(&[])?;
        if k == 0 || alpha == 0.0 {
            let all = to.layout.shape().clone();
            if beta == 1.0 || all.numel() == 0 {
                return Ok(());
            }
            let y = if beta == 0.0 {
                Array::full(d, &all, Scalar::Float(0.0), dtype)?
            } else {
                catalogue::mul(&to.read(d)?, &Array::scalar(d, Scalar::Float(beta), dtype)?)?
            };
            return to.write(d, y);
        }
        let left = matrix("a_ptr", a, [k, m], if at { [1, a.ld] } else { [a.ld, 1] }, a_rows, a_columns)?;
        let right = matrix("b_ptr", b, [n, k], if bt { [1, b.ld] } else { [b.ld, 1] }, b_rows, b_columns)?;
        to.is_apart_from(&[&left, &right])?;
        if to.layout.shape().numel() == 0 {
            return Ok(());
        }
        let factor = |x: Array<B>| match rounding {
            None => Ok(x),
            Some(Rounding::F16) => x.cast_by::<Halves>(DType::F16)?.cast_by::<Halves>(DType::F32),
            Some(Rounding::BF16) => x.cast_by::<Halves>(DType::BF16)?.cast_by::<Halves>(DType::F32),
        };
        let (x, w) = (factor(right.read(d)?)?, factor(left.read(d)?)?);
        let old = if beta == 0.0 { None } else { Some(to.read(d)?) };
        let y = contract(raw, [&x, &w], alpha, old.map(|c| (c, beta)))?;
        drop((x, w));
        to.write(d, y)
    }
}

/// alpha x w + beta c, for batches.
fn contract<B: Backend>(
    raw: &Raw<B>,
    [x, w]: [&Array<B>; 2],
    alpha: f64,
    add: Option<(Array<B>, f64)>,
) -> BackendResult<Array<B>> {
    let (d, dtype) = (raw.device(), x.dtype());
    let shape = Shape::new(&[x.shape()[0], x.shape()[1], w.shape()[2]])?;
    let (precision, product) = (raw.precision(), (x.view(), w.view()));
    let number = |v: f64| Array::scalar(d, Scalar::Float(v), dtype)?.broadcast_to(&shape, "gemm");
    let y = match add {
        Some((c, beta)) => {
            let (alpha, beta) = (number(alpha)?, number(beta)?);
            let e = ScaleAndAdd::object(&Compiled(ScaleAndAdd));
            let extra = [c.view(), alpha.view(), beta.view()];
            B::contract(d, precision, product.0, product.1, Some(e), &extra)?
        }
        None if alpha == 1.0 => B::contract(d, precision, product.0, product.1, None, &[])?,
        None => {
            let (alpha, e) = (number(alpha)?, Scale::object(&Compiled(Scale)));
            B::contract(d, precision, product.0, product.1, Some(e), &[alpha.view()])?
        }
    };
    Ok(Array::new(d, y, shape, dtype))
}

impl<B: Backend> Raw<B> {
    /// [`gemm`](crate::ComputeBackend::gemm) of f32, whatever the elements of this backend are,
    /// with A and B rounded to 16 bits first, to nearest even. Products and sums are those of f32.
    ///
    /// # Errors
    /// Those of `gemm`.
    pub fn gemm_mixed_precision(
        &self,
        rounding: Rounding,
        trans_a: BackendTranspose,
        trans_b: BackendTranspose,
        m: usize,
        n: usize,
        k: usize,
        alpha: f32,
        a_ptr: u64,
        lda: usize,
        b_ptr: u64,
        ldb: usize,
        beta: f32,
        c_ptr: u64,
        ldc: usize,
    ) -> BackendResult<()> {
        let a = Matrix { ptr: a_ptr, ld: lda, stride: 0 };
        let b = Matrix { ptr: b_ptr, ld: ldb, stride: 0 };
        let c = Matrix { ptr: c_ptr, ld: ldc, stride: 0 };
        let (call, of) = ("gemm_mixed_precision", (DType::F32, Some(rounding)));
        let (alpha, beta) = (f64::from(alpha), f64::from(beta));
        Product { call, trans_a, trans_b, m, n, k, alpha, beta, batch: 1, a, b, c, of }.run(self)
    }
}
