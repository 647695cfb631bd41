//! Border and interior of a convolution: which taps of a window are inside of the plane, so that
//! padding need not be multiplied.
//!
//! A sum starts at +0, and a finite weight times a zero of padding is a zero. Adding it changes no
//! sum that is not zero, and no +0 either. A sum is -0 only by underflow, and then padding may make
//! it +0; the first term that is not zero makes the same of both. So the result without padding has
//! the same bits unless it is -0; in that case, and with weights that are not finite, padding is
//! multiplied too.

use super::problem::PatchGeometry;
use crate::conv::kernels::a_pixels::{TermSubset, WindowStrip};
use std::ops::Range;

/// Windows that see padding, and which terms are left to them.
pub(super) struct BorderSplit {
    /// Positions along the last axis whose windows see none beside their row.
    middle: Range<usize>,
    /// For each position along the last axis the terms that are not beside its row; nothing in the
    /// middle.
    columns: Vec<Option<usize>>,
    /// For each row of positions the terms that are not above or below its windows' planes; nothing
    /// if these are all.
    rows: Vec<Option<usize>>,
    /// The terms of windows that see padding beside their row, and above or below it: by the sets
    /// of both.
    corners: Vec<([usize; 2], usize)>,
    /// Sets of terms.
    pub(super) picks: Vec<TermSubset>,
}

impl BorderSplit {
    /// If windows see padding, and tiles without it take less. Tasks have so many rows of
    /// positions; `cost` says what tiles of so many rows take.
    pub(super) fn of(
        p: &PatchGeometry,
        rows_of_task: usize,
        cost: impl Fn(usize) -> usize,
    ) -> Option<BorderSplit> {
        let [_, g1, g2] = p.grid;
        let sees = |axis: usize, at: usize, tap: &[isize; 3]| {
            let place = (at * p.step[axis]) as isize + tap[axis];
            (0..p.plane[axis] as isize).contains(&place)
        };
        let mut sets = TapSets { taps: p.taps.len(), all: Vec::new() };
        let columns: Vec<_> = (0..g2).map(|x| sets.of(p.taps.iter().map(|t| sees(2, x, t)))).collect();
        let rows = (0..p.rows())
            .map(|row| sets.of(p.taps.iter().map(|t| sees(0, row / g1, t) && sees(1, row % g1, t))));
        let rows: Vec<_> = rows.collect();
        let first = columns.iter().position(Option::is_none)?;
        let middle = first..first + columns[first..].iter().take_while(|column| column.is_none()).count();
        // Where a window is in the middle, all after the middle see padding: there is one run of
        // those that do not.
        let taps = |set: &Option<usize>| set.map_or(p.taps.len(), |set| sets.count(set));
        let (tasks, beside) = (p.rows().div_ceil(rows_of_task), |x: &usize| !middle.contains(x));
        let whole = p.rows() * cost(g2) * p.taps.len();
        let parts = rows.iter().map(|row| cost(middle.len()) * taps(row)).sum::<usize>()
            + (0..g2).filter(beside).map(|x| tasks * cost(rows_of_task) * taps(&columns[x])).sum::<usize>();
        if parts >= whole {
            return None;
        }
        // There are few sets, and many windows of each.
        let (mut corners, known) = (Vec::new(), sets.all.len());
        for column in (0..known).filter(|set| columns.contains(&Some(*set))) {
            for row in (0..known).filter(|set| rows.contains(&Some(*set))) {
                let key = [column, row];
                corners.push((key, sets.both(key)));
            }
        }
        Some(BorderSplit { middle, columns, rows, corners, picks: sets.picks(p.channels) })
    }
    /// Some positions, which are whole rows. `position` says where the window at a column of a row
    /// of them sees a term at place 0. Are planes padded above and below? Then windows in a column
    /// are all of the same terms.
    pub(super) fn strips(
        &self,
        p: &PatchGeometry,
        position: impl Fn(usize, usize) -> isize,
        positions: &Range<usize>,
        are_padded: bool,
    ) -> Vec<WindowStrip> {
        let [_, g1, g2] = p.grid;
        let rows = positions.start / g2..positions.end / g2;
        let mut strips = Vec::new();
        for row in rows.clone() {
            let (from, to) = (position(row, self.middle.start), (row - rows.start) * g2);
            let (count, to) = (self.middle.len(), to + self.middle.start);
            strips.push(WindowStrip { from, row_stride: 1, count, to, down: 1, picks: self.rows[row] });
        }
        // Down to the end of a plane, rows are equally far apart.
        let mut row = rows.start;
        while row < rows.end {
            let is_like = |other: &usize| are_padded || self.rows[*other] == self.rows[row];
            let count = (row..rows.end.min((row / g1 + 1) * g1)).take_while(is_like).count();
            for x in (0..g2).filter(|x| !self.middle.contains(x)) {
                let from = position(row, x);
                let row_stride = if count > 1 { (position(row + 1, x) - from).unsigned_abs() } else { 1 };
                let to = (row - rows.start) * g2 + x;
                let picks =
                    if are_padded { self.columns[x] } else { self.corner(self.columns[x], self.rows[row]) };
                strips.push(WindowStrip { from, row_stride, count, to, down: g2, picks });
            }
            row += count;
        }
        strips
    }
    /// The terms that are in the set of a column, and in that of a row.
    fn corner(&self, column: Option<usize>, row: Option<usize>) -> Option<usize> {
        let (Some(column), Some(row)) = (column, row) else { return column.or(row) };
        let set = self.corners.iter().find(|(key, _)| *key == [column, row]).map(|(_, set)| *set);
        Some(set.expect("all of them are there"))
    }
}

/// Sets of taps, each there once.
struct TapSets {
    taps: usize,
    all: Vec<Vec<bool>>,
}

impl TapSets {
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
    /// The number of the set of those that are in both sets, which are not all.
    fn both(&mut self, [a, b]: [usize; 2]) -> usize {
        let both: Vec<_> = self.all[a].iter().zip(&self.all[b]).map(|(a, b)| *a && *b).collect();
        self.of(both.into_iter()).expect("some are not in them")
    }
    /// Taps of a set.
    fn count(&self, set: usize) -> usize {
        self.all[set].iter().filter(|is_there| **is_there).count()
    }
    /// Their terms.
    fn picks(&self, channels: usize) -> Vec<TermSubset> {
        let picks = |set: &Vec<bool>| TermSubset::new(channels * self.taps, |term| set[term % self.taps]);
        self.all.iter().map(picks).collect()
    }
}
