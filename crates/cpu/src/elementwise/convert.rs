//! Dtype conversion over contiguous slices.
//!
//! The rules are the reference's, element by element; here they are loops. Storage floats go
//! through f32: widening is exact, and narrowing from wider types rounds to odd first, so that the
//! second rounding is the only one that counts.

#[cfg(target_arch = "x86_64")]
use super::kernels::convert_f16;
use super::plan::NARROW_MIN_PART_ELEMENTS;
use crate::CpuDevice;
use crate::Isa;
use crate::layout::strided_iter::StridedIter;
use crate::runtime::memory::{PooledVec, filled};
use crate::runtime::output::parallel_fill::FillFrom;
use crate::runtime::output::parallel_fill::{CostHint, fill_pieces, parallel_fill_hinted};
use elinvar_core::{DType, Element, Error, HostData, HostVec, Result, Storage, bf16, f16, match_storage};
use elinvar_ops::lane::{Lane, LaneInt};
use elinvar_reference::Cell;
use elinvar_simd::isa::{Kernel, dispatch, dispatch_formula};
use elinvar_simd::uninit::{CacheBlock, ElementAt, FillByElement, FillChunk, UninitSlice};
use std::mem::MaybeUninit;

/// A type in which is computed: f32, f64, the integers and bool. Its conversions to the other five
/// are vector code as they stand.
pub(crate) trait ComputeElement: Cell {
    /// The nearest element of another type, as [`Cell::nearest`] says, in steps of which the
    /// compiler makes vector code.
    #[inline(always)]
    fn to<T: ComputeElement>(self) -> T {
        T::nearest(self.value())
    }
    /// On the way to a storage float: the f32 that rounds to the same one as the number itself.
    fn round_to_odd(self) -> f32;
    /// Those of a slice; `block` is room for them.
    fn odds<'a>(isa: Isa, x: &'a [Self], block: &'a mut CacheBlock<f32>) -> &'a [f32] {
        block.fill(x.len(), |dst| each(isa, x, dst, Self::round_to_odd))
    }
    /// Writes elements number `start` to `start + n` of memory of another type (n at most
    /// [`MAX_BLOCK_ELEMENTS`]): storage floats exactly, bool as 0 or 1.
    ///
    /// [`MAX_BLOCK_ELEMENTS`]: super::plan::MAX_BLOCK_ELEMENTS
    fn load(
        isa: Isa,
        data: &HostData,
        walk: &StridedIter,
        start: usize,
        n: usize,
        dst: &mut UninitSlice<'_, Self>,
    );
    /// Does [`ComputeElement::load`] know the type?
    fn loads(dtype: DType) -> bool;
    /// Results through `make`, stored as `to`.
    fn stored(
        d: &CpuDevice,
        len: usize,
        work: CostHint,
        to: DType,
        make: &FillFrom<'_, Self>,
    ) -> Result<HostData>;
}

/// Each element through a function.
#[derive(Clone, Copy)]
struct ConvertEach<'a, S, F>(&'a [S], F);

impl<S: Copy, T: Copy, F: Fn(S) -> T + Copy> ElementAt<T> for ConvertEach<'_, S, F> {
    #[inline(always)]
    fn at(&self, i: usize) -> T {
        (self.1)(self.0[i])
    }
    #[inline(always)]
    fn cut(self, n: usize) -> Self {
        ConvertEach(&self.0[..n], self.1)
    }
}

/// Writes each element through a function that is small enough to be inlined.
pub(super) fn each<S: Copy, T: Copy>(
    isa: Isa,
    x: &[S],
    dst: &mut UninitSlice<'_, T>,
    f: impl Fn(S) -> T + Copy,
) {
    dst.part(x.len(), |dst| dispatch(isa, FillByElement(ConvertEach(x, f), dst)));
}

/// Elements whose conversion is several choices, window by window: of a loop over all of them, the
/// compiler left every eighth element to one that goes one by one.
struct ConvertChunks<'a, 'r, S, T, F>(&'a [S], F, &'a mut UninitSlice<'r, T>);

/// Elements of such a window.
const CHUNK_ELEMENTS: usize = 64;

impl<S: Copy, T: Copy, F: Fn(S) -> T + Copy> FillChunk<T, CHUNK_ELEMENTS> for ConvertEach<'_, S, F> {
    #[inline(always)]
    fn fill(&self, number: usize, y: &mut [MaybeUninit<T>; CHUNK_ELEMENTS]) {
        let x = &self.0.as_chunks::<CHUNK_ELEMENTS>().0[number];
        for (y, x) in y.iter_mut().zip(x) {
            y.write((self.1)(*x));
        }
    }
}

impl<S: Copy, T: Copy, F: Fn(S) -> T + Copy> Kernel for ConvertChunks<'_, '_, S, T, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let ConvertChunks(x, f, dst) = self;
        let whole = x.len() / CHUNK_ELEMENTS;
        dst.chunks::<CHUNK_ELEMENTS>(whole, &ConvertEach(x, f));
        FillByElement(ConvertEach(&x[whole * CHUNK_ELEMENTS..], f), dst).run();
    }
}

/// As [`each`], through windows.
fn each_window<S: Copy, T: Copy>(isa: Isa, x: &[S], dst: &mut UninitSlice<'_, T>, f: impl Fn(S) -> T + Copy) {
    dst.part(x.len(), |dst| dispatch(isa, ConvertChunks(x, f, dst)));
}

/// Each element to the nearest of another type. There is a copy for AVX-512 of what goes from and
/// to f32, of what AVX2 has no instruction for, f64 to i64 and back, and of what becomes bytes,
/// which takes 0.7 of the time with AVX2. All other pairs of types are bound by memory with AVX2
/// too.
pub(crate) fn simple<S: ComputeElement, T: ComputeElement>(isa: Isa, x: &[S], dst: &mut UninitSlice<'_, T>) {
    dst.part(x.len(), |dst| {
        let work = FillByElement(ConvertEach(x, |v: S| v.to::<T>()), dst);
        if const {
            matches!(S::DTYPE, DType::F32)
                || matches!((S::DTYPE, T::DTYPE), (DType::F64, DType::I64) | (DType::I64, DType::F64))
                || size_of::<S>() > 1 && size_of::<T>() == 1
        } {
            dispatch(isa, work);
        } else {
            dispatch_formula::<T, _>(isa, work);
        }
    });
}

/// Exactly.
pub(crate) fn from_bf16(isa: Isa, x: &[bf16], dst: &mut UninitSlice<'_, f32>) {
    #[cfg(target_arch = "x86_64")]
    if convert_f16::widen(isa, x, dst) {
        return;
    }
    each(isa, x, dst, |v: bf16| f32::from_bits(u32::from(v.to_bits()) << 16));
}

/// To nearest even: what `bf16::from_f32` gives, by one sum instead of questions to several bits.
pub(crate) fn to_bf16(isa: Isa, x: &[f32], dst: &mut UninitSlice<'_, bf16>) {
    #[cfg(target_arch = "x86_64")]
    if convert_f16::narrow(isa, x, dst) {
        return;
    }
    each(isa, x, dst, |v: f32| {
        let bits = v.to_bits();
        // Just below a half, and the last bit that stays: a half is rounded up to an even number
        // only if that is odd.
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        // A NaN stays one if its first bit is set.
        let nan = bits >> 16 | 0x40;
        bf16::from_bits(if v.is_nan() { nan } else { rounded } as u16)
    });
}

/// The same bits in the upper half of an f32's; in the lower half is anything. (Written by way of
/// this, [`to_bf16`] took a sixth longer: the choice is then one of floats.)
#[inline(always)]
pub(crate) fn nearest_bf16<L: Lane>(x: L) -> L {
    let bits = x.to_bits();
    let even = bits.shr_logical(16) & LaneInt::lit(1);
    let near = L::from_bits(bits + (even + LaneInt::lit(0x7fff)));
    L::select(x.is_nan(), L::from_bits(bits | LaneInt::lit(0x40 << 16)), near)
}

/// Exactly: the exponent moves by a product, which makes numbers of those that f16 has below its
/// normal ones, too.
pub(crate) fn from_f16(isa: Isa, x: &[f16], dst: &mut UninitSlice<'_, f32>) {
    #[cfg(target_arch = "x86_64")]
    if convert_f16::widen(isa, x, dst) {
        return;
    }
    each_window(isa, x, dst, |v: f16| {
        let bits = u32::from(v.to_bits());
        let (sign, rest) = ((bits & 0x8000) << 16, (bits & 0x7fff) << 13);
        // 2^112 is how far apart the exponents of the two types begin.
        let number = (f32::from_bits(rest) * f32::from_bits((112 + 127) << 23)).to_bits();
        // Infinity, or a NaN, whose first bit is set.
        let special = rest | 0x7f80_0000 | if rest > 0x0f80_0000 { 0x0040_0000 } else { 0 };
        f32::from_bits(sign | if rest < 0x0f80_0000 { number } else { special })
    });
}

/// To nearest even: what `f16::from_f32` gives.
pub(crate) fn to_f16(isa: Isa, x: &[f32], dst: &mut UninitSlice<'_, f16>) {
    #[cfg(target_arch = "x86_64")]
    if convert_f16::narrow(isa, x, dst) {
        return;
    }
    each_window(isa, x, dst, |v: f32| {
        let bits = v.to_bits();
        let (sign, rest) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
        // As with bf16; the exponent begins 112 later. What is too large comes to be infinity, or
        // more.
        let near = (rest.wrapping_add(0xfff + (rest >> 13 & 1)).wrapping_sub(112 << 23)) >> 13;
        // Of the numbers below the normal ones, a sum with 0.5 leaves as many bits as they have,
        // rounded.
        let low = (f32::from_bits(rest) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
        let nan = 0x7e00 | rest >> 13 & 0x3ff;
        let number = if rest < 0x3880_0000 { low } else { near.min(0x7c00) };
        f16::from_bits((sign | if rest > 0x7f80_0000 { nan } else { number }) as u16)
    });
}

/// A storage float, slice by slice.
pub(crate) trait StoredFloat: Storage {
    /// Exactly.
    fn widen(isa: Isa, x: &[Self], dst: &mut UninitSlice<'_, f32>);
    /// To nearest even: what [`Storage::from_f32`] gives.
    fn narrow(isa: Isa, x: &[f32], dst: &mut UninitSlice<'_, Self>);
}
macro_rules! stored_floats {
    ($($t:ty: $widen:expr, $narrow:expr;)*) => {$(
        impl StoredFloat for $t {
            fn widen(isa: Isa, x: &[$t], dst: &mut UninitSlice<'_, f32>) {
                ($widen)(isa, x, dst);
            }
            fn narrow(isa: Isa, x: &[f32], dst: &mut UninitSlice<'_, $t>) {
                ($narrow)(isa, x, dst);
            }
        }
    )*};
}
stored_floats! {
    f16: from_f16, to_f16;
    bf16: from_bf16, to_bf16;
}
/// Those of one byte have no vector code: a table, and integer operations.
macro_rules! stored_bytes {
    (() half $half:tt byte { $($b:ident: $t:ident $row:tt)* }) => {
        stored_floats! {$(
            elinvar_core::$t:
                |_, x: &[elinvar_core::$t], dst: &mut UninitSlice<'_, f32>| dst.extend(x.len(), |i| x[i].to_f32()),
                |_, x: &[f32], dst: &mut UninitSlice<'_, elinvar_core::$t>| {
                    dst.extend(x.len(), |i| elinvar_core::$t::from_f32(x[i]));
                };
        )*}
    };
}
elinvar_core::storage_floats!([stored_bytes]());

/// Results in f32 as they are stored: rounded once if that is in fewer bits.
///
/// # Errors
/// `OutOfMemory`; `DTypeMismatch` if they are to be stored as anything but f32 and storage floats.
pub(crate) fn stored(d: &CpuDevice, v: HostVec<f32>, to: DType) -> Result<HostData> {
    match_storage!(DType to; storage T => Ok(T::wrap(narrowed(d, v, &|v, dst| T::narrow(d.isa(), v, dst))?));
        _ => store(v, to),
    )
}

/// Results as a storage float, by all threads. The memory of those in f32 goes back to the cache.
fn narrowed<T: Element>(
    d: &CpuDevice,
    v: HostVec<f32>,
    f: &(dyn Fn(&[f32], &mut UninitSlice<'_, T>) + Sync),
) -> Result<HostVec<T>> {
    let v = PooledVec::of(v);
    parallel_fill_hinted(d, v.len(), 1, CostHint::Light, &|start, dst| {
        f(&v[start..start + dst.remaining()], dst);
        Ok(())
    })
}

/// `len` results that `f` makes in f32, stored as a storage float, piece by piece: parts of a
/// piece, of a multiple of `unit` each, are made in a second-level cache. (If all results are made
/// in f32 first, a layer norm of 4096 x 1024 bf16 takes 1.6 times as long.)
///
/// # Errors
/// `OutOfMemory`; those of `f`; `DTypeMismatch` if they are to be stored as anything but storage
/// floats.
pub(crate) fn in_pieces(
    d: &CpuDevice,
    sizes: [usize; 3],
    ns: f64,
    to: DType,
    f: &FillFrom<'_, f32>,
) -> Result<HostData> {
    fn one<T: Element>(
        d: &CpuDevice,
        [len, unit, piece]: [usize; 3],
        ns: f64,
        f: &FillFrom<'_, f32>,
        narrow: impl Fn(&[f32], &mut UninitSlice<'_, T>) + Sync,
    ) -> Result<HostVec<T>> {
        let part = NARROW_MIN_PART_ELEMENTS.next_multiple_of(unit).min(piece);
        fill_pieces(d, len, piece, ns, &|mut start, dst: &mut UninitSlice<'_, T>| {
            let mut made = PooledVec::of(filled(part.min(dst.remaining()), 0f32)?);
            while dst.remaining() > 0 {
                let made = &mut made[..part.min(dst.remaining())];
                let mut all = UninitSlice::over(made);
                f(start, &mut all)?;
                assert_eq!(all.remaining(), 0, "cpu: results were left out");
                narrow(made, dst);
                start += made.len();
            }
            Ok(())
        })
    }
    match_storage!(DType to; storage T => Ok(T::wrap(one(d, sizes, ns, f, |v, dst| T::narrow(d.isa(), v, dst))?));
        _ => store(HostVec::<f32>::new(), to),
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f16_is_what_it_is_elsewhere() {
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let near =
            |x: f16| [-1i32, 0, 1].map(|by| f32::from_bits(x.to_f32().to_bits().wrapping_add_signed(by)));
        // Numbers of f16 and those beside them; those in the middle between two, and beside; and of
        // all sizes.
        let mut x: Vec<f32> = all.iter().flat_map(|&x| near(x)).collect();
        for pair in all.chunks(2) {
            let middle = (pair[0].to_f32() + pair[1].to_f32()) / 2.0;
            x.extend([-1i32, 0, 1].map(|by| f32::from_bits(middle.to_bits().wrapping_add_signed(by))));
        }
        x.extend(
            (0..=0xffff_u32).flat_map(|high| [0, 0x1000, 0xffff].map(|low| f32::from_bits(high << 16 | low))),
        );
        for isa in Isa::with_kernels() {
            let (mut wide, mut narrow) = (CacheBlock::<f32>::new(), CacheBlock::<f16>::new());
            for part in all.chunks(512) {
                let got = wide.fill(part.len(), |dst| from_f16(isa, part, dst));
                let want = part.iter().map(|x| x.to_f32().to_bits());
                assert!(got.iter().map(|y| y.to_bits()).eq(want), "{isa}");
            }
            for part in x.chunks(512) {
                let got = narrow.fill(part.len(), |dst| to_f16(isa, part, dst));
                for (got, x) in got.iter().zip(part) {
                    let want = f16::from_f32(*x);
                    assert!(got.to_bits() == want.to_bits(), "{isa}: {x:e} {got} {want}");
                }
            }
        }
    }

    #[test]
    fn bf16_is_what_it_is_elsewhere() {
        // Every upper half, with lower halves around the places where rounding changes; NaN too.
        let low = [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff];
        let x: Vec<f32> =
            (0..=0xffff_u32).flat_map(|high| low.map(|low| f32::from_bits(high << 16 | low))).collect();
        for isa in Isa::with_kernels() {
            let mut block = CacheBlock::<bf16>::new();
            for part in x.chunks(512) {
                let got = block.fill(part.len(), |dst| to_bf16(isa, part, dst));
                let want = part.iter().map(|&x| bf16::from_f32(x).to_bits());
                assert!(got.iter().map(|y| y.to_bits()).eq(want), "{isa}");
            }
        }
    }
}
