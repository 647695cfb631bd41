//! Rounds of Jacobi rotations: matrices of a batch on a thread each, or blocks of rows of one.
//!
//! How it can be wrong: by work that is left out. A pair whose tangent is 0 is exchanged, and
//! nothing is computed, if both rows are plain numbers ([`Row::is_plain`]); when all pairs have met
//! so, rotations would go on exchanging rows, and only that is done.

use super::kernels::rotate::Rounds;
use super::plan::ROTATION_NS;
use super::row::{GROUP, Row};
use super::schedule::{Blocks, Phase, Task};
use crate::CpuDevice;
use crate::layout::contiguous::ContiguousView;
use crate::reduce::float::{Float, each_float};
use crate::runtime::memory::filled;
use crate::runtime::parallel::{for_each_task, try_for_each_piece};
use crate::runtime::scratch::scratch;
use crate::view::View;
use elinvar_core::order::BLOCK;
use elinvar_core::{HostData, Result};
use elinvar_simd::vector::dispatch_vectors;

/// See [`Fused::Rotations`](elinvar_ops::backend::Fused). `None` for rows of more than a block of
/// a fold.
pub(crate) fn rotations(d: &CpuDevice, x: &View<'_>, r: usize, rounds: usize) -> Result<Option<HostData>> {
    if r > BLOCK {
        return Ok(None);
    }
    each_float!("rotations", x.dtype, C => turned::<C>(d, x, r, rounds)).map(Some)
}

fn turned<C: Float>(d: &CpuDevice, x: &View<'_>, r: usize, rounds: usize) -> Result<HostData> {
    let &[b, n, w] = x.shape().dims() else { unreachable!("rows of matrices") };
    let x = ContiguousView::new(d, x)?;
    let x = x.elements::<C>("rotations")?;
    let mut y = filled(b * n * w, C::POSITIVE_ZERO)?;
    if y.is_empty() {
        return Ok(C::wrap(y));
    }
    let problem = Matrix { n, w, r, rounds };
    if b < d.threads() {
        for (x, y) in x.chunks(n * w).zip(y.chunks_mut(n * w)) {
            problem.turn(Some(d), d, x, y)?;
        }
    } else {
        let ns = problem.ns_per_round() * rounds as f64 / (n * w) as f64;
        try_for_each_piece(d, &mut y, n * w, ns, &|start, y| problem.turn(None, d, &x[start..][..n * w], y))?;
    }
    Ok(C::wrap(y))
}

/// A matrix of n rows of w elements, of which r are made orthogonal.
#[derive(Clone, Copy)]
struct Matrix {
    n: usize,
    w: usize,
    r: usize,
    rounds: usize,
}

impl Matrix {
    fn ns_per_round(self) -> f64 {
        (self.n * self.w) as f64 * ROTATION_NS
    }

    /// The rows of x, turned, to y; on the threads of `shared`, if given.
    fn turn<C: Float>(self, shared: Option<&CpuDevice>, d: &CpuDevice, x: &[C], y: &mut [C]) -> Result<()> {
        let Matrix { n, w, r, .. } = self;
        // Both parts of a row are filled up with zeros, which rotations leave zeros.
        let (data, all) = (r.div_ceil(GROUP), r.div_ceil(GROUP) + (w - r).div_ceil(GROUP));
        scratch::<C, _>(n * all * GROUP, |memory| {
            memory.fill(C::POSITIVE_ZERO);
            let (groups, _) = memory.as_chunks_mut::<GROUP>();
            let words = n.div_ceil(64);
            let mut settled = vec![0; n * words];
            let mut rows: Vec<_> = groups
                .chunks_mut(all)
                .zip(settled.chunks_mut(words))
                .enumerate()
                .map(|(i, (row, settled))| Row::new(row, i, settled))
                .collect();
            for (row, x) in rows.iter_mut().zip(x.chunks(w)) {
                row.groups[..data].as_flattened_mut()[..r].copy_from_slice(&x[..r]);
                row.groups[data..].as_flattened_mut()[..w - r].copy_from_slice(&x[r..]);
            }
            self.rounds(shared, d, &mut rows, data)?;
            for (row, y) in rows.iter().zip(y.chunks_mut(w)) {
                y[..r].copy_from_slice(&row.groups[..data].as_flattened()[..r]);
                y[r..].copy_from_slice(&row.groups[data..].as_flattened()[..w - r]);
            }
            Ok(())
        })?
    }

    /// All rounds, until none would do more than exchange rows.
    fn rounds<C: Float>(
        self,
        shared: Option<&CpuDevice>,
        d: &CpuDevice,
        rows: &mut [Row<'_, C>],
        data: usize,
    ) -> Result<()> {
        let threads = shared.map_or(1, CpuDevice::threads);
        let blocks = Blocks::new(self.n, size_of_val(&rows[0].groups[..]), threads);
        let (mut done, mut quiet) = (0, 0);
        while done < self.rounds && quiet < self.n {
            let rounds = blocks.rounds.min(self.rounds - done);
            let mut changed = false;
            for phase in Phase::ALL {
                let mut tasks: Vec<_> = blocks.tasks(phase, done, rounds, rows);
                let run = |task: &mut Task<'_, '_, C>| {
                    dispatch_vectors(d.isa(), Rounds { task, data });
                    Ok(())
                };
                match shared {
                    Some(d) => for_each_task(d, self.ns_per_round() * rounds as f64, &mut tasks, run)?,
                    None => tasks.iter_mut().try_for_each(run)?,
                }
                changed |= tasks.iter().any(|task| task.changed);
            }
            done += rounds;
            quiet = if changed { 0 } else { quiet + rounds };
        }
        exchange(rows, done, self.rounds - done);
        Ok(())
    }
}

/// So many rounds, from this one on, of exchanges alone.
fn exchange<T>(rows: &mut [T], first: usize, rounds: usize) {
    // As many as there are rows leave them in the opposite order.
    let (turns, rest) = (rounds / rows.len(), rounds % rows.len());
    if turns % 2 == 1 {
        rows.reverse();
    }
    for round in 0..rest {
        let start = (first + turns * rows.len() + round) % 2;
        rows[start..].chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
    }
}

#[cfg(test)]
mod tests {
    use super::exchange;

    #[test]
    fn many_rounds_of_exchanges_are_a_turn_and_the_rest() {
        for n in 1..9 {
            for first in 0..2 {
                for rounds in 0..40 {
                    let mut want: Vec<usize> = (0..n).collect();
                    for round in first..first + rounds {
                        want[round % 2..].chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
                    }
                    let mut rows: Vec<usize> = (0..n).collect();
                    exchange(&mut rows, first, rounds);
                    assert_eq!(rows, want, "{n} rows, {rounds} rounds from {first}");
                }
            }
        }
    }
}
