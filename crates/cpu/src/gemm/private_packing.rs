//! Products whose factors are shared by nobody: each task packs what it multiplies, or reads it where it lies.

use super::kernels::{LEAST, Lines, PITCH, Tile, height, width};
use super::{Columns, Job, Real, SKINNY, TOGETHER, TermKind, chunks, each, is_close};
use crate::CpuDevice;
use crate::runtime::scratch::scratch;
use elinvar_core::Result;
use elinvar_core::order::CHUNK;

impl<T: Real> Job<'_, T> {
    /// Each task packs both factors, or reads them where they lie.
    pub(super) fn alone(&self, d: &CpuDevice, tiles: &mut [Tile<'_, T>]) -> Result<()> {
        let (isa, w) = (d.isa(), width::<T>(d.isa()));
        each(d, self.ns(), tiles, |tile| {
            let (b, rows, cols) = (tile.batch, tile.rows.clone(), tile.cols.clone());
            if isa.has_fma()
                && rows.len() <= SKINNY
                && (self.kind == TermKind::Elements || cols.len() >= LEAST)
                && let Some(columns) = self.right.columns(b, cols.clone())
            {
                return self.skinny(d, tile, columns);
            }
            // What is used by few tiles, or stays in the second-level cache as it is, is not worth packing.
            let few = self.m <= 2 * height::<T>(isa) || is_close::<T>(self.k, self.n);
            // Panels of pairs do not lie in memory: two terms of a column are no neighbours there.
            let whole = if few && self.kind == TermKind::Elements { cols.len() / w * w } else { 0 };
            if whole == cols.len() && self.as_it_lies(d, tile) {
                return Ok(());
            }
            let together = (TOGETHER * w).min(cols.len().next_multiple_of(w));
            scratch(rows.len() * PITCH, |left| {
                scratch(self.k.min(CHUNK) * together, |right| {
                    for terms in chunks(0..self.k) {
                        let k = terms.len();
                        let left = self.left(isa, b, &rows, &terms, left);
                        let direct = cols.start..cols.start + whole;
                        let direct =
                            (whole > 0).then(|| self.right.direct(isa, b, terms.clone(), direct)).flatten();
                        let mut done = 0;
                        if let Some(direct) = direct {
                            tile.add_part(isa, left, (0, whole), direct, k);
                            done = whole;
                        }
                        while done < cols.len() {
                            let n = together.min(cols.len() - done);
                            let from = cols.start + done;
                            self.right.pack(isa, b, terms.clone(), from..from + n, right);
                            tile.add_part(isa, left, (done, n), self.panels(isa, right, k), k);
                            done += n;
                        }
                    }
                    self.finish(d, tile);
                })
            })?
        })
    }

    /// A tile of whole panels whose factors both are read where they lie; or nothing, if one of them is not. (64 products of 64 take 0.97 of
    /// the time without taking rooms for packing and putting them back.)
    fn as_it_lies(&self, d: &CpuDevice, tile: &mut Tile<'_, T>) -> bool {
        let (isa, b, cols) = (d.isa(), tile.batch, tile.cols.clone());
        let Some(lines) = self.lying(b, &tile.rows) else { return false };
        for terms in chunks(0..self.k) {
            let right = match self.right.direct(isa, b, terms.clone(), cols.clone()) {
                Some(right) => right,
                None if terms.start == 0 => return false,
                None => unreachable!("of all chunks, or of none"),
            };
            let left = Lines { data: &lines.data[terms.start..], ..lines };
            tile.add_part(isa, left, (0, cols.len()), right, terms.len());
        }
        self.finish(d, tile);
        true
    }

    /// Few rows, and columns that are read where they lie.
    fn skinny(&self, d: &CpuDevice, tile: &mut Tile<'_, T>, columns: Columns<'_, T>) -> Result<()> {
        let (isa, b, rows) = (d.isa(), tile.batch, tile.rows.clone());
        if let Some(lines) = self.left.lines(b, rows.clone()) {
            tile.skinny(isa, self.kind, lines, columns, self.k);
            self.finish(d, tile);
            return Ok(());
        }
        let (size, step) = (rows.len() * PITCH, self.k.next_multiple_of(CHUNK) + 16);
        scratch(size, |chunk| {
            scratch(rows.len() * step, |left| {
                for terms in chunks(0..self.k) {
                    self.left.pack(isa, b, rows.clone(), terms.clone(), chunk);
                    for (to, from) in left.chunks_exact_mut(step).zip(chunk.chunks_exact(PITCH)) {
                        to[terms.clone()].copy_from_slice(&from[..terms.len()]);
                    }
                }
                tile.skinny(isa, self.kind, Lines { data: left, step }, columns, self.k);
                self.finish(d, tile);
            })
        })?
    }
}
