//! GEMM epilogue: bias, activation and other formulas on rows of finished tiles, while they are in
//! the cache.

use super::kernels::OutputTile;
use super::operand::{BatchedMatrix, copy_block};
use super::plan::thresholds::{EPILOGUE_STAGED_ELEMENTS, NARROW_ROW_MAX_ELEMENTS};
use crate::elementwise::real::{Real, StoredElements};
use elinvar_simd::compiled_epilogue::EpilogueRow;
use elinvar_simd::isa::Isa;
use smallvec::SmallVec;

/// What is done to finished elements.
pub(crate) trait TileEpilogue<T>: Sync {
    /// Is there nothing to do?
    fn is_empty(&self) -> bool;
    /// All elements of a tile.
    fn apply(&self, isa: Isa, tile: &mut OutputTile<'_, T>);
    /// Elements `apply_row, col..` of a batch.
    fn apply_to_row(&self, isa: Isa, batch: usize, row: usize, col: usize, y: &mut [T]);
    /// Whole rows of `n`, at most [`NARROW_ROW_MAX_ELEMENTS`], one after the other, from
    /// `apply_row` on.
    fn rows(&self, isa: Isa, batch: usize, row: usize, n: usize, y: &mut [T]) {
        for (i, y) in y.chunks_exact_mut(n).enumerate() {
            self.apply_to_row(isa, batch, row + i, 0, y);
        }
    }
}

/// What follows the sums of a tile.
pub(crate) fn apply_to_tile<T: Real>(isa: Isa, epilogue: &dyn TileEpilogue<T>, tile: &mut OutputTile<'_, T>) {
    if epilogue.is_empty() {
        return;
    }
    let (b, rows) = (tile.batch, tile.rows.clone());
    match tile.contiguous_rows(NARROW_ROW_MAX_ELEMENTS) {
        Some(all) => epilogue.rows(isa, b, rows.start, all.len() / rows.len(), all),
        None => epilogue.apply(isa, tile),
    }
}

/// An operand of the epilogue, of the result's shape.
pub(crate) type EpilogueOperand<'a, T> = BatchedMatrix<'a, T>;

/// Operands of an epilogue: those of most fit without an allocation.
type Operands<T> = SmallVec<[T; 2]>;

/// An epilogue and its operands.
pub(crate) struct FusedEpilogue<'a, T> {
    pub(crate) e: &'a dyn EpilogueRow<T>,
    pub(crate) extra: &'a [EpilogueOperand<'a, T>],
}

/// Room for staged elements of some operands.
fn staging<T: Real>(operands: usize) -> Operands<[T; EPILOGUE_STAGED_ELEMENTS]> {
    (0..operands).map(|_| [T::ZERO; EPILOGUE_STAGED_ELEMENTS]).collect()
}

impl<T: Real> TileEpilogue<T> for FusedEpilogue<'_, T> {
    fn is_empty(&self) -> bool {
        false
    }
    fn apply(&self, isa: Isa, tile: &mut OutputTile<'_, T>) {
        let (batch, rows, col) = (tile.batch, tile.rows.clone(), tile.cols.start);
        let Some(all) = self.extra.iter().map(in_place).collect::<Option<Operands<&[T]>>>() else {
            for (i, row) in rows.enumerate() {
                self.apply_to_row(isa, batch, row, col, tile.row(i));
            }
            return;
        };
        let mut at: Operands<usize> =
            self.extra.iter().map(|extra| extra.at(batch, rows.start, col) as usize).collect();
        let mut x = all.clone();
        for i in 0..rows.len() {
            let y = tile.row(i);
            for (((x, all), at), extra) in x.iter_mut().zip(&all).zip(&mut at).zip(self.extra) {
                *x = &all[*at..][..y.len()];
                *at = at.wrapping_add_signed(extra.row);
            }
            self.e.row(isa, &x, y);
        }
    }
    fn apply_to_row(&self, isa: Isa, batch: usize, row: usize, col: usize, y: &mut [T]) {
        let mut staged = staging(self.extra.iter().filter(|x| in_place(x).is_none()).count());
        for (i, y) in y.chunks_mut(EPILOGUE_STAGED_ELEMENTS).enumerate() {
            let mut staged = staged.iter_mut();
            let x = self.extra.iter().map(|extra| {
                let (at, n) = (extra.at(batch, row, col + i * EPILOGUE_STAGED_ELEMENTS), y.len());
                match in_place(extra) {
                    Some(data) => &data[at as usize..][..n],
                    None => {
                        stage(isa, extra, at, &mut staged.next().expect("one for each that is staged")[..n])
                    }
                }
            });
            self.e.row(isa, &x.collect::<Operands<&[T]>>(), y);
        }
    }
    fn rows(&self, isa: Isa, batch: usize, row: usize, n: usize, y: &mut [T]) {
        let mut staged = staging(self.extra.len());
        let together = EPILOGUE_STAGED_ELEMENTS / n;
        for (i, y) in y.chunks_mut(together * n).enumerate() {
            let x = self.extra.iter().zip(&mut staged).map(|(extra, staged)| {
                let dst = &mut staged[..y.len()];
                // A bias is the same in all rows.
                if i == 0 || extra.row != 0 {
                    for (r, dst) in dst.chunks_exact_mut(n).enumerate() {
                        let at = extra.at(batch, row + i * together + r, 0);
                        copy_block(isa, &extra.data, at, (0, extra.col), 1, n, dst, n);
                    }
                }
                &*dst
            });
            self.e.row(isa, &x.collect::<Operands<&[T]>>(), y);
        }
    }
}

/// The operand's elements, if those of a row are contiguous and of the type of computation.
fn in_place<'a, T: Real>(x: &EpilogueOperand<'a, T>) -> Option<&'a [T]> {
    match x.data {
        StoredElements::Native(data) if x.col == 1 => Some(data),
        StoredElements::Native(_) | StoredElements::F16(_) | StoredElements::BF16(_) => None,
    }
}

/// The operand's elements from `at` on, copied.
fn stage<'a, T: Real>(isa: Isa, x: &EpilogueOperand<'_, T>, at: isize, dst: &'a mut [T]) -> &'a [T] {
    match x.data {
        StoredElements::Native(data) if x.col == 0 => dst.fill(data[at as usize]),
        StoredElements::Native(_) | StoredElements::F16(_) | StoredElements::BF16(_) => {
            let n = dst.len();
            copy_block(isa, &x.data, at, (0, x.col), 1, n, dst, n);
        }
    }
    dst
}

/// Nothing follows.
pub(crate) struct NoEpilogue;

impl<T> TileEpilogue<T> for NoEpilogue {
    fn is_empty(&self) -> bool {
        true
    }
    fn apply(&self, _: Isa, _: &mut OutputTile<'_, T>) {}
    fn apply_to_row(&self, _: Isa, _: usize, _: usize, _: usize, _: &mut [T]) {}
}
