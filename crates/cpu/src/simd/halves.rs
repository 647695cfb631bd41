//! f16 and bf16 to f32 and back, by registers.
//!
//! This gives what the formulas of [`crate::convert`] give, to the bit, which are for other processors.
#![allow(unsafe_code, reason = "vector loads and stores")]

use super::isa::{Copies, Isa, Level};
use super::quad::{Half, Quad};
use super::room::Room;
use super::vector::{InRegisters, in_registers};
use std::marker::PhantomData;

/// Writes the numbers, exactly; or says that it does not.
pub(crate) fn widen<H: Half + Default>(isa: Isa, x: &[H], room: &mut Room<'_, f32>) -> bool {
    by::<Widen, _, _>(isa, x, room)
}

/// Writes the nearest halves, of two the even one; or says that it does not.
pub(crate) fn narrow<H: Half + Default>(isa: Isa, x: &[f32], room: &mut Room<'_, H>) -> bool {
    by::<Narrow, _, _>(isa, x, room)
}

fn by<W: Way<S, T>, S: Copy + Default, T: Copy + Default>(isa: Isa, x: &[S], room: &mut Room<'_, T>) -> bool {
    if !matches!(isa.level(), Level::Avx2 | Level::Avx512) {
        return false;
    }
    // As many slots as numbers.
    let y = &mut room.unwritten()[..x.len()];
    in_registers(isa, Each { x, y: y.as_mut_ptr().cast(), way: PhantomData::<W> });
    room.count(x.len());
    true
}

/// Adds the halves from `base + place` on to as many sums, place after place; or says that it does not. Converted to a buffer first, the sums of the
/// columns of 1000 x 1000 took half as long again.
///
/// # Panics
/// If some are not there.
pub(crate) fn add<H: Half>(
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
    in_registers(isa, Sums { x: x.as_ptr().wrapping_add(base), places, sums });
    true
}

/// Sums, and where terms of theirs lie, from the first of each on. Made by `add` alone, which looked.
struct Sums<'a, H, P> {
    x: *const H,
    places: P,
    sums: &'a mut [f32],
}

impl<H: Half, P: Iterator<Item = isize> + Clone> InRegisters for Sums<'_, H, P> {
    type T = f32;
    const COPIES: Copies = Copies::Fma;
    #[inline(always)]
    unsafe fn run<V: Quad<T = f32>>(self) {
        let Sums { x, places, sums } = self;
        let whole = sums.len() / V::LANES * V::LANES;
        let to = sums.as_mut_ptr();
        for i in (0..whole).step_by(V::LANES) {
            // SAFETY: `add` found as many halves as there are sums at each place, and `whole` is no more. The instructions are there: our
            // caller's.
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

/// A way of converting a register of numbers.
trait Way<S, T> {
    /// # Safety
    /// The register's instruction set; as many numbers as it has can be read and written.
    unsafe fn some<V: Quad<T = f32>>(x: *const S, y: *mut T);
}

struct Widen;
impl<H: Half> Way<H, f32> for Widen {
    #[inline(always)]
    unsafe fn some<V: Quad<T = f32>>(x: *const H, y: *mut f32) {
        // SAFETY: the caller's.
        unsafe { V::widen(x).store(y) }
    }
}

struct Narrow;
impl<H: Half> Way<f32, H> for Narrow {
    #[inline(always)]
    unsafe fn some<V: Quad<T = f32>>(x: *const f32, y: *mut H) {
        // SAFETY: the caller's.
        unsafe { V::load(x).narrow(y) }
    }
}

/// Numbers on their way to as many slots. Made by `by` alone, which looked.
struct Each<'a, S, T, W> {
    x: &'a [S],
    y: *mut T,
    way: PhantomData<W>,
}

impl<S: Copy + Default, T: Copy + Default, W: Way<S, T>> InRegisters for Each<'_, S, T, W> {
    type T = f32;
    const COPIES: Copies = Copies::Fma;
    #[inline(always)]
    unsafe fn run<V: Quad<T = f32>>(self) {
        let Each { x, y, .. } = self;
        let whole = x.len() / V::LANES * V::LANES;
        // SAFETY: there are `x.len()` numbers and as many slots; no register has more than 16 lanes. The instructions are there: our
        // caller's.
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
