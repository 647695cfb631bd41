//! Few results of many terms (split-K): there are too few tiles for all threads, and of two vectors there is a single chain, each step of which
//! waits for the one before. Chunks of terms do not depend on each other, so each is a product of its own here, and what comes of them is added when
//! all are there, from first to last.
//!
//! How it can be wrong: by an order of chunks that depends on who was ready first. They wait in memory, each in its place.

use super::epilogue::NARROW;
use super::kernels::{Dots, dots};
use super::operand::Columns;
use super::{Finish, Matrix, Nothing, PER_NS, Real, WORTH, contract, each, height, width};
use crate::CpuDevice;
use crate::runtime::memory::filled;
use crate::runtime::parallel::for_each_piece;
use elinvar_core::order::CHUNK;
use elinvar_core::{HostVec, Result};
use std::mem::discriminant;

/// Results up to which their terms are shared where tiles could be, too: 64 x 64 of 100,000 terms take 0.72 of the time so, on two threads, for
/// each reads its own terms alone.
const RESULTS: usize = 128 * 128;
/// Chunks for each thread of which one more or less is little.
const CHUNKS: usize = 4;
/// Results whose chunks one thread adds, at most; and nanoseconds for each addition.
const PIECE: usize = 1024;
const ADD: f64 = 0.1;
/// Products in a batch of which registers are full without chunks.
const BATCH: usize = 16;
/// How many times as long as in tiles a multiplication takes of vectors, which are turned on their way.
const TURNED: f64 = 8.0;

/// The products of a batch, sizes b, m, k, n, if they are of this kind.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn products<T: Real>(
    d: &CpuDevice,
    sizes: [usize; 4],
    left: &Matrix<'_, T>,
    right: &Matrix<'_, T>,
    finish: &dyn Finish<T>,
) -> Result<Option<HostVec<T>>> {
    let [b, m, k, n] = sizes;
    // Columns that were packed before are not packed for each chunk.
    if right.kept.is_some() && (m, n) != (1, 1) {
        return Ok(None);
    }
    if is_split::<T>(d, sizes) && left.inner == 1 && right.inner == 1 {
        return of_chunks(d, sizes, left, right, finish).map(Some);
    }
    if (m, n) == (1, 1) && b > 1 && (1..=CHUNK).contains(&k) && are_vectors(d, left, right) {
        let mut y = filled(b, T::ZERO)?;
        of_vectors(d, k, left, right, &mut y)?;
        finished(d, sizes, &mut y, finish);
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
    let tiles = m.div_ceil(height::<T>(d.isa())) * n.div_ceil(width::<T>(d.isa()));
    let results = m.saturating_mul(n);
    let worth = results.saturating_mul(k) > WORTH;
    b < threads && worth && (b * tiles < threads || results <= RESULTS && chunks >= CHUNKS * threads)
}

/// Each chunk of each product, then their sums.
fn of_chunks<T: Real>(
    d: &CpuDevice,
    sizes: [usize; 4],
    left: &Matrix<'_, T>,
    right: &Matrix<'_, T>,
    finish: &dyn Finish<T>,
) -> Result<HostVec<T>> {
    let [b, m, k, n] = sizes;
    let (whole, results) = (k / CHUNK, m * n);
    // All chunks of a product side by side, or all products of a chunk. If all terms follow one another, both are.
    let follow = |x: &Matrix<'_, T>, step: isize| x.batch.0 == step * k as isize && k.is_multiple_of(CHUNK);
    let by_chunk = b >= BATCH && !(follow(left, left.col) && follow(right, right.row));
    let batch = |x: &Matrix<'_, T>, step: isize| {
        let chunk = step * CHUNK as isize;
        if by_chunk { (chunk, x.batch.0) } else { (x.batch.0, chunk) }
    };
    let inner = if by_chunk { b } else { whole };
    let x = Matrix { inner, batch: batch(left, left.col), ..*left };
    let w = Matrix { inner, batch: batch(right, right.row), kept: None, ..*right };
    let sums = contract::run(d, [b * whole, m, CHUNK, n], &x, &w, &Nothing)?;
    let last = match k % CHUNK {
        0 => None,
        rest => {
            let from = whole * CHUNK;
            let x = Matrix { offset: left.at(0, 0, from) as usize, ..*left };
            let w = Matrix { offset: right.at(0, from, 0) as usize, kept: None, ..*right };
            Some(contract::run(d, [b, m, rest, n], &x, &w, &Nothing)?)
        }
    };
    let mut y = filled(b * results, T::ZERO)?;
    // Results whose chunks are equally far apart.
    let group = if by_chunk { y.len() } else { results };
    for (i, y) in y.chunks_exact_mut(group).enumerate() {
        for_each_piece(d, y, PIECE, whole as f64 * ADD, &|at, y| {
            let sums = &sums[i * whole * group..][..whole * group];
            y.copy_from_slice(&sums[at..][..y.len()]);
            let others = sums.chunks_exact(group).skip(1);
            for sums in others.chain(last.as_ref().map(|last| &last[i * group..])) {
                y.iter_mut().zip(&sums[at..]).for_each(|(y, sum)| *y = *y + *sum);
            }
        });
    }
    finished(d, sizes, &mut y, finish);
    Ok(y)
}

/// What follows all sums.
fn finished<T: Real>(d: &CpuDevice, [_, m, _, n]: [usize; 4], y: &mut [T], finish: &dyn Finish<T>) {
    if finish.nothing() {
        return;
    }
    // Of one matrix after the other.
    let rows = (PIECE / n).max(1);
    for (b, y) in y.chunks_exact_mut(m * n).enumerate() {
        for_each_piece(d, y, rows * n, 1.0, &|at, y| match n {
            ..=NARROW => finish.rows(d.isa(), b, at / n, n, y),
            _ => (y.chunks_exact_mut(n).enumerate())
                .for_each(|(i, y)| finish.finish(d.isa(), b, at / n + i, 0, y)),
        });
    }
}

/// Are the terms of both neighbours, and both stored alike?
fn are_vectors<T: Real>(d: &CpuDevice, left: &Matrix<'_, T>, right: &Matrix<'_, T>) -> bool {
    let alike = discriminant(&left.data) == discriminant(&right.data);
    d.isa().has_fma() && left.col == 1 && right.row == 1 && alike
}

/// Products of a row and a column each, of at most a chunk of terms.
fn of_vectors<T: Real>(
    d: &CpuDevice,
    k: usize,
    left: &Matrix<'_, T>,
    right: &Matrix<'_, T>,
    y: &mut [T],
) -> Result<()> {
    /// A task's products are a multiple of this, as registers are filled, and at most so many.
    const UNIT: usize = 32;
    const MOST: usize = 512;
    /// Tasks for each thread.
    const TASKS: usize = 4;
    let (left, right) = (even(left), even(right));
    // Neighbours of a run are equally far apart.
    let run = match left.inner.max(right.inner) {
        1 => y.len(),
        inner => inner,
    };
    let task = y.len().div_ceil(TASKS * d.threads()).next_multiple_of(UNIT).min(MOST);
    let ns = (y.len() * k) as f64 * TURNED / PER_NS;
    let mut tasks = Vec::new();
    for (i, y) in y.chunks_mut(run).enumerate() {
        tasks.extend(y.chunks_mut(task).enumerate().map(|(j, y)| (i * run + j * task, y)));
    }
    each(d, ns, &mut tasks, |(first, sums)| {
        let (a, b) = (vectors(&left, *first), vectors(&right, *first));
        dots(d.isa(), Dots { a, b, k, sums });
        Ok(())
    })
}

/// The same batch with one distance from each to the next, if it has one.
fn even<'a, T: Real>(x: &Matrix<'a, T>) -> Matrix<'a, T> {
    if x.inner > 1 && x.batch.0 == x.batch.1 * x.inner as isize {
        Matrix { inner: 1, batch: (x.batch.1, 0), ..*x }
    } else {
        *x
    }
}

/// The vectors of a batch from number `first` on, up to where the run ends.
fn vectors<'a, T: Real>(x: &Matrix<'a, T>, first: usize) -> Columns<'a, T> {
    let step = if x.inner == 1 { x.batch.0 } else { x.batch.1 };
    Columns { data: x.data, at: x.at(first, 0, 0), step }
}
