//! The scalar `Lane`: one element, whose loops the compiler autovectorises.
//!
//! It delegates to the primitives of `f32` and `f64`, but the elementary functions are inlined: a
//! call would keep the loop around it from being vectorised, and would run without the instruction
//! set of the kernel. [`SmallAngleLane`] is the same for angles that are known to need no
//! large-argument reduction.

use elinvar_lane::lane::Lane;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// An element of type `T` (f32 or f64) with everything inlined.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct ScalarLane<T>(pub T);

/// As [`ScalarLane`], where all angles are below
/// [`moderate_bound`](elinvar_lane::math::moderate_bound).
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct SmallAngleLane<T>(pub T);

macro_rules! operators {
    ($reading:ident: $($operator:ident $name:ident;)*) => {$(
        impl<T: Lane> $operator for $reading<T> {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                $reading(self.0.$name(other.0))
            }
        }
    )*};
}

macro_rules! primitives {
    ($reading:ident: $($name:ident($($other:ident),*);)*) => {$(
        #[inline(always)]
        fn $name(self $(, $other: Self)*) -> Self {
            $reading(self.0.$name($($other.0),*))
        }
    )*};
}

macro_rules! comparisons {
    ($($name:ident)*) => {$(
        #[inline(always)]
        fn $name(self, other: Self) -> Self::Mask {
            self.0.$name(other.0)
        }
    )*};
}

/// The primitives of `T`. The elementary functions are the trait's own: arithmetic over these.
macro_rules! readings {
    ($($reading:ident, $moderate:literal;)*) => {$(
        operators! { $reading: Add add; Sub sub; Mul mul; Div div; }

        impl<T: Lane> Neg for $reading<T> {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                $reading(-self.0)
            }
        }

        impl<T: Lane> Lane for $reading<T> {
            type Mask = T::Mask;
            type Int = T::Int;
            const BITS: u32 = T::BITS;

            primitives! { $reading:
                fma(b, c);
                sqrt();
                abs();
                min(other);
                max(other);
                round();
                floor();
                ceil();
                trunc();
                with_sign_bit(sign);
                fmod(other);
            }
            comparisons! { lt le eq }

            #[inline(always)]
            fn lit(v: f64) -> Self {
                $reading(T::lit(v))
            }
            #[inline(always)]
            fn select(mask: Self::Mask, a: Self, b: Self) -> Self {
                $reading(T::select(mask, a.0, b.0))
            }
            #[inline(always)]
            fn to_bits(self) -> Self::Int {
                self.0.to_bits()
            }
            #[inline(always)]
            fn from_bits(bits: Self::Int) -> Self {
                $reading(T::from_bits(bits))
            }
            #[inline(always)]
            fn to_int(self) -> Self::Int {
                self.0.to_int()
            }
            #[inline(always)]
            fn from_int(v: Self::Int) -> Self {
                $reading(T::from_int(v))
            }
            #[inline(always)]
            fn are_moderate(self) -> bool {
                $moderate
            }
        }
    )*};
}
readings! { ScalarLane, false; SmallAngleLane, true; }
