//! Some rows times columns whose terms are neighbours in memory, as in a layer's x * w^T.
//!
//! The product is computed on its side: columns are what a tile takes number by number, and rows lie beside one another in its registers.
//! So w is read where it lies, and x, which is small, is what is packed. Panels of w would have to be turned on their way, which is not paid
//! back by so few rows. Factors commute, so every chain is the same.

use super::kernels::{
    After, FEW, Few, GROUP, Lines, PITCH, Panels, Tile, few, multiply_into, panel, turn, width,
};
use super::{Columns, Cut, FINE, Job, Numbers, Real, Share, TermKind, chunks, even, fair};
use crate::CpuDevice;
use crate::runtime::parallel::try_drain_tasks;
use crate::runtime::scratch::scratch;
use elinvar_core::Result;
use elinvar_core::order::CHUNK;
use std::ops::{Range, RangeInclusive};

/// Rows of which columns that lie in memory are better read number by number. Of one thread, 32 rows, 1024 columns and as many terms took
/// 597 microseconds, and packed 712.
pub(super) const ROWS: RangeInclusive<usize> = 8..=192;
/// Fewer columns do not fill registers, which counts where they have so many terms.
const NARROW: usize = 48;
const MANY_TERMS: usize = 256;
/// Are there kernels for it? Of f64 there are not: they were a fiftieth of a small program, for what networks do not do.
pub(super) const fn has_broad<T>() -> bool {
    size_of::<T>() <= size_of::<f32>()
}
/// Terms of a panel's rows that are turned at once: 16 KiB of f32, which are in the first-level cache when they are.
const TURNED: usize = 128;
/// Bytes of rows that are packed at once: half of a core's second-level cache. All 9216 terms of 64 rows, a layer after convolutions, came
/// from the third-level cache for each few columns; with 128 of these it took 1.03 milliseconds, and takes 0.6 so.
const PACKED: usize = 512 << 10;

impl<T: Real> Job<'_, T> {
    /// Are there so many rows that columns in memory are better read number by number, if they lie so? Rows and results are turned then, which
    /// are to be less than the columns: 96 products of 128 x 128 of 64 terms took 880 microseconds so, and take 690 with columns packed; one took
    /// 10.9, and takes 8.4. Or columns are so few that registers of them are not full, of many terms: 16 rows by 10 columns of 1024 terms take 8.2
    /// so, and packed 12.7.
    pub(super) fn is_broad(&self) -> bool {
        has_broad::<T>()
            && self.share == Share::Nothing
            && self.kind == TermKind::Elements
            && ROWS.contains(&self.m)
            && self.k > 0
            && (self.m * (self.k + self.n) < self.k * self.n || self.n < NARROW && self.k >= MANY_TERMS)
            && self.own_columns(0, 0..self.n).is_some()
    }

    /// Columns that lie in memory as they are computed, one after the other.
    pub(super) fn own_columns(&self, batch: usize, cols: Range<usize>) -> Option<Lines<'_, T>> {
        let Columns { data, at, step } = self.right.columns(batch, cols)?;
        match data {
            Numbers::Own(data) if step >= 0 => {
                Some(Lines { data: data.get(at as usize..)?, step: step as usize })
            }
            Numbers::Own(_) | Numbers::F16(_) | Numbers::BF16(_) => None,
        }
    }

    /// Are there so few rows that they have a kernel of their own?
    fn is_few(&self, d: &CpuDevice) -> bool {
        d.isa().has_fma() && FEW.contains(&self.m) && self.k * self.m <= PACKED / size_of::<T>()
    }

    /// Terms of all rows that are packed at once.
    fn deep(&self, d: &CpuDevice) -> usize {
        let padded = self.m.next_multiple_of(width::<T>(d.isa()));
        ((PACKED / size_of::<T>() / padded / CHUNK).max(1) * CHUNK).min(self.k)
    }

    /// Tiles of all rows and some columns, or, of columns that are too few, of all columns and some rows.
    pub(super) fn cut_broad(&self, d: &CpuDevice) -> Cut {
        let (w, threads) = (width::<T>(d.isa()), self.threads(d));
        let (mut rows, mut cols) = (self.m, self.n);
        let is_few = self.is_few(d);
        if threads > 1 && self.n < w * threads && self.m >= 2 * w && !is_few {
            rows = even(self.m, self.m, w, threads);
        } else if threads > 1 {
            // With all terms a thread packs rows once for all of its tiles.
            let tiles = if is_few || self.deep(d) == self.k { FINE * threads } else { threads };
            cols = fair(self.n, self.n.div_ceil(tiles).next_multiple_of(w), w, threads);
        }
        Cut { batch: self.batch, m: self.m, n: self.n, rows, cols }
    }

    /// Each thread packs the rows for itself: half of them packed by another, and what takes to get at these, took 2 to 15 % longer.
    pub(super) fn broad(&self, d: &CpuDevice, tiles: &mut [Tile<'_, T>]) -> Result<()> {
        let (isa, is_few) = (d.isa(), self.is_few(d));
        let (deep, w) =
            if is_few { (self.k, panel::<T>(isa, self.m)) } else { (self.deep(d), width::<T>(isa)) };
        let padded = tiles[0].rows.len().next_multiple_of(w);
        // If there are more terms, the sums of all columns wait for them.
        let waiting = if deep < self.k { tiles[0].cols.len() } else { GROUP };
        try_drain_tasks(d, tiles, self.ns(), &|next| {
            scratch(deep * padded, |x| {
                scratch(waiting * padded, |sums| {
                    let mut packed = None;
                    while let Some(tile) = next() {
                        for from in (0..self.k).step_by(deep) {
                            let terms = from..self.k.min(from + deep);
                            let these = (tile.batch, tile.rows.clone(), terms.clone());
                            if packed.as_ref() != Some(&these) {
                                self.pack_turned(d, &these, x, w)?;
                                packed = Some(these);
                            }
                            if is_few {
                                self.few(d, tile, x, sums, w);
                            } else {
                                self.columns(d, tile, &terms, x, sums);
                            }
                        }
                        self.finish(d, tile);
                    }
                    Ok(())
                })
            })??
        })
    }

    /// Some terms of a tile's columns, of packed rows. If they are not all, sums has room for all columns.
    fn columns(&self, d: &CpuDevice, tile: &mut Tile<'_, T>, terms: &Range<usize>, x: &[T], sums: &mut [T]) {
        let (isa, w) = (d.isa(), width::<T>(d.isa()));
        let (padded, rows) = (tile.rows.len().next_multiple_of(w), tile.rows.len().next_multiple_of(w / 2));
        let columns = self.own_columns(tile.batch, tile.cols.clone()).expect("columns lie in memory");
        for j in (0..tile.cols.len()).step_by(GROUP) {
            let n = GROUP.min(tile.cols.len() - j);
            let at = if terms.len() < self.k { j * padded } else { 0 };
            let sums = &mut sums[at..][..n * padded];
            for some in chunks(terms.clone()) {
                let k = some.len();
                let lines = Lines { data: &columns.data[j * columns.step + some.start..], ..columns };
                let data = &x[(some.start - terms.start) * padded..][..k * padded];
                let panels = Panels { data, step: w, across: w * k, kind: self.kind, after: After::NOTHING };
                multiply_into(isa, lines, panels, (n, rows, k), (sums, padded), some.start == 0);
            }
            if terms.end == self.k {
                tile.turned(isa, (j, n), sums, padded);
            }
        }
    }

    /// All terms of a tile's columns, of few rows, packed as panels of `w`.
    fn few(&self, d: &CpuDevice, tile: &mut Tile<'_, T>, x: &[T], sums: &mut [T], w: usize) {
        let (isa, k, rows, cols) = (d.isa(), self.k, self.m, tile.cols.len());
        let padded = rows.next_multiple_of(w);
        let Lines { data, step } =
            self.own_columns(tile.batch, tile.cols.clone()).expect("columns lie in memory");
        for j in (0..cols).step_by(GROUP) {
            let (at, cols, step) = ((j * step) as isize, GROUP.min(cols - j), step as isize);
            few(isa, Few { data, at, step, cols, k, x, rows, padded, sums });
            tile.turned(isa, (j, cols), sums, padded);
        }
    }

    /// Rows of a product, and some of their terms, as panels of `w` columns: chunk after chunk, panel after panel, the last one of each filled up
    /// with zeros.
    fn pack_turned(
        &self,
        d: &CpuDevice,
        (batch, rows, terms): &(usize, Range<usize>, Range<usize>),
        x: &mut [T],
        w: usize,
    ) -> Result<()> {
        let isa = d.isa();
        scratch(w * PITCH, |room| {
            let mut rest = x;
            for terms in chunks(terms.clone()) {
                for first in rows.clone().step_by(w) {
                    let rows = first..rows.end.min(first + w);
                    let panel = rest.split_off_mut(..terms.len() * w).expect("room for all panels");
                    if rows.len() < w {
                        panel.fill(T::ZERO);
                    }
                    for (i, panel) in panel.chunks_mut(TURNED * w).enumerate() {
                        let (from, k) = (terms.start + i * TURNED, panel.len() / w);
                        self.left.pack(isa, *batch, rows.clone(), from..from + k, room);
                        turn(isa, room, 0, PITCH as isize, k, rows.len(), panel, w);
                    }
                }
            }
        })
    }
}
