//! Entry point of contractions: `y[b, m, n] = epilogue(sum over k of x[b, m, k] * w[b, k, n])`,
//! from views.
//!
//! It folds batches into rows, swaps operands of a single column, and chooses between split-K, tiny
//! and blocked GEMM.

use super::epilogue::{EpilogueOperand, FusedEpilogue, NoEpilogue, TileEpilogue};
use super::kernels::TermKind;
use super::loops::run_planned;
use super::operand::{BatchedMatrix, exact_problem};
use super::plan::{self, ContractProblem, Orientation, Path, Plan};
use super::planned::PlannedGemm;
use super::prepack::PrepackedB;
use super::{bf16, split_k, tiny};
use crate::CpuDevice;
use crate::elementwise::convert;
use crate::elementwise::real::{Real, stored_elements};
use crate::machine::Machine;
use crate::view::View;
use elinvar_core::explain::explain;
use elinvar_core::{DType, HostData, HostVec, Layout, Precision, Result};
use elinvar_ops::backend::EpilogueObject;
use smallvec::SmallVec;

/// f32 or f64, whose products are compiled here, once for each.
pub(crate) trait ContractFloat: Real {
    /// A batch of products as its plan says.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn products(
        d: &CpuDevice,
        plan: &Plan,
        lhs: &BatchedMatrix<'_, Self>,
        rhs: &BatchedMatrix<'_, Self>,
        epilogue: &dyn TileEpilogue<Self>,
    ) -> Result<HostVec<Self>>;
}

impl ContractFloat for f32 {
    fn products(
        d: &CpuDevice,
        plan: &Plan,
        lhs: &BatchedMatrix<'_, f32>,
        rhs: &BatchedMatrix<'_, f32>,
        epilogue: &dyn TileEpilogue<f32>,
    ) -> Result<HostVec<f32>> {
        match plan.path {
            Path::Bf16 { a_in_place, b_in_place, gemm } => {
                bf16::run_bf16(d, plan.sizes, lhs, rhs, epilogue, (a_in_place, b_in_place), gemm)
            }
            path => run_path(d, plan.sizes, &path, lhs, rhs, epilogue),
        }
    }
}

impl ContractFloat for f64 {
    fn products(
        d: &CpuDevice,
        plan: &Plan,
        lhs: &BatchedMatrix<'_, f64>,
        rhs: &BatchedMatrix<'_, f64>,
        epilogue: &dyn TileEpilogue<f64>,
    ) -> Result<HostVec<f64>> {
        run_path(d, plan.sizes, &plan.path, lhs, rhs, epilogue)
    }
}

/// Contracts views of floats.
///
/// # Errors
/// `OutOfMemory`; `DTypeMismatch` if the views are not of one dtype, which the op sees to.
pub(crate) fn contract<T: ContractFloat>(
    d: &CpuDevice,
    p: Precision,
    x: &View<'_>,
    (w, packed): (&View<'_>, Option<&PrepackedB>),
    e: Option<&dyn EpilogueObject>,
    extra: &[View<'_>],
) -> Result<HostData> {
    let (xs, n) = (x.shape(), w.shape()[2]);
    let (lhs, rhs) = (batched_matrix::<T>(x.buffer, x.layout)?, batched_matrix::<T>(w.buffer, w.layout)?);
    let rhs = BatchedMatrix { prepacked: packed.and_then(|p| p.of(d.isa(), w.layout)), ..rhs };
    let extra =
        extra.iter().map(|v| batched_matrix::<T>(v.buffer, v.layout)).collect::<Result<SmallVec<_>>>()?;
    let y = gemm_batch(d, p, [xs[0], xs[1], xs[2], n], lhs, rhs, e, extra)?;
    store(d, y, x.buffer.dtype())
}

/// A batch of matrix products: sizes b, m, k, n.
fn gemm_batch<T: ContractFloat>(
    d: &CpuDevice,
    p: Precision,
    [b, m, k, n]: [usize; 4],
    lhs: BatchedMatrix<'_, T>,
    rhs: BatchedMatrix<'_, T>,
    e: Option<&dyn EpilogueObject>,
    mut extra: SmallVec<[EpilogueOperand<'_, T>; 2]>,
) -> Result<HostVec<T>> {
    let epilogue_follows = extra.iter().all(|x| x.layout().rows_follow(m));
    let problem =
        ContractProblem { precision: p, epilogue_follows, ..exact_problem([b, m, k, n], &lhs, &rhs) };
    let plan = planned(d, &problem);
    let is_transposed = plan.orientation == Orientation::Transposed;
    if is_transposed {
        extra = extra.into_iter().map(BatchedMatrix::transposed).collect();
    }
    let fused = e.map(|e| FusedEpilogue { e: T::epilogue_row(e), extra: &extra });
    let epilogue = fused.as_ref().map_or(&NoEpilogue as &dyn TileEpilogue<T>, |e| e);
    if is_transposed {
        return T::products(d, &plan, &rhs.transposed(), &lhs.transposed(), epilogue);
    }
    T::products(d, &plan, &lhs, &rhs, epilogue)
}

/// What is run for a problem.
fn planned(d: &CpuDevice, p: &ContractProblem) -> Plan {
    let machine = Machine::of(d);
    let plan = plan::plan(p, &machine);
    explain(|| {
        let (&ContractProblem { batch, m, k, n, .. }, f) = (p, 8 * p.bytes);
        format!("contract {batch}x{m}x{k}x{n} f{f} on {machine}: {plan}: {}", plan.path.why())
    });
    plan
}

/// A batch of products on a path for elements, sizes b, m, k, n.
fn run_path<T: Real>(
    d: &CpuDevice,
    sizes: [usize; 4],
    path: &Path,
    lhs: &BatchedMatrix<'_, T>,
    rhs: &BatchedMatrix<'_, T>,
    epilogue: &dyn TileEpilogue<T>,
) -> Result<HostVec<T>> {
    let [batch, m, k, n] = sizes;
    match *path {
        Path::Tiny(plan) => tiny::run_tiny(d, sizes, plan, lhs, rhs, epilogue),
        Path::Dot(plan) => split_k::run_dots(d, sizes, plan, lhs, rhs, epilogue),
        Path::SplitK(plan) => split_k::run_split_k(d, sizes, plan, lhs, rhs, epilogue, run_part),
        Path::Gemm(plan) => {
            let kind = TermKind::Elements;
            run_planned(d, &PlannedGemm { batch, m, k, n, lhs, rhs, epilogue, kind, plan })
        }
        Path::Bf16 { .. } => unreachable!("pairs of bf16 are computed in f32"),
    }
}

/// Products that are a part of another's, as their own plan says.
fn run_part<T: Real>(
    d: &CpuDevice,
    p: &ContractProblem,
    lhs: &BatchedMatrix<'_, T>,
    rhs: &BatchedMatrix<'_, T>,
) -> Result<HostVec<T>> {
    let &ContractProblem { batch, m, k, n, .. } = p;
    let machine = Machine::of(d);
    let path = plan::plan_exact(p, &machine);
    explain(|| format!("  of it {batch}x{m}x{k}x{n} {} on {machine}: {path}: {}", T::DTYPE, path.why()));
    run_path(d, [batch, m, k, n], &path, lhs, rhs, &NoEpilogue)
}

/// A view of rank 3 as matrices.
///
/// # Errors
/// `DTypeMismatch` if it does not hold what is computed in `T`.
fn batched_matrix<'a, T: Real>(data: &'a HostData, l: &Layout) -> Result<BatchedMatrix<'a, T>> {
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
