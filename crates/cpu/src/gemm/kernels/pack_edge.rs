//! Packing of an edge panel of B: fewer columns than `NR`, padded with zeros, from contiguous rows.
#![allow(unsafe_code, reason = "vector loads and stores")]

use super::blocks::nr;
use crate::elementwise::real::Real;
use elinvar_ops::lane::LaneInt;
use elinvar_simd::LINE;
use elinvar_simd::isa::Isa;
use elinvar_simd::quad::GatherVector;
use elinvar_simd::vector::{VectorKernel, dispatch_vectors};

/// Rows of a few neighbours each, `step` apart.
pub(crate) struct EdgePanel<'a, T> {
    pub(crate) src: &'a [T],
    pub(crate) at: isize,
    pub(crate) step: isize,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) panel: &'a mut [T],
}

/// panel[r * width + c] = src[at + r * step + c] for c < cols, and 0 in the rest of the row. A row
/// of the panel is read at once where there is as much behind, and what is no column left out: to
/// copy a few numbers whose count is not known is a call for each row.
///
/// # Panics
/// If rows leave their buffer or the panel, or are wider than it is.
pub(crate) fn pack_edge<T: Real>(isa: Isa, n: EdgePanel<'_, T>) {
    if n.rows == 0 || n.cols == 0 {
        return;
    }
    let last = n.at + (n.rows as isize - 1) * n.step;
    let (low, high) = (n.at.min(last), n.at.max(last) + n.cols as isize);
    assert!(low >= 0 && high as usize <= n.src.len(), "rows leave their buffer");
    let width = nr::<T>(isa);
    assert!(n.cols <= width && n.rows * width <= n.panel.len(), "rows leave the panel");
    dispatch_vectors(isa, n);
}

/// How many rows ahead are fetched.
const PREFETCH_ROWS: isize = 6;

impl<T: Real> VectorKernel for EdgePanel<'_, T> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(self) {
        let EdgePanel { src, at, step, rows, cols, panel } = self;
        let bits = |column: usize| if column < cols { T::from_bits(LaneInt::lit(-1)) } else { T::ZERO };
        let masks: [[T; 16]; 2] = std::array::from_fn(|v| std::array::from_fn(|i| bits(v * V::LANES + i)));
        // SAFETY: the processor has the registers, none of which has more than 16 lanes.
        // `pack_edge` checked that the panel has so many rows of two registers; what is read of the
        // source is there.
        unsafe {
            let masks = [V::load(masks[0].as_ptr()), V::load(masks[1].as_ptr())];
            for r in 0..rows {
                let from = at + r as isize * step;
                let (x, y) = (src.as_ptr().wrapping_offset(from), panel.as_mut_ptr().add(r * 2 * V::LANES));
                for line in (0..cols).step_by(LINE / size_of::<T>()) {
                    V::prefetch_l1(x.wrapping_offset(PREFETCH_ROWS * step).wrapping_add(line));
                }
                if from as usize + 2 * V::LANES <= src.len() {
                    V::load(x).and(masks[0]).store(y);
                    V::load(x.add(V::LANES)).and(masks[1]).store(y.add(V::LANES));
                } else {
                    for c in 0..2 * V::LANES {
                        y.add(c).write(if c < cols { *x.add(c) } else { T::ZERO });
                    }
                }
            }
        }
    }
}
