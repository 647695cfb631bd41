//! Convolutions with few output channels in a group, depthwise ones above all: packing a patch would cost more than
//! multiplying it. The planes of a group get their padding once, and each row of the result is chained from them.

use super::patches::Patches;
use crate::CpuDevice;
use crate::gemm::{Finish, Real, scratch};
use crate::isa::{Kernel, dispatch};
use crate::memory::filled;
use crate::parallel::try_pieces;
use elinvar_core::Result;
use elinvar_core::order::CHUNK;

/// Output channels of a group up to which this is faster than tiles.
const FEW: usize = 2;
/// Positions that are computed together: one to four registers.
const LANES: usize = 16;

/// Is a convolution with `o` output channels in a group one of these? The terms have to fit one chain.
pub(super) fn is_few<T: Real>(patches: &Patches<'_, T>, o: usize) -> bool {
    let terms = patches.channels * patches.taps.len();
    (1..=FEW).contains(&o) && (1..=CHUNK).contains(&terms) && patches.positions() > 0
}

/// y[batch, o, positions]; weights [groups, o, (channel, tap)], where batch `b` is of group `b % groups`.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn few<T: Real>(
    d: &CpuDevice,
    patches: &Patches<'_, T>,
    batch: usize,
    groups: usize,
    o: usize,
    w: &[T],
    finish: &dyn Finish<T>,
) -> Result<Vec<T>> {
    let (terms, n) = (patches.channels * patches.taps.len(), patches.positions());
    let low: [isize; 3] = std::array::from_fn(|a| patches.taps.iter().map(|t| t[a]).min().unwrap_or(0));
    let high: [isize; 3] = std::array::from_fn(|a| patches.taps.iter().map(|t| t[a]).max().unwrap_or(0));
    // From the first to the last element under any tap.
    let sizes: [usize; 3] =
        std::array::from_fn(|a| (patches.grid[a] - 1) * patches.step[a] + (high[a] - low[a]) as usize + 1);
    let size = sizes.iter().product::<usize>();
    let place = |t: &[isize; 3]| {
        let [i, j, k] = std::array::from_fn(|a| (t[a] - low[a]) as usize);
        (i * sizes[1] + j) * sizes[2] + k
    };
    let taps: Vec<usize> = patches.taps.iter().map(place).collect();
    // Lanes past the end of a row read on; past the last row, too.
    let room = patches.channels * size + LANES * patches.step[2];
    let mut y = filled(batch * o * n, T::ZERO)?;
    // Nanoseconds for an element: half of one for a term.
    try_pieces(d, &mut y, o * n, terms as f64 * 0.5, |at, y| {
        let b = at / (o * n);
        scratch(room, |padded| {
            padded.fill(T::ZERO);
            patches.pad(b, low, sizes, padded);
            let w = &w[b % groups * o * terms..][..o * terms];
            let (grid, step) = (patches.grid, patches.step);
            dispatch(
                d.isa(),
                Rows { padded, sizes, taps: &taps, channels: patches.channels, grid, step, w, y },
            );
            if !finish.nothing() {
                for (i, y) in y.chunks_exact_mut(n).enumerate() {
                    finish.finish(d.isa(), b, i, 0, y);
                }
            }
        })
    })?;
    Ok(y)
}

struct Rows<'a, T> {
    /// Planes of `sizes`, with padding.
    padded: &'a [T],
    sizes: [usize; 3],
    /// Where each tap lies in a plane at position 0.
    taps: &'a [usize],
    channels: usize,
    grid: [usize; 3],
    step: [usize; 3],
    w: &'a [T],
    y: &'a mut [T],
}

impl<T: Real> Kernel for Rows<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let step = self.step[2];
        let terms = self.channels * self.taps.len();
        let rows = self.grid[0] * self.grid[1];
        for (row, y) in self.y.chunks_exact_mut(self.grid[2]).enumerate() {
            let w = &self.w[row / rows * terms..][..terms];
            let (i, j) = (row % rows / self.grid[1] * self.step[0], row % self.grid[1] * self.step[1]);
            let start = (i * self.sizes[1] + j) * self.sizes[2];
            for (block, y) in y.chunks_mut(LANES).enumerate() {
                let start = start + block * LANES * step;
                let mut sums = [T::ZERO; LANES];
                for (c, w) in w.chunks_exact(self.taps.len()).enumerate() {
                    let plane = start + c * self.sizes.iter().product::<usize>();
                    for (tap, w) in self.taps.iter().zip(w) {
                        let x = &self.padded[plane + tap..][..(LANES - 1) * step + 1];
                        // Neighbours are whole registers; the compiler has to see that they are.
                        if step == 1 {
                            for (l, sum) in sums.iter_mut().enumerate() {
                                *sum = x[l].fma(*w, *sum);
                            }
                        } else {
                            for (l, sum) in sums.iter_mut().enumerate() {
                                *sum = x[l * step].fma(*w, *sum);
                            }
                        }
                    }
                }
                y.copy_from_slice(&sums[..y.len()]);
            }
        }
    }
}
