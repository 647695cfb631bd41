//! Scatters along rows that all have one index: which sources go to each element, found once.

use super::place;
use super::plan::SCATTER_RUN_MIN_ELEMENTS;
use elinvar_core::{Result, host};

/// No source: there are none so far.
const NO_SOURCE: u32 = u32::MAX;

/// Which sources go to each element of a row.
pub(super) struct RowSources {
    /// Where neighbours go that go to neighbours, which of them is the first, and how many there
    /// are, if these are most.
    pub(super) runs: Vec<[usize; 3]>,
    /// So many of each element's are known by it.
    pub(super) each: usize,
    /// The first ones of each; of an element that has not so many, [`NO_SOURCE`].
    pub(super) first: Vec<u32>,
    /// Elements with a source of those that are left, in their order.
    pub(super) more: Vec<[u32; 2]>,
}

impl RowSources {
    /// None if an index is out of range, or there are too many.
    pub(super) fn new(index: &[i64], size: usize) -> Result<Option<Self>> {
        if index.len() >= NO_SOURCE as usize || !index.iter().all(|&at| place(at) < size) {
            return Ok(None);
        }
        let mut runs: Vec<[usize; 3]> = host::with_capacity(index.len())?;
        for (source, &at) in index.iter().enumerate() {
            match runs.last_mut() {
                Some([first, _, n]) if *first + *n == at as usize => *n += 1,
                _ => runs.push([at as usize, source, 1]),
            }
        }
        if runs.len() * SCATTER_RUN_MIN_ELEMENTS <= index.len() {
            return Ok(Some(RowSources { runs, each: 0, first: Vec::new(), more: Vec::new() }));
        }
        let mut count = host::filled(size, 0usize)?;
        index.iter().for_each(|&at| count[at as usize] += 1);
        // As many as most have, two at most: of an image that was enlarged, the elements at the
        // edges have fewer. By the fewest, its gradient took a quarter longer.
        let most = count.iter().copied().max().unwrap_or(0).min(2);
        let least = count.iter().copied().min().unwrap_or(0).min(2);
        let each = if most * size <= 2 * index.len() { most } else { least };
        let left = count.iter().map(|count| count.saturating_sub(each)).sum();
        let (mut first, mut more) = (host::filled(each * size, NO_SOURCE)?, host::with_capacity(left)?);
        count.fill(0);
        for (source, &at) in index.iter().enumerate() {
            let count = &mut count[at as usize];
            if *count < each {
                first[at as usize * each + *count] = source as u32;
            } else {
                more.push([at as u32, source as u32]);
            }
            *count += 1;
        }
        Ok(Some(RowSources { runs: Vec::new(), each, first, more }))
    }
}
