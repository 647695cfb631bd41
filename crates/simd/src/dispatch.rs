//! Vector width policy: how many elements go through a formula at once, by instruction set and
//! float type.
//!
//! A formula is generic over [`Lane`]. As [`ScalarLane`] it is a loop over single elements, which
//! the compiler vectorises; as `Avx512Lane` it is written with the instructions of AVX-512, several
//! registers unrolled. Each [`LaneKernel`] is called with three widths: for many elements, for 64,
//! and for a tail.

#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
use super::avx512_lane::Avx512Lane;
use super::isa::{Isa, Kernel, Level};
use super::scalar_lane::{ScalarLane, SmallAngleLane};
use elinvar_core::Element;
use elinvar_lane::formula::Fold;
use elinvar_lane::lane::Lane;
use elinvar_lane::math;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Elements that go through a formula at once.
pub trait SimdLanes<T>: Copy {
    /// How many.
    const WIDTH: usize;
    /// The first of these elements.
    ///
    /// # Panics
    /// If they are fewer.
    fn load(from: &[T]) -> Self;
    /// To the first of these elements.
    ///
    /// # Panics
    /// If they are fewer.
    fn store(self, to: &mut [T]);
    /// To the first of these slots.
    ///
    /// # Panics
    /// If they are fewer.
    fn write(self, to: &mut [MaybeUninit<T>]);
    /// Copies of an element.
    fn splat(v: T) -> Self;
}

/// A reading that folds what goes through it.
pub trait ReduceLanes<T>: SimdLanes<T> + Lane {
    /// The first `n` of these, and behind them `other`.
    fn first(self, n: usize, other: T) -> Self;
    /// Two terms of a fold as one; an extreme need not see NaN.
    fn combine(f: Fold, a: Self, b: Self) -> Self;
    /// Some of these, or one.
    type Few: Copy;
    /// These as few: the first half with the second, and so on, as long as no register has numbers
    /// of both.
    fn few(self, f: Fold) -> Self::Few;
    /// Few as one, in the same way.
    fn folded(few: Self::Few, f: Fold) -> T;
    /// What was `seen` of NaN, and more bits if one of these is.
    fn or_nan(self, seen: u16) -> u16;
}

impl<T: Lane<Mask = bool>> ReduceLanes<T> for ScalarLane<T> {
    #[inline(always)]
    fn first(self, n: usize, other: T) -> Self {
        if n > 0 { self } else { ScalarLane(other) }
    }
    #[inline(always)]
    fn combine(f: Fold, a: Self, b: Self) -> Self {
        match f {
            Fold::Sum => a + b,
            Fold::Prod => a * b,
            Fold::Max => a.max(b),
            Fold::Min => a.min(b),
        }
    }
    type Few = Self;
    #[inline(always)]
    fn few(self, _: Fold) -> Self {
        self
    }
    #[inline(always)]
    fn folded(few: Self, _: Fold) -> T {
        few.0
    }
    #[inline(always)]
    fn or_nan(self, seen: u16) -> u16 {
        seen | u16::from(self.is_nan())
    }
}

/// An element that is no float.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct PlainElement<T>(pub T);

macro_rules! one_at_a_time {
    ($($reading:ident)*) => {$(
        impl<T: Copy> SimdLanes<T> for $reading<T> {
            const WIDTH: usize = 1;
            #[inline(always)]
            fn load(from: &[T]) -> Self {
                $reading(from[0])
            }
            #[inline(always)]
            fn store(self, to: &mut [T]) {
                to[0] = self.0;
            }
            #[inline(always)]
            fn write(self, to: &mut [MaybeUninit<T>]) {
                to[0].write(self.0);
            }
            #[inline(always)]
            fn splat(v: T) -> Self {
                $reading(v)
            }
        }
    )*};
}
one_at_a_time! { PlainElement ScalarLane SmallAngleLane }

/// Are all of these angles below [`math::moderate_bound`], so that [`SmallAngleLane`] may read
/// them?
#[inline(always)]
pub fn are_small_angles<T: SimdFloat, const W: usize>(x: &[T; W]) -> bool {
    // Without a branch in it, this is vector code.
    let mut all = true;
    for x in x {
        all &= x.abs().lt(math::moderate_bound());
    }
    all
}

/// A type of floats in which formulas are computed.
pub trait SimdFloat: Element + Lane<Mask = bool> {
    /// How AVX-512 reads many elements, if the formula is slim ([`Map::SLIM`]).
    ///
    /// [`Map::SLIM`]: elinvar_lane::formula::Map::SLIM
    #[cfg(target_arch = "x86_64")]
    type Widest: SimdLanes<Self> + Lane;
    /// How it reads 64, or as many as divide them.
    #[cfg(target_arch = "x86_64")]
    type Medium: ReduceLanes<Self>;
    /// How it reads the last ones: 16 divide by what goes at once.
    #[cfg(target_arch = "x86_64")]
    type Narrowest: SimdLanes<Self> + Lane;
}

/// With 6 registers, the normal distribution and the logarithm take 0.99 to 0.87 of their time with
/// 4, by processor. Most formulas have so many values alive that registers go to the stack and back
/// then: of 25 on an Intel Xeon, sixteen take 5 to 28 % longer with 6 than with 4.
///
/// Without optimisation every value that a formula goes through has a place of its own on the
/// stack, and of registers they are more than a thread has. So what is built to be debugged reads
/// an element at a time.
impl SimdFloat for f32 {
    #[cfg(target_arch = "x86_64")]
    type Widest = Avx512Lanes<6>;
    #[cfg(target_arch = "x86_64")]
    type Medium = Avx512Lanes<4>;
    #[cfg(target_arch = "x86_64")]
    type Narrowest = Avx512Lanes<1>;
}

#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
type Avx512Lanes<const K: usize> = Avx512Lane<K>;
#[cfg(all(target_arch = "x86_64", debug_assertions))]
type Avx512Lanes<const K: usize> = ScalarLane<f32>;

/// Registers of f64 are not written out: what has a copy for AVX-512 ([`LaneKernel::AVX512_F64`])
/// is left to the compiler.
impl SimdFloat for f64 {
    #[cfg(target_arch = "x86_64")]
    type Widest = ScalarLane<f64>;
    #[cfg(target_arch = "x86_64")]
    type Medium = ScalarLane<f64>;
    #[cfg(target_arch = "x86_64")]
    type Narrowest = ScalarLane<f64>;
}

/// Are sixty-four numbers read at once, and folded in registers, by [`run_lanes`]?
pub fn folds_in_registers<T: SimdFloat>(isa: Isa) -> bool {
    #[cfg(target_arch = "x86_64")]
    return matches!(isa.level(), Level::Avx512) && <T::Medium as SimdLanes<T>>::WIDTH == 64;
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = isa;
        false
    }
}

/// Work that reads formulas. `run` must be `#[inline(always)]`, and so must be what it calls in its
/// loops.
pub trait LaneKernel {
    /// The number that is worked on.
    type T: SimdFloat;
    /// Is there a copy for AVX-512 of f64, too? It is worth its bytes for elementary functions
    /// alone, which arithmetic bounds, not memory.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "there is one copy of everything"))]
    const AVX512_F64: bool;
    /// The work: with `L` many elements at once, with `M` fewer, with `S` few.
    fn run<L: SimdLanes<Self::T> + Lane, M: ReduceLanes<Self::T>, S: SimdLanes<Self::T> + Lane>(self);
}

/// Runs work in the reading and the copy for this instruction set. As for all formulas, there is
/// none for plain x86-64 ([`super::isa::dispatch_formula`]).
#[inline]
#[allow(unsafe_code, reason = "calling a function that needs an instruction set")]
pub fn run_lanes<W: LaneKernel>(isa: Isa, work: W) {
    #[cfg(target_arch = "x86_64")]
    match isa.level() {
        Level::Plain => unreachable!("the reference's loops run formulas on plain x86-64"),
        // SAFETY: an `Isa` of this level is made by `Isa::all` alone, which found the features on
        // this processor.
        Level::Avx2 => unsafe { plain(work).avx2() },
        Level::Avx512 => {
            if const { size_of::<W::T>() == 4 || W::AVX512_F64 } {
                // SAFETY: as above.
                unsafe { by_registers(work).avx512() }
            } else {
                // SAFETY: as above; `Isa::all` makes this level only where it found the features of
                // AVX2 too.
                unsafe { plain(work).avx2() }
            }
        }
    }
    #[cfg(target_arch = "aarch64")]
    match isa.level() {
        Level::Plain | Level::Neon => plain(work).plain(),
    }
}

/// As [`run_lanes`], of work of which there is a copy for every instruction set and type.
#[inline]
#[allow(unsafe_code, reason = "calling a function that needs an instruction set")]
pub fn run_lanes_on_any_isa<W: LaneKernel>(isa: Isa, work: W) {
    #[cfg(target_arch = "x86_64")]
    match isa.level() {
        Level::Plain => plain(work).plain(),
        // SAFETY: an `Isa` of this level is made by `Isa::all` alone, which found the features on
        // this processor.
        Level::Avx512 => unsafe { by_registers(work).avx512() },
        Level::Avx2 => run_lanes(isa, work),
    }
    #[cfg(not(target_arch = "x86_64"))]
    run_lanes(isa, work);
}

/// Work in these readings. Made by `run_lanes` alone, which pairs each with the instruction set
/// that has its registers.
struct WithLanes<L, M, S, W>(W, PhantomData<(L, M, S)>);

/// Work that reads an element at a time.
fn plain<W: LaneKernel>(work: W) -> WithLanes<ScalarLane<W::T>, ScalarLane<W::T>, ScalarLane<W::T>, W> {
    WithLanes(work, PhantomData)
}

/// Work that reads by registers of AVX-512.
#[cfg(target_arch = "x86_64")]
#[allow(clippy::type_complexity, reason = "a list of readings")]
fn by_registers<W: LaneKernel>(
    work: W,
) -> WithLanes<<W::T as SimdFloat>::Widest, <W::T as SimdFloat>::Medium, <W::T as SimdFloat>::Narrowest, W> {
    WithLanes(work, PhantomData)
}

impl<L, M, S, W> Kernel for WithLanes<L, M, S, W>
where
    L: SimdLanes<W::T> + Lane,
    M: ReduceLanes<W::T>,
    S: SimdLanes<W::T> + Lane,
    W: LaneKernel,
{
    type Out = ();
    #[inline(always)]
    fn run(self) {
        self.0.run::<L, M, S>();
    }
}
