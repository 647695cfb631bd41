//! Conversions between element types, over contiguous slices.
//!
//! The rules are the reference's, one element at a time; here they become loops. 16-bit floats go through f32: to it is
//! exact, and from wider types by a rounding to odd, which makes the second rounding the only one.

use crate::CpuDevice;
use crate::Isa;
use crate::isa::{dispatch, formula_or_plain};
use crate::memory::Scratch;
use crate::simd::room::{At, Block, Compute, Room, Work, fresh_of};
use elinvar_core::{DType, Element, Error, HostData, HostVec, Result, bf16, f16, rounding};
use elinvar_ops::lane::{Lane, LaneInt};
use elinvar_reference::Cell;
use half::slice::HalfFloatSliceExt;

/// The types whose conversions into each other are vector code as they stand: all but the 16-bit floats.
pub(crate) trait Simple: Cell {}
impl Simple for f32 {}
impl Simple for f64 {}
impl Simple for i64 {}
impl Simple for i32 {}
impl Simple for u8 {}
impl Simple for bool {}

/// Each element through a function.
#[derive(Clone, Copy)]
struct Each<'a, S, F>(&'a [S], F);

impl<S: Copy, T: Copy, F: Fn(S) -> T + Copy> At<T> for Each<'_, S, F> {
    #[inline(always)]
    fn at(&self, i: usize) -> T {
        (self.1)(self.0[i])
    }
    #[inline(always)]
    fn cut(self, n: usize) -> Self {
        Each(&self.0[..n], self.1)
    }
}

/// Writes each element through a function that is small enough to be inlined.
fn each<S: Copy, T: Copy>(isa: Isa, x: &[S], room: &mut Room<'_, T>, f: impl Fn(S) -> T + Copy) {
    room.part(x.len(), |room| dispatch(isa, Compute(Each(x, f), room)));
}

/// Each element to the nearest of another type. There is a copy for AVX-512 of what goes from and to f32, of what AVX2 has no instruction for,
/// f64 to i64 and back, and of what becomes bytes: a million i64 took 99 microseconds, and 143 with AVX2. All other pairs of types are bound by
/// memory with AVX2 too.
pub(crate) fn simple<S: Simple, T: Simple>(isa: Isa, x: &[S], room: &mut Room<'_, T>) {
    room.part(x.len(), |room| {
        let work = Compute(Each(x, |v: S| T::nearest(v.value())), room);
        if const {
            matches!(S::DTYPE, DType::F32)
                || matches!((S::DTYPE, T::DTYPE), (DType::F64, DType::I64) | (DType::I64, DType::F64))
                || size_of::<S>() > 1 && size_of::<T>() == 1
        } {
            dispatch(isa, work);
        } else {
            formula_or_plain::<T, _>(isa, work);
        }
    });
}

/// Exactly.
pub(crate) fn from_bf16(isa: Isa, x: &[bf16], room: &mut Room<'_, f32>) {
    each(isa, x, room, |v: bf16| f32::from_bits(u32::from(v.to_bits()) << 16));
}

/// To nearest even: what `bf16::from_f32` gives, by one sum instead of questions to several bits.
pub(crate) fn to_bf16(isa: Isa, x: &[f32], room: &mut Room<'_, bf16>) {
    each(isa, x, room, |v: f32| {
        let bits = v.to_bits();
        // Just below a half, and the last bit that stays: a half is rounded up to an even number only if that is odd.
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        // A NaN stays one if its first bit is set.
        let nan = bits >> 16 | 0x40;
        bf16::from_bits(if v.is_nan() { nan } else { rounded } as u16)
    });
}

/// The same bits in the upper half of an f32's; in the lower half is anything. (Written by way of this, [`to_bf16`] took a sixth longer:
/// the choice is then one of floats.)
#[inline(always)]
pub(crate) fn nearest_bf16<L: Lane>(x: L) -> L {
    let bits = x.to_bits();
    let even = bits.shr_logical(16) & LaneInt::lit(1);
    let near = L::from_bits(bits + (even + LaneInt::lit(0x7fff)));
    L::select(x.is_nan(), L::from_bits(bits | LaneInt::lit(0x40 << 16)), near)
}

/// Elements that go to or from f16 at once: enough to hide the call, few enough to be zeroed first.
const HALVES: usize = 64;

/// Exactly.
pub(crate) fn from_f16(x: &[f16], room: &mut Room<'_, f32>) {
    let mut wide = [0.0; HALVES];
    for part in x.chunks(HALVES) {
        let wide = &mut wide[..part.len()];
        part.convert_to_f32_slice(wide);
        room.copy(wide);
    }
}

/// To nearest even.
pub(crate) fn to_f16(x: &[f32], room: &mut Room<'_, f16>) {
    let mut narrow = [f16::ZERO; HALVES];
    for part in x.chunks(HALVES) {
        let narrow = &mut narrow[..part.len()];
        narrow.convert_from_f32_slice(part);
        room.copy(narrow);
    }
}

/// Results in f32 as they are stored: rounded once if that is in 16 bits.
///
/// # Errors
/// `OutOfMemory`; `DTypeMismatch` if they are to be stored as anything but floats of 16 or 32 bits.
pub(crate) fn stored(d: &CpuDevice, v: HostVec<f32>, to: DType) -> Result<HostData> {
    match to {
        DType::F16 => Ok(HostData::F16(narrowed(d, v, &to_f16)?)),
        DType::BF16 => Ok(HostData::BF16(narrowed(d, v, &|v, room| to_bf16(d.isa(), v, room))?)),
        _ => store(v, to),
    }
}

/// Results in 16 bits, by all threads. The memory of those in f32 goes back to the cache.
fn narrowed<T: Element>(
    d: &CpuDevice,
    v: HostVec<f32>,
    f: &(dyn Fn(&[f32], &mut Room<'_, T>) + Sync),
) -> Result<HostVec<T>> {
    let v = Scratch::of(v);
    fresh_of(d, v.len(), 1, Work::Light, &|start, room| {
        f(&v[start..start + room.left()], room);
        Ok(())
    })
}

/// Results in the type in which they were computed.
///
/// # Errors
/// `DTypeMismatch` if they are to be stored as another.
pub(crate) fn store<T: Element>(v: HostVec<T>, to: DType) -> Result<HostData> {
    if to == T::DTYPE {
        return Ok(T::wrap(v));
    }
    Err(Error::dtype(format!(
        "cpu: results in {} cannot be stored as {to}; the op should have converted them",
        T::DTYPE
    )))
}

/// On the way to 16 bits: the f32 that rounds to the same 16-bit float as the number itself.
pub(crate) trait Odd: Simple {
    /// That f32.
    fn odd(self) -> f32;
    /// Those of a slice; `block` is room for them.
    fn odds<'a>(isa: Isa, x: &'a [Self], block: &'a mut Block<f32>) -> &'a [f32] {
        block.fill(x.len(), |room| each(isa, x, room, Self::odd))
    }
}

macro_rules! odd {
    ($($t:ty: $odd:expr;)*) => {$(
        impl Odd for $t {
            #[inline]
            fn odd(self) -> f32 {
                ($odd)(self)
            }
        }
    )*};
}
odd! {
    f64:  rounding::odd_f32;
    i64:  |v| rounding::odd_f32(rounding::odd_f64(v));
    i32:  |v| rounding::odd_f32(f64::from(v));
    u8:   f32::from;
    bool: |v| f32::from(u8::from(v));
}
impl Odd for f32 {
    #[inline]
    fn odd(self) -> f32 {
        self
    }
    fn odds<'a>(_: Isa, x: &'a [f32], _: &'a mut Block<f32>) -> &'a [f32] {
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_is_what_it_is_elsewhere() {
        // Every upper half, with lower halves around the places where rounding changes; NaN too.
        let low = [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff];
        let x: Vec<f32> =
            (0..=0xffff_u32).flat_map(|high| low.map(|low| f32::from_bits(high << 16 | low))).collect();
        for isa in Isa::all() {
            let mut block = Block::<bf16>::new();
            for part in x.chunks(512) {
                let got = block.fill(part.len(), |room| to_bf16(isa, part, room));
                let want = part.iter().map(|&x| bf16::from_f32(x).to_bits());
                assert!(got.iter().map(|y| y.to_bits()).eq(want), "{isa}");
            }
        }
    }
}
