//! Transposing loads: registers filled across rows, with f16 and bf16 widened to f32 on the way.
//!
//! Element `t` of as many rows as a register has lanes becomes one register; with a stride, that
//! transposes a block. Rows are read in pieces of 16 bytes: four f32, or eight 16-bit floats.
#![allow(unsafe_code, reason = "vector loads and shuffles")]

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::vector::{Array4, SimdElement, Vector};
use elinvar_core::{Element, bf16, f16};

/// A register that can be filled across rows, or from 16-bit floats.
///
/// # Safety
/// As for [`Vector`]; `quad`, `octet` and `square` read the stated elements of each of `LANES` rows
/// that start at `p + lane * step`, `widen` reads `LANES` 16-bit floats.
pub trait GatherVector: Vector {
    /// Elements 0 to 3 of each row.
    unsafe fn quad(p: *const Self::T, step: isize) -> [Self; 4];
    /// As many elements of each row as there are rows, four at least; only the first `LANES` of the
    /// 16 registers count.
    #[inline(always)]
    unsafe fn square(p: *const Self::T, step: isize) -> [Self; 16] {
        // SAFETY: guaranteed by the caller.
        unsafe { quads(p, step) }
    }
    /// Elements 0 to 7 of each row, widened.
    unsafe fn octet<H: Float16>(p: *const H, step: isize) -> [Self; 8];
    /// Consecutive elements, widened.
    unsafe fn widen<H: Float16>(p: *const H) -> Self;
    /// Stores as 16-bit floats, rounded to nearest even.
    ///
    /// # Safety
    /// As for [`Vector`], of `LANES` halves.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn narrow<H: Float16>(self, p: *mut H) {
        let mut all = [Self::T::ZERO; 16];
        // SAFETY: the caller guarantees `LANES` elements; no register has more than 16 lanes.
        unsafe {
            self.store(all.as_mut_ptr());
            for (i, x) in all[..Self::LANES].iter().enumerate() {
                p.add(i).write(H::nearest(x.to_f64()));
            }
        }
    }
}

/// A square block, quad by quad.
///
/// # Safety
/// As for [`GatherVector::square`].
#[inline(always)]
unsafe fn quads<V: GatherVector>(p: *const V::T, step: isize) -> [V; 16] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut all = [V::splat(V::T::ZERO); 16];
        for t in (0..V::LANES).step_by(4) {
            all[t..t + 4].copy_from_slice(&V::quad(p.add(t), step));
        }
        all
    }
}

/// A 16-bit float. Widening it is exact; the payload of a NaN may differ.
pub trait Float16: Copy + Sync {
    /// Is it the upper half of an f32?
    const IS_BF16: bool;
    /// Widened.
    fn wide<T: SimdElement>(self) -> T;
    /// Rounded to the nearest.
    #[cfg(target_arch = "x86_64")]
    fn nearest(x: f64) -> Self;
}
macro_rules! half {
    ($($t:ty: $upper:literal),*) => {$(
        impl Float16 for $t {
            const IS_BF16: bool = $upper;
            // Through f32, which is the identity for f32; the conversion of `half` to f64 tests the
            // processor's features for each element, and its code would be inlined into each
            // small-M product.
            #[inline(always)]
            fn wide<T: SimdElement>(self) -> T {
                T::lit(f64::from(self.to_f32()))
            }
            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            fn nearest(x: f64) -> Self {
                Element::from_f64(x)
            }
        }
    )*};
}
half!(f16: false, bf16: true);

/// Element `t` of each row, one by one.
///
/// # Safety
/// As for [`GatherVector`], up to element `t`.
#[inline(always)]
pub unsafe fn gather_one<V: Vector, S: Copy>(
    p: *const S,
    step: isize,
    t: usize,
    wide: impl Fn(S) -> V::T,
) -> V {
    let mut row = [V::T::ZERO; 16];
    for (lane, x) in row[..V::LANES].iter_mut().enumerate() {
        // SAFETY: guaranteed by the caller.
        *x = wide(unsafe { *p.wrapping_offset(lane as isize * step).add(t) });
    }
    // SAFETY: the array has 16 elements, and no register has more lanes.
    unsafe { V::load(row.as_ptr()) }
}

/// 16-bit element `t` of each row, loaded one by one and widened together: the conversion of a
/// single f16 tests the processor's features, which costs code size wherever it is inlined.
///
/// # Safety
/// As for [`GatherVector`], up to element `t`.
#[inline(always)]
pub unsafe fn gather_one_f16<V: GatherVector, H: Float16>(p: *const H, step: isize, t: usize) -> V {
    // SAFETY: the caller guarantees the elements; no register has more than 16 lanes.
    unsafe {
        let mut row = [*p.add(t); 16];
        for (lane, x) in row[..V::LANES].iter_mut().enumerate() {
            *x = *p.wrapping_offset(lane as isize * step).add(t);
        }
        V::widen(row.as_ptr())
    }
}

impl<T: SimdElement> GatherVector for Array4<T> {
    #[inline(always)]
    unsafe fn quad(p: *const T, step: isize) -> [Self; 4] {
        // SAFETY: guaranteed by the caller.
        std::array::from_fn(|t| unsafe { gather_one(p, step, t, |x| x) })
    }
    #[inline(always)]
    unsafe fn octet<H: Float16>(p: *const H, step: isize) -> [Self; 8] {
        // SAFETY: guaranteed by the caller.
        std::array::from_fn(|t| unsafe { gather_one_f16(p, step, t) })
    }
    // Not inlined on plain x86-64, as for the fma: the conversion of each f16 tests the processor's
    // features.
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    unsafe fn widen<H: Float16>(p: *const H) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { gather_one(p, 1, 0, H::wide::<T>) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::vector::{VectorKernel, dispatch_vectors, lanes};
    use std::marker::PhantomData;

    /// Rows, and the elements of them that are read.
    struct Across<'a, T, S> {
        from: &'a [S],
        /// Distance of rows.
        step: usize,
        to: &'a mut Vec<T>,
    }

    struct Same<'a, T>(Across<'a, T, T>);
    impl<T: SimdElement> VectorKernel for Same<'_, T> {
        type T = T;
        #[inline(always)]
        unsafe fn run<V: GatherVector<T = T>>(self) {
            let Across { from, step, to } = self.0;
            assert!((V::LANES - 1) * step + 4 <= from.len());
            // SAFETY: the caller guarantees the instruction set; the slice was checked to have four
            // elements of each row.
            unsafe { V::quad(from.as_ptr(), step as isize).iter().for_each(|v| put(*v, to)) };
        }
    }

    struct Widened<'a, T, H>(Across<'a, T, H>, PhantomData<T>);
    impl<T: SimdElement, H: Float16> VectorKernel for Widened<'_, T, H> {
        type T = T;
        #[inline(always)]
        unsafe fn run<V: GatherVector<T = T>>(self) {
            let Across { from, step, to } = self.0;
            assert!((V::LANES - 1) * step + 8 <= from.len() && V::LANES <= from.len());
            // SAFETY: the caller guarantees the instruction set; the slice was checked to have
            // eight elements of each row.
            unsafe {
                V::octet(from.as_ptr(), step as isize).iter().for_each(|v| put(*v, to));
                put(V::widen(from.as_ptr()), to);
            }
        }
    }

    /// # Safety
    /// The processor has the instructions.
    #[inline(always)]
    unsafe fn put<V: Vector>(v: V, to: &mut Vec<V::T>) {
        let mut row = [V::T::ZERO; 16];
        // SAFETY: the caller guarantees the instruction set; no register has more than 16 lanes.
        unsafe { v.store(row.as_mut_ptr()) };
        to.extend_from_slice(&row[..V::LANES]);
    }

    struct Whole<'a, T>(Across<'a, T, T>);
    impl<T: SimdElement> VectorKernel for Whole<'_, T> {
        type T = T;
        #[inline(always)]
        unsafe fn run<V: GatherVector<T = T>>(self) {
            let Across { from, step, to } = self.0;
            assert!(V::LANES >= 4 && (V::LANES - 1) * step + V::LANES <= from.len());
            // SAFETY: as above, for `LANES` elements.
            unsafe { V::square(from.as_ptr(), step as isize)[..V::LANES].iter().for_each(|v| put(*v, to)) };
        }
    }

    fn squares<T: SimdElement>() {
        for isa in Isa::with_kernels() {
            let (n, step) = (lanes::<T>(isa), 19);
            if n < 4 {
                continue;
            }
            let from: Vec<T> = (0..n * step).map(|i| T::lit(i as f64)).collect();
            let mut to = Vec::new();
            dispatch_vectors(isa, Whole(Across { from: &from, step, to: &mut to }));
            let want: Vec<T> = (0..n * n).map(|i| from[i % n * step + i / n]).collect();
            assert!(to == want, "{isa} {}: {to:?}, not {want:?}", T::DTYPE);
        }
    }

    #[test]
    fn squares_are_turned() {
        squares::<f32>();
        squares::<f64>();
    }

    fn transposed<T: SimdElement>() {
        for isa in Isa::with_kernels() {
            let (n, step) = (lanes::<T>(isa), 5);
            let from: Vec<T> = (0..n * step).map(|i| T::lit(i as f64)).collect();
            let mut to = Vec::new();
            dispatch_vectors(isa, Same(Across { from: &from, step, to: &mut to }));
            let want: Vec<T> = (0..4 * n).map(|i| from[i % n * step + i / n]).collect();
            assert!(to == want, "{isa} {}: {to:?}, not {want:?}", T::DTYPE);
        }
    }

    #[test]
    fn rows_are_turned() {
        transposed::<f32>();
        transposed::<f64>();
    }

    /// All 16-bit patterns, with subnormals, infinities and NaN.
    fn all_halves<H: Float16>(half: impl Fn(u16) -> H) {
        let all: Vec<H> = (0..=u16::MAX).map(half).collect();
        for isa in Isa::with_kernels() {
            let (n, step) = (lanes::<f32>(isa), 8);
            for from in all.chunks_exact(n * step) {
                let mut to: Vec<f32> = Vec::new();
                dispatch_vectors(isa, Widened(Across { from, step, to: &mut to }, PhantomData));
                let across = (0..8 * n).map(|i| from[i % n * step + i / n]);
                for (half, got) in across.chain(from[..n].iter().copied()).zip(&to) {
                    let want = half.wide::<f32>();
                    // A signalling NaN may stay one: the fma that follows makes it quiet.
                    let same = want.to_bits() == got.to_bits() || want.is_nan() && got.is_nan();
                    assert!(same, "{isa}: {want} became {got}");
                }
                assert_eq!(to.len(), 9 * n);
            }
        }
    }

    #[test]
    fn halves_of_all_bits_are_widened() {
        all_halves(f16::from_bits);
        all_halves(bf16::from_bits);
    }
}
