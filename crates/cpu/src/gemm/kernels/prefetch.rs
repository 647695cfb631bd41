//! Software prefetch in the microkernel: the next panel of B, the next rows of A and the rows of C,
//! fetched into L2 a line at a time by the tiles that are multiplied meanwhile.
#![allow(unsafe_code, reason = "a register's instruction for it")]

use super::a_rows::TERMS_PER_STEP;
use super::blocks::NextOperands;
use elinvar_simd::LINE;
use elinvar_simd::vector::Vector;

/// What a tile has fetched: a line with each [`TERMS_PER_STEP`] terms, which leaves most of what a
/// core can wait for at once to the tile itself.
#[derive(Clone, Copy)]
pub(crate) struct LinePrefetch {
    /// What is fetched next.
    at: *const u8,
    /// Bytes from there on, for each term.
    step: usize,
}

impl LinePrefetch {
    /// Nothing but one place over and over, which is one that is used anyway: of none, a processor
    /// would look for the page each time.
    pub(crate) fn none<T>(at: *const T) -> LinePrefetch {
        LinePrefetch { at: at.cast(), step: 0 }
    }
    /// Has a line fetched, and goes on by so many terms.
    ///
    /// # Safety
    /// The processor has the register.
    #[inline(always)]
    pub(crate) unsafe fn prefetch<V: Vector>(&mut self, terms: usize) {
        // SAFETY: the caller's; nothing is read.
        unsafe { V::prefetch_l2(self.at) };
        self.at = self.at.wrapping_add(terms * self.step);
    }
    /// Has all of a panel's lines fetched, where some tiles fetch it together.
    ///
    /// # Safety
    /// The processor has the register.
    #[inline(always)]
    pub(crate) unsafe fn prefetch_lines_of_panel<V: Vector>(&mut self, terms: usize) {
        let mut i = 0;
        while i < terms {
            // SAFETY: the caller's; nothing is read.
            unsafe { V::prefetch_l2(self.at.wrapping_add(i * self.step)) };
            i += 1;
        }
        self.at = self.at.wrapping_add(terms * self.step);
    }
}

/// Tiles of one panel from which on a line with each [`TERMS_PER_STEP`] terms is enough to have the
/// next one fetched.
pub(crate) const PANEL_PREFETCH_MIN_TILES: usize = 2 * TERMS_PER_STEP;

/// The next panel, which the tiles of this one have fetched, some lines each: it comes from the
/// third-level cache, and hardware does not look across pages. (Two tiles that fetched a panel, a
/// line with each term, took as long.)
pub(crate) struct PanelPrefetch {
    next: LinePrefetch,
    /// Bytes that are left.
    lhs: usize,
}

impl PanelPrefetch {
    /// A panel of `k` terms, if there is one more.
    pub(crate) fn of<V: Vector>(next: Option<*const V::T>, k: usize) -> PanelPrefetch {
        let bytes = 2 * V::LANES * size_of::<V::T>();
        let lhs = if next.is_some() { k * bytes } else { 0 };
        PanelPrefetch::row(next.unwrap_or(std::ptr::null()).cast(), lhs)
    }
    /// The same, which so many tiles fetch, a line with each term at most: one tile alone fetches
    /// half of it, as a core waits for no more at once.
    pub(crate) fn among<V: Vector>(next: Option<*const V::T>, k: usize, tiles: usize) -> PanelPrefetch {
        let all = PanelPrefetch::of::<V>(next, k);
        let step = (2 * V::LANES * size_of::<V::T>()).div_ceil(tiles).min(LINE);
        PanelPrefetch { next: LinePrefetch { step, ..all.next }, ..all }
    }
    /// So many bytes that are together.
    fn row(at: *const u8, bytes: usize) -> PanelPrefetch {
        PanelPrefetch { next: LinePrefetch { at, step: LINE / TERMS_PER_STEP }, lhs: bytes }
    }
    /// What a tile of `k` terms has fetched, if anything is left.
    pub(crate) fn some(&mut self, k: usize) -> Option<LinePrefetch> {
        if self.lhs == 0 {
            return None;
        }
        let mut part = self.next;
        self.next.at = self.next.at.wrapping_add(k * part.step);
        if self.lhs < k * part.step {
            // Hardly farther than there is something, some bytes for a term: what follows may
            // be what another thread is writing.
            part.step = self.lhs.div_ceil(k);
        }
        self.lhs = self.lhs.saturating_sub(k * self.next.step);
        Some(part)
    }
}

/// The left factor's rows that are multiplied after a block, which its tiles have fetched when the
/// next panel is: with large factors they come from memory. A tile fetches one line each of some
/// rows, for places that are equally far apart take no counting. (On a Zen 4 products of 1000 and
/// 1500 take 1.3 % less so, and one of 1024 2 %, where copying rows 4 KiB apart had 2 to 3 % of the
/// time.)
pub(crate) struct RowPrefetch {
    /// A line of the first row.
    at: *const u8,
    /// Bytes from row to row.
    step: usize,
    rows: usize,
    /// The next row.
    row: usize,
    /// Lines of a row that are left.
    lines: usize,
}

impl RowPrefetch {
    pub(crate) fn of<T>(after: &NextOperands<'_, T>) -> RowPrefetch {
        RowPrefetch::rows(after.lines.data.as_ptr(), after.lines.step, after.rows, after.k)
    }
    /// `rows` rows of `cols` numbers, `step` apart.
    pub(crate) fn rows<T>(at: *const T, step: usize, rows: usize, cols: usize) -> RowPrefetch {
        let (at, step, bytes) = (at.cast(), step * size_of::<T>(), cols * size_of::<T>());
        RowPrefetch { at, step, rows, row: 0, lines: if rows > 0 { bytes.div_ceil(LINE) } else { 0 } }
    }
    /// What a tile of `k` terms has fetched, if anything is left.
    pub(crate) fn some(&mut self, k: usize) -> Option<LinePrefetch> {
        let count = k / TERMS_PER_STEP;
        if self.lines == 0 || count == 0 {
            return None;
        }
        // Of the last rows as many as fit, so that what does not come next is not fetched.
        let row = self.row.min(self.rows.saturating_sub(count));
        let part =
            LinePrefetch { at: self.at.wrapping_add(row * self.step), step: self.step / TERMS_PER_STEP };
        self.row = row + count;
        if self.row >= self.rows {
            (self.at, self.row, self.lines) = (self.at.wrapping_add(LINE), 0, self.lines - 1);
        }
        Some(part)
    }
}

/// Rows that are written when a product is done, which its tiles have fetched when the next panel
/// is: writes without a pause in between wait for each line. (Turning the sums of 1 x 1 x
/// 256 terms took 9 % of a convolution without, on an Intel Xeon.)
pub(crate) struct OutputPrefetch {
    /// The row that comes next.
    row: *const u8,
    /// Bytes from row to row.
    step: usize,
    /// Rows that are left, and bytes of each.
    rows: usize,
    bytes: usize,
    /// What is left of the row at hand.
    now: PanelPrefetch,
}

impl OutputPrefetch {
    /// `rows` rows of `cols` numbers, `step` apart.
    pub(crate) fn of<T>(at: *const T, step: usize, rows: usize, cols: usize) -> OutputPrefetch {
        // Rows without gaps are one.
        let (rows, cols) = if cols == step { (1, rows * cols) } else { (rows, cols) };
        let (step, bytes) = (step * size_of::<T>(), cols * size_of::<T>());
        OutputPrefetch { row: at.cast(), step, rows, bytes, now: PanelPrefetch::row(at.cast(), 0) }
    }
    /// What a tile of `k` terms has fetched, if anything is left.
    pub(crate) fn some(&mut self, k: usize) -> Option<LinePrefetch> {
        if self.now.lhs == 0 && self.rows > 0 {
            self.now = PanelPrefetch::row(self.row, self.bytes);
            self.row = self.row.wrapping_add(self.step);
            self.rows -= 1;
        }
        self.now.some(k)
    }
}

#[cfg(test)]
mod tests {
    use super::super::blocks::RowsA;
    use super::*;
    use std::collections::BTreeSet;

    /// The places that tiles of `k` terms have fetched, until there are no more.
    fn places(data: &[f32], step: usize, rows: usize, terms: usize, k: usize) -> Vec<usize> {
        let after = NextOperands { lines: RowsA { data, step }, rows, k: terms, ..NextOperands::NONE };
        let mut row_prefetch = RowPrefetch::of(&after);
        let mut all = vec![];
        while let Some(LinePrefetch { at, step }) = row_prefetch.some(k) {
            let first = at.addr() - data.as_ptr().addr();
            all.extend((0..k / TERMS_PER_STEP).map(|i| first + i * TERMS_PER_STEP * step));
        }
        all
    }

    /// Lines that parts have fetched, counted from `start`, by tiles of `k` terms that fetch one
    /// with each `each` of them.
    fn lines(
        parts: impl IntoIterator<Item = LinePrefetch>,
        start: *const f32,
        k: usize,
        each: usize,
    ) -> Vec<usize> {
        let line =
            |LinePrefetch { at, step }: LinePrefetch, t: usize| (at.addr() + t * step - start.addr()) / LINE;
        parts.into_iter().flat_map(|part| (0..k).step_by(each).map(move |t| line(part, t))).collect()
    }

    #[test]
    fn rows_that_are_written_are_fetched_and_hardly_anything_behind_them() {
        for (rows, cols, step, k, why) in [
            (32, 196, 196, 256, "rows without gaps are one"),
            (3, 784, 3136, 256, "a row takes less than a tile"),
            (3, 784, 3136, 512, "much less"),
            (2, 4096, 8192, 64, "and more than one"),
            (0, 16, 16, 256, "no rows"),
        ] {
            let data = vec![0f32; rows * step + LINE];
            let start = data.as_ptr().map_addr(|at| at.next_multiple_of(LINE));
            let mut written = OutputPrefetch::of(start, step, rows, cols);
            let all: BTreeSet<_> =
                lines(std::iter::from_fn(|| written.some(k)), start, k, TERMS_PER_STEP).into_iter().collect();
            let of_rows = |behind: usize| -> BTreeSet<_> {
                let row = |r: usize| r * step * 4 / LINE..(r * step * 4 + cols * 4 + behind).div_ceil(LINE);
                (0..rows).flat_map(row).collect()
            };
            assert!(all.is_superset(&of_rows(0)), "{why}: a line is missing");
            assert!(all.is_subset(&of_rows(k)), "{why}: {k} bytes behind a row, at most");
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn few_tiles_fetch_all_of_the_next_panel() {
        const AVX512_F64: usize = 2 * <std::arch::x86_64::__m512 as Vector>::LANES;
        let (k, data) = (384, vec![0f32; 384 * AVX512_F64 + LINE]);
        let start = data.as_ptr().map_addr(|at| at.next_multiple_of(LINE));
        for tiles in 1..PANEL_PREFETCH_MIN_TILES {
            let mut panel_prefetch = PanelPrefetch::among::<std::arch::x86_64::__m512>(Some(start), k, tiles);
            let parts: Vec<_> = (0..tiles).map_while(|_| panel_prefetch.some(k)).collect();
            let all: BTreeSet<_> = lines(parts, start, k, 1).into_iter().collect();
            // A single tile has half of it.
            let count = k * AVX512_F64 * 4 / LINE / if tiles == 1 { 2 } else { 1 };
            assert_eq!(all, (0..count).collect(), "{tiles} tiles");
        }
    }

    #[test]
    fn each_line_of_the_rows_is_fetched_and_nothing_else() {
        for (rows, step, terms, k, why) in [
            (144, 1024, 512, 512, "more rows than a tile fetches, which overlap"),
            (128, 1024, 512, 512, "as many"),
            (300, 700, 512, 200, "several tiles for a line"),
            (10, 64, 33, 40, "a last line that is not whole"),
        ] {
            let data = vec![0f32; rows * step];
            let all: BTreeSet<_> = places(&data, step, rows, terms, k).into_iter().collect();
            let lines = (terms * 4).div_ceil(LINE);
            let want: BTreeSet<_> =
                (0..rows).flat_map(|r| (0..lines).map(move |l| r * step * 4 + l * LINE)).collect();
            assert_eq!(all, want, "{why}");
        }
        assert_eq!(places(&[], 0, 0, 0, 512).len(), 0, "no rows");
        assert_eq!(places(&[0.0; 64], 16, 4, 16, 3).len(), 0, "too few terms for one line");
    }
}
