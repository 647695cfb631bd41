//! The GEMM microkernel: `c = a * b` or `c += a * b` for a chunk of terms, in register tiles of
//! `MR` x `NR` accumulators.
//!
//! A is read row by row: the terms of a row are contiguous, so a row-major A needs no transposed
//! packing; packed rows are [`PACKED_A_PITCH`] apart. B comes in panels: for each term, [`nr`]
//! columns.
#![allow(unsafe_code, reason = "vector loads and stores without a check for each")]

use super::a_rows::RowMajorA;
#[cfg(target_arch = "x86_64")]
use super::blocks::TermKind;
use super::blocks::{MicroBlock, PanelsB, RowsA, mr, nr};
use super::prefetch::{LinePrefetch, PANEL_PREFETCH_MIN_TILES, PanelPrefetch, RowPrefetch};
use super::register_tile::{PREFETCH_ALL_ROWS, PanelB, RegisterTile, has_extra_tiles};
use crate::elementwise::real::Real;
use crate::machine::rows_use_distinct_sets;
use elinvar_core::order::CHUNK;
use elinvar_simd::isa::Isa;
use elinvar_simd::quad::GatherVector;
use elinvar_simd::vector::{Vector, VectorKernel, dispatch_vectors_of};

/// Multiplies a block.
///
/// # Safety
/// `c` points to `tile_rows` rows of `cols` numbers, `step` apart, that no other thread reads or
/// writes meanwhile; so does `before`, if there is one, and they have been written.
///
/// # Panics
/// If `a` or `b` is shorter than it should be.
pub(crate) unsafe fn multiply_block<T: Real>(isa: Isa, block: MicroBlock<'_, T>) {
    let (w, rows, cols, k) = (nr::<T>(isa), block.rows, block.cols, block.k);
    if rows == 0 || cols == 0 {
        return;
    }
    assert!(k > 0, "a chunk has terms");
    assert!(k <= CHUNK && (rows - 1) * block.a.step + k <= block.a.data.len(), "the left block is too short");
    let reach = (cols.div_ceil(w) - 1) * block.b.across + (k - 1) * block.b.step + w;
    assert!(reach <= block.b.data.len(), "the right block is too short");
    #[cfg(target_arch = "x86_64")]
    if const { T::WIDENS_F16 } && block.b.kind == TermKind::Bf16Pairs && isa.has_amx() {
        // SAFETY: the caller's; lengths have just been checked, and the registers are allowed.
        return unsafe { super::amx::multiply(isa, &block) };
    }
    dispatch_vectors_of(block.b.kind, isa, MicrokernelLoop(block));
}

/// Multiplies a block of so many rows, columns and terms, into rows of `sums` that are `step`
/// apart: adds to them, unless it is the first chunk.
///
/// # Panics
/// If anything is shorter than it should be.
pub(crate) fn multiply_block_into<T: Real>(
    isa: Isa,
    a: RowsA<'_, T>,
    b: PanelsB<'_, T>,
    (rows, cols, k): (usize, usize, usize),
    (sums, step): (&mut [T], usize),
    first: bool,
) {
    assert!(cols <= step && rows * step <= sums.len(), "room is missing");
    let high = if rows_use_distinct_sets(a.step.wrapping_mul(size_of::<T>())) {
        usize::MAX
    } else {
        mr::<T>(isa).min(SHARED_SET_MAX_ROWS)
    };
    let c = sums.as_mut_ptr();
    // SAFETY: so many rows are there, and borrowed exclusively; all of them have been
    // written.
    unsafe {
        multiply_block(
            isa,
            MicroBlock { a, b, rows, cols, k, c, step, before: accumulate_in_place(c, step, first), high },
        )
    };
}

/// The sums before a chunk that are in the result, unless it is the first.
#[inline(always)]
pub(crate) fn accumulate_in_place<T>(c: *mut T, step: usize, first: bool) -> Option<(*const T, usize)> {
    (!first).then_some((c.cast_const(), step))
}

/// A block whose lengths have been checked, by `multiply_block` alone.
struct MicrokernelLoop<'a, T>(MicroBlock<'a, T>);

impl<T: Real> VectorKernel for MicrokernelLoop<'_, T> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(self) {
        // SAFETY: the caller's.
        unsafe { self.tiles::<V>() }
    }
}

/// Rows of a tile if they share a set of a first-level cache, of which lines there are as many or
/// more.
const SHARED_SET_MAX_ROWS: usize = 8;
/// Panels side by side of which one row is multiplied: eight chains.
const FEW_ROWS_PANELS: usize = 4;

impl<T: Real> MicrokernelLoop<'_, T> {
    /// # Safety
    /// The processor has the instruction set of `V`.
    #[inline(always)]
    unsafe fn tiles<V: Vector<T = T>>(self) {
        let MicroBlock { a, b, rows, cols, k, c, step, before, high } = self.0;
        let w = 2 * V::LANES;
        let mut row_prefetch = RowPrefetch::of(&b.after);
        // Of few tiles, each fetches more of the next panel. Pairs are never packed before.
        let tiles = rows / V::TILE_ROWS;
        let dense = const { V::TILE_ROWS == PREFETCH_ALL_ROWS && !V::IS_BF16_PAIRS && has_extra_tiles::<T>() }
            && b.after.is_far
            && (1..PANEL_PREFETCH_MIN_TILES).contains(&tiles);
        let mut j = 0;
        while j < cols {
            // One or two rows are too few chains in one panel.
            let side = match (rows, (cols - j) / w) {
                _ if const { V::TILE_ROWS == 1 } => 1,
                (1, FEW_ROWS_PANELS..) => FEW_ROWS_PANELS,
                (2, 2..) => 2,
                _ => 1,
            };
            let mut i = 0;
            let next = b.next(j / w, j + w >= cols);
            let mut panel_prefetch = if dense {
                PanelPrefetch::among::<V>(next, k, tiles)
            } else {
                PanelPrefetch::of::<V>(next, k)
            };
            while i < rows {
                // SAFETY: `multiply_block` checked that rows and panels are there; the tile is
                // inside of the result, for which its caller vouches. The instructions are there:
                // our caller's.
                unsafe {
                    let panel = b.data.as_ptr().add(j / w * b.across);
                    let t = RegisterTile::<V, RowMajorA<V>, PanelB<V>> {
                        a: RowMajorA::new(a.data.as_ptr().add(i * a.step), a.step),
                        b: PanelB {
                            at: panel,
                            next: b.step,
                            across: b.across,
                            line_prefetch: panel_prefetch
                                .some(k)
                                .or_else(|| row_prefetch.some(k))
                                .unwrap_or(LinePrefetch::none(panel)),
                        },
                        k,
                        c: c.add(i * step + j),
                        step,
                        cols: (cols - j).min(w),
                        before: before.map(|(at, step)| (at.add(i * step + j), step)),
                    };
                    i += match side {
                        _ if const { V::TILE_ROWS == 1 } => t.wide::<1>(),
                        FEW_ROWS_PANELS => t.side::<1, FEW_ROWS_PANELS>(),
                        2 => t.side::<2, 2>(),
                        _ if const { has_extra_tiles::<T>() }
                            && dense
                            && cols - j > V::LANES
                            && (rows - i).min(high) >= PREFETCH_ALL_ROWS =>
                        {
                            t.with_panel_prefetch().run::<PREFETCH_ALL_ROWS, 2>();
                            PREFETCH_ALL_ROWS
                        }
                        _ => t.next((rows - i).min(high)),
                    };
                }
            }
            j += side * w;
        }
    }
}
