//! The AMX microkernel: `c = a * b` or `c += a * b` for a chunk of bf16 pairs, in tile registers.
//!
//! The blocks are those of `microkernel`: rows of pairs, and panels of 32 columns for each pair,
//! which is what the tile registers load.
#![allow(unsafe_code, reason = "vector loads and stores without a check for each")]

use super::blocks::MicroBlock;
use crate::elementwise::real::Real;
use elinvar_simd::amx::{AMX_ROWS, AmxOperands, MACRO_TILE, MacroTileSums, macro_tile};
use elinvar_simd::isa::{Isa, IsaTargets};
use elinvar_simd::quad::GatherVector;
use elinvar_simd::vector::{SimdElement, VectorKernel, dispatch_vectors};

/// Multiplies a block of pairs. It is bound by the second-level cache, from which both factors
/// come: a step of 16 pairs takes 1.4 times as long as from the first. Squares of 32 rows and
/// columns, and all pairs of a chunk; what is left of a multiple of 16 pairs is copied, and filled
/// up with zeros.
///
/// # Safety
/// As [`super::microkernel::multiply_block`], which has checked the lengths; the processor's
/// registers are allowed.
pub(super) unsafe fn multiply<T: Real>(isa: Isa, block: &MicroBlock<'_, T>) {
    assert!(size_of::<T>() == 4, "a pair of bf16 is as long as an f32");
    let MicroBlock { a, b, rows, cols, k, c, step, before, .. } = *block;
    let (whole, rest) = (k / AMX_ROWS * AMX_ROWS, k % AMX_ROWS);
    // Pairs that are left, of the rows of a square and of the columns of a panel.
    let mut copies =
        (rest > 0).then_some(([[T::ZERO; AMX_ROWS]; MACRO_TILE], [[T::ZERO; MACRO_TILE]; AMX_ROWS]));
    let mut sums = MacroTileSums::uninit();
    for j in (0..cols).step_by(MACRO_TILE) {
        let panel = &b.data[j / MACRO_TILE * b.across..];
        if let Some((_, rhs)) = &mut copies {
            for (p, rhs) in rhs[..rest].iter_mut().enumerate() {
                rhs.copy_from_slice(&panel[(whole + p) * b.step..][..MACRO_TILE]);
            }
        }
        for i in (0..rows).step_by(MACRO_TILE) {
            let height = MACRO_TILE.min(rows - i);
            let place = |r: usize| a.data.as_ptr().wrapping_add((i + r) * a.step).cast::<u8>();
            let pair = size_of::<T>();
            let main = AmxOperands {
                lhs: [place(0), place(AMX_ROWS)],
                down: a.step * pair,
                rhs: panel.as_ptr().cast(),
                across: b.step * pair,
                count: whole / AMX_ROWS,
            };
            let last = if let Some((lhs, rhs)) = &mut copies {
                for (r, lhs) in lhs[..height].iter_mut().enumerate() {
                    lhs[..rest].copy_from_slice(&a.data[(i + r) * a.step + whole..][..rest]);
                }
                AmxOperands {
                    lhs: [lhs[0].as_ptr().cast(), lhs[AMX_ROWS].as_ptr().cast()],
                    down: AMX_ROWS * pair,
                    rhs: rhs.as_ptr().cast(),
                    across: MACRO_TILE * pair,
                    count: 1,
                }
            } else {
                AmxOperands::NONE
            };
            // SAFETY: the registers are the caller's. `multiply` of `tile` checked that all rows
            // have `k` pairs, and that all panels have as many, of 32 columns each, however few of
            // them count; the copies have 16.
            unsafe { macro_tile(height, &[main, last], &mut sums) };
            let width = MACRO_TILE.min(cols - j);
            // SAFETY: rows i.. and columns j.. are in the result, for which the caller vouches, and
            // in what was before.
            let (c, before) = unsafe { (c.add(i * step + j), before.map(|(at, d)| (at.add(i * d + j), d))) };
            let sums = sums.as_ptr().cast::<f32>().cast::<T>();
            dispatch_vectors(isa, StoreTileSums { sums, rows: height, cols: width, c, step, before });
        }
    }
}

/// Sums on their way to the result. Made by `multiply` alone, which says where they are.
struct StoreTileSums<T> {
    sums: *const T,
    rows: usize,
    cols: usize,
    c: *mut T,
    step: usize,
    before: Option<(*const T, usize)>,
}

impl<T: SimdElement + std::ops::Add<Output = T>> VectorKernel for StoreTileSums<T> {
    type T = T;
    const TARGETS: IsaTargets = IsaTargets::Avx512Bf16;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(self) {
        let StoreTileSums { sums, rows, cols, c, step, before } = self;
        let whole = cols / V::LANES * V::LANES;
        for r in 0..rows {
            // SAFETY: `multiply` has so many rows and columns of sums, of the result, and of what
            // was before; the instructions are there: our caller's.
            unsafe {
                let (sums, c) = (sums.add(r * MACRO_TILE), c.add(r * step));
                let before = before.map(|(at, step)| at.add(r * step));
                for j in (0..whole).step_by(V::LANES) {
                    let sum = V::load(sums.add(j));
                    before.map_or(sum, |at| V::load(at.add(j)).add(sum)).store(c.add(j));
                }
                for j in whole..cols {
                    let sum = *sums.add(j);
                    c.add(j).write(before.map_or(sum, |at| *at.add(j) + sum));
                }
            }
        }
    }
}
