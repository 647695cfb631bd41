//! Direct convolution kernels for few channels: fma chains straight from padded planes, nothing
//! packed.
//!
//! The lanes are consecutive positions of a row ([`DirectWindows`]) or groups ([`DirectGroups`]);
//! the order within a chain is unaffected. How it can be wrong: by reading outside of a plane. Both
//! check the reach of their arguments once, before the loops.
#![allow(unsafe_code, reason = "vector loads and stores without a check for each")]
#![allow(clippy::needless_range_loop, reason = "registers are counted, so that the loops unroll")]

use elinvar_core::Element;
use elinvar_simd::isa::Isa;
use elinvar_simd::vector::{SimdElement, Vector, VectorKernel, dispatch_vectors};

/// Chains side by side: a register of AVX-512, two of AVX2, of f32.
pub(crate) const CHAINS_PER_UNIT: usize = 16;
/// Results of one position at most: with four units they take sixteen registers of AVX-512.
pub(crate) const MAX_RESULTS_PER_POSITION: usize = 4;

/// Positions that follow one another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PositionUnit {
    /// Where the first is in the planes, for a term at place 0.
    pub(crate) from: usize,
    /// Where its result goes.
    pub(crate) to: usize,
    /// So many of [`CHAINS_PER_UNIT`] are wanted.
    pub(crate) count: usize,
}

/// A chunk of terms for all units: y[o * plane + to + l] = (or +=) the chain over t of x[from +
/// places\[t\] + l] * w[o, t].
pub(crate) struct DirectWindows<'a, T> {
    pub(crate) x: &'a [T],
    pub(crate) places: &'a [usize],
    /// Weights: `across` from one result of a position to the next.
    pub(crate) w: &'a [T],
    pub(crate) across: usize,
    pub(crate) units: &'a [PositionUnit],
    /// Results of a position, 1 to [`MAX_RESULTS_PER_POSITION`].
    pub(crate) o: usize,
    pub(crate) y: &'a mut [T],
    pub(crate) plane: usize,
    /// Is it the first chunk: the chains are stored, not added?
    pub(crate) first: bool,
}

/// Runs the chains.
///
/// # Panics
/// If something is outside of its slice.
pub(crate) fn direct_windows<T: SimdElement>(isa: Isa, all: DirectWindows<'_, T>) {
    let (Some(place), Some(from)) = (all.places.iter().max(), all.units.iter().map(|u| u.from).max()) else {
        return;
    };
    assert!((1..=MAX_RESULTS_PER_POSITION).contains(&all.o), "one to four results for a position");
    let reach = place.checked_add(from).and_then(|n| n.checked_add(CHAINS_PER_UNIT));
    assert!(reach.is_some_and(|n| n <= all.x.len()), "a window leaves its planes");
    assert!((all.o - 1) * all.across + all.places.len() <= all.w.len(), "a weight is missing");
    dispatch_vectors(isa, DirectWindowKernel(all));
}

/// Windows whose reach has been checked, by `direct_windows` alone.
struct DirectWindowKernel<'a, T>(DirectWindows<'a, T>);

impl<T: SimdElement> VectorKernel for DirectWindowKernel<'_, T> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: Vector<T = T>>(mut self) {
        // As many units at once as there are registers for.
        // SAFETY: the caller's.
        unsafe {
            match (CHAINS_PER_UNIT / V::LANES, self.0.o) {
                (1, 1) => self.run_units::<V, 4, 1, 1>(),
                (1, 2) => self.run_units::<V, 4, 1, 2>(),
                (1, 3) => self.run_units::<V, 4, 1, 3>(),
                (1, _) => self.run_units::<V, 4, 1, 4>(),
                (2, 1) => self.run_units::<V, 4, 2, 1>(),
                (2, 2) => self.run_units::<V, 2, 2, 2>(),
                (2, 3) => self.run_units::<V, 2, 2, 3>(),
                (2, _) => self.run_units::<V, 1, 2, 4>(),
                (4, 1) => self.run_units::<V, 1, 4, 1>(),
                (4, 2) => self.run_units::<V, 1, 4, 2>(),
                (4, 3) => self.run_units::<V, 1, 4, 3>(),
                (4, _) => self.run_units::<V, 1, 4, 4>(),
                (_, 1) => self.run_units::<V, 1, 8, 1>(),
                (_, 2) => self.run_units::<V, 1, 8, 2>(),
                (_, 3) => self.run_units::<V, 1, 8, 3>(),
                (_, _) => self.run_units::<V, 1, 8, 4>(),
            }
        }
    }
}

impl<T: SimdElement> DirectWindowKernel<'_, T> {
    /// `U` units of `R` registers and `O` results at once.
    ///
    /// # Safety
    /// The processor has the registers.
    #[inline(always)]
    unsafe fn run_units<V: Vector<T = T>, const U: usize, const R: usize, const O: usize>(&mut self) {
        let units = self.0.units;
        let (several, rest) = units.as_chunks::<U>();
        for units in several {
            // SAFETY: the caller's.
            unsafe { self.run_some_units::<V, U, R, O>(units) };
        }
        for unit in rest {
            // SAFETY: the caller's.
            unsafe { self.run_some_units::<V, 1, R, O>(std::array::from_ref(unit)) };
        }
    }
    /// # Safety
    /// The processor has the registers.
    #[inline(always)]
    unsafe fn run_some_units<V: Vector<T = T>, const U: usize, const R: usize, const O: usize>(
        &mut self,
        units: &[PositionUnit; U],
    ) {
        let all = &mut self.0;
        let (x, w) = (all.x.as_ptr(), all.w.as_ptr());
        let mut results = [[[<T as Element>::ZERO; CHAINS_PER_UNIT]; U]; O];
        // SAFETY: the processor has the registers. `direct_windows` checked that the largest `from`
        // and the largest place, and a unit from there on, are in `x`, and that there are `O` rows
        // of weights; `results` has room for `R` registers, a unit, each.
        unsafe {
            let mut sums = [[[V::splat(<T as Element>::ZERO); R]; U]; O];
            for (t, &place) in all.places.iter().enumerate() {
                let mut weights = [V::splat(<T as Element>::ZERO); O];
                for o in 0..O {
                    weights[o] = V::splat(*w.add(o * all.across + t));
                }
                for u in 0..U {
                    let x = x.add(units[u].from + place);
                    for r in 0..R {
                        let x = V::load(x.add(r * V::LANES));
                        for o in 0..O {
                            sums[o][u][r] = x.fma(weights[o], sums[o][u][r]);
                        }
                    }
                }
            }
            for o in 0..O {
                for u in 0..U {
                    for r in 0..R {
                        sums[o][u][r].store(results[o][u].as_mut_ptr().add(r * V::LANES));
                    }
                }
            }
        }
        for (o, results) in results.iter().enumerate() {
            for (unit, results) in units.iter().zip(results) {
                let y = &mut all.y[o * all.plane + unit.to..][..unit.count];
                if !all.first {
                    y.iter_mut().zip(results).for_each(|(y, &sum)| *y = *y + sum);
                } else if let Ok(y) = <&mut [T; CHAINS_PER_UNIT]>::try_from(&mut *y) {
                    // Of known length: a store instead of a call.
                    *y = *results;
                } else {
                    y.iter_mut().zip(results).for_each(|(y, &sum)| *y = sum);
                }
            }
        }
    }
}

/// Chains of [`CHAINS_PER_UNIT`] groups side by side, whose elements are together: sums[k, l] goes
/// on with the terms x[places\[k\] + i, l] * g[i, l], i ascending. Places count units.
pub(crate) struct DirectGroups<'a, T> {
    pub(crate) x: &'a [T],
    pub(crate) places: &'a [usize],
    pub(crate) g: &'a [T],
    pub(crate) sums: &'a mut [T],
}

/// Runs the chains.
///
/// # Panics
/// If something is outside of its slice.
pub(crate) fn direct_groups<T: SimdElement>(isa: Isa, all: DirectGroups<'_, T>) {
    let n = all.g.len() / CHAINS_PER_UNIT;
    let Some(place) = all.places.iter().max().filter(|_| n > 0) else { return };
    assert!((place + n) * CHAINS_PER_UNIT <= all.x.len(), "a window leaves its planes");
    assert!(all.places.len() * CHAINS_PER_UNIT <= all.sums.len(), "a sum is missing");
    dispatch_vectors(isa, DirectGroupKernel(all));
}

/// Groups whose reach has been checked, by `direct_groups` alone.
struct DirectGroupKernel<'a, T>(DirectGroups<'a, T>);

impl<T: SimdElement> VectorKernel for DirectGroupKernel<'_, T> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: Vector<T = T>>(mut self) {
        let mut at = 0;
        while at < self.0.places.len() {
            // As many taps at once as there are registers for.
            // SAFETY: the caller's.
            at += unsafe {
                match (CHAINS_PER_UNIT / V::LANES, self.0.places.len() - at) {
                    (1, 9..) => self.taps::<V, 9, 1>(at),
                    (1, 3..) => self.taps::<V, 3, 1>(at),
                    (1, _) => self.taps::<V, 1, 1>(at),
                    (2, 5..) => self.taps::<V, 5, 2>(at),
                    (2, 2..) => self.taps::<V, 2, 2>(at),
                    (2, _) => self.taps::<V, 1, 2>(at),
                    (4, 3..) => self.taps::<V, 3, 4>(at),
                    (4, _) => self.taps::<V, 1, 4>(at),
                    (_, _) => self.taps::<V, 1, 8>(at),
                }
            };
        }
    }
}

impl<T: SimdElement> DirectGroupKernel<'_, T> {
    /// `K` taps of `R` registers from number `at` on; gives `K`.
    ///
    /// # Safety
    /// The processor has the registers.
    #[inline(always)]
    unsafe fn taps<V: Vector<T = T>, const K: usize, const R: usize>(&mut self, at: usize) -> usize {
        let all = &mut self.0;
        let n = all.g.len() / CHAINS_PER_UNIT;
        // SAFETY: the processor has the registers. `direct_groups` checked that a unit at the
        // largest place, and `n - 1` more, are in `x`, and one for each place in `sums`; `g` has
        // `n` units.
        unsafe {
            let (g, to) = (all.g.as_ptr(), all.sums.as_mut_ptr().add(at * CHAINS_PER_UNIT));
            let mut sums = [[V::splat(<T as Element>::ZERO); R]; K];
            let mut x = [all.x.as_ptr(); K];
            for k in 0..K {
                x[k] = x[k].add(all.places[at + k] * CHAINS_PER_UNIT);
                for r in 0..R {
                    sums[k][r] = V::load(to.add(k * CHAINS_PER_UNIT + r * V::LANES));
                }
            }
            for i in 0..n {
                let from = i * CHAINS_PER_UNIT;
                for r in 0..R {
                    let g = V::load(g.add(i * CHAINS_PER_UNIT + r * V::LANES));
                    for k in 0..K {
                        sums[k][r] = V::load(x[k].add(from + r * V::LANES)).fma(g, sums[k][r]);
                    }
                }
            }
            for k in 0..K {
                for r in 0..R {
                    sums[k][r].store(to.add(k * CHAINS_PER_UNIT + r * V::LANES));
                }
            }
        }
        K
    }
}
