//! What memory fetches while the terms of a row are computed.

use super::TERM_CHUNK;
use crate::LINE;
use crate::prefetch::{prefetch_l1, prefetch_lines};

/// What memory fetches, chunk by chunk, while terms are computed.
#[derive(Clone, Copy)]
pub enum Prefetch<T> {
    /// Nothing.
    Nothing,
    /// Memory from this place on, for soon; so much further for the next row.
    One(*const T, usize),
    /// Memory from these places on, for soon; each so much further for the next row.
    Both([*const T; 2], [usize; 2]),
    /// Memory from a place on, for when all of this row has been read: more than the first-level
    /// cache holds.
    Later(*const T),
}

/// What is fetched during a row: plain places, as a choice for each chunk would take as long as a
/// light formula.
#[derive(Clone, Copy)]
pub(super) struct RowFetch<T> {
    pub(super) places: [*const T; 2],
    pub(super) both: bool,
    pub(super) later: bool,
}

impl<T> Prefetch<T> {
    /// During a row; where there is nothing to fetch, `x` of the row itself, which is there soon
    /// anyway.
    #[inline(always)]
    pub(super) fn of_row(&self, row: usize, x: *const T) -> RowFetch<T> {
        let (mut places, mut both, mut later) = ([x; 2], false, false);
        match self {
            Prefetch::Nothing => {}
            Prefetch::One(place, step) => places[0] = place.wrapping_add(row * step),
            Prefetch::Both([a, b], [i, j]) => {
                (places, both) = ([a.wrapping_add(row * i), b.wrapping_add(row * j)], true);
            }
            Prefetch::Later(place) => (places[0], later) = (*place, true),
        }
        RowFetch { places, both, later }
    }
}

impl<T> RowFetch<T> {
    #[inline(always)]
    pub(super) fn chunk(&self, number: usize) {
        let at = number * TERM_CHUNK;
        if self.later {
            return prefetch_lines(self.places[0].wrapping_add(at), TERM_CHUNK);
        }
        soon(self.places[0].wrapping_add(at));
        if self.both {
            soon(self.places[1].wrapping_add(at));
        }
    }
}

/// The lines of a chunk, to the first-level cache.
#[inline(always)]
pub(super) fn soon<T>(chunk: *const T) {
    let mut i = 0;
    while i < TERM_CHUNK * size_of::<T>() {
        prefetch_l1(chunk.cast::<u8>().wrapping_add(i));
        i += LINE;
    }
}
