//! Vector width policy: how many elements go through a formula at once, by instruction set and
//! float type.
//!
//! A formula is generic over [`Lane`]. As `Avx2Lane` and `Avx512Lane` it is written with the
//! instructions of AVX2 and AVX-512 for f32, several registers unrolled. As [`ScalarLane`] it is a
//! loop over single elements, which the compiler vectorises, unless a branch or a call is in its
//! way. Each [`LaneKernel`] is called with two widths: for up to 64 elements, and for a tail.

#[cfg(target_arch = "x86_64")]
use super::isa::Level;
use super::isa::{Isa, Kernel};
#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
use super::register_lane::{Avx2Lane, Avx512Lane};
use super::scalar_lane::{ScalarLane, SmallAngleLane};
use elinvar_core::Element;
use elinvar_lane::formula::Fold;
use elinvar_lane::lane::Lane;
use elinvar_lane::math;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Elements that go through a formula at once: one step of a vector loop.
pub trait SimdLanes<T>: Copy {
    /// Elements per step.
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
    /// To the first of these uninitialised slots.
    ///
    /// # Panics
    /// If they are fewer.
    fn write(self, to: &mut [MaybeUninit<T>]);
    /// Copies of an element.
    fn splat(v: T) -> Self;
}

/// A reading that can be reduced.
pub trait ReduceLanes<T>: SimdLanes<T> + Lane {
    /// The first `n` of these elements, the others replaced by `other`.
    fn first(self, n: usize, other: T) -> Self;
    /// Combines two terms of a fold; an extreme may ignore NaN.
    fn combine(f: Fold, a: Self, b: Self) -> Self;
    /// A partial reduction: some of the elements, or one.
    type Few: Copy;
    /// Partial reduction: the first half of the registers with the second, and so on, as long as
    /// both halves are in different registers.
    fn few(self, f: Fold) -> Self::Few;
    /// The rest of the reduction to one value, in the same way.
    fn folded(few: Self::Few, f: Fold) -> T;
    /// `seen`, with more bits set if one of these elements is NaN.
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

/// An element that is not a float.
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
    // Without a branch, so that the loop vectorises.
    let mut all = true;
    for x in x {
        all &= x.abs().lt(math::moderate_bound());
    }
    all
}

/// A float type in which formulas are computed.
pub trait SimdFloat: Element + Lane<Mask = bool> {
    /// The AVX-512 reading of 64 elements, or a divisor of 64.
    #[cfg(target_arch = "x86_64")]
    type Avx512: ReduceLanes<Self>;
    /// The AVX-512 reading of a tail: 16 is a multiple of its width.
    #[cfg(target_arch = "x86_64")]
    type Avx512Tail: SimdLanes<Self> + Lane;
    /// The AVX2 reading of both.
    #[cfg(target_arch = "x86_64")]
    type Avx2: ReduceLanes<Self>;
}

/// Of AVX-512 four registers for 64 elements, as there are 32; of AVX2, which has 16, two: with
/// more, the values of most formulas would be spilled.
#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
impl SimdFloat for f32 {
    type Avx512 = Avx512Lane<4>;
    type Avx512Tail = Avx512Lane<1>;
    type Avx2 = Avx2Lane<2>;
}

/// Without optimisation every intermediate value has its own stack slot, and with many registers
/// they exceed the stack of a thread. So debug builds read one element at a time.
#[cfg(not(all(target_arch = "x86_64", not(debug_assertions))))]
impl SimdFloat for f32 {
    #[cfg(target_arch = "x86_64")]
    type Avx512 = ScalarLane<f32>;
    #[cfg(target_arch = "x86_64")]
    type Avx512Tail = ScalarLane<f32>;
    #[cfg(target_arch = "x86_64")]
    type Avx2 = ScalarLane<f32>;
}

/// No hand-written registers of f64: the copy for AVX-512 ([`LaneKernel::AVX512_F64`]) is
/// autovectorised.
impl SimdFloat for f64 {
    #[cfg(target_arch = "x86_64")]
    type Avx512 = ScalarLane<f64>;
    #[cfg(target_arch = "x86_64")]
    type Avx512Tail = ScalarLane<f64>;
    #[cfg(target_arch = "x86_64")]
    type Avx2 = ScalarLane<f64>;
}

/// Does [`run_lanes`] read 64 elements at once, and fold them in registers?
pub fn folds_in_registers<T: SimdFloat>(isa: Isa) -> bool {
    #[cfg(target_arch = "x86_64")]
    return matches!(isa.level(), Level::Avx512) && <T::Avx512 as SimdLanes<T>>::WIDTH == 64;
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = isa;
        false
    }
}

/// Work that evaluates formulas. `run` must be `#[inline(always)]`, and so must everything that it
/// calls in its loops.
pub trait LaneKernel {
    /// The element type.
    type T: SimdFloat;
    /// Is there an AVX-512 copy for f64, too? It pays for elementary functions alone, which are
    /// bound by arithmetic, not by memory.
    const AVX512_F64: bool;
    /// The work: with `M` 64 elements at once, with `S` few.
    fn run<M: ReduceLanes<Self::T>, S: SimdLanes<Self::T> + Lane>(self);
}

/// Runs work in the reading and the copy for this instruction set.
#[inline]
#[allow(unsafe_code, reason = "calling a function that needs an instruction set")]
pub fn run_lanes<W: LaneKernel>(isa: Isa, work: W) {
    #[cfg(target_arch = "x86_64")]
    match isa.level() {
        Level::Plain => super::isa::not_compiled_for(isa),
        // SAFETY: an `Isa` of this level is made by `Isa::all` alone, which found the features on
        // this processor.
        Level::Avx2 => unsafe { by_avx2_registers(work).avx2() },
        Level::Avx512 => {
            if const { size_of::<W::T>() == 4 || W::AVX512_F64 } {
                // SAFETY: as above.
                unsafe { by_avx512_registers(work).avx512() }
            } else {
                // SAFETY: as above; `Isa::all` makes this level only where it found the features of
                // AVX2 too.
                unsafe { by_avx2_registers(work).avx2() }
            }
        }
    }
    // The vector instructions are part of the baseline of this architecture, so one copy does.
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = isa;
        plain(work).plain();
    }
}

/// As [`run_lanes`], for work that has a copy for AVX-512 of every type.
#[inline]
#[allow(unsafe_code, reason = "calling a function that needs an instruction set")]
pub fn run_lanes_of_any_type<W: LaneKernel>(isa: Isa, work: W) {
    #[cfg(target_arch = "x86_64")]
    if isa.level() == Level::Avx512 {
        // SAFETY: an `Isa` of this level is made by `Isa::all` alone, which found the features on
        // this processor.
        return unsafe { by_avx512_registers(work).avx512() };
    }
    run_lanes(isa, work);
}

/// Work with its readings. Created by `run_lanes` alone, which pairs each with the instruction set
/// that has its registers.
struct WithLanes<M, S, W>(W, PhantomData<(M, S)>);

/// Work that reads an element at a time.
#[cfg(not(target_arch = "x86_64"))]
fn plain<W: LaneKernel>(work: W) -> WithLanes<ScalarLane<W::T>, ScalarLane<W::T>, W> {
    WithLanes(work, PhantomData)
}

/// Work that reads AVX-512 registers.
#[cfg(target_arch = "x86_64")]
#[allow(clippy::type_complexity, reason = "a list of readings")]
fn by_avx512_registers<W: LaneKernel>(
    work: W,
) -> WithLanes<<W::T as SimdFloat>::Avx512, <W::T as SimdFloat>::Avx512Tail, W> {
    WithLanes(work, PhantomData)
}

/// Work that reads AVX2 registers.
#[cfg(target_arch = "x86_64")]
#[allow(clippy::type_complexity, reason = "a list of readings")]
fn by_avx2_registers<W: LaneKernel>(
    work: W,
) -> WithLanes<<W::T as SimdFloat>::Avx2, <W::T as SimdFloat>::Avx2, W> {
    WithLanes(work, PhantomData)
}

impl<M, S, W> Kernel for WithLanes<M, S, W>
where
    M: ReduceLanes<W::T>,
    S: SimdLanes<W::T> + Lane,
    W: LaneKernel,
{
    type Out = ();
    #[inline(always)]
    fn run(self) {
        self.0.run::<M, S>();
    }
}
