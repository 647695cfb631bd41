//! Which way rows are sorted: a function of their number, their length, how many elements of each
//! are wanted, and of the machine's threads.
//!
//! Not decided here: i64 become keys of half the size if they are all less than 2^32 apart, which
//! depends on numbers, and a radix sort that finds all keys alike in a digit leaves that out.
//!
//! How it can be wrong: by another path than before, which no test of results sees.

#[cfg(test)]
mod tests;

use crate::machine::Machine;

/// Elements of a row that are worth several threads: sorting them takes milliseconds.
pub(super) const SHARED_ROW_MIN_ELEMENTS: usize = 1 << 16;
/// Elements of a row of which some are passed over where few are wanted.
pub(super) const SELECT_MIN_ELEMENTS: usize = 512;
/// Elements of a shared row that a thread takes at once, or merges.
pub(super) const TASK_ELEMENTS: usize = 1 << 14;
/// Candidates of a selection beyond those that are wanted, before the worst are dropped.
pub(super) const EXTRA_CANDIDATES: usize = 64;
/// Elements of the longest rows that a sorting network sorts.
pub(super) const NETWORK_MAX_ELEMENTS: usize = 16;
/// Rows of a task of the sorting network: some 20 microseconds.
pub(super) const NETWORK_TASK_ROWS: usize = 1024;
/// Keys of which counting digits is less than what comparisons take.
pub(super) const RADIX_MIN_KEYS: usize = 1 << 11;
/// Elements of a row for each wanted one, at least, where some are passed over.
const SELECT_MIN_ELEMENTS_PER_WANTED: usize = 8;
/// Nanoseconds of a comparison, about, of which a row takes its length times the logarithm of what
/// is wanted of it.
const NS_PER_COMPARISON: f64 = 2.0;
/// Elements of a task of whole rows, at least.
const TASK_MIN_ELEMENTS: usize = 1024;

/// Rows to be sorted.
#[derive(Clone, Copy)]
pub(super) struct SortProblem {
    /// Elements of each row.
    pub(super) n: usize,
    pub(super) rows: usize,
    /// How many of each are wanted, the first ones.
    pub(super) first: usize,
}

/// How rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SortPlan {
    /// Nothing is wanted, or of nothing.
    Empty,
    /// Many short rows, side by side in registers.
    Network,
    /// Row by row, each by its keys.
    Rows {
        /// Are few of many wanted, which are selected before they are sorted?
        selects: bool,
        tasks: RowTasks,
    },
}

/// How threads share rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RowTasks {
    /// All of them work on each row.
    SharedRows,
    /// Each takes so many rows at once, of so many nanoseconds.
    WholeRows { rows_per_task: usize, ns: f64 },
}

/// The plan of a sort.
pub(super) fn plan(p: SortProblem, m: &Machine) -> SortPlan {
    let SortProblem { n, rows, first } = p;
    if rows * first == 0 {
        return SortPlan::Empty;
    }
    if (2..=NETWORK_MAX_ELEMENTS).contains(&n) && rows > 1 {
        return SortPlan::Network;
    }
    let selects = n >= SELECT_MIN_ELEMENTS && first <= n / SELECT_MIN_ELEMENTS_PER_WANTED;
    let tasks = if n >= SHARED_ROW_MIN_ELEMENTS && rows < m.threads {
        RowTasks::SharedRows
    } else {
        let ns = (n * (first.max(2).ilog2() as usize)) as f64 * NS_PER_COMPARISON;
        RowTasks::WholeRows { rows_per_task: (TASK_MIN_ELEMENTS / n).max(1), ns }
    };
    SortPlan::Rows { selects, tasks }
}
