//! Which pairs of rows are turned in which round, block by block.
//!
//! A round takes pairs of neighbours, so a row depends, for some rounds, on the rows near it alone.
//! Blocks of rows that stay in a cache go through several rounds, each on fewer rows (the first
//! phase); then what is missing around the borders of blocks (the second). The tasks of a phase
//! have no row in common.

use super::plan::BLOCK_BYTES;
use super::row::Row;
use std::ops::Range;

/// How n rows are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    n: usize,
    /// Rows of a block, but for the last one: a multiple of 4.
    rows: usize,
    /// Rounds of both phases: half of that at most.
    pub(super) rounds: usize,
}

/// Inside the blocks, and around their borders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Blocks,
    Borders,
}

impl Phase {
    pub(super) const ALL: [Phase; 2] = [Phase::Blocks, Phase::Borders];
}

/// Some rows, and the rounds that are theirs.
pub(super) struct Task<'a, 'r, C> {
    pub(super) rows: &'a mut [Row<'r, C>],
    /// Of these rows the first one.
    from: usize,
    phase: Phase,
    n: usize,
    /// The block's end, or the border.
    edge: usize,
    first: usize,
    rounds: usize,
    /// Was anything computed?
    pub(super) changed: bool,
}

impl Blocks {
    pub(super) fn new(n: usize, row_bytes: usize, threads: usize) -> Blocks {
        let fit = (BLOCK_BYTES / row_bytes).min(n.div_ceil(threads));
        let rows = if fit >= n { n.next_multiple_of(4) } else { (fit / 4).max(2) * 4 };
        Blocks { n, rows, rounds: rows / 2 }
    }

    /// The tasks of a phase of `rounds` rounds from `first` on.
    pub(super) fn tasks<'a, 'r, C>(
        self,
        phase: Phase,
        first: usize,
        rounds: usize,
        rows: &'a mut [Row<'r, C>],
    ) -> Vec<Task<'a, 'r, C>> {
        let (n, start) = (self.n, if phase == Phase::Blocks { 0 } else { self.rows / 2 });
        let edge =
            |i: usize| start + i * self.rows + if phase == Phase::Blocks { self.rows } else { self.rows / 2 };
        let task = |(i, rows)| Task {
            rows,
            from: start + i * self.rows,
            phase,
            n,
            edge: edge(i).min(n),
            first,
            rounds,
            changed: false,
        };
        let has_pairs = |task: &Task<'_, '_, C>| phase == Phase::Blocks || task.edge < n;
        rows[start.min(n)..].chunks_mut(self.rows).enumerate().map(task).filter(has_pairs).collect()
    }
}

impl<C> Task<'_, '_, C> {
    pub(super) fn rounds(&self) -> Range<usize> {
        0..self.rounds
    }

    /// Of the rows of this task those whose pairs, from the first one on, are turned in a round.
    pub(super) fn pairs(&self, round: usize) -> Range<usize> {
        let (start, end) = match self.phase {
            Phase::Blocks => (
                if self.from == 0 { 0 } else { self.from + round },
                if self.edge == self.n { self.n } else { self.edge - round },
            ),
            Phase::Borders => ((self.edge - round).saturating_sub(1), (self.edge + round + 1).min(self.n)),
        };
        let start = start + (start + self.first + round) % 2;
        let count = end.saturating_sub(start) / 2;
        let start = start.min(self.from + self.rows.len()) - self.from;
        start..start + 2 * count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_of_each_round_is_taken_once_and_after_what_it_needs() {
        for n in (1..40).chain([64, 97, 128]) {
            for (bytes, threads) in
                [(8, 1), (BLOCK_BYTES / 8, 1), (BLOCK_BYTES / 12, 1), (BLOCK_BYTES / 17, 3), (8, 3)]
            {
                for first in 0..2 {
                    let blocks = Blocks::new(n, bytes, threads);
                    let mut memory = vec![[[0.0f32; 16]; 1]; n];
                    let mut settled = vec![0; n];
                    let mut rows: Vec<_> = memory
                        .iter_mut()
                        .zip(settled.chunks_mut(1))
                        .map(|(row, settled)| Row::new(row, 0, settled))
                        .collect();
                    // The next round of each row.
                    let mut next = vec![0; n];
                    for phase in Phase::ALL {
                        for task in blocks.tasks(phase, first, blocks.rounds, &mut rows) {
                            for round in task.rounds() {
                                for at in task.pairs(round).step_by(2) {
                                    assert!(at + 1 < task.rows.len());
                                    let place = task.from + at;
                                    assert_eq!((place + first + round) % 2, 0);
                                    for row in [place, place + 1] {
                                        // A row at the end has no neighbour in every other round.
                                        let alone = (row == 0 || row == n - 1) && next[row] + 1 == round;
                                        assert!(next[row] == round || alone, "{n} {phase:?} {round} {row}");
                                        next[row] = round + 1;
                                    }
                                }
                            }
                        }
                    }
                    let mut inner = next.iter().take(n - 1).skip(1);
                    assert!(inner.all(|&next| next == blocks.rounds), "{n}: {next:?}");
                }
            }
        }
    }
}
