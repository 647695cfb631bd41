//! y[b, m, n] = epilogue(sum over k of x[b, m, k] * w[b, k, n]), from views.

use super::epilogue::Follow;
use super::{Extra, Finish, Job, Matrix, Prepacked, Real, Share, TermKind, product, split_k, tiny};
use crate::CpuDevice;
use crate::elementwise::convert;
use crate::lazy::buffer::View;
use elinvar_core::{DType, Error, HostData, HostVec, Layout, Precision, Result};
use elinvar_ops::backend::Epilogue;

/// Contracts views of floats.
///
/// # Errors
/// `OutOfMemory`; `DTypeMismatch` if the views are not of one dtype, which the op sees to.
pub(crate) fn contract<T: Real, E: Epilogue<N>, const N: usize>(
    d: &CpuDevice,
    p: Precision,
    x: &View<'_>,
    (w, packed): (&View<'_>, Option<&Prepacked>),
    e: &E,
    extra: &[View<'_>; N],
) -> Result<HostData> {
    let (xs, n) = (x.shape(), w.shape()[2]);
    let (left, right) = (matrix::<T>(x.buffer, x.layout)?, matrix::<T>(w.buffer, w.layout)?);
    let right = Matrix { kept: packed.and_then(|p| p.of(d.isa(), w.layout)), ..right };
    let extra = all(extra, |v| matrix::<T>(v.buffer, v.layout))?;
    let y = products(d, p, [xs[0], xs[1], xs[2], n], left, right, e, extra)?;
    store(d, y, x.buffer.dtype())
}

/// One value from each; of no operands, as most products have, nothing is compiled.
pub(crate) fn all<X, T, const N: usize>(x: &[X; N], f: impl Fn(&X) -> Result<T>) -> Result<[T; N]> {
    let all = x.each_ref().map(f);
    match all.iter().find_map(|x| x.as_ref().err()) {
        Some(e) => Err(e.clone()),
        None => Ok(all.map(|x| x.unwrap_or_else(|_| unreachable!("there is no error")))),
    }
}

/// A batch of matrix products: sizes b, m, k, n.
pub(crate) fn products<T: Real, E: Epilogue<N>, const N: usize>(
    d: &CpuDevice,
    p: Precision,
    [b, m, k, n]: [usize; 4],
    left: Matrix<'_, T>,
    right: Matrix<'_, T>,
    e: &E,
    extra: [Extra<'_, T>; N],
) -> Result<HostVec<T>> {
    // One column: the result lies in memory like one row, and a row of lanes is what tiles are good at.
    if n == 1 && m > 1 {
        let extra = extra.map(Matrix::turned);
        let (left, right) = (right.turned(), left.turned());
        return T::products(d, p, [b, 1, k, m], &left, &right, &Follow { e, extra });
    }
    // A batch with one right factor is one product, if its rows follow one another.
    let one = |x: &Matrix<'_, T>| x.inner == 1 && x.batch.0 == x.row * m as isize;
    if b > 1 && right.inner == 1 && right.batch.0 == 0 && one(&left) && extra.iter().all(one) {
        return T::products(d, p, [1, b * m, k, n], &left, &right, &Follow { e, extra });
    }
    T::products(d, p, [b, m, k, n], &left, &right, &Follow { e, extra })
}

/// A batch of products, for [`Real::products`] alone.
pub(super) fn run<T: Real>(
    d: &CpuDevice,
    [batch, m, k, n]: [usize; 4],
    left: &Matrix<'_, T>,
    right: &Matrix<'_, T>,
    finish: &dyn Finish<T>,
) -> Result<HostVec<T>> {
    if let Some(y) = split_k::products(d, [batch, m, k, n], left, right, finish)? {
        return Ok(y);
    }
    if let Some(y) = tiny::products(d, [batch, m, k, n], left, right, finish)? {
        return Ok(y);
    }
    let share = match right.kept {
        Some(_) => Share::Kept,
        None => super::share::<T>(d, [batch, m, k, n]),
    };
    let kind = TermKind::Elements;
    product(d, &Job { batch, m, k, n, left, right, finish, share, kind })
}

/// A view of rank 3 as matrices.
///
/// # Errors
/// `DTypeMismatch` if it does not hold what is computed in `T`.
pub(crate) fn matrix<'a, T: Real>(data: &'a HostData, l: &Layout) -> Result<Matrix<'a, T>> {
    let s = l.strides();
    let data = numbers(data)?;
    Ok(Matrix { data, offset: l.offset(), inner: 1, batch: (s[0], 0), row: s[1], col: s[2], kept: None })
}

/// The numbers in a buffer.
///
/// # Errors
/// `DTypeMismatch` if they are not computed in `T`.
pub(crate) fn numbers<T: Real>(data: &HostData) -> Result<super::Numbers<'_, T>> {
    T::numbers(data).ok_or_else(|| {
        Error::dtype(format!(
            "cpu: a contraction in {} has an operand of {}; the op should have converted it first",
            T::DTYPE,
            data.dtype()
        ))
    })
}

/// Results as they are stored, rounded once.
///
/// # Errors
/// `OutOfMemory`; `DTypeMismatch` if they are not stored as floats.
pub(crate) fn store<T: Real>(d: &CpuDevice, y: HostVec<T>, to: DType) -> Result<HostData> {
    match T::wrap(y) {
        HostData::F32(y) => convert::stored(d, y, to),
        y => Ok(y),
    }
}
