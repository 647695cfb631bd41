//! Readings of formulas: how many elements go through one at once.
//!
//! A formula is written over [`Lane`]. Read as [`V`], an element at a time, it is a plain loop, of which the compiler makes vector
//! code. Read as `wide::Wide`, it is written with the instructions of AVX-512, several registers side by side: an elementary
//! function is a chain of operations of which each waits for the one before, and a processor looks only so far ahead for
//! others.

use super::isa::{Isa, Kernel, Level};
#[cfg(target_arch = "x86_64")]
use super::wide::Wide;
use crate::lane::V;
use elinvar_core::Element;
use elinvar_ops::lane::Lane;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Elements that go through a formula at once.
pub(crate) trait Reading<T>: Copy {
    /// How many.
    const AT_ONCE: usize;
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

/// An element that is no float.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct One<T>(pub(crate) T);

macro_rules! one_at_a_time {
    ($($reading:ident)*) => {$(
        impl<T: Copy> Reading<T> for $reading<T> {
            const AT_ONCE: usize = 1;
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
one_at_a_time! { One V }

/// A type of floats in which formulas are computed.
pub(crate) trait Read: Element + Lane<Mask = bool> {
    /// How AVX-512 reads many elements.
    #[cfg(target_arch = "x86_64")]
    type Long: Reading<Self> + Lane;
    /// How it reads the last ones: 16 divide by what goes at once.
    #[cfg(target_arch = "x86_64")]
    type Short: Reading<Self> + Lane;
}

impl Read for f32 {
    #[cfg(target_arch = "x86_64")]
    type Long = Wide<4>;
    #[cfg(target_arch = "x86_64")]
    type Short = Wide<1>;
}

/// Formulas in f64 have no copy for AVX-512 ([`super::isa::formula`] says why).
impl Read for f64 {
    #[cfg(target_arch = "x86_64")]
    type Long = V<f64>;
    #[cfg(target_arch = "x86_64")]
    type Short = V<f64>;
}

/// Work that reads formulas. `run` must be `#[inline(always)]`, and so must be what it calls in its loops.
pub(crate) trait Reads {
    /// The number that is worked on.
    type T: Read;
    /// The work: with `L` many elements at once, with `S` few.
    fn run<L: Reading<Self::T> + Lane, S: Reading<Self::T> + Lane>(self);
}

/// Runs work in the reading and the copy for this instruction set. As for all formulas, there is none for plain x86-64
/// ([`super::isa::formula`]).
#[inline]
#[allow(unsafe_code, reason = "calling a function that needs an instruction set")]
pub(crate) fn read<W: Reads>(isa: Isa, work: W) {
    #[cfg(target_arch = "x86_64")]
    match isa.level() {
        Level::Plain => unreachable!("the reference's loops run formulas on plain x86-64"),
        // SAFETY: an `Isa` of this level is made by `Isa::all` alone, which found the features on this processor.
        Level::Avx2 => unsafe { As::<V<W::T>, V<W::T>, W>(work, PhantomData).avx2() },
        Level::Avx512 => {
            if const { size_of::<W::T>() == 4 } {
                // SAFETY: as above.
                unsafe { As::<<W::T as Read>::Long, <W::T as Read>::Short, W>(work, PhantomData).avx512() }
            } else {
                // SAFETY: as above; `Isa::all` makes this level only where it found the features of AVX2 too.
                unsafe { As::<V<W::T>, V<W::T>, W>(work, PhantomData).avx2() }
            }
        }
    }
    #[cfg(target_arch = "aarch64")]
    match isa.level() {
        Level::Plain | Level::Neon => As::<V<W::T>, V<W::T>, W>(work, PhantomData).run(),
    }
}

/// Work in these readings. Made by `read` alone, which pairs each with the instruction set that has its registers.
struct As<L, S, W>(W, PhantomData<(L, S)>);

impl<L: Reading<W::T> + Lane, S: Reading<W::T> + Lane, W: Reads> Kernel for As<L, S, W> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        self.0.run::<L, S>();
    }
}
