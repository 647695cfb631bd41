//! Batched dot products: one pair of vectors per lane of a register.
//!
//! Each sum is a dependent fma chain, so a single dot product cannot hide its latency; many side by
//! side can.
#![allow(unsafe_code, reason = "vector loads and stores without a check for each")]

use super::a_rows::each_row;
use super::blocks::ColumnsB;
use super::stored_operand::{FEW_PAIRS, StoredAs, StoredFloat16, StoredNative, assert_in_bounds, few_dots};
use crate::elementwise::real::{Real, StoredElements};
use elinvar_core::order::CHUNK;
use elinvar_core::{Element, bf16};
use elinvar_simd::LINE;
use elinvar_simd::isa::{Isa, IsaTargets};
use elinvar_simd::quad::{Float16, GatherVector};
use elinvar_simd::vector::{VectorKernel, dispatch_half_vectors};

/// Pairs of vectors, and room for their sums.
pub(crate) struct BatchedDots<'a, T> {
    pub(crate) a: ColumnsB<'a, T>,
    pub(crate) b: ColumnsB<'a, T>,
    /// Terms, at most a chunk of them.
    pub(crate) k: usize,
    pub(crate) sums: &'a mut [T],
}

/// sums[i] = sum over t of a[i, t] * b[i, t], a chain of fma from 0. On plain x86-64 it cannot be
/// called; both are stored alike.
///
/// # Panics
/// If vectors are shorter than they should be, or not stored alike.
pub(crate) fn dots<T: Real>(isa: Isa, dots: BatchedDots<'_, T>) {
    let BatchedDots { a, b, k, sums } = dots;
    if sums.is_empty() {
        return;
    }
    assert!(k <= CHUNK, "a chain of one chunk");
    assert!(
        assert_in_bounds(&a, sums.len(), k) && assert_in_bounds(&b, sums.len(), k),
        "vectors leave their buffer"
    );
    let step = [a.step, b.step];
    match (a.data, b.data) {
        (StoredElements::Native(x), StoredElements::Native(y)) => {
            let at = [x.as_ptr().wrapping_offset(a.at), y.as_ptr().wrapping_offset(b.at)];
            dispatch_half_vectors(isa, DotKernel::<T, StoredNative<T>> { at, step, k, sums });
        }
        (StoredElements::F16(x), StoredElements::F16(y)) => dots_f16(isa, x, y, [a.at, b.at], step, k, sums),
        (StoredElements::BF16(x), StoredElements::BF16(y)) => {
            dots_f16::<T, bf16>(isa, x, y, [a.at, b.at], step, k, sums)
        }
        _ => unreachable!("vectors that are not stored alike"),
    }
}

/// Of halves.
fn dots_f16<T: Real, H: Float16>(
    isa: Isa,
    x: &[H],
    y: &[H],
    at: [isize; 2],
    step: [isize; 2],
    k: usize,
    sums: &mut [T],
) {
    if const { T::WIDENS_F16 } {
        let at = [x.as_ptr().wrapping_offset(at[0]), y.as_ptr().wrapping_offset(at[1])];
        dispatch_half_vectors(isa, DotKernel::<T, StoredFloat16<H>> { at, step, k, sums });
    } else {
        unreachable!("f64 is not computed from halves");
    }
}

/// Sums whose vectors are there, by `dots` alone: where the first of either kind begin, and how far
/// apart they are.
struct DotKernel<'a, T, S: StoredAs<T>> {
    at: [*const S::Number; 2],
    step: [isize; 2],
    k: usize,
    sums: &'a mut [T],
}

impl<T: Real, S: StoredAs<T>> VectorKernel for DotKernel<'_, T, S> {
    type T = T;
    const TARGETS: IsaTargets = IsaTargets::UpToAvx2;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(self) {
        let DotKernel { at, step, k, sums } = self;
        let count = sums.len();
        let from = |i: usize| {
            let i = i as isize;
            (at[0].wrapping_offset(i * step[0]), at[1].wrapping_offset(i * step[1]))
        };
        let mut i = 0;
        while i < count {
            // SAFETY: `dots` checked that all terms of these pairs are there; the instructions are
            // our caller's. The last ones are computed together with some before them, a second
            // time.
            unsafe {
                if count < V::LANES {
                    let some = &mut sums[i..count.min(i + FEW_PAIRS)];
                    few_dots::<T, S, S>(from(i), step, k, some);
                    i += FEW_PAIRS;
                } else {
                    i = i.min(count - V::LANES);
                    full::<V, S>(from(i), step, k).store(&raw mut sums[i]);
                    i += V::LANES;
                }
            }
        }
    }
}

/// As many pairs as a register has lanes. Lines of the next ones are fetched meanwhile.
///
/// # Safety
/// All terms of theirs are there, and the processor has the instructions.
#[inline(always)]
unsafe fn full<V: GatherVector, S: StoredAs<V::T>>(
    (a, b): (*const S::Number, *const S::Number),
    step: [isize; 2],
    k: usize,
) -> V {
    let line = LINE / size_of::<S::Number>();
    // SAFETY: the caller's; what is fetched may be anywhere.
    unsafe {
        let mut sum = V::splat(V::T::ZERO);
        let mut t = 0;
        while t + line <= k {
            for lane in V::LANES..2 * V::LANES {
                let lane = lane as isize;
                V::prefetch_l2(a.wrapping_offset(lane * step[0]).wrapping_add(t).cast());
                V::prefetch_l2(b.wrapping_offset(lane * step[1]).wrapping_add(t).cast());
            }
            for t in (t..t + line).step_by(S::TERMS_PER_LOAD) {
                let (lhs, rhs) = (S::terms::<V>(a.add(t), step[0]), S::terms::<V>(b.add(t), step[1]));
                each_row!(S::TERMS_PER_LOAD, up to 8, u => {
                    sum = lhs[u % 8].fma(rhs[u % 8], sum);
                });
            }
            t += line;
        }
        while t < k {
            sum = S::term::<V>(a, step[0], t).fma(S::term::<V>(b, step[1], t), sum);
            t += 1;
        }
        sum
    }
}
