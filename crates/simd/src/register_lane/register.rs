//! Vector registers of f32: what an instruction set is to a lane.

/// Elements of the largest register.
pub const MAX_LANES: usize = 16;
/// Most registers in one value.
pub const MAX_REGISTERS: usize = 4;

/// Directions of rounding to a whole number, as `vroundps` and `vrndscaleps` number them; 8:
/// without an exception. To the nearest, halves to even.
pub const NEAREST: i32 = 8;
/// Towards minus infinity.
pub const DOWN: i32 = 8 | 1;
/// Towards infinity.
pub const UP: i32 = 8 | 2;
/// Towards zero.
pub const TOWARDS_ZERO: i32 = 8 | 3;

/// `K` registers of f32.
///
/// Values of these three types are created in work that `dispatch::run_lanes` runs, on processors
/// that have the instruction set of the register. That is what makes each operation here sound.
#[derive(Clone, Copy)]
pub struct RegisterLane<R: FloatRegister, const K: usize>(pub(super) [R; K]);
/// The bits of these f32, or as many i32.
#[derive(Clone, Copy)]
pub struct RegisterIntLane<R: FloatRegister, const K: usize>(pub(super) [R::Int; K]);
/// A truth value for each.
#[derive(Clone, Copy)]
pub struct RegisterMaskLane<R: FloatRegister, const K: usize>(pub(super) [R::Mask; K]);

/// The body for each register, unrolled: the array stays in registers only if every index is a
/// constant before the compiler decides on their storage. (No closures, which would be compiled
/// without the instruction set.)
macro_rules! each_register {
    ($i:ident => $body:expr) => {
        $crate::register_lane::register::each_register!(@ $i, $body, 0 1 2 3)
    };
    (@ $i:ident, $body:expr, $($number:literal)*) => {{
        const { assert!(K <= $crate::register_lane::register::MAX_REGISTERS) };
        $(if const { K > $number } {
            let $i = $number;
            $body
        })*
    }};
}

/// The type of an operand: a lane, or what is the same for all its elements.
macro_rules! operand {
    (float) => { &$crate::register_lane::register::RegisterLane<Self, K> };
    (int) => { &$crate::register_lane::register::RegisterIntLane<Self, K> };
    (mask) => { &$crate::register_lane::register::RegisterMaskLane<Self, K> };
    (count) => { usize };
    ($same:ty) => { $same };
}

/// The type of a result.
macro_rules! result {
    (float) => { $crate::register_lane::register::RegisterLane<Self, K> };
    (int) => { $crate::register_lane::register::RegisterIntLane<Self, K> };
    (mask) => { $crate::register_lane::register::RegisterMaskLane<Self, K> };
}

/// Declarations of operations.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident $([$constant:ident: $number:ty])? ($($x:ident: $t:tt),*) -> $out:tt;)*) => {$(
        $(#[$doc])*
        unsafe fn $name<$(const $constant: $number,)? const K: usize>($($x: operand!($t)),*) -> result!($out);
    )*};
}

/// A vector register of f32, with those of integers and truth values that belong to it. Each
/// function is an operation on `K` of them; those that are named as one of `Lane` have its meaning.
///
/// Operands are passed by reference, and each function is compiled for its instruction set by
/// itself. So the compiler has made a few instructions of it before it inlines it into the formulas
/// that call it, some hundred thousand times in a build (ADR 33).
///
/// # Safety
/// All functions may be called only on a processor that has the instruction set of the register.
pub trait FloatRegister: Copy {
    /// As many i32.
    type Int: Copy;
    /// As many truth values.
    type Mask: Copy;
    /// Elements.
    const LANES: usize;
    /// Zeros.
    const ZERO: Self;
    /// Zeros.
    const INT_ZERO: Self::Int;
    /// False.
    const MASK_FALSE: Self::Mask;
    /// Is there an instruction for [`FloatRegister::scaled`]?
    const SCALES: bool;

    /// A bit for each truth value.
    unsafe fn bits_of_mask(a: &RegisterMaskLane<Self, 1>) -> u16;

    operations! {
        /// Copies of a number.
        splat(v: f32) -> float;
        /// Exchanges neighbouring groups of `N` elements: 1, 2, 4 or 8.
        swap[N: usize](a: float) -> float;

        add(a: float, b: float) -> float;
        sub(a: float, b: float) -> float;
        mul(a: float, b: float) -> float;
        div(a: float, b: float) -> float;
        fma(a: float, b: float, c: float) -> float;
        sqrt(a: float) -> float;
        neg(a: float) -> float;
        abs(a: float) -> float;
        with_sign_bit(a: float, sign: float) -> float;
        /// To a whole number.
        round[DIRECTION: i32](a: float) -> float;
        min(a: float, b: float) -> float;
        max(a: float, b: float) -> float;
        /// As `min` of numbers; unspecified if one of the two is NaN.
        min_of_numbers(a: float, b: float) -> float;
        /// As `max` of numbers; unspecified if one of the two is NaN.
        max_of_numbers(a: float, b: float) -> float;
        /// `a` where it is less, else `b`.
        smaller(a: float, b: float) -> float;
        /// `a` where it is greater, else `b`.
        larger(a: float, b: float) -> float;
        /// a * 2^n for whole numbers n, rounded once.
        scaled(a: float, n: float) -> float;

        lt(a: float, b: float) -> mask;
        le(a: float, b: float) -> mask;
        eq(a: float, b: float) -> mask;
        /// Is one of the two NaN?
        unordered(a: float, b: float) -> mask;
        select(mask: mask, a: float, b: float) -> float;

        to_bits(a: float) -> int;
        from_bits(bits: int) -> float;
        to_int(a: float) -> int;
        from_int(v: int) -> float;

        /// Copies of an integer.
        int_splat(v: i32) -> int;
        int_add(a: int, b: int) -> int;
        int_sub(a: int, b: int) -> int;
        int_mul(a: int, b: int) -> int;
        int_and(a: int, b: int) -> int;
        int_or(a: int, b: int) -> int;
        int_xor(a: int, b: int) -> int;
        /// Each shifted left by an amount of its own.
        int_shl(a: int, n: int) -> int;
        /// The same to the right, copies of the sign shifted in.
        int_shr(a: int, n: int) -> int;
        /// The same to the right, zeros shifted in.
        int_shr_logical(a: int, n: int) -> int;
        /// The upper halves of unsigned products.
        int_mul_high(a: int, b: int) -> int;
        int_eq(a: int, b: int) -> mask;
        int_lt(a: int, b: int) -> mask;
        int_select(mask: mask, a: int, b: int) -> int;

        /// Copies of a truth value.
        mask_splat(v: bool) -> mask;
        /// True for the first `n`.
        mask_of_first(n: count) -> mask;
        mask_and(a: mask, b: mask) -> mask;
        mask_or(a: mask, b: mask) -> mask;
        mask_xor(a: mask, b: mask) -> mask;
        mask_not(a: mask) -> mask;
    }
}

/// The first value of a result, to be overwritten.
macro_rules! initial {
    (float) => {
        $crate::register_lane::register::RegisterLane([Self::ZERO; K])
    };
    (int) => {
        $crate::register_lane::register::RegisterIntLane([Self::INT_ZERO; K])
    };
    (mask) => {
        $crate::register_lane::register::RegisterMaskLane([Self::MASK_FALSE; K])
    };
}

/// What an operation on register `i` has of an operand.
macro_rules! part {
    (float $x:ident $i:ident) => {
        $x.0[$i]
    };
    (int $x:ident $i:ident) => {
        $x.0[$i]
    };
    (mask $x:ident $i:ident) => {
        $x.0[$i]
    };
    (count $x:ident $i:ident) => {
        $x.saturating_sub($i * Self::LANES).min(Self::LANES)
    };
    ($same:tt $x:ident $i:ident) => {
        $x
    };
}

/// Operations of an instruction set: what one is for one register.
macro_rules! instructions {
    ($features:literal; $($name:ident $([$constant:ident: $number:ty])? ($($x:ident: $t:tt),*) -> $out:tt $body:block)*) => {$(
        #[inline]
        #[target_feature(enable = $features)]
        #[allow(unreachable_code, unused, clippy::diverging_sub_expression, reason = "one instruction set lacks one")]
        unsafe fn $name<$(const $constant: $number,)? const K: usize>($($x: operand!($t)),*) -> result!($out) {
            let mut all = initial!($out);
            each_register!(i => {
                $(let $x = part!($t $x i);)*
                all.0[i] = $body;
            });
            all
        }
    )*};
}
pub(super) use {each_register, initial, instructions, operand, part, result};
