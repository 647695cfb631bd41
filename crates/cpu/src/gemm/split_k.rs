//! Few results of many terms (split-K): there are too few tiles for all threads, and of two vectors
//! there is a single chain, each step of which waits for the one before. Chunks of terms do not
//! depend on each other, so each is a product of its own here, and what comes of them is added when
//! all are there, from first to last.
//!
//! How it can be wrong: by an order of chunks that depends on who was ready first. They wait in
//! memory, each in its place.

use super::epilogue::TileEpilogue;
use super::kernels::{BatchedDots, ColumnsB, dots};
use super::operand::{BatchedMatrix, exact_problem};
use super::plan::thresholds::{NARROW_ROW_MAX_ELEMENTS, SPLIT_K_ADD_NS, SPLIT_K_ADD_TASK_RESULTS};
use super::plan::{ContractProblem, DotPlan, SplitKPlan};
use crate::CpuDevice;
use crate::elementwise::real::Real;
use crate::runtime::memory::filled;
use crate::runtime::parallel::{for_each_piece, for_each_task};
use elinvar_core::{HostVec, Result};

/// Runs products that are a part of others, as their own plan says.
pub(super) type RunPart<T> =
    fn(&CpuDevice, &ContractProblem, &BatchedMatrix<'_, T>, &BatchedMatrix<'_, T>) -> Result<HostVec<T>>;

/// Each chunk of each product by `run_part`, then their sums. Sizes b, m, k, n.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn run_split_k<T: Real>(
    d: &CpuDevice,
    sizes: [usize; 4],
    plan: SplitKPlan,
    lhs: &BatchedMatrix<'_, T>,
    rhs: &BatchedMatrix<'_, T>,
    epilogue: &dyn TileEpilogue<T>,
    run_part: RunPart<T>,
) -> Result<HostVec<T>> {
    let [b, m, _, n] = sizes;
    let (whole, results) = (plan.chunks, m * n);
    let problem = exact_problem(sizes, lhs, rhs);
    let part = |part: ContractProblem| run_part(d, &part, &lhs.part(&part.lhs), &rhs.part(&part.rhs));
    let sums = part(plan.chunks_of(&problem))?;
    let last = if plan.rest > 0 { Some(part(plan.rest_of(&problem))?) } else { None };
    let mut y = filled(b * results, T::ZERO)?;
    // Results whose chunks are equally far apart.
    let group = if plan.by_chunk { y.len() } else { results };
    for (i, y) in y.chunks_exact_mut(group).enumerate() {
        for_each_piece(d, y, SPLIT_K_ADD_TASK_RESULTS, whole as f64 * SPLIT_K_ADD_NS, &|at, y| {
            let sums = &sums[i * whole * group..][..whole * group];
            y.copy_from_slice(&sums[at..][..y.len()]);
            let others = sums.chunks_exact(group).skip(1);
            for sums in others.chain(last.as_ref().map(|last| &last[i * group..])) {
                y.iter_mut().zip(&sums[at..]).for_each(|(y, sum)| *y = *y + *sum);
            }
        });
    }
    apply_epilogue(d, sizes, &mut y, epilogue);
    Ok(y)
}

/// What follows all sums.
fn apply_epilogue<T: Real>(
    d: &CpuDevice,
    [_, m, _, n]: [usize; 4],
    y: &mut [T],
    epilogue: &dyn TileEpilogue<T>,
) {
    if epilogue.is_empty() {
        return;
    }
    // Of one matrix after the other.
    let rows = (SPLIT_K_ADD_TASK_RESULTS / n).max(1);
    for (b, y) in y.chunks_exact_mut(m * n).enumerate() {
        for_each_piece(d, y, rows * n, 1.0, &|at, y| match n {
            ..=NARROW_ROW_MAX_ELEMENTS => epilogue.rows(d.isa(), b, at / n, n, y),
            _ => (y.chunks_exact_mut(n).enumerate())
                .for_each(|(i, y)| epilogue.apply_to_row(d.isa(), b, at / n + i, 0, y)),
        });
    }
}

/// Products of a row and a column each, of at most a chunk of terms. Sizes b, 1, k, 1.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn run_dots<T: Real>(
    d: &CpuDevice,
    sizes: [usize; 4],
    plan: DotPlan,
    lhs: &BatchedMatrix<'_, T>,
    rhs: &BatchedMatrix<'_, T>,
    epilogue: &dyn TileEpilogue<T>,
) -> Result<HostVec<T>> {
    let [b, _, k, _] = sizes;
    let mut y = filled(b, T::ZERO)?;
    write_dots(d, k, plan, lhs, rhs, &mut y)?;
    apply_epilogue(d, sizes, &mut y, epilogue);
    Ok(y)
}

fn write_dots<T: Real>(
    d: &CpuDevice,
    k: usize,
    DotPlan { run, task, ns }: DotPlan,
    lhs: &BatchedMatrix<'_, T>,
    rhs: &BatchedMatrix<'_, T>,
    y: &mut [T],
) -> Result<()> {
    let (lhs, rhs) = (evenly_spaced(lhs), evenly_spaced(rhs));
    let mut tasks = Vec::new();
    for (i, y) in y.chunks_mut(run).enumerate() {
        tasks.extend(y.chunks_mut(task).enumerate().map(|(j, y)| (i * run + j * task, y)));
    }
    for_each_task(d, ns, &mut tasks, |(first, sums)| {
        let (a, b) = (vectors(&lhs, *first), vectors(&rhs, *first));
        dots(d.isa(), BatchedDots { a, b, k, sums });
        Ok(())
    })
}

/// The same batch with one distance from each to the next, if it has one.
fn evenly_spaced<'a, T: Real>(x: &BatchedMatrix<'a, T>) -> BatchedMatrix<'a, T> {
    if x.inner > 1 && x.batch.0 == x.batch.1 * x.inner as isize {
        BatchedMatrix { inner: 1, batch: (x.batch.1, 0), ..*x }
    } else {
        *x
    }
}

/// The vectors of a batch from number `first` on, up to where the run ends.
fn vectors<'a, T: Real>(x: &BatchedMatrix<'a, T>, first: usize) -> ColumnsB<'a, T> {
    let step = if x.inner == 1 { x.batch.0 } else { x.batch.1 };
    ColumnsB { data: x.data, at: x.at(first, 0, 0), step }
}
