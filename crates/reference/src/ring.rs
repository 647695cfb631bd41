//! Numbers with a fused multiply-add: the arithmetic of a contraction, for floats and integers
//! alike.

use elinvar_ops::{int::Int, lane::Lane};

/// A number that can be multiplied and added. Integers wrap; for bool, and is the product and or
/// the sum.
pub trait Ring: Copy {
    /// 0, positive.
    const NOTHING: Self;
    /// `self * b + c`; floats round once.
    fn chain(self, b: Self, c: Self) -> Self;
    /// `self + b`
    fn plus(self, b: Self) -> Self;
}

macro_rules! float {
    ($($t:ty),*) => {$(
        impl Ring for $t {
            const NOTHING: Self = 0.0;
            #[inline(always)]
            fn chain(self, b: Self, c: Self) -> Self { Lane::fma(self, b, c) }
            #[inline(always)]
            fn plus(self, b: Self) -> Self { self + b }
        }
    )*};
}
float!(f32, f64);

macro_rules! int {
    ($($t:ty, $zero:expr;)*) => {$(
        impl Ring for $t {
            const NOTHING: Self = $zero;
            #[inline(always)]
            fn chain(self, b: Self, c: Self) -> Self { Int::add(Int::mul(self, b), c) }
            #[inline(always)]
            fn plus(self, b: Self) -> Self { Int::add(self, b) }
        }
    )*};
}
int! { i64, 0; i32, 0; u8, 0; bool, false; }
