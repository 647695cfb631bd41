//! f16 and bf16 to f32 and back by vector registers; the same bits as the scalar formulas in
//! `elementwise/convert.rs`, which serve other processors.
#![allow(unsafe_code, reason = "vector loads and stores")]

use elinvar_simd::isa::{Isa, IsaTargets, Level};
use elinvar_simd::quad::{Float16, GatherVector};
use elinvar_simd::uninit::UninitSlice;
use elinvar_simd::vector::{VectorKernel, dispatch_vectors};
use std::marker::PhantomData;

/// Writes the numbers, exactly; or says that it does not.
pub(crate) fn widen<H: Float16 + Default>(isa: Isa, x: &[H], dst: &mut UninitSlice<'_, f32>) -> bool {
    by::<WidenRegister, _, _>(isa, x, dst)
}

/// Writes the nearest halves, of two the even one; or says that it does not.
pub(crate) fn narrow<H: Float16 + Default>(isa: Isa, x: &[f32], dst: &mut UninitSlice<'_, H>) -> bool {
    by::<NarrowRegister, _, _>(isa, x, dst)
}

fn by<W: ConvertRegister<S, T>, S: Copy + Default, T: Copy + Default>(
    isa: Isa,
    x: &[S],
    dst: &mut UninitSlice<'_, T>,
) -> bool {
    if !matches!(isa.level(), Level::Avx2 | Level::Avx512) {
        return false;
    }
    // As many slots as numbers.
    let y = &mut dst.unwritten()[..x.len()];
    dispatch_vectors(isa, ConvertKernel { x, y: y.as_mut_ptr().cast(), way: PhantomData::<W> });
    // SAFETY: `ConvertKernel` writes a number for each of `x`.
    unsafe { dst.count(x.len()) };
    true
}

/// A way of converting a register of numbers.
trait ConvertRegister<S, T> {
    /// # Safety
    /// The register's instruction set; as many numbers as it has can be read and written.
    unsafe fn some<V: GatherVector<T = f32>>(x: *const S, y: *mut T);
}

struct WidenRegister;
impl<H: Float16> ConvertRegister<H, f32> for WidenRegister {
    #[inline(always)]
    unsafe fn some<V: GatherVector<T = f32>>(x: *const H, y: *mut f32) {
        // SAFETY: the caller's.
        unsafe { V::widen(x).store(y) }
    }
}

struct NarrowRegister;
impl<H: Float16> ConvertRegister<f32, H> for NarrowRegister {
    #[inline(always)]
    unsafe fn some<V: GatherVector<T = f32>>(x: *const f32, y: *mut H) {
        // SAFETY: the caller's.
        unsafe { V::load(x).narrow(y) }
    }
}

/// Numbers on their way to as many slots. Made by `by` alone, which looked.
struct ConvertKernel<'a, S, T, W> {
    x: &'a [S],
    y: *mut T,
    way: PhantomData<W>,
}

impl<S: Copy + Default, T: Copy + Default, W: ConvertRegister<S, T>> VectorKernel
    for ConvertKernel<'_, S, T, W>
{
    type T = f32;
    const TARGETS: IsaTargets = IsaTargets::All;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = f32>>(self) {
        let ConvertKernel { x, y, .. } = self;
        let whole = x.len() / V::LANES * V::LANES;
        // SAFETY: there are `x.len()` numbers and as many slots; no register has more than 16
        // lanes. The instructions are there: our caller's.
        unsafe {
            for i in (0..whole).step_by(V::LANES) {
                W::some::<V>(x.as_ptr().add(i), y.add(i));
            }
            let rest = x.len() - whole;
            if rest > 0 {
                let (mut last, mut made) = ([S::default(); 16], [T::default(); 16]);
                last[..rest].copy_from_slice(&x[whole..]);
                W::some::<V>(last.as_ptr(), made.as_mut_ptr());
                std::ptr::copy_nonoverlapping(made.as_ptr(), y.add(whole), rest);
            }
        }
    }
}
