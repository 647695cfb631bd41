//! The f32 `Lane` by vector registers: `K` of them, unrolled, that go through each operation
//! together.
//!
//! Several independent registers hide the latency of elementary functions, which are long
//! dependency chains. Every operation has the meaning that [`Lane`] gives it. What depends on the
//! instruction set is [`FloatRegister`], whose implementations are its instructions and no more.
//! How it can be wrong: where an instruction differs from the operation (min and max, which ignore
//! NaN). The tests compare each operation with the scalar lane.
#![allow(unsafe_code, reason = "instructions that not every processor has")]

use super::dispatch::{ReduceLanes, SimdLanes};
use elinvar_lane::formula::Fold;
use elinvar_lane::lane::{Lane, LaneInt, Mask};
use elinvar_lane::math::moderate_bound;
use std::mem::MaybeUninit;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};
use std::sync::atomic::{Ordering, compiler_fence};

mod avx2;
mod avx512;
mod register;
#[cfg(test)]
mod tests;

pub use register::RegisterLane;
use register::{
    DOWN, FloatRegister, MAX_LANES, NEAREST, RegisterIntLane, RegisterMaskLane, TOWARDS_ZERO, UP,
    each_register,
};

/// AVX2: `K` registers of 8.
pub type Avx2Lane<const K: usize> = RegisterLane<std::arch::x86_64::__m256, K>;
/// AVX-512: `K` registers of 16.
pub type Avx512Lane<const K: usize> = RegisterLane<std::arch::x86_64::__m512, K>;

/// An operation of the registers.
macro_rules! operation {
    ($($call:tt)*) => {
        // SAFETY: the operands, or the kernel that makes a first one, exist only on a processor
        // that has the instruction set.
        unsafe { R::$($call)* }
    };
}

impl<R: FloatRegister, const K: usize> SimdLanes<f32> for RegisterLane<R, K> {
    const WIDTH: usize = K * R::LANES;
    /// In program order: the compiler may reorder several loads to descending addresses, which
    /// hardware prefetch follows less well.
    #[inline(always)]
    fn load(from: &[f32]) -> Self {
        let () = Self::IS_ELEMENTS;
        let from = from[..K * R::LANES].as_ptr().cast::<R>();
        let mut all = RegisterLane([R::ZERO; K]);
        each_register!(i => {
            // SAFETY: as many elements as `K` registers have; the slice was cut to them.
            all.0[i] = unsafe { from.add(i).read_unaligned() };
            compiler_fence(Ordering::SeqCst);
        });
        all
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        let () = Self::IS_ELEMENTS;
        let to = to[..K * R::LANES].as_mut_ptr().cast::<R>();
        // SAFETY: as many elements as `K` registers have; the slice was cut to them.
        each_register!(i => unsafe { to.add(i).write_unaligned(self.0[i]) });
    }
    #[inline(always)]
    fn write(self, to: &mut [MaybeUninit<f32>]) {
        let () = Self::IS_ELEMENTS;
        let to = to[..K * R::LANES].as_mut_ptr().cast::<R>();
        // SAFETY: as above.
        each_register!(i => unsafe { to.add(i).write_unaligned(self.0[i]) });
    }
    #[inline(always)]
    fn splat(v: f32) -> Self {
        operation!(splat(v))
    }
}

impl<R: FloatRegister, const K: usize> RegisterLane<R, K> {
    /// Has a register the size of its elements? What is loaded and stored relies on it.
    const IS_ELEMENTS: () = assert!(size_of::<R>() == R::LANES * size_of::<f32>());
    /// Register `i` alone.
    #[inline(always)]
    fn register(&self, i: usize) -> RegisterLane<R, 1> {
        RegisterLane([self.0[i]])
    }
}

impl<R: FloatRegister, const K: usize> ReduceLanes<f32> for RegisterLane<R, K> {
    #[inline(always)]
    fn first(self, n: usize, other: f32) -> Self {
        Self::select(operation!(mask_of_first(n)), self, Self::splat(other))
    }
    #[inline(always)]
    fn combine(f: Fold, a: Self, b: Self) -> Self {
        match f {
            Fold::Sum => a + b,
            Fold::Prod => a * b,
            Fold::Max => operation!(max_of_numbers(&a, &b)),
            Fold::Min => operation!(min_of_numbers(&a, &b)),
        }
    }
    type Few = RegisterLane<R, 1>;
    #[inline(always)]
    fn few(self, f: Fold) -> RegisterLane<R, 1> {
        const { assert!(K == 1 || K == 2 || K == 4) };
        // An index that is too large belongs to a branch that is not taken.
        let [a, b, c, d] =
            [self.register(0), self.register(1 % K), self.register(2 % K), self.register(3 % K)];
        match K {
            4 => RegisterLane::combine(f, RegisterLane::combine(f, a, c), RegisterLane::combine(f, b, d)),
            2 => RegisterLane::combine(f, a, b),
            _ => a,
        }
    }
    /// Tree reduction: halves, then quarters, pairs, and single elements.
    #[inline(always)]
    fn folded(mut x: RegisterLane<R, 1>, f: Fold) -> f32 {
        // Written out: a loop would keep the distance in memory.
        if R::LANES > 8 {
            x = RegisterLane::combine(f, x, operation!(swap::<8, 1>(&x)));
        }
        x = RegisterLane::combine(f, x, operation!(swap::<4, 1>(&x)));
        x = RegisterLane::combine(f, x, operation!(swap::<2, 1>(&x)));
        x = RegisterLane::combine(f, x, operation!(swap::<1, 1>(&x)));
        // SAFETY: a register is its elements, one after the other (`IS_ELEMENTS`).
        unsafe { (&raw const x.0).cast::<f32>().read() }
    }
    /// Two registers are tested by one comparison: unordered (NaN) in either sets the bit.
    #[inline(always)]
    fn or_nan(self, mut seen: u16) -> u16 {
        each_register!(i => if i % 2 == 0 {
            let (a, b) = (self.register(i), self.register((i + 1).min(K - 1)));
            let unordered = operation!(unordered(&a, &b));
            seen |= unordered.bits(0);
        });
        seen
    }
}

macro_rules! operators {
    ($type:ident: $($operator:ident $name:ident $instruction:ident;)*) => {$(
        impl<R: FloatRegister, const K: usize> $operator for $type<R, K> {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                operation!($instruction(&self, &other))
            }
        }
    )*};
}
operators! { RegisterLane: Add add add; Sub sub sub; Mul mul mul; Div div div; }
operators! { RegisterIntLane: Add add int_add; Sub sub int_sub; Mul mul int_mul; }
operators! { RegisterIntLane: BitAnd bitand int_and; BitOr bitor int_or; BitXor bitxor int_xor; }
operators! { RegisterMaskLane: BitAnd bitand mask_and; BitOr bitor mask_or; BitXor bitxor mask_xor; }

impl<R: FloatRegister, const K: usize> Neg for RegisterLane<R, K> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        operation!(neg(&self))
    }
}

impl<R: FloatRegister, const K: usize> Not for RegisterIntLane<R, K> {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        self ^ Self::lit(-1)
    }
}

impl<R: FloatRegister, const K: usize> Not for RegisterMaskLane<R, K> {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        operation!(mask_not(&self))
    }
}

impl<R: FloatRegister, const K: usize> Mask for RegisterMaskLane<R, K> {
    #[inline(always)]
    fn all_lanes(v: bool) -> Self {
        operation!(mask_splat(v))
    }
}

impl<R: FloatRegister, const K: usize> RegisterMaskLane<R, K> {
    /// A bit for each element of register `i`.
    #[inline(always)]
    fn bits(&self, i: usize) -> u16 {
        operation!(bits_of_mask(&RegisterMaskLane([self.0[i]])))
    }
    /// Are they all true?
    #[inline(always)]
    fn all(self) -> bool {
        let mut all = RegisterMaskLane::<R, 1>([self.0[0]]);
        each_register!(i => if i > 0 {
            all = all & RegisterMaskLane([self.0[i]]);
        });
        all.bits(0) == ((1u32 << R::LANES) - 1) as u16
    }
}

impl<R: FloatRegister, const K: usize> LaneInt<RegisterMaskLane<R, K>> for RegisterIntLane<R, K> {
    #[inline(always)]
    fn lit(v: i64) -> Self {
        operation!(int_splat(v as i32))
    }
    #[inline(always)]
    fn shl(self, n: u32) -> Self {
        self.shl_by(Self::lit(n.into()))
    }
    #[inline(always)]
    fn shr(self, n: u32) -> Self {
        operation!(int_shr(&self, &Self::lit(n.into())))
    }
    #[inline(always)]
    fn shr_logical(self, n: u32) -> Self {
        self.shr_logical_by(Self::lit(n.into()))
    }
    #[inline(always)]
    fn shl_by(self, n: Self) -> Self {
        operation!(int_shl(&self, &n))
    }
    #[inline(always)]
    fn shr_logical_by(self, n: Self) -> Self {
        operation!(int_shr_logical(&self, &n))
    }
    #[inline(always)]
    fn mul_high_unsigned(self, other: Self) -> Self {
        operation!(int_mul_high(&self, &other))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> RegisterMaskLane<R, K> {
        operation!(int_eq(&self, &other))
    }
    #[inline(always)]
    fn lt(self, other: Self) -> RegisterMaskLane<R, K> {
        operation!(int_lt(&self, &other))
    }
    #[inline(always)]
    fn select(mask: RegisterMaskLane<R, K>, a: Self, b: Self) -> Self {
        operation!(int_select(&mask, &a, &b))
    }
}

/// Remainders of the elements that have no bit in `done`.
#[cold]
fn one_by_one<R: FloatRegister>(
    made: RegisterLane<R, 1>,
    done: u16,
    a: RegisterLane<R, 1>,
    b: RegisterLane<R, 1>,
) -> RegisterLane<R, 1> {
    let [mut y, mut dividends, mut divisors] = [[0.0f32; MAX_LANES]; 3];
    made.store(&mut y);
    a.store(&mut dividends);
    b.store(&mut divisors);
    for i in (0..R::LANES).filter(|i| done >> i & 1 == 0) {
        y[i] = dividends[i] % divisors[i];
    }
    RegisterLane::load(&y)
}

impl<R: FloatRegister, const K: usize> Lane for RegisterLane<R, K> {
    type Mask = RegisterMaskLane<R, K>;
    type Int = RegisterIntLane<R, K>;
    const BITS: u32 = 32;
    const SCALES: bool = R::SCALES;

    #[inline(always)]
    fn lit(v: f64) -> Self {
        Self::splat(v as f32)
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        operation!(fma(&self, &b, &c))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        operation!(sqrt(&self))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        operation!(abs(&self))
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        operation!(min(&self, &other))
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        operation!(max(&self, &other))
    }
    #[inline(always)]
    fn round(self) -> Self {
        operation!(round::<NEAREST, K>(&self))
    }
    #[inline(always)]
    fn floor(self) -> Self {
        operation!(round::<DOWN, K>(&self))
    }
    #[inline(always)]
    fn ceil(self) -> Self {
        operation!(round::<UP, K>(&self))
    }
    #[inline(always)]
    fn trunc(self) -> Self {
        operation!(round::<TOWARDS_ZERO, K>(&self))
    }
    #[inline(always)]
    fn with_sign_bit(self, sign: Self) -> Self {
        operation!(with_sign_bit(&self, &sign))
    }
    #[inline(always)]
    fn lt(self, other: Self) -> RegisterMaskLane<R, K> {
        operation!(lt(&self, &other))
    }
    #[inline(always)]
    fn le(self, other: Self) -> RegisterMaskLane<R, K> {
        operation!(le(&self, &other))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> RegisterMaskLane<R, K> {
        operation!(eq(&self, &other))
    }
    #[inline(always)]
    fn is_nan(self) -> RegisterMaskLane<R, K> {
        operation!(unordered(&self, &self))
    }
    #[inline(always)]
    fn select(mask: RegisterMaskLane<R, K>, a: Self, b: Self) -> Self {
        operation!(select(&mask, &a, &b))
    }
    #[inline(always)]
    fn at_least(self, low: Self) -> Self {
        operation!(larger(&low, &self))
    }
    #[inline(always)]
    fn at_most(self, high: Self) -> Self {
        operation!(smaller(&high, &self))
    }
    #[inline(always)]
    fn to_bits(self) -> RegisterIntLane<R, K> {
        operation!(to_bits(&self))
    }
    #[inline(always)]
    fn from_bits(bits: RegisterIntLane<R, K>) -> Self {
        operation!(from_bits(&bits))
    }
    #[inline(always)]
    fn to_int(self) -> RegisterIntLane<R, K> {
        operation!(to_int(&self))
    }
    #[inline(always)]
    fn from_int(v: RegisterIntLane<R, K>) -> Self {
        operation!(from_int(&v))
    }
    #[inline(always)]
    fn scaled(self, n: Self) -> Option<Self> {
        if const { R::SCALES } {
            return Some(operation!(scaled(&self, &n)));
        }
        None
    }
    #[inline(always)]
    fn are_moderate(self) -> bool {
        Lane::lt(self, Self::splat(moderate_bound())).all()
    }
    /// By the whole part of the quotient, as long as it is small enough to be exact, or one too
    /// large: which is so if the quotient was rounded up to it. The remainder is then a multiple of
    /// the last bit of both numbers and less than the divisor, so the fma is exact. Other elements
    /// are computed one at a time.
    #[inline(always)]
    fn fmod(self, other: Self) -> Self {
        let (x, y) = (Lane::abs(self), Lane::abs(other));
        let quotient = (x / y).trunc();
        let left = (-quotient).fma(y, x);
        let too_large = Lane::lt(left, Self::splat(0.0));
        let left = Self::select(too_large, left + y, left).with_sign_bit(self);
        // Excludes NaN, infinities, and division by zero.
        let exact = Lane::lt(quotient, Self::splat(4_194_304.0)) & Lane::lt(y, Self::splat(f32::INFINITY));
        if exact.all() {
            return left;
        }
        // A call for each register, of copies: what a call is given by its place is in memory
        // before the branch, too.
        let mut all = left;
        each_register!(i => {
            let (made, a, b) = (left.register(i), self.register(i), other.register(i));
            all.0[i] = one_by_one(made, exact.bits(i), a, b).0[0];
        });
        all
    }
}
