//! GEMM epilogue: bias, activation and other formulas on rows of finished tiles, while they are in
//! the cache.

use super::kernels::OutputTile;
use super::operand::{BatchedMatrix, copy_block};
use super::plan::thresholds::{EPILOGUE_STAGED_ELEMENTS, NARROW_ROW_MAX_ELEMENTS};
use crate::real::{Real, StoredElements};
use elinvar_ops::backend::Epilogue;
use elinvar_ops::lane::Lane;
use elinvar_simd::dispatch::{LaneKernel, ReduceLanes, SimdLanes, run_lanes};
use elinvar_simd::isa::Isa;

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

/// An epilogue and its operands.
pub(crate) struct FusedEpilogue<'a, T, E, const N: usize> {
    pub(crate) e: &'a E,
    pub(crate) extra: [EpilogueOperand<'a, T>; N],
}

impl<T: Real, E: Epilogue<N>, const N: usize> TileEpilogue<T> for FusedEpilogue<'_, T, E, N> {
    fn is_empty(&self) -> bool {
        // By name, for there is no other way to see that a formula gives back what it gets.
        N == 0 && E::NAME == elinvar_ops::backend::Plain::NAME
    }
    fn apply(&self, isa: Isa, tile: &mut OutputTile<'_, T>) {
        let (batch, rows, col) = (tile.batch, tile.rows.clone(), tile.cols.start);
        if isa.has_formulas()
            && let Some(x) = self.a_in_place()
        {
            return run_lanes(isa, EpilogueTile { follow: self, x, tile });
        }
        for (i, row) in rows.enumerate() {
            self.apply_to_row(isa, batch, row, col, tile.row(i));
        }
    }
    fn apply_to_row(&self, isa: Isa, batch: usize, row: usize, col: usize, y: &mut [T]) {
        let mut dst = [[T::ZERO; EPILOGUE_STAGED_ELEMENTS]; N];
        for (i, y) in y.chunks_mut(EPILOGUE_STAGED_ELEMENTS).enumerate() {
            let mut dst = dst.iter_mut();
            let x = self.extra.each_ref().map(|extra| {
                let dst = dst.next().expect("one for each");
                let at = extra.at(batch, row, col + i * EPILOGUE_STAGED_ELEMENTS);
                stage(isa, extra, at, &mut dst[..y.len()])
            });
            self.each(isa, x, y);
        }
    }
    fn rows(&self, isa: Isa, batch: usize, row: usize, n: usize, y: &mut [T]) {
        let mut dst = [[T::ZERO; EPILOGUE_STAGED_ELEMENTS]; N];
        let together = EPILOGUE_STAGED_ELEMENTS / n;
        for (i, y) in y.chunks_mut(together * n).enumerate() {
            let mut dst = dst.iter_mut();
            let x = self.extra.each_ref().map(|extra| {
                let dst = &mut dst.next().expect("one for each")[..y.len()];
                // A bias is the same in all rows.
                if i == 0 || extra.row != 0 {
                    for (r, dst) in dst.chunks_exact_mut(n).enumerate() {
                        let at = extra.at(batch, row + i * together + r, 0);
                        copy_block(isa, &extra.data, at, (0, extra.col), 1, n, dst, n);
                    }
                }
                &*dst
            });
            self.each(isa, x, y);
        }
    }
}

impl<T: Real, E: Epilogue<N>, const N: usize> FusedEpilogue<'_, T, E, N> {
    /// The numbers of all operands, if those of a row are neighbours in each.
    fn a_in_place(&self) -> Option<[&[T]; N]> {
        let mut all = [&[][..]; N];
        for (all, x) in all.iter_mut().zip(&self.extra) {
            match x.data {
                StoredElements::Native(data) if x.col == 1 => *all = data,
                StoredElements::Native(_) | StoredElements::F16(_) | StoredElements::BF16(_) => return None,
            }
        }
        Some(all)
    }
    /// The formula on elements of the result and as many of each operand.
    fn each(&self, isa: Isa, x: [&[T]; N], y: &mut [T]) {
        // Where formulas are not compiled, they are called: an fma is a call there anyway.
        if isa.has_formulas() {
            run_lanes(isa, EpilogueRow { e: self.e, x, y });
        } else {
            for (i, y) in y.iter_mut().enumerate() {
                *y = self.e.lane(*y, x.map(|x| x[i]));
            }
        }
    }
}

/// The operand's elements from `at` on: where they lie if they are neighbours, or copied.
fn stage<'a, T: Real>(isa: Isa, x: &EpilogueOperand<'a, T>, at: isize, dst: &'a mut [T]) -> &'a [T] {
    match x.data {
        StoredElements::Native(data) if x.col == 1 => &data[at as usize..at as usize + dst.len()],
        StoredElements::Native(data) if x.col == 0 => {
            dst.fill(data[at as usize]);
            dst
        }
        StoredElements::Native(_) | StoredElements::F16(_) | StoredElements::BF16(_) => {
            let n = dst.len();
            copy_block(isa, &x.data, at, (0, x.col), 1, n, dst, n);
            dst
        }
    }
}

struct EpilogueRow<'a, T, E, const N: usize> {
    e: &'a E,
    x: [&'a [T]; N],
    y: &'a mut [T],
}

/// Elements that go through the formula together.
const CHUNK_ELEMENTS: usize = 64;
/// As many of the last ones.
const TAIL_ELEMENTS: usize = 16;

/// The formula on a window.
#[inline(always)]
fn apply_chunk<T: Real, R: SimdLanes<T> + Lane, E: Epilogue<N>, const N: usize, const W: usize>(
    e: &E,
    y: &mut [T; W],
    x: [&[T; W]; N],
) {
    let mut j = 0;
    while j < W {
        let mut all = [R::splat(T::ZERO); N];
        for (a, x) in all.iter_mut().zip(&x) {
            *a = R::load(&x[j..]);
        }
        e.lane(R::load(&y[j..]), all).store(&mut y[j..]);
        j += R::WIDTH;
    }
}

/// The formula on a row.
#[inline(always)]
fn apply_row<T, M, S, E, const N: usize>(e: &E, x: [&[T]; N], y: &mut [T])
where
    T: Real,
    M: SimdLanes<T> + Lane,
    S: SimdLanes<T> + Lane,
    E: Epilogue<N>,
{
    let zeros = [T::ZERO; CHUNK_ELEMENTS];
    let (whole, rest) = y.as_chunks_mut::<CHUNK_ELEMENTS>();
    let mut at = 0;
    for y in whole {
        let mut all = [&zeros; N];
        for (all, x) in all.iter_mut().zip(&x) {
            *all = x[at..].first_chunk().expect("an operand is as long as the result");
        }
        apply_chunk::<T, M, E, N, CHUNK_ELEMENTS>(e, y, all);
        at += CHUNK_ELEMENTS;
    }
    for y in rest.chunks_mut(TAIL_ELEMENTS) {
        let mut staged = [[T::ZERO; TAIL_ELEMENTS]; N];
        for (staged, x) in staged.iter_mut().zip(&x) {
            staged[..y.len()].copy_from_slice(&x[at..][..y.len()]);
        }
        let mut few = [T::ZERO; TAIL_ELEMENTS];
        few[..y.len()].copy_from_slice(y);
        apply_chunk::<T, S, E, N, TAIL_ELEMENTS>(e, &mut few, staged.each_ref());
        y.copy_from_slice(&few[..y.len()]);
        at += TAIL_ELEMENTS;
    }
}

impl<T: Real, E: Epilogue<N>, const N: usize> LaneKernel for EpilogueRow<'_, T, E, N> {
    type T = T;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<L: SimdLanes<T> + Lane, M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        apply_row::<T, M, S, E, N>(self.e, self.x, self.y);
    }
}

/// The rows of a tile, of operands that lie in memory as they are computed with. A call for each
/// row, which made room for operands that might lie otherwise, took a tenth of 32 rows of 256 terms
/// by 1024 columns.
struct EpilogueTile<'a, 'b, 'c, T, E, const N: usize> {
    follow: &'a FusedEpilogue<'b, T, E, N>,
    x: [&'a [T]; N],
    tile: &'a mut OutputTile<'c, T>,
}

impl<T: Real, E: Epilogue<N>, const N: usize> LaneKernel for EpilogueTile<'_, '_, '_, T, E, N> {
    type T = T;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<L: SimdLanes<T> + Lane, M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        let Self { follow, x, tile } = self;
        let (batch, first, col) = (tile.batch, tile.rows.start, tile.cols.start);
        let mut at = [0; N];
        for (at, extra) in at.iter_mut().zip(&follow.extra) {
            *at = extra.at(batch, first, col);
        }
        for i in 0..tile.rows.len() {
            let y = tile.row(i);
            let mut of_row = x;
            for ((x, at), extra) in of_row.iter_mut().zip(&mut at).zip(&follow.extra) {
                *x = &x[*at as usize..][..y.len()];
                *at += extra.row;
            }
            apply_row::<T, M, S, E, N>(follow.e, of_row, y);
        }
    }
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
