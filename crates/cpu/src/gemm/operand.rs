//! Where the two factors come from: a matrix with any strides, or something else that can be packed.

use super::Real;
use super::kernels::{After, Lines, Narrow, PITCH, Panels, TermKind, Tile, halves, narrow, turn, width};
use super::prepack::Kept;
use crate::simd::LINE;
use crate::simd::isa::{Isa, Kernel, dispatch};
use crate::simd::prefetch::prefetch_l1;
use crate::simd::quad::Float16;
use elinvar_core::{Element, bf16, f16};
use std::ops::Range;

/// A left factor.
pub(crate) trait Left<T>: Sync {
    /// How many batches can share one: batch `b` is like batch `b % distinct()`.
    fn distinct(&self) -> usize;
    /// out[i * PITCH + t] = element (rows.start + i, terms.start + t) of a batch
    fn pack(&self, isa: Isa, batch: usize, rows: Range<usize>, terms: Range<usize>, out: &mut [T]);
    /// Rows where they lie, if the terms of each are neighbours.
    fn lines(&self, batch: usize, rows: Range<usize>) -> Option<Lines<'_, T>>;
    /// If rows are taps of windows that are better read in padded planes than packed.
    fn taps(&self) -> Option<&dyn AsTaps<T>>;
}

/// Rows that are taps of windows over padded planes. Who has them multiplies them, so that a program without convolutions has no
/// kernels of theirs.
pub(crate) trait AsTaps<T>: Sync {
    /// Adds some terms of a tile, whose rows begin and end where three taps do.
    fn add(&self, isa: Isa, tile: &mut Tile<'_, T>, terms: Range<usize>, right: Panels<'_, T>);
}

/// A right factor.
pub(crate) trait Right<T>: Sync {
    /// Packs columns as panels: for each `width` columns, terms.len() * width numbers, zeros past the last column.
    fn pack(&self, isa: Isa, batch: usize, terms: Range<usize>, cols: Range<usize>, out: &mut [T]);
    /// The panels of whole columns where they lie, if they lie as if packed: neighbours side by side. Of all, or of none.
    fn direct(
        &self,
        isa: Isa,
        batch: usize,
        terms: Range<usize>,
        cols: Range<usize>,
    ) -> Option<Panels<'_, T>>;
    /// Panels of a chunk that were packed before. Of all, or of none; columns begin where a panel does.
    fn kept(&self, terms: Range<usize>, cols: Range<usize>) -> Option<Panels<'_, T>>;
    /// If columns are windows that are better read in padded planes than packed.
    fn windows(&self, isa: Isa) -> Option<&dyn Windows<T>>;
    /// Columns where they lie, if the terms of each are neighbours.
    fn columns(&self, batch: usize, cols: Range<usize>) -> Option<Columns<'_, T>>;
}

/// Columns that are windows over padded planes. Who has them multiplies them, as with [`AsTaps`].
pub(crate) trait Windows<T>: Sync {
    /// How many columns to take together.
    fn together(&self) -> usize;
    /// Adds all terms of a tile, whose rows were packed, chunk after chunk.
    fn add(&self, isa: Isa, tile: &mut Tile<'_, T>, kind: TermKind, left: &[T]);
}

/// Columns of a right factor whose terms are neighbours.
#[derive(Clone, Copy)]
pub(crate) struct Columns<'a, T> {
    pub(crate) data: Numbers<'a, T>,
    /// The first term of the first column, and the distance of columns.
    pub(crate) at: isize,
    pub(crate) step: isize,
}

/// Stored numbers that are computed as `T`.
#[derive(Clone, Copy)]
pub(crate) enum Numbers<'a, T> {
    Own(&'a [T]),
    F16(&'a [f16]),
    BF16(&'a [bf16]),
}

/// A batch of matrices in memory.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    pub(crate) data: Numbers<'a, T>,
    pub(crate) offset: usize,
    /// Batch `b` starts at `b / inner * outer.0 + b % inner * outer.1`.
    pub(crate) inner: usize,
    pub(crate) batch: (isize, isize),
    pub(crate) row: isize,
    pub(crate) col: isize,
    /// A packed copy, for a right factor.
    pub(crate) kept: Option<Kept<'a, T>>,
}

impl<'a, T> Matrix<'a, T> {
    /// Where an element lies.
    #[inline]
    pub(crate) fn at(&self, batch: usize, row: usize, col: usize) -> isize {
        let (outer, inner) = (batch / self.inner, batch % self.inner);
        self.offset as isize
            + outer as isize * self.batch.0
            + inner as isize * self.batch.1
            + row as isize * self.row
            + col as isize * self.col
    }
    /// Packs rows as `Left::pack` does.
    pub(crate) fn pack_left(
        &self,
        isa: Isa,
        batch: usize,
        rows: Range<usize>,
        terms: Range<usize>,
        out: &mut [T],
    ) where
        T: Real,
    {
        let at = self.at(batch, rows.start, terms.start);
        copy(isa, &self.data, at, (self.row, self.col), rows.len(), terms.len(), out, PITCH);
    }
    /// Rows as columns.
    pub(crate) fn turned(self) -> Matrix<'a, T> {
        Matrix { row: self.col, col: self.row, kept: None, ..self }
    }
}

impl<T: Real> Left<T> for Matrix<'_, T> {
    fn distinct(&self) -> usize {
        usize::MAX
    }
    fn pack(&self, isa: Isa, batch: usize, rows: Range<usize>, terms: Range<usize>, out: &mut [T]) {
        self.pack_left(isa, batch, rows, terms, out);
    }
    fn lines(&self, batch: usize, rows: Range<usize>) -> Option<Lines<'_, T>> {
        match self.data {
            Numbers::Own(data) if self.col == 1 && self.row >= 0 => {
                Some(Lines { data: &data[self.at(batch, rows.start, 0) as usize..], step: self.row as usize })
            }
            Numbers::Own(_) | Numbers::F16(_) | Numbers::BF16(_) => None,
        }
    }
    fn taps(&self) -> Option<&dyn AsTaps<T>> {
        None
    }
}

impl<T: Real> Right<T> for Matrix<'_, T> {
    fn pack(&self, isa: Isa, batch: usize, terms: Range<usize>, cols: Range<usize>, out: &mut [T]) {
        let w = width::<T>(isa);
        if let (Numbers::Own(src), 1) = (self.data, self.col) {
            let whole = cols.len() / w;
            let (panels, rest) = out.split_at_mut(whole * w * terms.len());
            let lines = Side { src, at: self.at(batch, terms.start, cols.start), step: self.row, panels };
            side_by_side(isa, lines, terms.len(), whole);
            let from = cols.start + whole * w;
            let at = self.at(batch, terms.start, from);
            let (rows, cols) = (terms.len(), cols.end - from);
            return narrow(isa, Narrow { src, at, step: self.row, rows, cols, panel: rest });
        }
        for (panel, j) in out.chunks_exact_mut(w * terms.len().max(1)).zip(cols.clone().step_by(w)) {
            let n = w.min(cols.end - j);
            if n < w {
                panel.fill(T::ZERO);
            }
            let at = self.at(batch, terms.start, j);
            copy(isa, &self.data, at, (self.row, self.col), terms.len(), n, panel, w);
        }
    }
    fn direct(
        &self,
        isa: Isa,
        batch: usize,
        terms: Range<usize>,
        cols: Range<usize>,
    ) -> Option<Panels<'_, T>> {
        match self.data {
            Numbers::Own(data) if self.col == 1 && self.row >= 0 => {
                let data = &data[self.at(batch, terms.start, cols.start) as usize..];
                let (step, across) = (self.row as usize, width::<T>(isa));
                Some(Panels { data, step, across, kind: TermKind::Elements, after: After::NOTHING })
            }
            Numbers::Own(_) | Numbers::F16(_) | Numbers::BF16(_) => None,
        }
    }
    fn kept(&self, terms: Range<usize>, cols: Range<usize>) -> Option<Panels<'_, T>> {
        self.kept.map(|k| k.panels(terms, cols))
    }
    fn windows(&self, _: Isa) -> Option<&dyn Windows<T>> {
        None
    }
    fn columns(&self, batch: usize, cols: Range<usize>) -> Option<Columns<'_, T>> {
        let at = self.at(batch, 0, cols.start);
        (self.row == 1).then_some(Columns { data: self.data, at, step: self.col })
    }
}

/// Rows of a matrix, of which panels side by side are packed together: what a row has for them lies together.
struct Side<'a, T> {
    src: &'a [T],
    /// Where the first row starts, and how far apart they are.
    at: isize,
    step: isize,
    panels: &'a mut [T],
}

/// panels[(p * rows + r) * width + c] = src[at + r * step + p * width + c]
fn side_by_side<T: Real>(isa: Isa, side: Side<'_, T>, rows: usize, panels: usize) {
    if rows == 0 || panels == 0 {
        return;
    }
    match width::<T>(isa) {
        // NEON's two f64.
        #[cfg(target_arch = "aarch64")]
        4 => dispatch(isa, SideBySide::<T, 4>(side, rows)),
        8 => dispatch(isa, SideBySide::<T, 8>(side, rows)),
        16 => dispatch(isa, SideBySide::<T, 16>(side, rows)),
        32 => dispatch(isa, SideBySide::<T, 32>(side, rows)),
        w => unreachable!("no registers have panels of {w} columns"),
    }
}

/// How many rows ahead are fetched. What a row has for some panels is too short for hardware to foresee the next row.
const AHEAD: isize = 6;

struct SideBySide<'a, T, const W: usize>(Side<'a, T>, usize);

impl<T: Real, const W: usize> Kernel for SideBySide<'_, T, W> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let SideBySide(Side { src, at, step, panels }, rows) = self;
        let panels = panels.as_chunks_mut::<W>().0;
        let count = panels.len() / rows;
        for r in 0..rows {
            let from = (at + r as isize * step) as usize;
            let soon = src.as_ptr().wrapping_offset(from as isize + AHEAD * step);
            for line in (0..count * W).step_by(LINE / size_of::<T>()) {
                prefetch_l1(soon.wrapping_add(line));
            }
            let row = src[from..from + count * W].as_chunks::<W>().0;
            for (p, x) in row.iter().enumerate() {
                panels[p * rows + r] = *x;
            }
        }
    }
}

/// dst[r * pitch + c] = src[at + r * step.0 + c * step.1], at most [`CHUNK`] columns
pub(crate) fn copy<T: Real>(
    isa: Isa,
    src: &Numbers<'_, T>,
    at: isize,
    step: (isize, isize),
    rows: usize,
    cols: usize,
    dst: &mut [T],
    pitch: usize,
) {
    if rows == 0 || cols == 0 {
        return;
    }
    match src {
        Numbers::Own(src) if step.1 == 1 => lines(isa, src, at, step.0, rows, cols, dst, pitch),
        Numbers::Own(src) if step.0 == 1 => turn(isa, src, at, step.1, rows, cols, dst, pitch),
        Numbers::Own(src) => each(src, at, step, rows, cols, dst, pitch, |x| x),
        Numbers::F16(src) if step.0 == 1 || step.1 == 1 => {
            halves(isa, src, at, step, rows, cols, dst, pitch);
        }
        Numbers::F16(src) => each(src, at, step, rows, cols, dst, pitch, Float16::wide::<T>),
        Numbers::BF16(src) if step.0 == 1 || step.1 == 1 => {
            halves(isa, src, at, step, rows, cols, dst, pitch);
        }
        Numbers::BF16(src) => each(src, at, step, rows, cols, dst, pitch, Float16::wide::<T>),
    }
}

/// Element by element.
#[inline(always)]
fn each<S: Copy, T: Element>(
    src: &[S],
    at: isize,
    step: (isize, isize),
    rows: usize,
    cols: usize,
    dst: &mut [T],
    pitch: usize,
    f: impl Fn(S) -> T,
) {
    for (r, line) in dst.chunks_mut(pitch).take(rows).enumerate() {
        let mut from = at + r as isize * step.0;
        for to in &mut line[..cols] {
            *to = f(src[from as usize]);
            from += step.1;
        }
    }
}

/// Rows that lie as they should.
fn lines<T: Real>(
    isa: Isa,
    src: &[T],
    at: isize,
    step: isize,
    rows: usize,
    cols: usize,
    dst: &mut [T],
    pitch: usize,
) {
    let lines = Region { src, at, step, rows, cols, dst, pitch };
    // Whole lines of panels: a copy of known length is a few vectors, of unknown length a call.
    match cols {
        8 => dispatch(isa, Fixed::<T, 8>(lines)),
        16 => dispatch(isa, Fixed::<T, 16>(lines)),
        32 => dispatch(isa, Fixed::<T, 32>(lines)),
        _ => lines.any(),
    }
}

struct Region<'a, T> {
    src: &'a [T],
    at: isize,
    step: isize,
    rows: usize,
    cols: usize,
    dst: &'a mut [T],
    pitch: usize,
}

impl<T: Real> Region<'_, T> {
    fn any(self) {
        for (r, line) in self.dst.chunks_mut(self.pitch).take(self.rows).enumerate() {
            let from = (self.at + r as isize * self.step) as usize;
            let soon = self.src.as_ptr().wrapping_offset(from as isize + self.step);
            for line in (0..self.cols).step_by(LINE / size_of::<T>()) {
                prefetch_l1(soon.wrapping_add(line));
            }
            line[..self.cols].copy_from_slice(&self.src[from..from + self.cols]);
        }
    }
}

struct Fixed<'a, T, const W: usize>(Region<'a, T>);

impl<T: Real, const W: usize> Kernel for Fixed<'_, T, W> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Region { src, at, step, rows, dst, pitch, .. } = self.0;
        for (r, line) in dst.chunks_mut(pitch).take(rows).enumerate() {
            let from = (at + r as isize * step) as usize;
            let whole: [T; W] = src[from..from + W].try_into().expect("as many");
            line[..W].copy_from_slice(&whole);
        }
    }
}
