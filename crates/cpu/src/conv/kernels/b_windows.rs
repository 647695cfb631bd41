//! Implicit-GEMM microkernel operand: columns of B are windows over padded planes, read in place; A
//! is packed.
//!
//! What consecutive windows see under one tap is contiguous, up to the end of a row of windows. So
//! a register of columns is one load, or two loads and a blend where it spans two rows; from term
//! to term only the offset changes.
#![allow(unsafe_code, reason = "vector loads and stores without a check for each")]

use crate::elementwise::real::Real;
use crate::gemm::kernels::microkernel::accumulate_in_place;
use crate::gemm::kernels::register_tile::{ColumnsOfB, PackedRowsA, RegisterTile};
use crate::gemm::{OutputTile, PACKED_A_PITCH, TermKind};
use elinvar_core::{Element, order::CHUNK};
use elinvar_ops::lane::LaneInt;
use elinvar_simd::isa::Isa;
use elinvar_simd::quad::GatherVector;
use elinvar_simd::vector::{Vector, VectorKernel, dispatch_vectors_of, lanes};

/// Columns in a register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowRegister {
    /// Where the first one sees a term at place 0.
    pub(crate) from: usize,
    /// Where it would see it, for those from `cut` on to see theirs.
    pub(crate) rest: usize,
    /// How many are in the row of the first one.
    pub(crate) cut: usize,
}

/// Columns that are windows over padded planes.
pub(crate) struct WindowsB<'a, T> {
    pub(crate) x: &'a [T],
    /// Where each of the terms is, seen from place 0.
    pub(crate) places: &'a [usize],
    /// Registers of columns, [`lanes`] each; the last may have more than there are columns.
    pub(crate) units: &'a [WindowRegister],
}

/// A chunk's part of a product.
struct WindowsBlock<'a, T> {
    /// Rows of terms: `rows` of them, `PACKED_A_PITCH` apart.
    pub(crate) a: &'a [T],
    /// The terms are the chunk's.
    pub(crate) b: WindowsB<'a, T>,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Where the result starts, and how far apart its rows are.
    pub(crate) c: *mut T,
    pub(crate) step: usize,
    /// Is it the first chunk: the result is stored, not added?
    pub(crate) first: bool,
    pub(crate) kind: TermKind,
}

/// Lanes of the widest register.
const MAX_LANES: usize = 16;

/// Multiplies a block.
///
/// # Safety
/// `c` points to `rows` rows of `cols` numbers, `step` apart, that no other thread reads or writes
/// meanwhile; unless it is the first chunk, they have been written.
///
/// # Panics
/// If `a` or the planes are smaller than they should be.
unsafe fn multiply_windows<T: Real>(isa: Isa, block: WindowsBlock<'_, T>) {
    let (n, k) = (lanes::<T>(isa), block.b.places.len());
    if block.rows == 0 || block.cols == 0 {
        return;
    }
    assert!((1..=CHUNK).contains(&k), "a chunk has terms");
    assert!((block.rows - 1) * PACKED_A_PITCH + k <= block.a.len(), "the left block is too short");
    assert!(block.cols.div_ceil(n) <= block.b.units.len(), "a column has no window");
    let place = block.b.places.iter().max().expect("there are terms");
    let from = block.b.units.iter().map(|u| u.from.max(u.rest)).max().expect("there are columns");
    assert!(
        from.checked_add(place + n).is_some_and(|end| end <= block.b.x.len()),
        "a window leaves its planes"
    );
    let one = T::from_bits(LaneInt::lit(-1));
    let mut masks = [<T as Element>::ZERO; 2 * MAX_LANES];
    masks[..MAX_LANES].fill(one);
    dispatch_vectors_of(block.kind, isa, WindowTiles { block, masks });
}

/// A block whose lengths have been checked, by `multiply_windows` alone.
struct WindowTiles<'a, T> {
    block: WindowsBlock<'a, T>,
    /// All bits in the first half.
    masks: [T; 2 * MAX_LANES],
}

impl<T: Real> VectorKernel for WindowTiles<'_, T> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(self) {
        let WindowsBlock { a, b, rows, cols, c, step, first, .. } = self.block;
        for (i, pair) in b.units.chunks(2).enumerate() {
            let j = i * 2 * V::LANES;
            if j >= cols {
                break;
            }
            let cols = (cols - j).min(2 * V::LANES);
            let units = [pair[0], pair[pair.len() - 1]];
            let whole = units.iter().all(|u| u.cut >= V::LANES);
            let mut i = 0;
            while i < rows {
                // SAFETY: `multiply_windows` checked that rows, terms and windows are there; a mask
                // begins at most `MAX_LANES` before its end and has at most as many lanes; the tile
                // is inside of the result, for which its caller vouches. The instructions are
                // there: our caller's.
                i += unsafe {
                    let x = b.x.as_ptr();
                    let (places, k) = (b.places.as_ptr(), b.places.len());
                    let (a, c) = (PackedRowsA(a.as_ptr().add(i * PACKED_A_PITCH)), c.add(i * step + j));
                    let from = units.map(|u| x.add(u.from));
                    let before = accumulate_in_place(c, step, first);
                    if whole {
                        RegisterTile { a, b: OneRowRegisters::<V> { places, from }, k, c, step, cols, before }
                            .next(rows - i)
                    } else {
                        let rest = units.map(|u| x.add(u.rest));
                        let mask =
                            units.map(|u| V::load(self.masks.as_ptr().add(MAX_LANES - u.cut.min(MAX_LANES))));
                        RegisterTile {
                            a,
                            b: TwoRowRegisters { places, from, rest, mask },
                            k,
                            c,
                            step,
                            cols,
                            before,
                        }
                        .next(rows - i)
                    }
                };
            }
        }
    }
}

/// Two registers, each of one row of windows.
#[derive(Clone, Copy)]
struct OneRowRegisters<V: Vector> {
    /// That of the next term.
    places: *const usize,
    from: [*const V::T; 2],
}

impl<V: Vector> ColumnsOfB<V> for OneRowRegisters<V> {
    const LOAD_BOUND: bool = true;
    #[inline(always)]
    unsafe fn load_term<const R: usize, const W: usize>(&mut self) -> [V; W] {
        // SAFETY: the caller's: there is one more term.
        unsafe {
            let place = *self.places;
            self.places = self.places.add(1);
            let mut rhs = [V::splat(V::T::ZERO); W];
            for (rhs, from) in rhs.iter_mut().zip(self.from) {
                *rhs = V::load(from.add(place));
            }
            rhs
        }
    }
}

/// Two registers, of two rows of windows each.
#[derive(Clone, Copy)]
struct TwoRowRegisters<V: Vector> {
    /// That of the next term.
    places: *const usize,
    from: [*const V::T; 2],
    rest: [*const V::T; 2],
    /// All bits where a column is in the first row.
    mask: [V; 2],
}

impl<V: Vector> ColumnsOfB<V> for TwoRowRegisters<V> {
    const LOAD_BOUND: bool = true;
    #[inline(always)]
    unsafe fn load_term<const R: usize, const W: usize>(&mut self) -> [V; W] {
        // SAFETY: the caller's: there is one more term.
        unsafe {
            let place = *self.places;
            self.places = self.places.add(1);
            let mut rhs = [V::splat(V::T::ZERO); W];
            for (v, rhs) in rhs.iter_mut().enumerate() {
                let rest = V::load(self.rest[v].add(place));
                *rhs = V::load(self.from[v].add(place)).select(rest, self.mask[v]);
            }
            rhs
        }
    }
}

/// Adds a chunk of terms of windows to a tile; the first chunk is stored.
///
/// # Panics
/// If `a` or the planes are too small.
pub(crate) fn add_windows<T: Real>(
    tile: &mut OutputTile<'_, T>,
    isa: Isa,
    kind: TermKind,
    a: &[T],
    b: WindowsB<'_, T>,
) {
    let (rows, cols) = (tile.rows.len(), tile.cols.len());
    // SAFETY: the tile's rows and columns are in the result, and it is borrowed exclusively. If it
    // is not the first chunk, all of them have been written by it. `multiply_windows` writes so
    // many rows and columns.
    unsafe {
        tile.write_whole(|c, step, first| {
            multiply_windows(isa, WindowsBlock { a, b, rows, cols, c, step, first, kind });
        });
    }
}
