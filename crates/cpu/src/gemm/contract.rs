//! Entry point of contractions: `y[b, m, n] = epilogue(sum over k of x[b, m, k] * w[b, k, n])`,
//! from views.
//!
//! It folds batches into rows, swaps operands of a single column, and chooses between split-K, tiny
//! and blocked GEMM.

use super::epilogue::FusedEpilogue;
use super::{
    BatchedMatrix, EpilogueOperand, Gemm, PackPlan, PrepackedB, Real, TermKind, TileEpilogue, run_gemm,
    split_k, tiny,
};
use crate::CpuDevice;
use crate::elementwise::convert;
use crate::view::View;
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
    (w, packed): (&View<'_>, Option<&PrepackedB>),
    e: &E,
    extra: &[View<'_>; N],
) -> Result<HostData> {
    let (xs, n) = (x.shape(), w.shape()[2]);
    let (lhs, rhs) = (batched_matrix::<T>(x.buffer, x.layout)?, batched_matrix::<T>(w.buffer, w.layout)?);
    let rhs = BatchedMatrix { prepacked: packed.and_then(|p| p.of(d.isa(), w.layout)), ..rhs };
    let extra = try_map_all(extra, |v| batched_matrix::<T>(v.buffer, v.layout))?;
    let y = gemm_batch(d, p, [xs[0], xs[1], xs[2], n], lhs, rhs, e, extra)?;
    store(d, y, x.buffer.dtype())
}

/// One value from each; of no operands, as most products have, nothing is compiled.
pub(crate) fn try_map_all<X, T, const N: usize>(x: &[X; N], f: impl Fn(&X) -> Result<T>) -> Result<[T; N]> {
    let all = x.each_ref().map(f);
    match all.iter().find_map(|x| x.as_ref().err()) {
        Some(e) => Err(e.clone()),
        None => Ok(all.map(|x| x.unwrap_or_else(|_| unreachable!("there is no error")))),
    }
}

/// A batch of matrix products: sizes b, m, k, n.
pub(crate) fn gemm_batch<T: Real, E: Epilogue<N>, const N: usize>(
    d: &CpuDevice,
    p: Precision,
    [b, m, k, n]: [usize; 4],
    lhs: BatchedMatrix<'_, T>,
    rhs: BatchedMatrix<'_, T>,
    e: &E,
    extra: [EpilogueOperand<'_, T>; N],
) -> Result<HostVec<T>> {
    // One column: the result lies in memory like one row, and a row of lanes is what tiles are good at.
    if n == 1 && m > 1 {
        let extra = extra.map(BatchedMatrix::transposed);
        let (lhs, rhs) = (rhs.transposed(), lhs.transposed());
        return T::products(d, p, [b, 1, k, m], &lhs, &rhs, &FusedEpilogue { e, extra });
    }
    // A batch with one right factor is one product, if its rows follow one another.
    let one = |x: &BatchedMatrix<'_, T>| x.inner == 1 && x.batch.0 == x.row * m as isize;
    if b > 1 && rhs.inner == 1 && rhs.batch.0 == 0 && one(&lhs) && extra.iter().all(one) {
        return T::products(d, p, [1, b * m, k, n], &lhs, &rhs, &FusedEpilogue { e, extra });
    }
    T::products(d, p, [b, m, k, n], &lhs, &rhs, &FusedEpilogue { e, extra })
}

/// A batch of products, for [`Real::products`] alone.
pub(super) fn run_batch<T: Real>(
    d: &CpuDevice,
    [batch, m, k, n]: [usize; 4],
    lhs: &BatchedMatrix<'_, T>,
    rhs: &BatchedMatrix<'_, T>,
    epilogue: &dyn TileEpilogue<T>,
) -> Result<HostVec<T>> {
    if let Some(y) = split_k::try_split_k(d, [batch, m, k, n], lhs, rhs, epilogue)? {
        return Ok(y);
    }
    if let Some(y) = tiny::try_tiny(d, [batch, m, k, n], lhs, rhs, epilogue)? {
        return Ok(y);
    }
    let pack_plan = match rhs.prepacked {
        Some(_) => PackPlan::Prepacked,
        None => super::pack_plan::<T>(d, [batch, m, k, n]),
    };
    let kind = TermKind::Elements;
    run_gemm(d, &Gemm { batch, m, k, n, lhs, rhs, epilogue, pack_plan, kind })
}

/// A view of rank 3 as matrices.
///
/// # Errors
/// `DTypeMismatch` if it does not hold what is computed in `T`.
pub(crate) fn batched_matrix<'a, T: Real>(data: &'a HostData, l: &Layout) -> Result<BatchedMatrix<'a, T>> {
    let s = l.strides();
    let data = stored_elements(data)?;
    Ok(BatchedMatrix {
        data,
        offset: l.offset(),
        inner: 1,
        batch: (s[0], 0),
        row: s[1],
        col: s[2],
        prepacked: None,
    })
}

/// The numbers in a buffer.
///
/// # Errors
/// `DTypeMismatch` if they are not computed in `T`.
pub(crate) fn stored_elements<T: Real>(data: &HostData) -> Result<super::StoredElements<'_, T>> {
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
