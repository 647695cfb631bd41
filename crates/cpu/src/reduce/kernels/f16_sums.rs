//! Sums of f16 and bf16, widened to f32 in registers on the way: of contiguous rows, and of strided
//! terms many sums at a time.
#![allow(unsafe_code, reason = "vector loads and stores")]

use crate::reduce::combine::reduce_16_lanes;
use elinvar_core::order::LANES;
use elinvar_ops::fold::Sum;
use elinvar_simd::isa::{Isa, IsaTargets, Level};
use elinvar_simd::quad::{Float16, GatherVector};
use elinvar_simd::vector::{VectorKernel, dispatch_vectors};

/// Adds the halves from `base + place` on to as many sums, place after place; or says that it does
/// not. Converted to a buffer first, the sums of the columns of 1000 x 1000 took half as long
/// again.
///
/// # Panics
/// If some are not there.
pub(crate) fn add_f16_terms<H: Float16>(
    isa: Isa,
    x: &[H],
    base: usize,
    places: impl Iterator<Item = isize> + Clone,
    sums: &mut [f32],
) -> bool {
    if !matches!(isa.level(), Level::Avx2 | Level::Avx512) {
        return false;
    }
    for place in places.clone() {
        let at = base.wrapping_add_signed(place);
        assert!(at <= x.len() && sums.len() <= x.len() - at, "cpu: terms that are not there");
    }
    dispatch_vectors(isa, F16StridedSums { x: x.as_ptr().wrapping_add(base), places, sums });
    true
}

/// The sums of rows of `n` halves each, at most a block, one after the other; or says that it does
/// not. Converted on the way: a buffer of f32 would be written and read once more.
///
/// # Panics
/// If some are not there.
pub(crate) fn sum_f16_rows<H: Float16 + Default>(isa: Isa, x: &[H], n: usize, sums: &mut [f32]) -> bool {
    if !matches!(isa.level(), Level::Avx2 | Level::Avx512) {
        return false;
    }
    assert!(n > 0 && x.len() == n * sums.len(), "cpu: rows that are not there");
    dispatch_vectors(isa, F16RowSums { x, n, sums });
    true
}

/// Rows of `n` halves, and their sums. Made by `sum_f16_rows` alone, which looked.
struct F16RowSums<'a, H> {
    x: &'a [H],
    n: usize,
    sums: &'a mut [f32],
}

impl<H: Float16 + Default> VectorKernel for F16RowSums<'_, H> {
    type T = f32;
    const TARGETS: IsaTargets = IsaTargets::All;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = f32>>(self) {
        const MAX_REGISTERS: usize = 16;
        let (count, whole, rest) = (LANES / V::LANES, self.n / LANES, self.n % LANES);
        for (row, sum) in self.x.chunks_exact(self.n).zip(self.sums) {
            // SAFETY: a row has `whole * LANES + rest` halves, a chunk of it `count` registers of
            // `V::LANES`, of which there are 16 at most, in 16 at most. The instructions are there:
            // our caller's.
            unsafe {
                let mut lanes: [V; MAX_REGISTERS] = [V::splat(0.0); MAX_REGISTERS];
                for chunk in 0..whole {
                    let from = row.as_ptr().add(chunk * LANES);
                    for (i, lane) in lanes[..count].iter_mut().enumerate() {
                        *lane = lane.add(V::widen(from.add(i * V::LANES)));
                    }
                }
                if rest > 0 {
                    // A lane that has no term more gets +0, which changes no sum: they start from
                    // it.
                    let mut last = [H::default(); LANES];
                    last[..rest].copy_from_slice(&row[whole * LANES..]);
                    for (i, lane) in lanes[..count].iter_mut().enumerate() {
                        *lane = lane.add(V::widen(last.as_ptr().add(i * V::LANES)));
                    }
                }
                let mut half = count / 2;
                while half * V::LANES >= 16 {
                    for i in 0..half {
                        lanes[i] = lanes[i].add(lanes[i + half]);
                    }
                    half /= 2;
                }
                let mut few = [0.0; 16];
                for (i, lane) in lanes[..16 / V::LANES].iter().enumerate() {
                    lane.store(few.as_mut_ptr().add(i * V::LANES));
                }
                *sum = reduce_16_lanes::<f32, Sum>(few);
            }
        }
    }
}

/// Registers of sums that go side by side.
const SUM_REGISTERS: usize = 4;

/// Sums, and where terms of theirs are, from the first of each on. Made by `add_f16_terms` alone,
/// which looked.
struct F16StridedSums<'a, H, P> {
    x: *const H,
    places: P,
    sums: &'a mut [f32],
}

impl<H: Float16, P: Iterator<Item = isize> + Clone> VectorKernel for F16StridedSums<'_, H, P> {
    type T = f32;
    const TARGETS: IsaTargets = IsaTargets::All;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = f32>>(self) {
        let F16StridedSums { x, places, sums } = self;
        let whole = sums.len() / V::LANES * V::LANES;
        let to = sums.as_mut_ptr();
        // Several registers at once, as an addition waits for the one before.
        let several = sums.len() / (SUM_REGISTERS * V::LANES) * (SUM_REGISTERS * V::LANES);
        for i in (0..several).step_by(SUM_REGISTERS * V::LANES) {
            // SAFETY: `add_f16_terms` found as many halves as there are sums at each place, and
            // `several` and `whole` are no more. The instructions are there: our caller's.
            unsafe {
                let mut all: [V; SUM_REGISTERS] = [V::load(to.add(i)); SUM_REGISTERS];
                for (k, sum) in all.iter_mut().enumerate() {
                    *sum = V::load(to.add(i + k * V::LANES));
                }
                for place in places.clone() {
                    let from = x.wrapping_offset(place).add(i);
                    for (k, sum) in all.iter_mut().enumerate() {
                        *sum = sum.add(V::widen(from.add(k * V::LANES)));
                    }
                }
                for (k, sum) in all.into_iter().enumerate() {
                    sum.store(to.add(i + k * V::LANES));
                }
            }
        }
        for i in (several..whole).step_by(V::LANES) {
            // SAFETY: as above.
            unsafe {
                let mut sum = V::load(to.add(i));
                for place in places.clone() {
                    sum = sum.add(V::widen(x.wrapping_offset(place).add(i)));
                }
                sum.store(to.add(i));
            }
        }
        for (i, sum) in sums.iter_mut().enumerate().skip(whole) {
            for place in places.clone() {
                // SAFETY: as above.
                *sum += unsafe { *x.wrapping_offset(place).add(i) }.wide::<f32>();
            }
        }
    }
}
