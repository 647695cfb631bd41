//! Chains of fma in register tiles: `c[i, j] = fma(a[i, p], b[p, j], c[i, j])` for p in ascending order.
//!
//! Each element of `c` is one chain, whatever the tile; what vectors and tiles change is only how many chains go at once.

#![allow(unsafe_code, reason = "vector loads and stores, in matrices whose sizes are checked once")]
#![allow(
    clippy::needless_range_loop,
    reason = "rows and vectors of a tile are counted, so that the loops unroll"
)]

use super::isa::Isa;
use super::vector::{InRegisters, Kind, Registers, Vector, in_registers_of};
use elinvar_core::order::CHUNK;

/// Columns of `b` and `c` come in multiples of this: one AVX-512 register of f32, two of f64.
pub(crate) const COLUMNS: usize = 16;

/// A matrix in memory: element (i, j) is at `i * row + j * column`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strided<'a, C> {
    pub data: &'a [C],
    pub row: usize,
    pub column: usize,
}

/// A chain of products, checked by `Tiled::chain` alone: pointers into matrices that are large enough.
#[derive(Clone, Copy)]
struct Chain<C> {
    m: usize,
    n: usize,
    k: usize,
    a: *const C,
    a_row: usize,
    a_column: usize,
    b: *const C,
    b_row: usize,
    c: *mut C,
    c_row: usize,
    /// Start from +0, not from what is in `c`.
    fresh: bool,
}

impl<T: Registers> InRegisters for Chain<T> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: Vector<T = T>>(self) {
        // Four rows of four registers if there are enough for the sums, else of two.
        // SAFETY: the caller's, for the instructions; `chain` checked the sizes.
        unsafe { if V::ROWS >= 12 { self.strips::<V, 4>() } else { self.strips::<V, 2>() } }
    }
}

impl<T: Registers> Chain<T> {
    /// # Safety
    /// The matrices have the sizes; the processor has the instruction set of `V`; `n` is a multiple of its lanes.
    #[inline(always)]
    unsafe fn strips<V: Vector<T = T>, const NV: usize>(self) {
        let mut j = 0;
        while j + NV * V::LANES <= self.n {
            // SAFETY: the columns j.. of `b` and `c` have NV vectors.
            unsafe { self.strip::<V, NV>(j) };
            j += NV * V::LANES;
        }
        while j + V::LANES <= self.n {
            // SAFETY: as above, for one vector.
            unsafe { self.strip::<V, 1>(j) };
            j += V::LANES;
        }
    }
    /// # Safety
    /// As for `strips`, and `j + NV * LANES <= n`.
    #[inline(always)]
    unsafe fn strip<V: Vector<T = T>, const NV: usize>(self, j: usize) {
        let mut i = 0;
        while i + 4 <= self.m {
            // SAFETY: four rows from i on exist.
            unsafe { self.tile::<V, 4, NV>(i, j) };
            i += 4;
        }
        while i < self.m {
            // SAFETY: row i exists.
            unsafe { self.tile::<V, 1, NV>(i, j) };
            i += 1;
        }
    }
    /// # Safety
    /// As for `strip`, and `i + MR <= m`.
    #[inline(always)]
    unsafe fn tile<V: Vector<T = T>, const MR: usize, const NV: usize>(self, i: usize, j: usize) {
        // SAFETY: all places are inside of the matrices, by the caller's promises.
        unsafe {
            let c = self.c.add(i * self.c_row + j);
            let a = self.a.wrapping_add(i * self.a_row);
            let b = self.b.wrapping_add(j);
            let mut sums = [[V::splat(T::ZERO); NV]; MR];
            if !self.fresh {
                for r in 0..MR {
                    for v in 0..NV {
                        sums[r][v] = V::load(c.add(r * self.c_row + v * V::LANES));
                    }
                }
            }
            for p in 0..self.k {
                let mut right = [V::splat(T::ZERO); NV];
                for v in 0..NV {
                    right[v] = V::load(b.add(p * self.b_row + v * V::LANES));
                }
                for r in 0..MR {
                    let left = V::splat(*a.add(r * self.a_row + p * self.a_column));
                    for v in 0..NV {
                        sums[r][v] = left.fma(right[v], sums[r][v]);
                    }
                }
            }
            for r in 0..MR {
                for v in 0..NV {
                    sums[r][v].store(c.add(r * self.c_row + v * V::LANES));
                }
            }
        }
    }
}

/// f32 or f64, in tiles.
pub(crate) trait Tiled: Registers {
    /// `c[i, j] = fma(a[i, p], b[p, j], c[i, j])` for p in `0..k`, ascending, which are numbers or pairs; from +0 if `fresh`. `n` is a
    /// multiple of [`COLUMNS`]; `b` and `c` have columns side by side.
    ///
    /// # Panics
    /// If a matrix is smaller than that, or the processor multiplies no pairs.
    fn chain(
        isa: Isa,
        kind: Kind,
        [m, n, k]: [usize; 3],
        a: Strided<'_, Self>,
        (b, b_row): (&[Self], usize),
        (c, c_row): (&mut [Self], usize),
        fresh: bool,
    ) {
        if m == 0 || n == 0 {
            return;
        }
        assert!(n.is_multiple_of(COLUMNS) && (m - 1) * c_row + n <= c.len());
        assert!(k == 0 || ((m - 1) * a.row + (k - 1) * a.column < a.data.len()));
        assert!(k == 0 || ((k - 1) * b_row + n <= b.len()));
        let (a_row, a_column) = (a.row, a.column);
        let (a, b, c) = (a.data.as_ptr(), b.as_ptr(), c.as_mut_ptr());
        in_registers_of(kind, isa, Chain { m, n, k, a, a_row, a_column, b, b_row, c, c_row, fresh });
    }
    /// The contraction of a and b in the canonical order: chunks of [`CHUNK`] terms. `spare` is as large as `c`.
    fn contract(
        isa: Isa,
        kind: Kind,
        [m, n, k]: [usize; 3],
        a: Strided<'_, Self>,
        b: (&[Self], usize),
        (c, c_row): (&mut [Self], usize),
        spare: &mut [Self],
    ) {
        Self::chain(isa, kind, [m, n, k.min(CHUNK)], a, b, (c, c_row), true);
        for p in (CHUNK..k).step_by(CHUNK) {
            let a = Strided { data: &a.data[p * a.column..], ..a };
            Self::chain(isa, kind, [m, n, CHUNK.min(k - p)], a, (&b.0[p * b.1..], b.1), (spare, c_row), true);
            for (c, &s) in c[..m * c_row].iter_mut().zip(&*spare) {
                *c = *c + s;
            }
        }
    }
}
impl<T: Registers> Tiled for T {}
