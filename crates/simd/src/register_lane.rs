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

use register::{DOWN, FloatRegister, MAX_LANES, NEAREST, TOWARDS_ZERO, UP};

/// AVX2: `K` registers of 8.
pub type Avx2Lane<const K: usize> = RegisterLane<std::arch::x86_64::__m256, K>;
/// AVX-512: `K` registers of 16.
pub type Avx512Lane<const K: usize> = RegisterLane<std::arch::x86_64::__m512, K>;

/// `K` registers of f32.
///
/// Values of these three types are created in work that `dispatch::run_lanes` runs, on processors
/// that have the instruction set of the register. That is what makes each operation here sound.
#[derive(Clone, Copy)]
pub struct RegisterLane<R: FloatRegister, const K: usize>([R; K]);
/// The bits of these f32, or as many i32.
#[derive(Clone, Copy)]
pub struct RegisterIntLane<R: FloatRegister, const K: usize>([R::Int; K]);
/// A truth value for each.
#[derive(Clone, Copy)]
pub struct RegisterMaskLane<R: FloatRegister, const K: usize>([R::Mask; K]);

/// Most registers in one value.
const MAX_REGISTERS: usize = 4;

/// The body for each register, unrolled: the array stays in registers only if every index is a
/// constant before the compiler decides on their storage. (No closures, which would be compiled
/// without the instruction set.)
macro_rules! each_register {
    ($i:ident => $body:expr) => {
        each_register!(@ $i, $body, 0 1 2 3)
    };
    (@ $i:ident, $body:expr, $($number:literal)*) => {{
        const { assert!(K <= MAX_REGISTERS) };
        $(if const { K > $number } {
            let $i = $number;
            $body
        })*
    }};
}

/// An operation on register `i` of each operand, for all of them. Results are written over a first
/// operand of their type, or a constant: each call here is compiled hundreds of thousands of times.
macro_rules! each {
    ($out:ident($first:expr): $i:ident => $body:expr) => {{
        let mut all = $first;
        // SAFETY: the operands, or the kernel that makes a first one, exist only on a processor
        // that has the instruction set.
        each_register!($i => all[$i] = unsafe { $body });
        $out(all)
    }};
    (float, $i:ident => $body:expr) => { each!(RegisterLane([R::ZERO; K]): $i => $body) };
    (int, $i:ident => $body:expr) => { each!(RegisterIntLane([R::INT_ZERO; K]): $i => $body) };
    (float $x:ident, $i:ident => $body:expr) => { each!(RegisterLane($x.0): $i => $body) };
    (int $x:ident, $i:ident => $body:expr) => { each!(RegisterIntLane($x.0): $i => $body) };
    (mask $x:ident, $i:ident => $body:expr) => { each!(RegisterMaskLane($x.0): $i => $body) };
    (mask, $i:ident => $body:expr) => { each!(RegisterMaskLane([R::MASK_FALSE; K]): $i => $body) };
}

impl<R: FloatRegister, const K: usize> SimdLanes<f32> for RegisterLane<R, K> {
    const WIDTH: usize = K * R::LANES;
    #[inline(always)]
    fn load(from: &[f32]) -> Self {
        let from = &from[..K * R::LANES];
        // SAFETY of the loads: the line above checks the length.
        each!(float, i => in_turn(R::load(from.as_ptr().add(i * R::LANES))))
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        let to = &mut to[..K * R::LANES];
        // SAFETY: the line above checks the length.
        each_register!(i => unsafe { R::store(self.0[i], to.as_mut_ptr().add(i * R::LANES)) });
    }
    #[inline(always)]
    fn write(self, to: &mut [MaybeUninit<f32>]) {
        let to = &mut to[..K * R::LANES];
        // SAFETY: as above.
        each_register!(i => unsafe { R::store(self.0[i], to.as_mut_ptr().cast::<f32>().add(i * R::LANES)) });
    }
    #[inline(always)]
    fn splat(v: f32) -> Self {
        // SAFETY: as for all operations.
        RegisterLane([unsafe { R::splat(v) }; K])
    }
}

/// A register whose load stays behind the loads before it in program order. The compiler may
/// reorder several to descending addresses, which hardware prefetch follows less well.
#[inline(always)]
fn in_turn<R>(x: R) -> R {
    compiler_fence(Ordering::SeqCst);
    x
}

impl<R: FloatRegister, const K: usize> ReduceLanes<f32> for RegisterLane<R, K> {
    #[inline(always)]
    fn first(self, n: usize, other: f32) -> Self {
        each!(float, i => {
            let here = R::mask_of_first(n.saturating_sub(i * R::LANES).min(R::LANES));
            R::select(here, self.0[i], R::splat(other))
        })
    }
    #[inline(always)]
    fn combine(f: Fold, a: Self, b: Self) -> Self {
        match f {
            Fold::Sum => a + b,
            Fold::Prod => a * b,
            Fold::Max => each!(float a, i => R::max_of_numbers(a.0[i], b.0[i])),
            Fold::Min => each!(float a, i => R::min_of_numbers(a.0[i], b.0[i])),
        }
    }
    type Few = RegisterLane<R, 1>;
    #[inline(always)]
    fn few(self, f: Fold) -> RegisterLane<R, 1> {
        const { assert!(K == 1 || K == 2 || K == 4) };
        // An index that is too large belongs to a branch that is not taken.
        let [a, b, c, d] = [
            RegisterLane([self.0[0]]),
            RegisterLane([self.0[1 % K]]),
            RegisterLane([self.0[2 % K]]),
            RegisterLane([self.0[3 % K]]),
        ];
        match K {
            4 => RegisterLane::combine(f, RegisterLane::combine(f, a, c), RegisterLane::combine(f, b, d)),
            2 => RegisterLane::combine(f, a, b),
            _ => a,
        }
    }
    /// Tree reduction: halves, then quarters, pairs, and single elements.
    #[inline(always)]
    fn folded(mut x: RegisterLane<R, 1>, f: Fold) -> f32 {
        // SAFETY: the processor has the instruction set, as the register says; here and below.
        // (Written out: a loop would keep the distance in memory.)
        if R::LANES > 8 {
            x = RegisterLane::combine(f, x, RegisterLane([unsafe { R::swap::<8>(x.0[0]) }]));
        }
        x = RegisterLane::combine(f, x, RegisterLane([unsafe { R::swap::<4>(x.0[0]) }]));
        x = RegisterLane::combine(f, x, RegisterLane([unsafe { R::swap::<2>(x.0[0]) }]));
        x = RegisterLane::combine(f, x, RegisterLane([unsafe { R::swap::<1>(x.0[0]) }]));
        // SAFETY: as above.
        unsafe { R::get_first(x.0[0]) }
    }
    /// Two registers are tested by one comparison: unordered (NaN) in either sets the bit.
    #[inline(always)]
    fn or_nan(self, mut seen: u16) -> u16 {
        // SAFETY: the processor has the instruction set, as the registers say.
        each_register!(i => if i % 2 == 0 {
            seen |= unsafe { R::mask_bits(R::unordered(self.0[i], self.0[(i + 1).min(K - 1)])) };
        });
        seen
    }
}

macro_rules! operators {
    ($kind:ident $type:ident: $($operator:ident $name:ident $instruction:ident;)*) => {$(
        impl<R: FloatRegister, const K: usize> $operator for $type<R, K> {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                each!($kind self, i => R::$instruction(self.0[i], other.0[i]))
            }
        }
    )*};
}
operators! { float RegisterLane: Add add add; Sub sub sub; Mul mul mul; Div div div; }
operators! { int RegisterIntLane: Add add int_add; Sub sub int_sub; Mul mul int_mul; }
operators! { int RegisterIntLane: BitAnd bitand int_and; BitOr bitor int_or; BitXor bitxor int_xor; }
operators! { mask RegisterMaskLane: BitAnd bitand mask_and; BitOr bitor mask_or; BitXor bitxor mask_xor; }

impl<R: FloatRegister, const K: usize> Neg for RegisterLane<R, K> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        each!(float self, i => R::neg(self.0[i]))
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
        each!(mask self, i => R::mask_not(self.0[i]))
    }
}

impl<R: FloatRegister, const K: usize> Mask for RegisterMaskLane<R, K> {
    #[inline(always)]
    fn all_lanes(v: bool) -> Self {
        // SAFETY: as for all operations.
        RegisterMaskLane([unsafe { R::mask_splat(v) }; K])
    }
}

impl<R: FloatRegister, const K: usize> LaneInt<RegisterMaskLane<R, K>> for RegisterIntLane<R, K> {
    #[inline(always)]
    fn lit(v: i64) -> Self {
        // SAFETY: as for all operations.
        RegisterIntLane([unsafe { R::int_splat(v as i32) }; K])
    }
    #[inline(always)]
    fn shl(self, n: u32) -> Self {
        self.shl_by(Self::lit(n.into()))
    }
    #[inline(always)]
    fn shr(self, n: u32) -> Self {
        let n = Self::lit(n.into());
        each!(int self, i => R::int_shr(self.0[i], n.0[i]))
    }
    #[inline(always)]
    fn shr_logical(self, n: u32) -> Self {
        self.shr_logical_by(Self::lit(n.into()))
    }
    #[inline(always)]
    fn shl_by(self, n: Self) -> Self {
        each!(int self, i => R::int_shl(self.0[i], n.0[i]))
    }
    #[inline(always)]
    fn shr_logical_by(self, n: Self) -> Self {
        each!(int self, i => R::int_shr_logical(self.0[i], n.0[i]))
    }
    #[inline(always)]
    fn mul_high_unsigned(self, other: Self) -> Self {
        each!(int self, i => R::int_mul_high(self.0[i], other.0[i]))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> RegisterMaskLane<R, K> {
        each!(mask, i => R::int_eq(self.0[i], other.0[i]))
    }
    #[inline(always)]
    fn lt(self, other: Self) -> RegisterMaskLane<R, K> {
        each!(mask, i => R::int_lt(self.0[i], other.0[i]))
    }
    #[inline(always)]
    fn select(mask: RegisterMaskLane<R, K>, a: Self, b: Self) -> Self {
        each!(int a, i => R::int_select(mask.0[i], a.0[i], b.0[i]))
    }
}

/// Remainders of the elements that have no bit in `done`.
#[cold]
fn one_by_one<R: FloatRegister>(made: R, done: u16, a: R, b: R) -> R {
    let [mut y, mut dividends, mut divisors] = [[0.0f32; MAX_LANES]; 3];
    // SAFETY: the arrays have as many elements as any register, and the processor has its
    // instruction set.
    unsafe {
        R::store(made, y.as_mut_ptr());
        R::store(a, dividends.as_mut_ptr());
        R::store(b, divisors.as_mut_ptr());
    }
    for i in (0..R::LANES).filter(|i| done >> i & 1 == 0) {
        y[i] = dividends[i] % divisors[i];
    }
    // SAFETY: as above.
    unsafe { R::load(y.as_ptr()) }
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
        each!(float self, i => R::fma(self.0[i], b.0[i], c.0[i]))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        each!(float self, i => R::sqrt(self.0[i]))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        each!(float self, i => R::abs(self.0[i]))
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        each!(float self, i => R::min(self.0[i], other.0[i]))
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        each!(float self, i => R::max(self.0[i], other.0[i]))
    }
    #[inline(always)]
    fn round(self) -> Self {
        each!(float self, i => R::round::<NEAREST>(self.0[i]))
    }
    #[inline(always)]
    fn floor(self) -> Self {
        each!(float self, i => R::round::<DOWN>(self.0[i]))
    }
    #[inline(always)]
    fn ceil(self) -> Self {
        each!(float self, i => R::round::<UP>(self.0[i]))
    }
    #[inline(always)]
    fn trunc(self) -> Self {
        each!(float self, i => R::round::<TOWARDS_ZERO>(self.0[i]))
    }
    #[inline(always)]
    fn with_sign_bit(self, sign: Self) -> Self {
        each!(float self, i => R::with_sign_bit(self.0[i], sign.0[i]))
    }
    #[inline(always)]
    fn lt(self, other: Self) -> RegisterMaskLane<R, K> {
        each!(mask, i => R::lt(self.0[i], other.0[i]))
    }
    #[inline(always)]
    fn le(self, other: Self) -> RegisterMaskLane<R, K> {
        each!(mask, i => R::le(self.0[i], other.0[i]))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> RegisterMaskLane<R, K> {
        each!(mask, i => R::eq(self.0[i], other.0[i]))
    }
    #[inline(always)]
    fn is_nan(self) -> RegisterMaskLane<R, K> {
        each!(mask, i => R::unordered(self.0[i], self.0[i]))
    }
    #[inline(always)]
    fn select(mask: RegisterMaskLane<R, K>, a: Self, b: Self) -> Self {
        each!(float a, i => R::select(mask.0[i], a.0[i], b.0[i]))
    }
    #[inline(always)]
    fn at_least(self, low: Self) -> Self {
        each!(float self, i => R::larger(low.0[i], self.0[i]))
    }
    #[inline(always)]
    fn at_most(self, high: Self) -> Self {
        each!(float self, i => R::smaller(high.0[i], self.0[i]))
    }
    #[inline(always)]
    fn to_bits(self) -> RegisterIntLane<R, K> {
        each!(int, i => R::to_bits(self.0[i]))
    }
    #[inline(always)]
    fn from_bits(bits: RegisterIntLane<R, K>) -> Self {
        each!(float, i => R::from_bits(bits.0[i]))
    }
    #[inline(always)]
    fn to_int(self) -> RegisterIntLane<R, K> {
        each!(int, i => R::to_int(self.0[i]))
    }
    #[inline(always)]
    fn from_int(v: RegisterIntLane<R, K>) -> Self {
        each!(float, i => R::from_int(v.0[i]))
    }
    #[inline(always)]
    fn scaled(self, n: Self) -> Option<Self> {
        if const { R::SCALES } {
            return Some(each!(float self, i => R::scaled(self.0[i], n.0[i])));
        }
        None
    }
    #[inline(always)]
    fn are_moderate(self) -> bool {
        let mut all = true;
        // SAFETY: the processor has the instruction set, as the registers say.
        each_register!(i => all &= unsafe {
            R::all(R::lt(self.0[i], R::splat(moderate_bound())))
        });
        all
    }
    /// By the whole part of the quotient, as long as it is small enough to be exact, or one too
    /// large: which is so if the quotient was rounded up to it. The remainder is then a multiple of
    /// the last bit of both numbers and less than the divisor, so the fma is exact. Other elements
    /// are computed one at a time.
    #[inline(always)]
    fn fmod(self, other: Self) -> Self {
        each!(float, i => {
            let (a, b) = (self.0[i], other.0[i]);
            let (x, y) = (R::abs(a), R::abs(b));
            let quotient = R::round::<TOWARDS_ZERO>(R::div(x, y));
            let left = R::fma(R::neg(quotient), y, x);
            let too_large = R::lt(left, R::splat(0.0));
            let left = R::with_sign_bit(R::select(too_large, R::add(left, y), left), a);
            // Excludes NaN, infinities, and division by zero.
            let exact = R::mask_and(
                R::lt(quotient, R::splat(4_194_304.0)),
                R::lt(y, R::splat(f32::INFINITY)),
            );
            if R::all(exact) { left } else { one_by_one(left, R::mask_bits(exact), a, b) }
        })
    }
}
