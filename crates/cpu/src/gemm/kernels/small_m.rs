//! Small-M kernel with swapped operands: columns of w are broadcast, rows of x are the lanes of a
//! register.
//!
//! w is read in place, its terms contiguous; x is packed. The sums of a few columns come out
//! transposed. How it can be wrong: by reading past a column. Lengths are checked once, before the
//! loops.
#![allow(unsafe_code, reason = "vector loads and stores without a check for each")]

use super::a_rows::each_row;
use super::register_tile::fma_row;
use crate::elementwise::real::Real;
use elinvar_core::{Element, order::CHUNK};
use elinvar_simd::LINE;
use elinvar_simd::isa::{Isa, IsaTargets};
use elinvar_simd::quad::GatherVector;
use elinvar_simd::vector::{
    Vector, VectorKernel, dispatch_half_vectors, dispatch_vectors, half_lanes, lanes,
};
use std::ops::RangeInclusive;

/// Columns whose sums are kept until they are turned: four tiles of AVX-512.
pub(crate) const COLUMN_GROUP: usize = 48;
/// Columns that many bytes apart, or a multiple, share one set of eight lines of a first-level
/// cache. Of such, a tile has no more than fit there together with what else is read; six chains
/// still hide how long an fma takes.
const SHARED_SET_STRIDE_BYTES: usize = 4096;

/// Rows that wait for columns more than for anything else: this kernel fetches the next ones. 8
/// rows took a fifth longer without, 128 take a tenth less. Kernels for fewer rows, or more, are
/// not compiled.
pub(crate) const PREFETCH_ROWS: RangeInclusive<usize> = 8..=16;

/// Rows that fill no more than one short register, which has 32 bytes.
fn use_half_vectors<T: Real>(isa: Isa, rows: usize) -> bool {
    has_half_vectors::<T>() && rows <= half_lanes::<T>(isa)
}
const fn has_half_vectors<T>() -> bool {
    *PREFETCH_ROWS.start() * size_of::<T>() <= 32
}

/// Rows of a panel: those of two registers.
pub(crate) fn panel_columns<T: Real>(isa: Isa, rows: usize) -> usize {
    2 * if use_half_vectors::<T>(isa, rows) { half_lanes::<T>(isa) } else { lanes::<T>(isa) }
}

/// At most [`COLUMN_GROUP`] columns, all of their terms, and packed rows.
pub(crate) struct SmallM<'a, T> {
    /// The numbers of the columns; where the first one starts, and how far apart they are.
    pub(crate) data: &'a [T],
    pub(crate) at: isize,
    pub(crate) step: isize,
    pub(crate) cols: usize,
    pub(crate) k: usize,
    /// Rows in panels of `width`, the last one filled up: all panels of a chunk of terms, then of
    /// the next.
    pub(crate) x: &'a [T],
    pub(crate) rows: usize,
    /// Rows with those that fill up the last panel.
    pub(crate) padded: usize,
    /// sums[c * padded + i]
    pub(crate) sums: &'a mut [T],
}

/// Writes the sums.
///
/// # Panics
/// If something is shorter than it should be.
pub(crate) fn small_m<T: Real>(isa: Isa, b: SmallM<'_, T>) {
    if b.cols == 0 || b.rows == 0 {
        return;
    }
    let last = b.at + (b.cols as isize - 1) * b.step;
    let (low, high) = (b.at.min(last), b.at.max(last) + b.k as isize);
    assert!(b.k > 0 && low >= 0 && high as usize <= b.data.len(), "columns leave their buffer");
    assert!(PREFETCH_ROWS.contains(&b.rows), "neither fewer rows nor more");
    assert!(b.rows <= b.padded && b.padded.is_multiple_of(panel_columns::<T>(isa, b.rows)), "whole panels");
    assert!(b.padded * b.k <= b.x.len(), "rows are missing");
    assert!(b.cols * b.padded <= b.sums.len(), "room is missing");
    if const { has_half_vectors::<T>() } && use_half_vectors::<T>(isa, b.rows) {
        dispatch_half_vectors(isa, b)
    } else {
        dispatch_vectors(isa, b)
    }
}

impl<T: Real> VectorKernel for SmallM<'_, T> {
    type T = T;
    const TARGETS: IsaTargets = IsaTargets::All;
    // The copy that AVX2 has anyway.
    const HALF_TARGETS: IsaTargets = IsaTargets::UpToAvx2;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(mut self) {
        let crossed = (self.step.unsigned_abs() * size_of::<T>()).is_multiple_of(SHARED_SET_STRIDE_BYTES);
        let most = match (crossed, self.rows <= V::LANES) {
            (true, _) => V::TILE_ROWS.min(6),
            // One register of rows leaves more for columns.
            (false, true) => 12,
            (false, false) => V::TILE_ROWS,
        };
        let mut c = 0;
        while c < self.cols {
            // SAFETY: so many columns are left; `small_m` checked the lengths, and the instructions
            // are our caller's.
            c += unsafe {
                match self.cols - c {
                    _ if const { V::TILE_ROWS == 1 } => self.tile::<V, 1>(c),
                    n if most >= 12 && n >= 12 => self.tile::<V, 12>(c),
                    n if most >= 8 && n >= 8 => self.tile::<V, 8>(c),
                    n if most >= 6 && n >= 6 => self.tile::<V, 6>(c),
                    n if n >= 4 => self.tile::<V, 4>(c),
                    n if n >= 2 => self.tile::<V, 2>(c),
                    _ => self.tile::<V, 1>(c),
                }
            };
        }
    }
}

/// A chunk of some columns and a panel.
struct SmallMTile<V: Vector> {
    /// The columns, how far apart they are, and which are fetched meanwhile, if any.
    a: *const V::T,
    step: isize,
    prefetch_at: Option<*const V::T>,
    x: *const V::T,
    k: usize,
    sums: *mut V::T,
    padded: usize,
    first: bool,
}

impl<T: Real> SmallM<'_, T> {
    /// All terms of `R` columns from number `c` on; gives `R`.
    ///
    /// # Safety
    /// They are there, lengths were checked, and the processor has the instructions.
    #[inline(always)]
    unsafe fn tile<V: Vector<T = T>, const R: usize>(&mut self, c: usize) -> usize {
        let (w, step, padded) = (2 * V::LANES, self.step, self.padded);
        let begin = self.data.as_ptr().wrapping_offset(self.at + c as isize * step);
        let mut from = 0;
        while from < self.k {
            let k = CHUNK.min(self.k - from);
            // The next chunk of these columns, or the first of the next ones.
            let prefetch_at = if from + k < self.k { from as isize + k as isize } else { R as isize * step };
            // SAFETY: columns c..c + R and terms from..from + k are in `data`. Panel p of the chunk
            // starts at `from * padded + p * w * k` of x, and its sums are in `c * padded + p * w`
            // and R - 1 times `padded` from there on, within what `small_m` checked.
            unsafe {
                let mut p = 0;
                while p < self.rows {
                    let tile = SmallMTile::<V> {
                        a: begin.wrapping_add(from),
                        prefetch_at: (p == 0).then_some(begin.wrapping_offset(prefetch_at)),
                        step,
                        x: self.x.as_ptr().add(from * padded + p * k),
                        k,
                        sums: self.sums.as_mut_ptr().add(c * padded + p),
                        padded,
                        first: from == 0,
                    };
                    if const { V::LANES < *PREFETCH_ROWS.end() } && self.rows - p > V::LANES {
                        tile.run::<R, 2>()
                    } else {
                        tile.run::<R, 1>()
                    }
                    p += w;
                }
            }
            from += k;
        }
        R
    }
}

impl<V: Vector> SmallMTile<V> {
    /// `R` columns, `W` registers of rows.
    ///
    /// # Safety
    /// They are there, and the processor has the instructions.
    #[inline(always)]
    unsafe fn run<const R: usize, const W: usize>(self) {
        let line = LINE / size_of::<V::T>();
        // SAFETY: column r < R and term t < k are there, and two registers of the panel for each
        // term; what is fetched ahead may be anywhere.
        unsafe {
            let mut sums = [[V::splat(V::T::ZERO); W]; R];
            let mut t = 0;
            while t < self.k {
                if let Some(prefetch_at) = self.prefetch_at {
                    each_row!(R, up to 14, r => {
                        V::prefetch_l2(prefetch_at.wrapping_offset(r as isize * self.step).wrapping_add(t).cast());
                    });
                }
                let end = self.k.min(t + line);
                while t < end {
                    let mut rhs = [V::splat(V::T::ZERO); W];
                    for (v, rhs) in rhs.iter_mut().enumerate() {
                        *rhs = V::load(self.x.add(t * 2 * V::LANES + v * V::LANES));
                    }
                    each_row!(R, up to 14, r => {
                        let lhs = V::splat(*self.a.offset(r as isize * self.step).add(t));
                        fma_row(&mut sums[r], lhs, &rhs);
                    });
                    t += 1;
                }
            }
            each_row!(R, up to 14, r => {
                for (v, sum) in sums[r].iter().enumerate() {
                    let to = self.sums.add(r * self.padded + v * V::LANES);
                    let sum = if self.first { *sum } else { V::load(to).add(*sum) };
                    sum.store(to);
                }
            });
        }
    }
}
