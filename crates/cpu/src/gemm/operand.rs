//! GEMM operands: where A and B come from (a matrix with any strides, im2col, a prepacked copy),
//! and how they are packed.

use super::kernels::{
    ColumnsB, EdgePanel, NextOperands, OutputTile, PACKED_A_PITCH, PanelsB, PrepackedPanels, RowsA, TermKind,
    as_pairs, nr, pack_edge, pack_f16, transpose_block,
};
use super::plan::thresholds::PACK_PREFETCH_ROWS;
use super::plan::{ContractProblem, MatrixLayout, Storage};
use crate::elementwise::real::{Real, StoredElements};
use elinvar_core::{Element, Precision};
use elinvar_simd::LINE;
use elinvar_simd::isa::{Isa, Kernel, dispatch};
use elinvar_simd::prefetch::prefetch_l1;
use elinvar_simd::quad::Float16;
use std::ops::Range;

/// A left factor. One that is in no memory as it is read is packed, and has no more to say.
pub(crate) trait OperandA<T>: Sync {
    /// How many batches can share one: batch `b` is like batch `b % distinct()`.
    fn distinct_batches(&self) -> usize;
    /// out[i * PITCH + t] = element (rows.start + i, terms.start + t) of a batch
    fn pack(&self, isa: Isa, batch: usize, rows: Range<usize>, terms: Range<usize>, out: &mut [T]);
    /// Rows where they are, if the terms of each are neighbours.
    fn rows_in_place(&self, _batch: usize, _rows: Range<usize>) -> Option<RowsA<'_, T>> {
        None
    }
    /// Are rows taps of windows that are better read in padded planes than packed?
    fn has_taps(&self) -> bool {
        false
    }
    /// Adds some terms of a tile, whose rows begin and end where [`TAPS_PER_ADDRESS`] taps do, if
    /// rows are taps. The operand multiplies them itself, so that a program without convolutions
    /// has no kernels of theirs.
    ///
    /// [`TAPS_PER_ADDRESS`]: super::plan::TAPS_PER_ADDRESS
    ///
    /// # Panics
    /// If they are not.
    fn add_taps(&self, _: Isa, _: &mut OutputTile<'_, T>, _: Range<usize>, _: PanelsB<'_, T>) {
        unreachable!("no plan reads taps where there are none")
    }
}

/// A right factor, likewise.
pub(crate) trait OperandB<T>: Sync {
    /// Packs columns as panels: for each `nr` columns, terms.len() * width numbers, zeros past the
    /// last column.
    fn pack(&self, isa: Isa, batch: usize, terms: Range<usize>, cols: Range<usize>, out: &mut [T]);
    /// The panels of whole columns where they are, if they are as if packed: neighbours side by
    /// side. Of all, or of none.
    fn panels_in_place(
        &self,
        _isa: Isa,
        _batch: usize,
        _terms: Range<usize>,
        _cols: Range<usize>,
    ) -> Option<PanelsB<'_, T>> {
        None
    }
    /// Panels of a chunk that were packed before. Of all, or of none; columns begin where a panel
    /// does.
    fn prepacked_panels(&self, _terms: Range<usize>, _cols: Range<usize>) -> Option<PanelsB<'_, T>> {
        None
    }
    /// If columns are windows that are better read in padded planes than packed: how many to take
    /// together.
    fn windows(&self) -> Option<usize> {
        None
    }
    /// Adds all terms of a tile, whose rows were packed, chunk after chunk, if columns are windows.
    /// The operand multiplies them itself, as with [`OperandA::add_taps`].
    ///
    /// # Panics
    /// If they are not.
    fn add_windows(&self, _: Isa, _: &mut OutputTile<'_, T>, _: TermKind, _: &[T]) {
        unreachable!("no plan reads windows where there are none")
    }
    /// Columns where they are, if the terms of each are neighbours.
    fn columns_in_place(&self, _batch: usize, _cols: Range<usize>) -> Option<ColumnsB<'_, T>> {
        None
    }
}

/// A batch of matrices in memory.
#[derive(Clone, Copy)]
pub(crate) struct BatchedMatrix<'a, T> {
    pub(crate) data: StoredElements<'a, T>,
    pub(crate) offset: usize,
    /// Batch `b` starts at `b / inner * outer.0 + b % inner * outer.1`.
    pub(crate) inner: usize,
    pub(crate) batch: (isize, isize),
    pub(crate) row: isize,
    pub(crate) col: isize,
    /// A packed copy, for a right factor.
    pub(crate) prepacked: Option<PrepackedPanels<'a, T>>,
}

impl<'a, T> BatchedMatrix<'a, T> {
    /// Where an element is.
    #[inline]
    pub(crate) fn at(&self, batch: usize, row: usize, col: usize) -> isize {
        let (outer, inner) = (batch / self.inner, batch % self.inner);
        self.offset as isize
            + outer as isize * self.batch.0
            + inner as isize * self.batch.1
            + row as isize * self.row
            + col as isize * self.col
    }
    /// Their layout, for a plan.
    pub(crate) fn layout(&self) -> MatrixLayout {
        let &BatchedMatrix { offset, inner, batch, row, col, .. } = self;
        let (storage, has_aligned_pairs) = match self.data {
            StoredElements::Native(_) => (Storage::Native, false),
            StoredElements::F16(_) => (Storage::F16, false),
            StoredElements::BF16(data) => (Storage::Bf16, as_pairs(data).is_some()),
        };
        MatrixLayout { storage, offset, inner, batch, row, col, has_aligned_pairs }
    }
    /// The same numbers, unpacked, as a plan sees a part of them.
    pub(super) fn part(&self, layout: &MatrixLayout) -> BatchedMatrix<'a, T>
    where
        T: Copy,
    {
        let &MatrixLayout { offset, inner, batch, row, col, .. } = layout;
        BatchedMatrix { data: self.data, offset, inner, batch, row, col, prepacked: None }
    }
    /// Packs rows as `OperandA::pack` does.
    pub(crate) fn pack_a(
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
        copy_block(isa, &self.data, at, (self.row, self.col), rows.len(), terms.len(), out, PACKED_A_PITCH);
    }
    /// Rows as columns.
    pub(crate) fn transposed(self) -> BatchedMatrix<'a, T> {
        BatchedMatrix { row: self.col, col: self.row, prepacked: None, ..self }
    }
}

impl<T: Real> OperandA<T> for BatchedMatrix<'_, T> {
    fn distinct_batches(&self) -> usize {
        usize::MAX
    }
    fn pack(&self, isa: Isa, batch: usize, rows: Range<usize>, terms: Range<usize>, out: &mut [T]) {
        self.pack_a(isa, batch, rows, terms, out);
    }
    fn rows_in_place(&self, batch: usize, rows: Range<usize>) -> Option<RowsA<'_, T>> {
        match self.data {
            StoredElements::Native(data) if self.col == 1 && self.row >= 0 => {
                Some(RowsA { data: &data[self.at(batch, rows.start, 0) as usize..], step: self.row as usize })
            }
            StoredElements::Native(_) | StoredElements::F16(_) | StoredElements::BF16(_) => None,
        }
    }
}

impl<T: Real> OperandB<T> for BatchedMatrix<'_, T> {
    fn pack(&self, isa: Isa, batch: usize, terms: Range<usize>, cols: Range<usize>, out: &mut [T]) {
        let w = nr::<T>(isa);
        if let (StoredElements::Native(src), 1) = (self.data, self.col) {
            let whole = cols.len() / w;
            let (panels, rest) = out.split_at_mut(whole * w * terms.len());
            let lines =
                PanelSource { src, at: self.at(batch, terms.start, cols.start), step: self.row, panels };
            pack_panels(isa, lines, terms.len(), whole);
            let from = cols.start + whole * w;
            let at = self.at(batch, terms.start, from);
            let (rows, cols) = (terms.len(), cols.end - from);
            return pack_edge(isa, EdgePanel { src, at, step: self.row, rows, cols, panel: rest });
        }
        for (panel, j) in out.chunks_exact_mut(w * terms.len().max(1)).zip(cols.clone().step_by(w)) {
            let n = w.min(cols.end - j);
            if n < w {
                panel.fill(T::ZERO);
            }
            let at = self.at(batch, terms.start, j);
            copy_block(isa, &self.data, at, (self.row, self.col), terms.len(), n, panel, w);
        }
    }
    fn panels_in_place(
        &self,
        isa: Isa,
        batch: usize,
        terms: Range<usize>,
        cols: Range<usize>,
    ) -> Option<PanelsB<'_, T>> {
        match self.data {
            StoredElements::Native(data) if self.col == 1 && self.row >= 0 => {
                let data = &data[self.at(batch, terms.start, cols.start) as usize..];
                let (step, across) = (self.row as usize, nr::<T>(isa));
                Some(PanelsB { data, step, across, kind: TermKind::Elements, after: NextOperands::NONE })
            }
            StoredElements::Native(_) | StoredElements::F16(_) | StoredElements::BF16(_) => None,
        }
    }
    fn prepacked_panels(&self, terms: Range<usize>, cols: Range<usize>) -> Option<PanelsB<'_, T>> {
        self.prepacked.map(|k| k.panels(terms, cols))
    }
    fn columns_in_place(&self, batch: usize, cols: Range<usize>) -> Option<ColumnsB<'_, T>> {
        let at = self.at(batch, 0, cols.start);
        (self.row == 1).then_some(ColumnsB { data: self.data, at, step: self.col })
    }
}

/// Products of sizes b, m, k, n as a problem of elements.
pub(super) fn exact_problem<T: Real>(
    [batch, m, k, n]: [usize; 4],
    lhs: &BatchedMatrix<'_, T>,
    rhs: &BatchedMatrix<'_, T>,
) -> ContractProblem {
    ContractProblem {
        batch,
        m,
        k,
        n,
        bytes: size_of::<T>(),
        precision: Precision::Exact,
        lhs: lhs.layout(),
        rhs: rhs.layout(),
        is_prepacked: rhs.prepacked.is_some(),
        epilogue_follows: true,
    }
}

/// Rows of a matrix, of which panels side by side are packed together: what a row has for them is
/// together.
struct PanelSource<'a, T> {
    src: &'a [T],
    /// Where the first row starts, and how far apart they are.
    at: isize,
    step: isize,
    panels: &'a mut [T],
}

/// panels[(p * rows + r) * width + c] = src[at + r * step + p * width + c]
fn pack_panels<T: Real>(isa: Isa, side: PanelSource<'_, T>, rows: usize, panels: usize) {
    if rows == 0 || panels == 0 {
        return;
    }
    match nr::<T>(isa) {
        // Registers of two f64: NEON's and simd128's.
        #[cfg(any(target_arch = "aarch64", all(target_arch = "wasm32", target_feature = "simd128")))]
        4 => dispatch(isa, PackPanels::<T, 4>(side, rows)),
        8 => dispatch(isa, PackPanels::<T, 8>(side, rows)),
        16 => dispatch(isa, PackPanels::<T, 16>(side, rows)),
        32 => dispatch(isa, PackPanels::<T, 32>(side, rows)),
        w => unreachable!("no registers have panels of {w} columns"),
    }
}

struct PackPanels<'a, T, const W: usize>(PanelSource<'a, T>, usize);

impl<T: Real, const W: usize> Kernel for PackPanels<'_, T, W> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let PackPanels(PanelSource { src, at, step, panels }, rows) = self;
        let panels = panels.as_chunks_mut::<W>().0;
        let count = panels.len() / rows;
        for r in 0..rows {
            let from = (at + r as isize * step) as usize;
            let soon = src.as_ptr().wrapping_offset(from as isize + PACK_PREFETCH_ROWS * step);
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

/// dst[r * pitch + c] = src[at + r * step.0 + c * step.1], at most `CHUNK` columns
pub(crate) fn copy_block<T: Real>(
    isa: Isa,
    src: &StoredElements<'_, T>,
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
        StoredElements::Native(src) if step.1 == 1 => copy_rows(isa, src, at, step.0, rows, cols, dst, pitch),
        StoredElements::Native(src) if step.0 == 1 => {
            transpose_block(isa, src, at, step.1, rows, cols, dst, pitch)
        }
        StoredElements::Native(src) => copy_each(src, at, step, rows, cols, dst, pitch, |x| x),
        StoredElements::F16(src) if step.0 == 1 || step.1 == 1 => {
            pack_f16(isa, src, at, step, rows, cols, dst, pitch);
        }
        StoredElements::F16(src) => copy_each(src, at, step, rows, cols, dst, pitch, Float16::wide::<T>),
        StoredElements::BF16(src) if step.0 == 1 || step.1 == 1 => {
            pack_f16(isa, src, at, step, rows, cols, dst, pitch);
        }
        StoredElements::BF16(src) => copy_each(src, at, step, rows, cols, dst, pitch, Float16::wide::<T>),
    }
}

/// Element by element.
#[inline(always)]
fn copy_each<S: Copy, T: Element>(
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

/// Rows in the layout that is wanted.
fn copy_rows<T: Real>(
    isa: Isa,
    src: &[T],
    at: isize,
    step: isize,
    rows: usize,
    cols: usize,
    dst: &mut [T],
    pitch: usize,
) {
    let lines = CopyRegion { src, at, step, rows, cols, dst, pitch };
    // Whole lines of panels: a copy of known length is a few vectors, of unknown length a call.
    match cols {
        8 => dispatch(isa, CopyFixedWidth::<T, 8>(lines)),
        16 => dispatch(isa, CopyFixedWidth::<T, 16>(lines)),
        32 => dispatch(isa, CopyFixedWidth::<T, 32>(lines)),
        _ => lines.any(),
    }
}

struct CopyRegion<'a, T> {
    src: &'a [T],
    at: isize,
    step: isize,
    rows: usize,
    cols: usize,
    dst: &'a mut [T],
    pitch: usize,
}

impl<T: Real> CopyRegion<'_, T> {
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

struct CopyFixedWidth<'a, T, const W: usize>(CopyRegion<'a, T>);

impl<T: Real, const W: usize> Kernel for CopyFixedWidth<'_, T, W> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let CopyRegion { src, at, step, rows, dst, pitch, .. } = self.0;
        for (r, line) in dst.chunks_mut(pitch).take(rows).enumerate() {
            let from = (at + r as isize * step) as usize;
            let whole: [T; W] = src[from..from + W].try_into().expect("as many");
            line[..W].copy_from_slice(&whole);
        }
    }
}
