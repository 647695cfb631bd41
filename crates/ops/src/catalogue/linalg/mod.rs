//! Linear algebra by blocks of existing work (ADR 30): what factorisations share.
//!
//! Every factorisation splits its matrices into halves until few columns are left, which it takes
//! one after the other, for all matrices of a batch at once; what is left are products. So they
//! have the bits of products, maps, folds and gathers, on every backend, and read nothing back: a
//! singular matrix gives NaN or infinities where PyTorch raises. Where steps are many and small, a
//! backend is asked for the whole first ([`Fused`]); what it gives has the same bits.
//!
//! Operands are [b, m, n], of f32 or f64. A step on a part of a matrix makes a new, smaller tensor;
//! the rows or columns that are done stay where they were, and are assembled at the end.

pub(super) mod cholesky;
pub(super) mod determinant;
pub(super) mod eigh;
pub(super) mod exchanges;
pub(super) mod exponential;
pub(super) mod householder;
pub(super) mod jacobi;
pub(super) mod ldl;
pub(super) mod lu;
pub(super) mod pseudo;
pub(super) mod scale;
pub(super) mod svd;
pub(super) mod triangular;

use super::matmul::Matmul;
use super::view::{self, Part, Run};
use super::{amax, eq, expand, reshape, sub, transpose, where_};
use crate::prelude::*;
use crate::value::cast;
use elinvar_core::host;
use smallvec::SmallVec;
use std::ops::Range;

/// Columns that are taken one after the other: below it products are as small as the steps.
pub(super) const LEAF: usize = 8;

/// Where to split n rows or columns: near the middle, at a multiple of [`LEAF`].
pub(super) fn half(n: usize) -> usize {
    (n / 2).next_multiple_of(LEAF)
}

/// Checks that operands are matrices of f32 or f64.
///
/// # Errors
/// `DTypeMismatch`, `ShapeMismatch`.
pub(super) fn check<V: Value>(op: &str, x: &V) -> Result<()> {
    check_dtype(op, x)?;
    if x.shape().rank() >= 2 {
        return Ok(());
    }
    Err(Error::shape(format!("{op}: operand {}; it must be a matrix, or a batch [.., m, n]", x.shape())))
}

/// Checks that an operand is of f32 or f64.
///
/// # Errors
/// `DTypeMismatch`.
pub(super) fn check_dtype<V: Value>(op: &str, x: &V) -> Result<()> {
    if matches!(x.dtype(), DType::F32 | DType::F64) {
        return Ok(());
    }
    Err(Error::dtype(format!("{op}: not defined for {}; convert with to_dtype to f32 or f64", x.dtype())))
}

/// Checks that an operand is of floats.
///
/// # Errors
/// `DTypeMismatch`.
pub(super) fn check_floats<V: Value>(op: &str, x: &V) -> Result<()> {
    if x.dtype().is_float() {
        return Ok(());
    }
    Err(Error::dtype(format!("{op}: not defined for {}; convert with to_dtype to a float type", x.dtype())))
}

/// Checks that operands are square matrices of f32 or f64.
///
/// # Errors
/// `DTypeMismatch`, `ShapeMismatch`.
pub(super) fn check_square<V: Value>(op: &str, x: &V) -> Result<usize> {
    check(op, x)?;
    let (_, [m, n]) = sizes(x);
    if m == n {
        return Ok(n);
    }
    Err(Error::shape(format!("{op}: operand {}; its matrices must be square", x.shape())))
}

/// The batches, and the rows and columns.
pub(super) fn sizes<V: Value>(x: &V) -> (Dims, [usize; 2]) {
    let [lead @ .., m, n] = &x.shape()[..] else { unreachable!("a matrix has two axes") };
    (Dims::from_slice(lead), [*m, *n])
}

/// A shape of these batches.
pub(super) fn shape(lead: &[usize], rest: &[usize]) -> Result<Shape> {
    Shape::new(&lead.iter().chain(rest).copied().collect::<Dims>())
}

/// x as [b, m, n].
pub(super) fn matrices<V: Value>(x: &V) -> Result<V> {
    let (lead, [m, n]) = sizes(x);
    reshape::to_shape(x, &Shape::new(&[lead.iter().product(), m, n])?)
}

/// x [b, rest..] with its batches again.
pub(super) fn batched<V: Value>(x: &V, lead: &[usize]) -> Result<V> {
    reshape::to_shape(x, &shape(lead, &x.shape()[1..])?)
}

/// Matrices with the batches that they have in common, and these.
///
/// # Errors
/// `ShapeMismatch` if they do not broadcast.
pub(super) fn together<V: Value>(op: &str, x: &V, y: &V) -> Result<(V, V, Dims)> {
    let ((xl, xn), (yl, yn)) = (sizes(x), sizes(y));
    let lead = Shape::new(&xl)?.broadcast(&Shape::new(&yl)?, op)?;
    let all = |v: &V, rest: [usize; 2]| matrices(&expand(v, &shape(&lead, &rest)?)?);
    Ok((all(x, xn)?, all(y, yn)?, Dims::from_slice(&lead)))
}

/// An exact product of matrices, also where a scope asks for fast ones.
pub(super) fn product<V: Value>(x: &V, y: &V) -> Result<V> {
    V::apply(Matmul { precision: Precision::Exact }, &[x, y])
}

/// x with rows as columns.
pub(super) fn turned<V: Value>(x: &V) -> Result<V> {
    transpose(x, -1, -2)
}

/// Some rows and columns of [b, m, n]: a view.
pub(super) fn block<V: Value>(x: &V, rows: Range<usize>, columns: Range<usize>) -> Result<V> {
    let run = |r: Range<usize>| Run { start: r.start, len: r.len(), step: 1 };
    let runs = [Run::all(x.shape()[0]), run(rows), run(columns)];
    if (0..3).all(|i| runs[i].is_all(x.shape()[i])) {
        return Ok(x.clone());
    }
    view::take(x, Part::Slice(SmallVec::from_slice(&runs)))
}

/// Some rows of [b, m, n]: a view.
pub(super) fn rows_of<V: Value>(x: &V, rows: Range<usize>) -> Result<V> {
    block(x, rows, 0..x.shape()[2])
}

/// Matrices [b, m, n] of blocks, each with its first row and column; 0 elsewhere.
pub(super) fn assembled<V: Value>(blocks: &[(&V, usize, usize)], m: usize, n: usize) -> Result<V> {
    let b = blocks[0].0.shape()[0];
    let run = |start, len| Run { start, len, step: 1 };
    let part = |(x, row, column): &(&V, usize, usize)| {
        let s = x.shape();
        Part::Slice(SmallVec::from_slice(&[Run::all(b), run(*row, s[1]), run(*column, s[2])]))
    };
    let (parts, x): (Vec<Part>, Vec<&V>) = blocks.iter().map(|all| (part(all), all.0)).unzip();
    view::assemble(&x, &Shape::new(&[b, m, n])?, Scalar::Int(0), parts)
}

/// The m x n matrix with ones on its diagonal, [1, m, n].
pub(super) fn eye<V: Value>(like: &V, m: usize, n: usize) -> Result<V> {
    let all = host::collected((0..m * n).map(|i| f64::from(i / n.max(1) == i % n.max(1))))?;
    Ok(V::from_array(Array::from_f64s(like.device(), all, &[1, m, n], like.dtype())?))
}

/// Matrices of these batches, m x n, with ones on their diagonals.
pub(super) fn units<V: Value>(like: &V, lead: &[usize], m: usize, n: usize) -> Result<V> {
    expand(&reshape::to_shape(&eye(like, m, n)?, &Shape::new(&[m, n])?)?, &shape(lead, &[m, n])?)
}

/// 0, 1, .. as floats like x, of this shape.
pub(super) fn numbers<V: Value>(like: &V, shape: &[usize]) -> Result<V> {
    let n: usize = shape.iter().product();
    let all = host::collected((0..n).map(|i| i as f64))?;
    Ok(V::from_array(Array::from_f64s(like.device(), all, shape, like.dtype())?))
}

/// The one result of fused work, like its first operand, if the backend has it.
pub(super) fn fused_one<B: Backend>(
    device: &B::Device,
    work: &Fused<'_>,
    x: &[&Array<B>],
    shape: &Shape,
) -> Result<Option<Array<B>>> {
    let views: Vec<_> = x.iter().map(|x| x.view()).collect();
    let Some(all) = B::fused(device, work, &views)? else { return Ok(None) };
    let [y] = all.try_into().unwrap_or_else(|_| panic!("{} has one result", work.name()));
    Ok(Some(Array::placed(device, y, shape.clone(), x[0].dtype())))
}

/// Checks that operands are of one dtype and device.
///
/// # Errors
/// `DTypeMismatch`, `DeviceMismatch`.
pub(super) fn check_pair<V: Value>(op: &str, x: &V, y: &V) -> Result<()> {
    let both = [x.array(), y.array()];
    crate::array::one_device(op, &both)?;
    crate::array::one_dtype(op, &both).map(|_| ())
}

/// For each matrix 0, or the number, from 1, of the first pivot that is `refused` [.., n]: [..], of
/// i32.
pub(super) fn info<V: Value>(refused: &V) -> Result<V> {
    let n = refused.shape()[refused.shape().rank() - 1];
    if refused.shape().numel() == 0 {
        let lead = refused.shape().without(&[refused.shape().rank() - 1], false);
        return Ok(V::from_array(Array::full(refused.device(), &lead, Scalar::Int(0), DType::I32)?));
    }
    // n less its index where a pivot is refused, so that the first one is the largest.
    let rank = view::numbers(refused, n, (1..=n as i64).rev())?;
    let zero = rank.scalar_like(0i64)?;
    let first = amax(&where_(refused, &rank, &zero)?, Some(&[-1]), false)?;
    let number = sub(&rank.scalar_like(n as i64 + 1)?, &first)?;
    cast(&where_(&eq(&first, &zero)?, &zero, &number)?, DType::I32)
}

/// An attribute that is true or false.
pub(super) fn flag<V: Value>(a: &Args<V>, name: &str, absent: bool) -> Result<bool> {
    Ok(a.maybe(name, Args::bool)?.unwrap_or(absent))
}

/// Checks the attribute check_errors.
///
/// # Errors
/// `Unsupported` if it is true: results are not read back.
pub(super) fn no_errors<V: Value>(a: &Args<V>) -> Result<()> {
    if flag(a, "check_errors", false)? {
        return Err(Error::unsupported(format!(
            "{}: check_errors is true; results are not read back, look at info",
            a.op
        )));
    }
    Ok(())
}
