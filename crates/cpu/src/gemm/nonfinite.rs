//! Checks for values for which adding `0 * x` is not a no-op: NaN, infinities, and sums of -0.
//! Paths that skip zero terms ask them.

use crate::elementwise::real::Real;
use elinvar_ops::lane::LaneInt;
use elinvar_simd::isa::{Isa, IsaTargets, Kernel, dispatch};

/// Are all numbers finite?
pub(crate) fn are_finite<T: Real>(isa: Isa, numbers: &[T]) -> bool {
    dispatch(isa, AllFinite(numbers))
}

struct AllFinite<'a, T>(&'a [T]);

impl<T: Real> Kernel for AllFinite<'_, T> {
    type Out = bool;
    const TARGETS: IsaTargets = IsaTargets::UpToAvx2;
    #[inline(always)]
    fn run(self) -> bool {
        /// As many as make some registers of any kind.
        const ELEMENTS_PER_STEP: usize = 64;
        let zero = T::lit(0.0);
        // Times zero, finite numbers are zeros and others are NaN, as are all sums of it.
        let mut sums = [zero; ELEMENTS_PER_STEP];
        let (blocks, rest) = self.0.as_chunks::<ELEMENTS_PER_STEP>();
        for block in blocks {
            sums.iter_mut().zip(block).for_each(|(sum, x)| *sum = *sum + *x * zero);
        }
        sums.iter_mut().zip(rest).for_each(|(sum, x)| *sum = *sum + *x * zero);
        sums.iter().all(|sum| *sum == zero)
    }
}

/// Is there a -0?
pub(crate) fn has_negative_zero<T: Real>(isa: Isa, numbers: &[T]) -> bool {
    dispatch(isa, AnyNegativeZero(numbers))
}

struct AnyNegativeZero<'a, T>(&'a [T]);

impl<T: Real> Kernel for AnyNegativeZero<'_, T> {
    type Out = bool;
    const TARGETS: IsaTargets = IsaTargets::UpToAvx2;
    #[inline(always)]
    fn run(self) -> bool {
        let negative = (-T::lit(0.0)).to_bits();
        // All are looked at, for so they are several at once.
        self.0.iter().fold(false, |is_there, x| is_there | LaneInt::eq(x.to_bits(), negative))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_special_is_found_wherever_it_is() {
        for isa in Isa::with_kernels() {
            for n in [0, 1, 7, 63, 64, 65, 200] {
                let numbers = vec![-1.5f32; n];
                assert!(are_finite(isa, &numbers) && !has_negative_zero(isa, &numbers), "{isa}, {n}");
                for at in 0..n {
                    for special in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0, -0.0, f32::MAX, 1e-45] {
                        let mut numbers = numbers.clone();
                        numbers[at] = special;
                        assert_eq!(
                            are_finite(isa, &numbers),
                            special.is_finite(),
                            "{isa}, {special}, {at} of {n}"
                        );
                        let is_negative = special == 0.0 && special.is_sign_negative();
                        assert_eq!(has_negative_zero(isa, &numbers), is_negative, "{special}, {at} of {n}");
                    }
                }
            }
        }
    }
}
