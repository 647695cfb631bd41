//! Block reduce kernels: sums of contiguous terms in 128 lanes held in registers, in the canonical
//! order, and extremes, which have no order.
//!
//! Compiled from plain Rust loops, the lanes would stay in memory, and each step would wait for the
//! store of the one before (store-to-load latency).
#![allow(unsafe_code, reason = "vector loads and stores, in slices whose lengths are looked at")]

mod row_sums;

use crate::reduce::combine::{self, Combine};
use elinvar_core::order::LANES;
use elinvar_ops::fold::{Max, Min, Sum};
use elinvar_simd::LINE;
use elinvar_simd::isa::{Isa, IsaTargets, Kernel, Level, dispatch, not_compiled_for};
use elinvar_simd::prefetch::prefetch_l2;
use elinvar_simd::vector::Vector;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use elinvar_simd::wasm::{F32x4, F64x2};
use row_sums::RowSums;
#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

/// A register whose numbers have extremes.
///
/// # Safety
/// As for [`Vector`].
trait MinMaxVector: Vector {
    /// The larger of each two; of a NaN and a number, and of two zeros, either.
    unsafe fn larger(self, b: Self) -> Self;
    /// The smaller of each two, with the same exceptions.
    unsafe fn smaller(self, b: Self) -> Self;
}

macro_rules! extremes {
    ($($v:ty: $larger:path, $smaller:path;)*) => {$(
        impl MinMaxVector for $v {
            #[inline(always)]
            unsafe fn larger(self, b: Self) -> Self {
                // SAFETY: the caller's: the processor has the instruction.
                unsafe { $larger(self, b) }
            }
            #[inline(always)]
            unsafe fn smaller(self, b: Self) -> Self {
                // SAFETY: the caller's: the processor has the instruction.
                unsafe { $smaller(self, b) }
            }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
extremes! {
    __m512: _mm512_max_ps, _mm512_min_ps;
    __m512d: _mm512_max_pd, _mm512_min_pd;
    __m256: _mm256_max_ps, _mm256_min_ps;
    __m256d: _mm256_max_pd, _mm256_min_pd;
}
#[cfg(target_arch = "aarch64")]
extremes! {
    float32x4_t: vmaxq_f32, vminq_f32;
    float64x2_t: vmaxq_f64, vminq_f64;
}
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
extremes! {
    F32x4: F32x4::larger, F32x4::smaller;
    F64x2: F64x2::larger, F64x2::smaller;
}

/// Which of two registers' numbers win.
trait ExtremeOp<T>: Combine<T> {
    /// # Safety
    /// The processor has the register's instruction set.
    unsafe fn win<V: MinMaxVector<T = T>>(a: V, b: V) -> V;
}

impl<T> ExtremeOp<T> for Max
where
    Max: Combine<T>,
{
    #[inline(always)]
    unsafe fn win<V: MinMaxVector<T = T>>(a: V, b: V) -> V {
        // SAFETY: the caller's.
        unsafe { a.larger(b) }
    }
}

impl<T> ExtremeOp<T> for Min
where
    Min: Combine<T>,
{
    #[inline(always)]
    unsafe fn win<V: MinMaxVector<T = T>>(a: V, b: V) -> V {
        // SAFETY: the caller's.
        unsafe { a.smaller(b) }
    }
}

/// Registers that hold sums while terms go by.
const SUM_REGISTERS: usize = 8;
/// The same where all sixteen of AVX2 do: terms are added from where they are.
#[cfg(target_arch = "x86_64")]
const ALL_SUM_REGISTERS: usize = 16;
/// How far ahead terms in memory are fetched, in bytes: a small page, for the processor
/// foresees what follows within one. Farther ahead is better at times and worse than nothing at
/// others, and a whole block at once always is. By the second level: by the first, sums take 1.3
/// times as long on a Zen 4.
const PREFETCH_DISTANCE_BYTES: usize = 4 << 10;

/// Has the line fetched that is so far ahead of register `i`, unless a register before it begins
/// in the same `lines`, of which the processor fetches the others.
#[inline(always)]
fn prefetch_ahead<V: Vector>(from: *const V::T, i: usize, lines: usize) {
    if (i * size_of::<V>()).is_multiple_of(lines * LINE) {
        prefetch_l2(from.cast::<u8>().wrapping_add(i * size_of::<V>() + PREFETCH_DISTANCE_BYTES));
    }
}

/// A sum of at most a block, and whether what follows is fetched. Made by [`VectorFolds`] alone,
/// which pairs registers and instruction sets. What is left after whole chunks is summed in
/// registers `S`.
struct BlockSum<'a, V: Vector, S, const SUM_REGISTERS: usize>(&'a [V::T], bool, PhantomData<(V, S)>);

impl<V: Vector, S: Vector<T = V::T>, const SUM_REGISTERS: usize> Kernel for BlockSum<'_, V, S, SUM_REGISTERS>
where
    V::T: Copy,
    Sum: Combine<V::T>,
{
    type Out = V::T;
    const TARGETS: IsaTargets = copies::<V>();
    #[inline(always)]
    fn run(self) -> V::T {
        /// Chunks after which sums change registers, where not all are held at once.
        const CHUNKS_PER_GROUP: usize = 8;
        let (x, n, from_memory) = (self.0, self.0.len(), self.1);
        let parts = LANES / (SUM_REGISTERS * V::LANES);
        let whole = n / LANES;
        let mut all: [V::T; LANES] = [<Sum as Combine<V::T>>::init(); LANES];
        let group = if parts == 1 { whole.max(1) } else { CHUNKS_PER_GROUP };
        let from = x.as_ptr();
        let mut first = 0;
        // No iterator in steps: it would divide.
        while first < whole {
            for part in 0..parts {
                let at = part * SUM_REGISTERS * V::LANES;
                // SAFETY: `VectorFolds` made this for an instruction set that an `Isa` was made
                // for, here and below. Chunks before `whole` are in `x`, and parts in a chunk, as
                // in the 128 lanes.
                unsafe {
                    let to = all.as_mut_ptr().add(at);
                    let mut sums: [V; SUM_REGISTERS] =
                        [V::splat(<Sum as Combine<V::T>>::init()); SUM_REGISTERS];
                    if first > 0 {
                        for (i, sum) in sums.iter_mut().enumerate() {
                            *sum = V::load(to.add(i * V::LANES));
                        }
                    }
                    for chunk in first..whole.min(first + group) {
                        let from = from.add(chunk * LANES + at);
                        if from_memory {
                            (0..SUM_REGISTERS).for_each(|i| prefetch_ahead::<V>(from, i, 1));
                        }
                        for (i, sum) in sums.iter_mut().enumerate() {
                            *sum = sum.add(V::load(from.add(i * V::LANES)));
                        }
                    }
                    if parts == 1 && n == whole * LANES && V::LANES == 16 {
                        // The tree begins in registers.
                        let half: [V; 4] = [
                            sums[0].add(sums[4]),
                            sums[1].add(sums[5]),
                            sums[2].add(sums[6]),
                            sums[3].add(sums[7]),
                        ];
                        let last = half[0].add(half[2]).add(half[1].add(half[3]));
                        let mut few: [V::T; 16] = [<Sum as Combine<V::T>>::init(); 16];
                        last.store(few.as_mut_ptr());
                        return combine::reduce_16_lanes::<V::T, Sum>(few);
                    }
                    for (i, sum) in sums.into_iter().enumerate() {
                        sum.store(to.add(i * V::LANES));
                    }
                }
            }
            first += group;
        }
        // SAFETY: as above.
        unsafe {
            add_terms::<S>(&mut all, &x[whole * LANES..]);
            reduce_lanes::<S>(&mut all, n)
        }
    }
}

/// Adds terms to as many lanes, or more.
///
/// # Safety
/// The processor has the register.
#[inline(always)]
unsafe fn add_terms<V: Vector>(lanes: &mut [V::T], terms: &[V::T])
where
    V::T: Copy,
    Sum: Combine<V::T>,
{
    for (lanes, terms) in lanes.chunks_mut(V::LANES).zip(terms.chunks(V::LANES)) {
        if terms.len() == V::LANES && lanes.len() == V::LANES {
            // SAFETY: the caller's; both slices are as long as a register.
            unsafe { V::load(lanes.as_ptr()).add(V::load(terms.as_ptr())).store(lanes.as_mut_ptr()) }
        } else {
            for (lane, &term) in lanes.iter_mut().zip(terms) {
                *lane = <Sum as Combine<V::T>>::combine(*lane, term);
            }
        }
    }
}

/// The sum of the lanes, of which `n` terms were read: [`combine::reduce_lanes`], in registers.
/// What the compiler made of that was pieces of all sizes, which are loaded as other pieces before
/// they have arrived in memory; which it was changed with code elsewhere, and sums of 60 numbers
/// with it by a third. As the last terms come number by number, f32 takes registers of half of
/// AVX-512's size here: of their own, sums of 17 to 60 numbers took a sixth longer.
///
/// # Safety
/// The processor has the register.
#[inline(always)]
unsafe fn reduce_lanes<V: Vector>(all: &mut [V::T; LANES], n: usize) -> V::T
where
    V::T: Copy,
    Sum: Combine<V::T>,
{
    let to = all.as_mut_ptr();
    let mut half = LANES / 2;
    while half >= 16 {
        if n > half {
            let mut i = 0;
            while i < half {
                // SAFETY: the caller's; no register has more than 16 lanes, so both are in the 128.
                unsafe { V::load(to.add(i)).add(V::load(to.add(half + i))).store(to.add(i)) };
                i += V::LANES;
            }
        }
        half /= 2;
    }
    combine::reduce_16_lanes::<V::T, Sum>(std::array::from_fn(|j| all[j]))
}

/// Terms of a row that [`RowSums`] takes.
pub(crate) const ROW_TERMS_IN_REGISTERS: RangeInclusive<usize> = 17..=64;

/// A sum of at most a block, whose terms are in several parts. Made by [`VectorFolds`] alone.
struct PartsSum<'a, V: Vector, S>(&'a [&'a [V::T]], PhantomData<(V, S)>);

impl<V: Vector, S: Vector<T = V::T>> Kernel for PartsSum<'_, V, S>
where
    V::T: Copy,
    Sum: Combine<V::T>,
{
    type Out = V::T;
    const TARGETS: IsaTargets = copies::<V>();
    #[inline(always)]
    fn run(self) -> V::T {
        let mut all: [V::T; LANES] = [<Sum as Combine<V::T>>::init(); LANES];
        let mut n = 0;
        for part in self.0 {
            // What the last chunk of the part before has left, whole chunks, what is left.
            let lane = n % LANES;
            let (head, x) = part.split_at(part.len().min((LANES - lane) % LANES));
            let (whole, from) = (x.len() / LANES, x.as_ptr());
            // SAFETY: `VectorFolds` made this for an instruction set that an `Isa` was made for.
            // Chunks before `whole` are in `x`, and the registers of a chunk in it, as in the 128
            // lanes.
            unsafe {
                add_terms::<S>(&mut all[lane..], head);
                for at in (0..LANES).step_by(SUM_REGISTERS * V::LANES) {
                    let to = all.as_mut_ptr().add(at);
                    let mut sums: [V; SUM_REGISTERS] =
                        [V::splat(<Sum as Combine<V::T>>::init()); SUM_REGISTERS];
                    for (i, sum) in sums.iter_mut().enumerate() {
                        *sum = V::load(to.add(i * V::LANES));
                    }
                    for chunk in 0..whole {
                        let from = from.add(chunk * LANES + at);
                        for (i, sum) in sums.iter_mut().enumerate() {
                            *sum = sum.add(V::load(from.add(i * V::LANES)));
                        }
                    }
                    for (i, sum) in sums.into_iter().enumerate() {
                        sum.store(to.add(i * V::LANES));
                    }
                }
                add_terms::<S>(&mut all, &x[whole * LANES..]);
            }
            n += part.len();
        }
        // SAFETY: as above.
        unsafe { reduce_lanes::<S>(&mut all, n) }
    }
}

/// An extreme if there is no doubt about it, and whether what follows is fetched. Made by
/// [`VectorFolds`] alone.
struct BlockExtreme<'a, V: Vector, F>(&'a [V::T], bool, PhantomData<(V, F)>);

impl<V: MinMaxVector, F: ExtremeOp<V::T>> Kernel for BlockExtreme<'_, V, F> {
    type Out = Option<V::T>;
    #[inline(always)]
    fn run(self) -> Option<V::T> {
        const REGISTERS_PER_STEP: usize = 4;
        let x = self.0;
        let wide = REGISTERS_PER_STEP * V::LANES;
        let whole = x.len() / wide;
        let from = x.as_ptr();
        let (mut few, mut doubts) = ([F::init(); 16], [F::no_doubt(); 16]);
        // SAFETY: `VectorFolds` made this for an instruction set that an `Isa` was made for; what
        // is read is in `x` up to `whole * wide`, what is stored in 16 numbers, which no register
        // exceeds.
        unsafe {
            let mut best: [V; REGISTERS_PER_STEP] = [V::splat(F::init()); REGISTERS_PER_STEP];
            let mut doubt: [V; REGISTERS_PER_STEP] = [V::splat(F::no_doubt()); REGISTERS_PER_STEP];
            for chunk in 0..whole {
                let from = from.add(chunk * wide);
                if self.1 {
                    // Two operations for a register as it is: fetching every line took a seventh
                    // longer.
                    (0..REGISTERS_PER_STEP).for_each(|i| prefetch_ahead::<V>(from, i, 2));
                }
                for i in 0..REGISTERS_PER_STEP {
                    let terms = V::load(from.add(i * V::LANES));
                    best[i] = F::win(best[i], terms);
                    // A sum is NaN if a term is (or if infinities of both signs are).
                    doubt[i] = doubt[i].add(terms);
                }
            }
            F::win(F::win(best[0], best[1]), F::win(best[2], best[3])).store(few.as_mut_ptr());
            doubt[0].add(doubt[1]).add(doubt[2].add(doubt[3])).store(doubts.as_mut_ptr());
        }
        for terms in x[whole * wide..].chunks(16) {
            for ((best, doubt), &term) in few.iter_mut().zip(&mut doubts).zip(terms) {
                *best = F::quick_extreme(*best, term);
                *doubt = F::doubt(*doubt, term);
            }
        }
        combine::certain_extreme::<V::T, F>(few, doubts)
    }
}

/// Numbers whose folds have registers.
pub(crate) trait VectorFolds: Sized {
    /// The sum of at most a block; `from_memory`: what follows is fetched.
    fn sum(isa: Isa, x: &[Self], from_memory: bool) -> Self;
    /// The sums of rows of so many terms ([`ROW_TERMS_IN_REGISTERS`]), one after the other.
    fn sum_rows(isa: Isa, x: &[Self], n: usize, sums: &mut [Self]);
    /// The sum of at most a block that is in several parts.
    fn sum_of(isa: Isa, parts: &[&[Self]]) -> Self;
    /// The largest, if there is no doubt about it: no NaN, no zero.
    fn largest(isa: Isa, x: &[Self], from_memory: bool) -> Option<Self>;
    /// The smallest, if there is no doubt about it.
    fn smallest(isa: Isa, x: &[Self], from_memory: bool) -> Option<Self>;
}

/// Of registers of AVX2 there is its copy alone.
const fn copies<V>() -> IsaTargets {
    if size_of::<V>() <= 32 { IsaTargets::UpToAvx2 } else { IsaTargets::All }
}

/// Work for the baseline of the architecture, which x86-64 has none for.
fn plain<T>(isa: Isa, work: impl FnOnce() -> T) -> T {
    if cfg!(target_arch = "x86_64") { not_compiled_for(isa) } else { work() }
}

macro_rules! folds {
    ($t:ty: $v512:ident, of sums $sum512:ident $tail512:ident $held512:ident; $v256:ident $v128:ident $wasm:ident) => {
        impl VectorFolds for $t {
            fn sum(isa: Isa, x: &[$t], from_memory: bool) -> $t {
                match isa.level() {
                    Level::Plain => plain(isa, || combine::fold_terms::<$t, Sum>(x)),
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => dispatch(
                        isa,
                        BlockSum::<$v256, $v256, ALL_SUM_REGISTERS>(x, from_memory, PhantomData),
                    ),
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => {
                        dispatch(isa, BlockSum::<$sum512, $tail512, $held512>(x, from_memory, PhantomData))
                    }
                    #[cfg(target_arch = "aarch64")]
                    Level::Neon => {
                        dispatch(isa, BlockSum::<$v128, $v128, SUM_REGISTERS>(x, from_memory, PhantomData))
                    }
                    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
                    Level::Simd128 => {
                        dispatch(isa, BlockSum::<$wasm, $wasm, SUM_REGISTERS>(x, from_memory, PhantomData))
                    }
                }
            }
            fn sum_rows(isa: Isa, x: &[$t], n: usize, sums: &mut [$t]) {
                let set = <$t>::from_bits(!0);
                match isa.level() {
                    Level::Plain => plain(isa, || {
                        for (row, sum) in x.chunks_exact(n).zip(sums) {
                            *sum = combine::fold_terms::<$t, Sum>(row);
                        }
                    }),
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => dispatch(isa, RowSums::<$v256> { x, n, set, sums }),
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => dispatch(isa, RowSums::<$sum512> { x, n, set, sums }),
                    #[cfg(target_arch = "aarch64")]
                    Level::Neon => dispatch(isa, RowSums::<$v128> { x, n, set, sums }),
                    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
                    Level::Simd128 => dispatch(isa, RowSums::<$wasm> { x, n, set, sums }),
                }
            }
            fn sum_of(isa: Isa, parts: &[&[$t]]) -> $t {
                match isa.level() {
                    Level::Plain => plain(isa, || combine::fold_terms::<$t, Sum>(&parts.concat())),
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => dispatch(isa, PartsSum::<$v256, $v256>(parts, PhantomData)),
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => dispatch(isa, PartsSum::<$sum512, $tail512>(parts, PhantomData)),
                    #[cfg(target_arch = "aarch64")]
                    Level::Neon => dispatch(isa, PartsSum::<$v128, $v128>(parts, PhantomData)),
                    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
                    Level::Simd128 => dispatch(isa, PartsSum::<$wasm, $wasm>(parts, PhantomData)),
                }
            }
            fn largest(isa: Isa, x: &[$t], from_memory: bool) -> Option<$t> {
                match isa.level() {
                    Level::Plain => None,
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => dispatch(isa, BlockExtreme::<$v256, Max>(x, from_memory, PhantomData)),
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => dispatch(isa, BlockExtreme::<$v512, Max>(x, from_memory, PhantomData)),
                    #[cfg(target_arch = "aarch64")]
                    Level::Neon => dispatch(isa, BlockExtreme::<$v128, Max>(x, from_memory, PhantomData)),
                    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
                    Level::Simd128 => dispatch(isa, BlockExtreme::<$wasm, Max>(x, from_memory, PhantomData)),
                }
            }
            fn smallest(isa: Isa, x: &[$t], from_memory: bool) -> Option<$t> {
                match isa.level() {
                    Level::Plain => None,
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => dispatch(isa, BlockExtreme::<$v256, Min>(x, from_memory, PhantomData)),
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => dispatch(isa, BlockExtreme::<$v512, Min>(x, from_memory, PhantomData)),
                    #[cfg(target_arch = "aarch64")]
                    Level::Neon => dispatch(isa, BlockExtreme::<$v128, Min>(x, from_memory, PhantomData)),
                    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
                    Level::Simd128 => dispatch(isa, BlockExtreme::<$wasm, Min>(x, from_memory, PhantomData)),
                }
            }
        }
    };
}
// Sums of f64 take AVX2's copy.
folds!(f32: __m512, of sums __m512 __m256 SUM_REGISTERS; __m256 float32x4_t F32x4);
folds!(f64: __m512d, of sums __m256d __m256d ALL_SUM_REGISTERS; __m256d float64x2_t F64x2);
