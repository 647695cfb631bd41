//! One vector register of f32: what an instruction set is to a lane.

/// Elements of the largest register.
pub const MAX_LANES: usize = 16;

/// Directions of rounding to a whole number, as `vroundps` and `vrndscaleps` number them; 8:
/// without an exception. To the nearest, halves to even.
pub const NEAREST: i32 = 8;
/// Towards minus infinity.
pub const DOWN: i32 = 8 | 1;
/// Towards infinity.
pub const UP: i32 = 8 | 2;
/// Towards zero.
pub const TOWARDS_ZERO: i32 = 8 | 3;

/// A vector register of f32, with those of integers and truth values that belong to it. Functions
/// that are named as one of `Lane` have its meaning.
///
/// # Safety
/// All functions may be called only on a processor that has the instruction set of the register.
/// Its implementations are `#[inline(always)]`, and so are all their callers up to the function
/// that is compiled for the instruction set.
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

    /// Loads elements.
    ///
    /// # Safety
    /// There are so many.
    unsafe fn load(p: *const f32) -> Self;
    /// Stores elements.
    ///
    /// # Safety
    /// There is room.
    unsafe fn store(a: Self, p: *mut f32);
    /// Copies of a number.
    unsafe fn splat(v: f32) -> Self;
    /// The first element.
    unsafe fn get_first(a: Self) -> f32;
    /// Exchanges neighbouring groups of `N` elements: 1, 2, 4 or 8.
    unsafe fn swap<const N: usize>(a: Self) -> Self;

    unsafe fn add(a: Self, b: Self) -> Self;
    unsafe fn sub(a: Self, b: Self) -> Self;
    unsafe fn mul(a: Self, b: Self) -> Self;
    unsafe fn div(a: Self, b: Self) -> Self;
    unsafe fn fma(a: Self, b: Self, c: Self) -> Self;
    unsafe fn sqrt(a: Self) -> Self;
    unsafe fn neg(a: Self) -> Self;
    unsafe fn abs(a: Self) -> Self;
    unsafe fn with_sign_bit(a: Self, sign: Self) -> Self;
    /// To a whole number.
    unsafe fn round<const DIRECTION: i32>(a: Self) -> Self;
    unsafe fn min(a: Self, b: Self) -> Self;
    unsafe fn max(a: Self, b: Self) -> Self;
    /// As `min` of numbers; unspecified if one of the two is NaN.
    unsafe fn min_of_numbers(a: Self, b: Self) -> Self;
    /// As `max` of numbers; unspecified if one of the two is NaN.
    unsafe fn max_of_numbers(a: Self, b: Self) -> Self;
    /// `a` where it is less, else `b`.
    unsafe fn smaller(a: Self, b: Self) -> Self;
    /// `a` where it is greater, else `b`.
    unsafe fn larger(a: Self, b: Self) -> Self;
    /// a * 2^n for whole numbers n, rounded once.
    unsafe fn scaled(a: Self, n: Self) -> Self;

    unsafe fn lt(a: Self, b: Self) -> Self::Mask;
    unsafe fn le(a: Self, b: Self) -> Self::Mask;
    unsafe fn eq(a: Self, b: Self) -> Self::Mask;
    /// Is one of the two NaN?
    unsafe fn unordered(a: Self, b: Self) -> Self::Mask;
    unsafe fn select(mask: Self::Mask, a: Self, b: Self) -> Self;

    unsafe fn to_bits(a: Self) -> Self::Int;
    unsafe fn from_bits(bits: Self::Int) -> Self;
    unsafe fn to_int(a: Self) -> Self::Int;
    unsafe fn from_int(v: Self::Int) -> Self;

    /// Copies of an integer.
    unsafe fn int_splat(v: i32) -> Self::Int;
    unsafe fn int_add(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn int_sub(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn int_mul(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn int_and(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn int_or(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn int_xor(a: Self::Int, b: Self::Int) -> Self::Int;
    /// Each shifted left by an amount of its own.
    unsafe fn int_shl(a: Self::Int, n: Self::Int) -> Self::Int;
    /// The same to the right, copies of the sign shifted in.
    unsafe fn int_shr(a: Self::Int, n: Self::Int) -> Self::Int;
    /// The same to the right, zeros shifted in.
    unsafe fn int_shr_logical(a: Self::Int, n: Self::Int) -> Self::Int;
    /// The upper halves of unsigned products.
    unsafe fn int_mul_high(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn int_eq(a: Self::Int, b: Self::Int) -> Self::Mask;
    unsafe fn int_lt(a: Self::Int, b: Self::Int) -> Self::Mask;
    unsafe fn int_select(mask: Self::Mask, a: Self::Int, b: Self::Int) -> Self::Int;

    /// Copies of a truth value.
    unsafe fn mask_splat(v: bool) -> Self::Mask;
    /// True for the first `n`.
    unsafe fn mask_of_first(n: usize) -> Self::Mask;
    unsafe fn mask_and(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    unsafe fn mask_or(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    unsafe fn mask_xor(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    unsafe fn mask_not(a: Self::Mask) -> Self::Mask;
    /// A bit for each.
    unsafe fn mask_bits(a: Self::Mask) -> u16;
    /// Are they all true?
    unsafe fn all(a: Self::Mask) -> bool;
}

/// The functions of a register, each a few instructions.
macro_rules! instructions {
    ($($(#[$doc:meta])* $name:ident $([$constant:ident: $number:ty])? ($($x:ident: $t:ty),*) -> $out:ty $body:block)*) => {$(
        #[inline(always)]
        #[allow(unused_unsafe, reason = "some bodies are calls of this trait alone")]
        unsafe fn $name $(<const $constant: $number>)? ($($x: $t),*) -> $out {
            // SAFETY: the caller guarantees the instruction set, and the memory.
            unsafe { $body }
        }
    )*};
}
pub(super) use instructions;
