//! Blocks of factors as kernels read them: rows of A, columns and panels of B, and what comes after
//! them.

use crate::elementwise::real::{Real, StoredElements};
use elinvar_core::order::CHUNK;
use elinvar_simd::isa::Isa;
pub(crate) use elinvar_simd::vector::TermKind;
use elinvar_simd::vector::{lanes, tile_rows};
use std::ops::Range;

/// Distance of the left block's rows: a chunk, and a cache line so that rows do not share the same
/// sets of a cache.
pub(crate) const PACKED_A_PITCH: usize = CHUNK + 16;

/// A left factor whose terms are neighbours.
#[derive(Clone, Copy)]
pub(crate) struct RowsA<'a, T> {
    pub(crate) data: &'a [T],
    /// Distance of rows.
    pub(crate) step: usize,
}

/// Columns of a right factor whose terms are neighbours.
#[derive(Clone, Copy)]
pub(crate) struct ColumnsB<'a, T> {
    pub(crate) data: StoredElements<'a, T>,
    /// The first term of the first column, and the distance of columns.
    pub(crate) at: isize,
    pub(crate) step: isize,
}

/// A right block: `nr` columns for each term, panel by panel.
#[derive(Clone, Copy)]
pub(crate) struct PanelsB<'a, T> {
    pub(crate) data: &'a [T],
    /// Distance of terms.
    pub(crate) step: usize,
    /// Distance of panels.
    pub(crate) across: usize,
    pub(crate) kind: TermKind,
    pub(crate) after: NextOperands<'a, T>,
}

impl<T> PanelsB<'_, T> {
    /// What is multiplied after panel `j`, which is the last one or not.
    pub(crate) fn next(&self, j: usize, is_last: bool) -> Option<*const T> {
        match self.after.panel {
            _ if !is_last => Some(self.data.as_ptr().wrapping_add((j + 1) * self.across)),
            [] => None,
            next => Some(next.as_ptr()),
        }
    }
}

/// The panels of a prepacked matrix.
#[derive(Clone, Copy)]
pub(crate) struct PrepackedPanels<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) width: usize,
    /// Columns with those that fill the last panel.
    pub(crate) padded: usize,
    /// Are all numbers finite?
    pub(crate) is_finite: bool,
}

impl<'a, T> PrepackedPanels<'a, T> {
    /// A chunk of columns that begin with a panel.
    ///
    /// # Panics
    /// If they do not, or the terms do not begin with a chunk.
    pub(crate) fn panels(&self, terms: Range<usize>, cols: Range<usize>) -> PanelsB<'a, T> {
        let (k, w) = (terms.len(), self.width);
        assert!(
            terms.start.is_multiple_of(CHUNK) && cols.start.is_multiple_of(w),
            "blocks of a packed matrix"
        );
        // All chunks before this one are whole.
        let data = &self.data[terms.start * self.padded + cols.start * k..];
        let after = NextOperands { is_far: true, ..NextOperands::NONE };
        PanelsB { data, step: w, across: w * k, kind: TermKind::Elements, after }
    }
}

/// What is multiplied after some panels: their tiles have it fetched.
#[derive(Clone, Copy)]
pub(crate) struct NextOperands<'a, T> {
    /// The next panel, or nothing.
    pub(crate) panel: &'a [T],
    /// The next rows of the left factor, so many of so many terms.
    pub(crate) lines: RowsA<'a, T>,
    pub(crate) rows: usize,
    pub(crate) k: usize,
    /// Do panels come from farther than the second-level cache, each for the first time in this
    /// product?
    pub(crate) is_far: bool,
}

impl<T> NextOperands<'_, T> {
    /// Nothing.
    pub(crate) const NONE: Self =
        NextOperands { panel: &[], lines: RowsA { data: &[], step: 0 }, rows: 0, k: 0, is_far: false };
}

/// A chunk's part of a product.
pub(crate) struct MicroBlock<'a, T> {
    /// Rows of terms.
    pub(crate) a: RowsA<'a, T>,
    /// Panels of columns.
    pub(crate) b: PanelsB<'a, T>,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Terms, at most a chunk of them.
    pub(crate) k: usize,
    /// Where the result starts, and how far apart its rows are.
    pub(crate) c: *mut T,
    pub(crate) step: usize,
    /// The sums of the chunks before, and how far apart their rows are; the result's own place,
    /// mostly. None: it is the first chunk.
    pub(crate) before: Option<(*const T, usize)>,
    /// Rows of a tile, at most.
    pub(crate) high: usize,
}

/// Columns of a panel.
pub(crate) fn nr<T: Real>(isa: Isa) -> usize {
    2 * lanes::<T>(isa)
}

/// Rows of a full tile.
pub(crate) fn mr<T: Real>(isa: Isa) -> usize {
    tile_rows::<T>(isa)
}
