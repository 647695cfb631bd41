//! Which taps of windows lie inside of their planes. The others see padding: zeros, whose products need not be added.
//!
//! A sum starts at +0, and a weight that is finite makes zeros of zeros. Added to a sum that is not a zero they change nothing; added to
//! one that is +0 neither. A sum is -0 only if it underflowed to it, and then a zero of padding may make it +0, and what follows finds one
//! or the other: the first number that is not a zero makes the same of both. So a result without padding is that with it, bit by bit,
//! unless it is -0; and then, and with weights that are not finite, padding is multiplied, too.

use super::padded::Padded;
use super::patches::Patches;
use crate::gemm::{Picks, Real, Strip, efforts};
use std::ops::Range;

/// Windows that see padding, and which terms are left to them.
pub(super) struct Inside {
    /// Positions along the last axis whose windows see none beside their row.
    middle: Range<usize>,
    /// For each position along the last axis the terms that are not beside its row; nothing in the middle.
    columns: Vec<Option<usize>>,
    /// For each row of positions the terms that are not above or below its windows' planes; nothing if these are all.
    rows: Vec<Option<usize>>,
    /// Sets of terms.
    picks: Vec<Picks>,
}

impl Inside {
    /// If windows see padding, and tiles without it take less. Tasks have so many rows of positions.
    pub(super) fn of<T: Real>(p: &Patches<'_, T>, rows_of_task: usize) -> Option<Inside> {
        let [_, g1, g2] = p.grid;
        let sees = |axis: usize, at: usize, tap: &[isize; 3]| {
            let place = (at * p.step[axis]) as isize + tap[axis];
            (0..p.plane[axis] as isize).contains(&place)
        };
        let mut sets = Sets { taps: p.taps.len(), all: Vec::new() };
        let columns: Vec<_> = (0..g2).map(|x| sets.of(p.taps.iter().map(|t| sees(2, x, t)))).collect();
        let rows = (0..p.rows())
            .map(|row| sets.of(p.taps.iter().map(|t| sees(0, row / g1, t) && sees(1, row % g1, t))));
        let rows: Vec<_> = rows.collect();
        let first = columns.iter().position(Option::is_none)?;
        let middle = first..first + columns[first..].iter().take_while(|column| column.is_none()).count();
        // Where a window is in the middle, all after the middle see padding: there is one run of those that do not.
        let effort = |n: usize| efforts::<T>(p.isa, n);
        let taps = |set: &Option<usize>| set.map_or(p.taps.len(), |set| sets.count(set));
        let (tasks, beside) = (p.rows().div_ceil(rows_of_task), |x: &usize| !middle.contains(x));
        let whole = p.rows() * effort(g2) * p.taps.len();
        let parts = rows.iter().map(|row| effort(middle.len()) * taps(row)).sum::<usize>()
            + (0..g2).filter(beside).map(|x| tasks * effort(rows_of_task) * taps(&columns[x])).sum::<usize>();
        (parts < whole).then(|| Inside { middle, columns, rows, picks: sets.picks(p.channels) })
    }
    /// Some positions, which are whole rows, as they lie in padded planes.
    pub(super) fn strips<'a, T: Real>(
        &'a self,
        p: &Patches<'_, T>,
        padded: &Padded,
        positions: &Range<usize>,
    ) -> Vec<Strip<'a>> {
        let [_, g1, g2] = p.grid;
        let picks = |set: Option<usize>| set.map(|set| &self.picks[set]);
        let rows = positions.start / g2..positions.end / g2;
        let mut strips = Vec::new();
        for row in rows.clone() {
            let (from, to) = (padded.position(row, self.middle.start), (row - rows.start) * g2);
            let (count, to) = (self.middle.len(), to + self.middle.start);
            strips.push(Strip { from, apart: 1, count, to, down: 1, picks: picks(self.rows[row]) });
        }
        // Down to the end of a plane, rows are equally far apart.
        let mut row = rows.start;
        while row < rows.end {
            let count = (g1 - row % g1).min(rows.end - row);
            for x in (0..g2).filter(|x| !self.middle.contains(x)) {
                let from = padded.position(row, x);
                let apart = if count > 1 { padded.position(row + 1, x) - from } else { 1 };
                let (to, picks) = ((row - rows.start) * g2 + x, picks(self.columns[x]));
                strips.push(Strip { from, apart, count, to, down: g2, picks });
            }
            row += count;
        }
        strips
    }
}

/// Sets of taps, each there once.
struct Sets {
    taps: usize,
    all: Vec<Vec<bool>>,
}

impl Sets {
    /// The number of a set, unless it is of all taps.
    fn of(&mut self, taps: impl Iterator<Item = bool>) -> Option<usize> {
        let set: Vec<_> = taps.collect();
        if set.iter().all(|is_there| *is_there) {
            return None;
        }
        let known = self.all.iter().position(|known| *known == set);
        Some(known.unwrap_or_else(|| {
            self.all.push(set);
            self.all.len() - 1
        }))
    }
    /// Taps of a set.
    fn count(&self, set: usize) -> usize {
        self.all[set].iter().filter(|is_there| **is_there).count()
    }
    /// Their terms.
    fn picks(&self, channels: usize) -> Vec<Picks> {
        let picks = |set: &Vec<bool>| Picks::new(channels * self.taps, |term| set[term % self.taps]);
        self.all.iter().map(picks).collect()
    }
}
