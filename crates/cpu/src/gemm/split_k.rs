//! GEMM by split-K: few results of many terms, where there are too few tiles for all threads, or,
//! for dot products, a single dependent chain.
//!
//! Chunks of `KC` terms are independent, so each is a product of its own whose partial sums wait in
//! memory and are added from first to last.
//!
//! How it can be wrong: by adding chunks in the order in which threads finish. Each partial sum has
//! its own place, and the reduction starts when all are there.

use super::epilogue::NARROW_ROW_MAX_ELEMENTS;
use super::kernels::{BatchedDots, dots};
use super::operand::ColumnsB;
use super::{
    BatchedMatrix, FMAS_PER_NS, NoEpilogue, PARALLEL_MIN_FMAS, Real, TileEpilogue, contract, for_each_task,
    mr, nr,
};
use crate::CpuDevice;
use crate::runtime::memory::filled;
use crate::runtime::parallel::for_each_piece;
use elinvar_core::order::CHUNK;
use elinvar_core::{HostVec, Result};
use std::mem::discriminant;

/// Results up to which their terms are shared where tiles could be, too: 64 x 64 of 100,000 terms take 0.72 of the time so, on two threads, for
/// each reads its own terms alone.
const MAX_RESULTS: usize = 128 * 128;
/// Chunks for each thread of which one more or less is little.
const CHUNKS_PER_THREAD: usize = 4;
/// Results whose chunks one thread adds, at most; and nanoseconds for each addition.
const ADD_PIECE_RESULTS: usize = 1024;
const ADD_NS: f64 = 0.1;
/// Products in a batch of which registers are full without chunks.
const NO_SPLIT_MIN_BATCH: usize = 16;
/// How many times as long as in tiles a multiplication takes of vectors, which are turned on their way.
const TRANSPOSED_COST_FACTOR: f64 = 8.0;

/// The products of a batch, sizes b, m, k, n, if they are of this kind.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn try_split_k<T: Real>(
    d: &CpuDevice,
    sizes: [usize; 4],
    lhs: &BatchedMatrix<'_, T>,
    rhs: &BatchedMatrix<'_, T>,
    epilogue: &dyn TileEpilogue<T>,
) -> Result<Option<HostVec<T>>> {
    let [b, m, k, n] = sizes;
    // Columns that were packed before are not packed for each chunk.
    if rhs.prepacked.is_some() && (m, n) != (1, 1) {
        return Ok(None);
    }
    if is_split::<T>(d, sizes) && lhs.inner == 1 && rhs.inner == 1 {
        return split_chunks(d, sizes, lhs, rhs, epilogue).map(Some);
    }
    if (m, n) == (1, 1) && b > 1 && (1..=CHUNK).contains(&k) && are_vectors(d, lhs, rhs) {
        let mut y = filled(b, T::ZERO)?;
        vector_products(d, k, lhs, rhs, &mut y)?;
        apply_epilogue(d, sizes, &mut y, epilogue);
        return Ok(Some(y));
    }
    Ok(None)
}

/// Are there so few results, and so many terms, that these had better be shared?
fn is_split<T: Real>(d: &CpuDevice, [b, m, k, n]: [usize; 4]) -> bool {
    let (chunks, threads) = (k / CHUNK, d.threads());
    if chunks < 2 || (m, n) == (1, 1) {
        return chunks > 1;
    }
    let tiles = m.div_ceil(mr::<T>(d.isa())) * n.div_ceil(nr::<T>(d.isa()));
    let results = m.saturating_mul(n);
    let worth = results.saturating_mul(k) > PARALLEL_MIN_FMAS;
    b < threads
        && worth
        && (b * tiles < threads || results <= MAX_RESULTS && chunks >= CHUNKS_PER_THREAD * threads)
}

/// Each chunk of each product, then their sums.
fn split_chunks<T: Real>(
    d: &CpuDevice,
    sizes: [usize; 4],
    lhs: &BatchedMatrix<'_, T>,
    rhs: &BatchedMatrix<'_, T>,
    epilogue: &dyn TileEpilogue<T>,
) -> Result<HostVec<T>> {
    let [b, m, k, n] = sizes;
    let (whole, results) = (k / CHUNK, m * n);
    // All chunks of a product side by side, or all products of a chunk. If all terms follow one another, both are.
    let follow =
        |x: &BatchedMatrix<'_, T>, step: isize| x.batch.0 == step * k as isize && k.is_multiple_of(CHUNK);
    let by_chunk = b >= NO_SPLIT_MIN_BATCH && !(follow(lhs, lhs.col) && follow(rhs, rhs.row));
    let batch = |x: &BatchedMatrix<'_, T>, step: isize| {
        let chunk = step * CHUNK as isize;
        if by_chunk { (chunk, x.batch.0) } else { (x.batch.0, chunk) }
    };
    let inner = if by_chunk { b } else { whole };
    let x = BatchedMatrix { inner, batch: batch(lhs, lhs.col), ..*lhs };
    let w = BatchedMatrix { inner, batch: batch(rhs, rhs.row), prepacked: None, ..*rhs };
    let sums = contract::run_batch(d, [b * whole, m, CHUNK, n], &x, &w, &NoEpilogue)?;
    let last = match k % CHUNK {
        0 => None,
        rest => {
            let from = whole * CHUNK;
            let x = BatchedMatrix { offset: lhs.at(0, 0, from) as usize, ..*lhs };
            let w = BatchedMatrix { offset: rhs.at(0, from, 0) as usize, prepacked: None, ..*rhs };
            Some(contract::run_batch(d, [b, m, rest, n], &x, &w, &NoEpilogue)?)
        }
    };
    let mut y = filled(b * results, T::ZERO)?;
    // Results whose chunks are equally far apart.
    let group = if by_chunk { y.len() } else { results };
    for (i, y) in y.chunks_exact_mut(group).enumerate() {
        for_each_piece(d, y, ADD_PIECE_RESULTS, whole as f64 * ADD_NS, &|at, y| {
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
    let rows = (ADD_PIECE_RESULTS / n).max(1);
    for (b, y) in y.chunks_exact_mut(m * n).enumerate() {
        for_each_piece(d, y, rows * n, 1.0, &|at, y| match n {
            ..=NARROW_ROW_MAX_ELEMENTS => epilogue.rows(d.isa(), b, at / n, n, y),
            _ => (y.chunks_exact_mut(n).enumerate())
                .for_each(|(i, y)| epilogue.apply_to_row(d.isa(), b, at / n + i, 0, y)),
        });
    }
}

/// Are the terms of both neighbours, and both stored alike?
fn are_vectors<T: Real>(d: &CpuDevice, lhs: &BatchedMatrix<'_, T>, rhs: &BatchedMatrix<'_, T>) -> bool {
    let alike = discriminant(&lhs.data) == discriminant(&rhs.data);
    d.isa().has_fma() && lhs.col == 1 && rhs.row == 1 && alike
}

/// Products of a row and a column each, of at most a chunk of terms.
fn vector_products<T: Real>(
    d: &CpuDevice,
    k: usize,
    lhs: &BatchedMatrix<'_, T>,
    rhs: &BatchedMatrix<'_, T>,
    y: &mut [T],
) -> Result<()> {
    /// A task's products are a multiple of this, as registers are filled, and at most so many.
    const TASK_UNIT_PRODUCTS: usize = 32;
    const TASK_MAX_PRODUCTS: usize = 512;
    /// Tasks for each thread.
    const TASKS_PER_THREAD: usize = 4;
    let (lhs, rhs) = (evenly_spaced(lhs), evenly_spaced(rhs));
    // Neighbours of a run are equally far apart.
    let run = match lhs.inner.max(rhs.inner) {
        1 => y.len(),
        inner => inner,
    };
    let task = y
        .len()
        .div_ceil(TASKS_PER_THREAD * d.threads())
        .next_multiple_of(TASK_UNIT_PRODUCTS)
        .min(TASK_MAX_PRODUCTS);
    let ns = (y.len() * k) as f64 * TRANSPOSED_COST_FACTOR / FMAS_PER_NS;
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
