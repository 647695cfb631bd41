//! Operands of GEMV and dot kernels as they are stored (f32, f64, f16, bf16), loaded transposed:
//! one term of as many vectors as a register has lanes.
#![allow(unsafe_code, reason = "vector loads without a check for each")]

use super::blocks::ColumnsB;
use crate::elementwise::real::StoredElements;
use elinvar_simd::quad::{Float16, GatherVector, gather_one, gather_one_f16};
use elinvar_simd::vector::SimdElement;
use std::marker::PhantomData;

/// A way in which numbers that are computed as `T` are stored.
pub(super) trait StoredAs<T> {
    type Number: Copy;
    /// Terms that are turned together: 16 bytes.
    const TERMS_PER_LOAD: usize;
    /// Terms of each vector; of 8 registers, `TERMS_PER_LOAD` count.
    ///
    /// # Safety
    /// As for [`GatherVector`].
    unsafe fn terms<V: GatherVector<T = T>>(p: *const Self::Number, step: isize) -> [V; 8];
    /// Term `t` of each vector.
    ///
    /// # Safety
    /// As for [`GatherVector`].
    unsafe fn term<V: GatherVector<T = T>>(p: *const Self::Number, step: isize, t: usize) -> V;
    /// A number.
    ///
    /// # Safety
    /// It can be read.
    unsafe fn element(p: *const Self::Number) -> T;
}

/// As they are.
pub(super) struct StoredNative<T>(PhantomData<T>);
impl<T: SimdElement> StoredAs<T> for StoredNative<T> {
    type Number = T;
    const TERMS_PER_LOAD: usize = 4;
    #[inline(always)]
    unsafe fn terms<V: GatherVector<T = T>>(p: *const T, step: isize) -> [V; 8] {
        // SAFETY: the caller's.
        let [a, b, c, d] = unsafe { V::quad(p, step) };
        [a, b, c, d, a, b, c, d]
    }
    #[inline(always)]
    unsafe fn term<V: GatherVector<T = T>>(p: *const T, step: isize, t: usize) -> V {
        // SAFETY: the caller's.
        unsafe { gather_one(p, step, t, |x| x) }
    }
    #[inline(always)]
    unsafe fn element(p: *const T) -> T {
        // SAFETY: the caller's.
        unsafe { *p }
    }
}

/// Halves, widened.
pub(super) struct StoredFloat16<H>(PhantomData<H>);
impl<T: SimdElement, H: Float16> StoredAs<T> for StoredFloat16<H> {
    type Number = H;
    const TERMS_PER_LOAD: usize = 8;
    #[inline(always)]
    unsafe fn terms<V: GatherVector<T = T>>(p: *const H, step: isize) -> [V; 8] {
        // SAFETY: the caller's.
        unsafe { V::octet(p, step) }
    }
    #[inline(always)]
    unsafe fn term<V: GatherVector<T = T>>(p: *const H, step: isize, t: usize) -> V {
        // SAFETY: the caller's.
        unsafe { gather_one_f16(p, step, t) }
    }
    #[inline(always)]
    unsafe fn element(p: *const H) -> T {
        // SAFETY: the caller's.
        unsafe { (*p).wide() }
    }
}

/// Are all terms of so many vectors in their buffer?
pub(super) fn assert_in_bounds<T>(vectors: &ColumnsB<'_, T>, count: usize, k: usize) -> bool {
    let last = vectors.at + (count as isize - 1) * vectors.step;
    let (low, high) = (vectors.at.min(last), vectors.at.max(last) + k as isize);
    let len = match vectors.data {
        StoredElements::Native(b) => b.len(),
        StoredElements::F16(b) => b.len(),
        StoredElements::BF16(b) => b.len(),
    };
    low >= 0 && high as usize <= len
}

/// Pairs of vectors that go side by side where they do not fill a register: as many chains hide how
/// long an fma takes.
pub(super) const FEW_PAIRS: usize = 4;

/// Sums of products of at most [`FEW_PAIRS`] pairs of vectors, `step` apart: one number of each
/// after the other.
///
/// # Safety
/// `k` terms of as many pairs as there are sums are there.
#[inline(always)]
pub(super) unsafe fn few_dots<T: SimdElement, A: StoredAs<T>, B: StoredAs<T>>(
    (a, b): (*const A::Number, *const B::Number),
    step: [isize; 2],
    k: usize,
    sums: &mut [T],
) {
    // In the place of a pair that is not there stands the last one.
    let pair: [isize; FEW_PAIRS] = std::array::from_fn(|i| i.min(sums.len() - 1) as isize);
    let (a, b) = (pair.map(|i| a.wrapping_offset(i * step[0])), pair.map(|i| b.wrapping_offset(i * step[1])));
    let mut all = [T::ZERO; FEW_PAIRS];
    for t in 0..k {
        for (i, sum) in all.iter_mut().enumerate() {
            // SAFETY: the caller's.
            *sum = unsafe { A::element(a[i].add(t)).fma(B::element(b[i].add(t)), *sum) };
        }
    }
    sums.copy_from_slice(&all[..sums.len()]);
}
