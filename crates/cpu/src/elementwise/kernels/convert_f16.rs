//! f16 and bf16 to f32 and back, by registers.
//!
//! This gives what the formulas of [`crate::elementwise::convert`] give, to the bit, which are for other processors.
#![allow(unsafe_code, reason = "vector loads and stores")]

use crate::reduce::block::sixteen;
use crate::runtime::output::uninit::Room;
use crate::simd::isa::{Copies, Isa, Level};
use crate::simd::quad::{Half, Quad};
use crate::simd::vector::{InRegisters, in_registers};
use elinvar_core::order::LANES;
use elinvar_ops::fold::Sum;
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

/// The sums of rows of `n` halves each, at most a block, one after the other; or says that it does not. Converted to a buffer first, those of the
/// rows of 1000 x 1000 took 42 us, and take 23.
///
/// # Panics
/// If some are not there.
pub(crate) fn sum_rows<H: Half + Default>(isa: Isa, x: &[H], n: usize, sums: &mut [f32]) -> bool {
    if !matches!(isa.level(), Level::Avx2 | Level::Avx512) {
        return false;
    }
    assert!(n > 0 && x.len() == n * sums.len(), "cpu: rows that are not there");
    in_registers(isa, SumOfRows { x, n, sums });
    true
}

/// Rows of `n` halves, and their sums. Made by `sum_rows` alone, which looked.
struct SumOfRows<'a, H> {
    x: &'a [H],
    n: usize,
    sums: &'a mut [f32],
}

impl<H: Half + Default> InRegisters for SumOfRows<'_, H> {
    type T = f32;
    const COPIES: Copies = Copies::Fma;
    #[inline(always)]
    unsafe fn run<V: Quad<T = f32>>(self) {
        const MOST: usize = 16;
        let (count, whole, rest) = (LANES / V::LANES, self.n / LANES, self.n % LANES);
        for (row, sum) in self.x.chunks_exact(self.n).zip(self.sums) {
            // SAFETY: a row has `whole * LANES + rest` halves, a chunk of it `count` registers of `V::LANES`, of which there are 16 at most, in 16
            // at most. The instructions are there: our caller's.
            unsafe {
                let mut lanes: [V; MOST] = [V::splat(0.0); MOST];
                for chunk in 0..whole {
                    let from = row.as_ptr().add(chunk * LANES);
                    for (i, lane) in lanes[..count].iter_mut().enumerate() {
                        *lane = lane.add(V::widen(from.add(i * V::LANES)));
                    }
                }
                if rest > 0 {
                    // A lane that has no term more gets +0, which changes no sum: they start from it.
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
                *sum = sixteen::<f32, Sum>(few);
            }
        }
    }
}

/// Registers of sums that go side by side.
const SIDE: usize = 4;

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
        // Several registers at once, as an addition waits for the one before.
        let several = sums.len() / (SIDE * V::LANES) * (SIDE * V::LANES);
        for i in (0..several).step_by(SIDE * V::LANES) {
            // SAFETY: `add` found as many halves as there are sums at each place, and `several` and `whole` are no more. The instructions are
            // there: our caller's.
            unsafe {
                let mut all: [V; SIDE] = [V::load(to.add(i)); SIDE];
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
