//! Many products of a few numbers each, such as rotations: a tile for each costs more than what it
//! multiplies.

use super::plan::TinyPlan;
use super::{BatchedMatrix, TileEpilogue};
use crate::CpuDevice;
use crate::elementwise::real::{Real, StoredElements};
use crate::runtime::output::parallel_fill::fill_pieces;
use elinvar_core::{HostVec, Result};
use elinvar_simd::isa::{IsaTargets, Kernel, dispatch};
use elinvar_simd::uninit::UninitSlice;

/// The products of a batch, sizes b, m, k, n.
///
/// # Errors
/// `OutOfMemory`.
///
/// # Panics
/// If numbers are not computed as they are stored. No plan is made so.
pub(super) fn run_tiny<T: Real>(
    d: &CpuDevice,
    [b, m, k, n]: [usize; 4],
    plan: TinyPlan,
    lhs: &BatchedMatrix<'_, T>,
    rhs: &BatchedMatrix<'_, T>,
    epilogue: &dyn TileEpilogue<T>,
) -> Result<HostVec<T>> {
    let (StoredElements::Native(x), StoredElements::Native(w)) = (lhs.data, rhs.data) else {
        unreachable!("the plan is for numbers that are computed as they are stored")
    };
    let results = m * n;
    fill_pieces(d, b * results, plan.piece, plan.ns, &|start, dst: &mut UninitSlice<'_, T>| {
        let first = start / results;
        let y = dst.zeroed(dst.remaining(), T::ZERO);
        dispatch(d.isa(), TinyProducts { x, w, lhs, rhs, first, sizes: [m, k, n], y });
        if !epilogue.is_empty() {
            y.chunks_exact_mut(results)
                .enumerate()
                .for_each(|(i, y)| epilogue.rows(d.isa(), first + i, 0, n, y));
        }
        Ok(())
    })
}

/// Some products, from number `first` on.
struct TinyProducts<'a, T> {
    x: &'a [T],
    w: &'a [T],
    lhs: &'a BatchedMatrix<'a, T>,
    rhs: &'a BatchedMatrix<'a, T>,
    first: usize,
    sizes: [usize; 3],
    y: &'a mut [T],
}

impl<T: Real> Kernel for TinyProducts<'_, T> {
    type Out = ();
    // Of f64, which is seldom multiplied so, there is none for AVX-512.
    const TARGETS: IsaTargets =
        if size_of::<T>() > size_of::<f32>() { IsaTargets::UpToAvx2 } else { IsaTargets::All };
    #[inline(always)]
    fn run(self) {
        let [_, k, n] = self.sizes;
        match (k, n) {
            (2, 2) => self.of::<2, 2>(),
            (3, 1) => self.of::<3, 1>(),
            (3, 3) => self.of::<3, 3>(),
            (3, 4) => self.of::<3, 4>(),
            (4, 1) => self.of::<4, 1>(),
            (4, 3) => self.of::<4, 3>(),
            (4, 4) => self.of::<4, 4>(),
            _ => self.of_any(),
        }
    }
}

impl<T: Real> TinyProducts<'_, T> {
    /// Where an element of a product is.
    #[inline(always)]
    fn place(x: &BatchedMatrix<'_, T>, product: usize) -> isize {
        if x.inner == 1 { x.offset as isize + product as isize * x.batch.0 } else { x.at(product, 0, 0) }
    }
    /// Of `K` terms and `N` columns each, which are in registers.
    #[inline(always)]
    fn of<const K: usize, const N: usize>(self) {
        let TinyProducts { x, w, lhs, rhs, first, sizes: [m, ..], y } = self;
        for (i, y) in y.chunks_exact_mut(m * N).enumerate() {
            let (at, from) = (Self::place(lhs, first + i), Self::place(rhs, first + i));
            let mut columns = [[T::ZERO; N]; K];
            for t in 0..K {
                for j in 0..N {
                    columns[t][j] = w[(from + t as isize * rhs.row + j as isize * rhs.col) as usize];
                }
            }
            for (row, y) in y.as_chunks_mut::<N>().0.iter_mut().enumerate() {
                let mut sums = [T::ZERO; N];
                for (t, column) in columns.iter().enumerate() {
                    let x = x[(at + row as isize * lhs.row + t as isize * lhs.col) as usize];
                    for j in 0..N {
                        sums[j] = x.fma(column[j], sums[j]);
                    }
                }
                *y = sums;
            }
        }
    }
    /// Of any size.
    #[inline(always)]
    fn of_any(self) {
        let TinyProducts { x, w, lhs, rhs, first, sizes: [m, k, n], y } = self;
        for (i, y) in y.chunks_exact_mut(m * n).enumerate() {
            let (at, from) = (Self::place(lhs, first + i), Self::place(rhs, first + i));
            for (row, y) in y.chunks_exact_mut(n).enumerate() {
                for t in 0..k {
                    let x = x[(at + row as isize * lhs.row + t as isize * lhs.col) as usize];
                    for (j, y) in y.iter_mut().enumerate() {
                        let w = w[(from + t as isize * rhs.row + j as isize * rhs.col) as usize];
                        *y = x.fma(w, *y);
                    }
                }
            }
        }
    }
}
