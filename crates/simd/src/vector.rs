//! Vector registers as a trait, and kernels written once for all register widths.
//!
//! [`Vector`] is one register (AVX-512, AVX2, NEON, simd128, an array elsewhere). A
//! [`VectorKernel`] is generic over it; the `dispatch_*` functions pick the widest register of an
//! instruction set, half of that, or the one that multiplies bf16 pairs.
#![allow(unsafe_code, reason = "instructions that not every processor has")]

#[cfg(not(target_arch = "x86_64"))]
use super::isa::PLAIN_HAS_KERNELS;
#[cfg(target_arch = "x86_64")]
use super::isa::dispatch_pairs;
use super::isa::{Isa, IsaTargets, Kernel, Level, not_compiled_for};
use super::quad::GatherVector;
use elinvar_core::Element;
use elinvar_lane::lane::Lane;
use std::marker::PhantomData;

/// A vector register.
///
/// # Safety
/// All functions may be called only on a processor that has the instruction set of the register;
/// `load` and `store` access `LANES` elements from the pointer on.
pub trait Vector: Copy {
    /// The element type.
    type T: SimdElement;
    /// Elements per register.
    const LANES: usize;
    /// Rows of a full tile that is two registers wide: as many as there are registers for.
    const TILE_ROWS: usize;
    /// The register of half the size that is its first half, where processors do two of those at
    /// once or one of this; or itself.
    type Low: Vector<T = Self::T>;
    /// The first elements.
    unsafe fn low(self) -> Self::Low;
    /// Are its numbers pairs of bf16?
    const IS_BF16_PAIRS: bool = false;
    /// Copies of a number.
    unsafe fn splat(v: Self::T) -> Self;
    /// Loads elements.
    unsafe fn load(p: *const Self::T) -> Self;
    /// Stores elements.
    unsafe fn store(self, p: *mut Self::T);
    /// Prefetches the line at this address into L1, if supported.
    unsafe fn prefetch_l1(p: *const Self::T);
    /// Prefetches it into L2: for many lines, or lines that would evict each other from L1.
    unsafe fn prefetch_l2(p: *const u8);
    /// self * b + c, rounded once.
    unsafe fn fma(self, b: Self, c: Self) -> Self;
    /// self + b
    unsafe fn add(self, b: Self) -> Self;
    /// self - b
    unsafe fn sub(self, b: Self) -> Self;
    /// self * b; of pairs of bf16 the sum of both products, as of `fma`.
    unsafe fn mul(self, b: Self) -> Self;
    /// Bitwise and.
    unsafe fn and(self, mask: Self) -> Self;
    /// `self` where all bits of the mask are set, `other` where none is.
    unsafe fn select(self, other: Self, mask: Self) -> Self;
    /// Compresses: writes those of up to `LANES` elements that are not zero one after the other,
    /// and their positions, counted from `place`; returns how many there are. Up to a register's
    /// worth of slots after them may be overwritten.
    #[inline(always)]
    unsafe fn compress(
        from: *const Self::T,
        count: usize,
        place: u32,
        places: *mut u32,
        to: *mut Self::T,
    ) -> usize {
        let mut n = 0;
        for i in 0..count {
            // SAFETY: guaranteed by the caller.
            unsafe {
                // Without a branch, which would be unpredictable.
                let v = *from.add(i);
                places.add(n).write(place + i as u32);
                to.add(n).write(v);
                n += usize::from(v != Self::T::default());
            }
        }
        n
    }
}

/// The operands of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermKind {
    /// Elements of the register's type.
    Elements,
    /// Pairs of bf16, two consecutive terms in the bits of an f32, for processors with a bf16 dot
    /// product: see [`Isa::has_pairs`] and, for products, [`Isa::has_amx`]. A chunk has as many
    /// pairs as it would have elements.
    Bf16Pairs,
}

impl TermKind {
    /// Operands for `count` terms: half as many pairs, rounded up.
    pub fn terms(self, count: usize) -> usize {
        match self {
            TermKind::Elements => count,
            TermKind::Bf16Pairs => count.div_ceil(2),
        }
    }
}

/// f32 or f64: an element type with vector registers.
pub trait SimdElement: Lane<Mask = bool> + Element + Default {
    /// Are f16 and bf16 computed in this type? If not, the code that reads them need not be
    /// compiled.
    const WIDENS_F16: bool;
    /// A register of AVX-512.
    #[cfg(target_arch = "x86_64")]
    type V512: GatherVector<T = Self>;
    /// A register of AVX-512 with bf16 dot products; f64 has none, so there it is the register
    /// itself.
    #[cfg(target_arch = "x86_64")]
    type Pairs: GatherVector<T = Self>;
    /// The same with half the lanes.
    #[cfg(target_arch = "x86_64")]
    type HalfPairs: GatherVector<T = Self>;
    /// A register of AVX2.
    #[cfg(target_arch = "x86_64")]
    type V256: GatherVector<T = Self>;
    /// A register of NEON, or of simd128.
    #[cfg(any(target_arch = "aarch64", all(target_arch = "wasm32", target_feature = "simd128")))]
    type V128: GatherVector<T = Self>;
}

impl SimdElement for f32 {
    const WIDENS_F16: bool = true;
    #[cfg(target_arch = "x86_64")]
    type V512 = std::arch::x86_64::__m512;
    #[cfg(target_arch = "x86_64")]
    type Pairs = super::x86::Pairs;
    #[cfg(target_arch = "x86_64")]
    type HalfPairs = super::x86::HalfPairs;
    #[cfg(target_arch = "x86_64")]
    type V256 = std::arch::x86_64::__m256;
    #[cfg(target_arch = "aarch64")]
    type V128 = std::arch::aarch64::float32x4_t;
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    type V128 = super::wasm::F32x4;
}

impl SimdElement for f64 {
    const WIDENS_F16: bool = false;
    #[cfg(target_arch = "x86_64")]
    type V512 = std::arch::x86_64::__m512d;
    #[cfg(target_arch = "x86_64")]
    type Pairs = std::arch::x86_64::__m512d;
    #[cfg(target_arch = "x86_64")]
    type HalfPairs = std::arch::x86_64::__m256d;
    #[cfg(target_arch = "x86_64")]
    type V256 = std::arch::x86_64::__m256d;
    #[cfg(target_arch = "aarch64")]
    type V128 = std::arch::aarch64::float64x2_t;
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    type V128 = super::wasm::F64x2;
}

/// A kernel that runs in the widest registers of an instruction set.
pub trait VectorKernel {
    /// The element type.
    type T: SimdElement;
    /// The instruction sets it is compiled for.
    const TARGETS: IsaTargets = IsaTargets::All;
    /// The same, in half-width registers ([`dispatch_half_vectors`]).
    const HALF_TARGETS: IsaTargets = Self::TARGETS;
    /// The work. It must be `#[inline(always)]`, and so must everything that it calls in its loops.
    ///
    /// # Safety
    /// The processor has the instruction set of `V`.
    unsafe fn run<V: GatherVector<T = Self::T>>(self);
}

/// Runs a kernel in the copy for this instruction set.
#[inline]
pub fn dispatch_vectors<W: VectorKernel>(isa: Isa, work: W) {
    // Each register type is compiled for its own instruction set only, which `dispatch` could not
    // know.
    match isa.level() {
        #[cfg(not(target_arch = "x86_64"))]
        Level::Plain if const { PLAIN_HAS_KERNELS && W::TARGETS.has_avx2_or_neon() } => {
            WithVectors::<Array4<W::T>, W>(work, PhantomData).plain()
        }
        // SAFETY: an `Isa` of this level is made by `Isa::all` alone, which found the features on
        // this processor.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 if const { W::TARGETS.has_avx2_or_neon() } => unsafe {
            WithVectors::<<W::T as SimdElement>::V256, W>(work, PhantomData).avx2()
        },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { WithVectors::<<W::T as SimdElement>::V512, W>(work, PhantomData).avx512() },
        #[cfg(target_arch = "aarch64")]
        Level::Neon if const { W::TARGETS.has_avx2_or_neon() } => {
            WithVectors::<<W::T as SimdElement>::V128, W>(work, PhantomData).plain()
        }
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        Level::Simd128 if const { W::TARGETS.has_avx2_or_neon() } => {
            WithVectors::<<W::T as SimdElement>::V128, W>(work, PhantomData).plain()
        }
        #[cfg(target_arch = "x86_64")]
        Level::Plain | Level::Avx2 => not_compiled_for(isa),
        #[cfg(not(target_arch = "x86_64"))]
        _ => not_compiled_for(isa),
    }
}

/// Runs a kernel in registers of 32 bytes where the widest have 64. For work that is bound by loads
/// and shuffles, whose throughput in bytes is no lower in the shorter registers; and eight rows
/// that are a power of two apart still fit in one set of L1, sixteen do not.
#[inline]
pub fn dispatch_half_vectors<W: VectorKernel>(isa: Isa, work: W) {
    match isa.level() {
        // Compiled for AVX-512, which has 32 of these registers.
        // SAFETY: as above; `Isa::all` makes this level only where it found the features of AVX2
        // too.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 if const { W::HALF_TARGETS.has_avx512() } => unsafe {
            WithVectors::<<W::T as SimdElement>::V256, W>(work, PhantomData).avx512()
        },
        // Not through `dispatch_vectors`, which would compile the widest as well.
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 | Level::Avx2 => unsafe {
            WithVectors::<<W::T as SimdElement>::V256, W>(work, PhantomData).avx2()
        },
        #[cfg(not(target_arch = "x86_64"))]
        Level::Plain if const { PLAIN_HAS_KERNELS && W::HALF_TARGETS.has_avx2_or_neon() } => {
            WithVectors::<Array4<W::T>, W>(work, PhantomData).plain()
        }
        #[cfg(target_arch = "aarch64")]
        Level::Neon => WithVectors::<<W::T as SimdElement>::V128, W>(work, PhantomData).plain(),
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        Level::Simd128 => WithVectors::<<W::T as SimdElement>::V128, W>(work, PhantomData).plain(),
        Level::Plain => not_compiled_for(isa),
    }
}

/// A kernel in registers of this type. Created by the functions above alone, which check that the
/// processor has them.
struct WithVectors<V, W>(W, PhantomData<V>);

impl<V: GatherVector<T = W::T>, W: VectorKernel> Kernel for WithVectors<V, W> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        // SAFETY: they pair each register type with the instruction set that has it, and an `Isa`
        // is made only for what this processor has.
        unsafe { self.0.run::<V>() }
    }
}

/// Runs a kernel on pairs of bf16 in the bits of f32, in registers whose `fma` multiplies both
/// elements of each pair and adds both products to an f32.
///
/// # Panics
/// If the processor has no bf16 dot product ([`Isa::has_pairs`]).
#[inline]
pub fn dispatch_bf16_pairs<W: VectorKernel>(isa: Isa, work: W) {
    #[cfg(target_arch = "x86_64")]
    if const { W::T::WIDENS_F16 } {
        return dispatch_pairs(isa, WithVectors::<<W::T as SimdElement>::Pairs, W>(work, PhantomData));
    }
    let _ = work;
    unreachable!("{isa} multiplies no pairs");
}

/// Runs a kernel in the widest registers for these operands.
///
/// # Panics
/// If these are pairs, and the processor has no bf16 dot product.
#[inline]
pub fn dispatch_vectors_of<W: VectorKernel>(kind: TermKind, isa: Isa, work: W) {
    match kind {
        TermKind::Elements => dispatch_vectors(isa, work),
        TermKind::Bf16Pairs => dispatch_bf16_pairs(isa, work),
    }
}

/// As [`dispatch_bf16_pairs`], in registers as short as those of [`dispatch_half_vectors`].
///
/// # Panics
/// As [`dispatch_bf16_pairs`].
#[inline]
pub fn dispatch_half_bf16_pairs<W: VectorKernel>(isa: Isa, work: W) {
    #[cfg(target_arch = "x86_64")]
    if const { W::T::WIDENS_F16 } {
        return dispatch_pairs(isa, WithVectors::<<W::T as SimdElement>::HalfPairs, W>(work, PhantomData));
    }
    let _ = work;
    unreachable!("{isa} multiplies no pairs");
}

/// Elements in the registers that [`dispatch_vectors`] takes.
#[inline]
pub fn lanes<T: SimdElement>(isa: Isa) -> usize {
    match isa.level() {
        Level::Plain => Array4::<T>::LANES,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => T::V256::LANES,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => T::V512::LANES,
        #[cfg(target_arch = "aarch64")]
        Level::Neon => T::V128::LANES,
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        Level::Simd128 => T::V128::LANES,
    }
}

/// Elements in the [`Vector::Low`] of those registers.
#[inline]
pub fn low_lanes<T: SimdElement>(isa: Isa) -> usize {
    match isa.level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => <T::V512 as Vector>::Low::LANES,
        _ => lanes::<T>(isa),
    }
}

/// Elements in the registers that [`dispatch_half_vectors`] takes.
#[inline]
pub fn half_lanes<T: SimdElement>(isa: Isa) -> usize {
    match isa.level() {
        Level::Plain => Array4::<T>::LANES,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => T::V256::LANES,
        #[cfg(target_arch = "aarch64")]
        Level::Neon => T::V128::LANES,
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        Level::Simd128 => T::V128::LANES,
    }
}

/// Rows (MR) of a full register tile that is two such registers wide.
#[inline]
pub fn tile_rows<T: SimdElement>(isa: Isa) -> usize {
    match isa.level() {
        Level::Plain => Array4::<T>::TILE_ROWS,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => T::V256::TILE_ROWS,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => T::V512::TILE_ROWS,
        #[cfg(target_arch = "aarch64")]
        Level::Neon => T::V128::TILE_ROWS,
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        Level::Simd128 => T::V128::TILE_ROWS,
    }
}

/// Four elements, for the baseline of any architecture.
#[derive(Clone, Copy)]
pub struct Array4<T>([T; 4]);

impl<T> Array4<T> {
    /// Written out: in debug builds, as tests run it, `std::array::from_fn` takes most of the time.
    #[inline(always)]
    fn of(f: impl Fn(usize) -> T) -> Self {
        Array4([f(0), f(1), f(2), f(3)])
    }
}

impl<T: SimdElement> Vector for Array4<T> {
    type T = T;
    const LANES: usize = 4;
    // On plain x86-64 the fma of a number is a call, beside which it matters little how often a
    // factor is read: tiles of one row take a tenth longer than tiles of four, and these were 75 KB
    // of every program that multiplies.
    const TILE_ROWS: usize = if cfg!(target_arch = "x86_64") { 1 } else { 4 };
    type Low = Self;
    #[inline(always)]
    unsafe fn low(self) -> Self {
        self
    }
    #[inline(always)]
    unsafe fn splat(v: T) -> Self {
        Array4([v; 4])
    }
    #[inline(always)]
    unsafe fn load(p: *const T) -> Self {
        // SAFETY: the caller guarantees that four elements can be read.
        Array4(unsafe { p.cast::<[T; 4]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut T) {
        // SAFETY: the caller guarantees that four elements can be written.
        unsafe { p.cast::<[T; 4]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn prefetch_l1(_: *const T) {}
    #[inline(always)]
    unsafe fn prefetch_l2(_: *const u8) {}
    // On plain x86-64 an fma is a call. Four of them are compiled once, and not inlined into each
    // tile.
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    unsafe fn fma(self, b: Self, c: Self) -> Self {
        Array4::of(|i| Lane::fma(self.0[i], b.0[i], c.0[i]))
    }
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        Array4::of(|i| self.0[i] + b.0[i])
    }
    #[inline(always)]
    unsafe fn sub(self, b: Self) -> Self {
        Array4::of(|i| self.0[i] - b.0[i])
    }
    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        Array4::of(|i| self.0[i] * b.0[i])
    }
    #[inline(always)]
    unsafe fn and(self, mask: Self) -> Self {
        Array4::of(|i| T::from_bits(self.0[i].to_bits() & mask.0[i].to_bits()))
    }
    #[inline(always)]
    unsafe fn select(self, other: Self, mask: Self) -> Self {
        let bits = |i: usize| {
            let mask = mask.0[i].to_bits();
            (self.0[i].to_bits() & mask) | (other.0[i].to_bits() & !mask)
        };
        Array4::of(|i| T::from_bits(bits(i)))
    }
}
