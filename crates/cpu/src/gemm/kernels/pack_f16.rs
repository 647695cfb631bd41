//! Packing of f16 and bf16, widened to the compute type, row by row or transposed.
#![allow(unsafe_code, reason = "vector loads and stores")]

use crate::elementwise::real::Real;
use elinvar_simd::isa::Isa;
use elinvar_simd::quad::{Float16, GatherVector, gather_one_f16};
use elinvar_simd::vector::{VectorKernel, dispatch_vectors};

/// dst[r * pitch + c] = src[at + r * step.0 + c * step.1], widened, where a step is 1.
///
/// # Panics
/// If that leaves either slice, or no step is 1.
pub(crate) fn pack_f16<T: Real, H: Float16>(
    isa: Isa,
    src: &[H],
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
    // The corners: all else is between them.
    let (down, across) = ((rows as isize - 1) * step.0, (cols as isize - 1) * step.1);
    let (low, high) = (at + down.min(0) + across.min(0), at + down.max(0) + across.max(0));
    assert!(low >= 0 && (high as usize) < src.len(), "a block leaves its buffer");
    assert!(cols <= pitch && (rows - 1) * pitch + cols <= dst.len(), "a block leaves its panel");
    assert!(step.0 == 1 || step.1 == 1, "halves that are no neighbours");
    if const { T::WIDENS_F16 } {
        dispatch_vectors(isa, WidenBlock(F16Block { src, at, step, rows, cols, dst, pitch }));
    } else {
        unreachable!("f64 is not computed from halves");
    }
}

struct F16Block<'a, T, H> {
    src: &'a [H],
    at: isize,
    step: (isize, isize),
    rows: usize,
    cols: usize,
    dst: &'a mut [T],
    pitch: usize,
}

/// A block whose corners have been checked, by `pack_f16` alone.
struct WidenBlock<'a, T, H>(F16Block<'a, T, H>);

impl<T: Real, H: Float16> VectorKernel for WidenBlock<'_, T, H> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(self) {
        let F16Block { src, at, step, rows, cols, dst, pitch } = self.0;
        let from = src.as_ptr().wrapping_offset(at);
        let to = dst.as_mut_ptr();
        // SAFETY: every number that is read or written belongs to a row r < rows and a column c <
        // cols, which `pack_f16` found inside of both slices. The instructions are there: our
        // caller's.
        unsafe {
            if step.1 == 1 {
                for r in 0..rows {
                    let (from, to) = (from.wrapping_offset(r as isize * step.0), to.add(r * pitch));
                    let whole = cols / V::LANES * V::LANES;
                    for c in (0..whole).step_by(V::LANES) {
                        V::widen(from.add(c)).store(to.add(c));
                    }
                    for c in whole..cols {
                        to.add(c).write((*from.add(c)).wide());
                    }
                }
                return;
            }
            // Columns are turned; a cache line of them is used up before the next is touched. (Not
            // on plain x86-64, whose registers have one row.)
            let (line, whole) =
                (32, if const { V::TILE_ROWS == 1 } { 0 } else { cols / V::LANES * V::LANES });
            for c in (0..whole).step_by(V::LANES) {
                let from = from.wrapping_offset(c as isize * step.1);
                for r in (0..rows / 8 * 8).step_by(8) {
                    if r % line == 0 {
                        for lane in 0..V::LANES {
                            let prefetch_at = from.wrapping_offset(lane as isize * step.1).wrapping_add(r);
                            V::prefetch_l2(prefetch_at.cast::<u8>().wrapping_add(PREFETCH_DISTANCE_BYTES));
                        }
                    }
                    for (i, v) in V::octet(from.add(r), step.1).iter().enumerate() {
                        v.store(to.add((r + i) * pitch + c));
                    }
                }
                for r in rows / 8 * 8..rows {
                    gather_one_f16::<V, H>(from, step.1, r).store(to.add(r * pitch + c));
                }
            }
            for c in whole..cols {
                let from = from.wrapping_offset(c as isize * step.1);
                for r in 0..rows {
                    to.add(r * pitch + c).write((*from.add(r)).wide());
                }
            }
        }
    }
}

/// How far ahead a column is fetched, in bytes.
const PREFETCH_DISTANCE_BYTES: usize = 512;
