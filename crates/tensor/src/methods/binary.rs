//! Elementwise functions of two tensors, and the operators.

use crate::Tensor;
use crate::fail::OrFail;
use elinvar_core::{Result, Scalar};
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue as op;
use elinvar_ops::value::Value;

/// The second operand of a binary op: a tensor, or a number, which gets the tensor's dtype and
/// device.
pub trait Operand<B: Backend> {
    /// The number, if it is one.
    fn number(&self) -> Option<Scalar>;
    /// Runs `f` on the operand as a tensor. It is borrowed, which saves cloning the handle:
    /// measurable for an op on a few elements.
    ///
    /// # Errors
    /// `DTypeMismatch` if the number does not fit `like` (see [`Scalar::fits`]); those of `f`.
    fn with<T>(self, op: &str, like: &Tensor<B>, f: impl FnOnce(&Tensor<B>) -> Result<T>) -> Result<T>;
}

impl<B: Backend> Operand<B> for &Tensor<B> {
    #[inline]
    fn number(&self) -> Option<Scalar> {
        None
    }
    #[inline]
    fn with<T>(self, _: &str, _: &Tensor<B>, f: impl FnOnce(&Tensor<B>) -> Result<T>) -> Result<T> {
        f(self)
    }
}
impl<B: Backend> Operand<B> for Tensor<B> {
    #[inline]
    fn number(&self) -> Option<Scalar> {
        None
    }
    #[inline]
    fn with<T>(self, _: &str, _: &Tensor<B>, f: impl FnOnce(&Tensor<B>) -> Result<T>) -> Result<T> {
        f(&self)
    }
}
impl<B: Backend> Operand<B> for Scalar {
    fn number(&self) -> Option<Scalar> {
        Some(*self)
    }
    fn with<T>(self, op: &str, like: &Tensor<B>, f: impl FnOnce(&Tensor<B>) -> Result<T>) -> Result<T> {
        f(&like.scalar_like(self).map_err(|e| e.at(op))?)
    }
}

macro_rules! scalar_operand {
    ($($t:ty),*) => {$(
        impl<B: Backend> Operand<B> for $t {
            fn number(&self) -> Option<Scalar> {
                Some(Scalar::from(*self))
            }
            fn with<T>(
                self,
                op: &str,
                like: &Tensor<B>,
                f: impl FnOnce(&Tensor<B>) -> Result<T>,
            ) -> Result<T> {
                Scalar::from(self).with(op, like, f)
            }
        }
    )*};
}
scalar_operand!(f32, f64, i64, i32, u8, bool);

macro_rules! binary {
    ($($doc:literal $name:ident;)*) => {
        impl<B: Backend> Tensor<B> {$(
            #[doc = concat!($doc, ", elementwise, operands broadcast.")]
            ///
            /// # Panics
            /// If shapes do not broadcast, dtypes or devices differ, the op is not defined for this
            /// dtype, or memory is exhausted.
            #[track_caller]
            pub fn $name(&self, other: impl Operand<B>) -> Tensor<B> {
                other.with(stringify!($name), self, |y| op::$name(self, y)).or_fail()
            }
        )*}
    };
}

binary! {
    "The larger of the two; NaN wins; a tie gives each side half of the gradient" maximum;
    "The smaller of the two; NaN wins; a tie gives each side half of the gradient" minimum;
    "The angle of the point (y, x) given as `y.atan2(x)`, in radians" atan2;
    "The exact remainder of x / y with the sign of x" fmod;
    "The remainder of x / y with the sign of y" remainder;
    "floor(x / y)" floor_divide;
    "Both not zero? (bool)" logical_and;
    "Either not zero? (bool)" logical_or;
    "Exactly one not zero? (bool)" logical_xor;
    "Bitwise and, of integers and bool" bitwise_and;
    "Bitwise or, of integers and bool" bitwise_or;
    "Bitwise exclusive or, of integers and bool" bitwise_xor;
    "x shifted left by y bits" shift_left;
    "x shifted right by y bits" shift_right;
}

macro_rules! comparison {
    ($($doc:literal $name:ident $variant:ident;)*) => {
        impl<B: Backend> Tensor<B> {$(
            #[doc = concat!($doc, ", elementwise, operands broadcast.")]
            /// A tensor of integers is compared with a number exactly, whether or not it could hold
            /// it; one of floats with the nearest number that it could hold.
            ///
            /// # Panics
            /// If shapes do not broadcast, dtypes or devices differ, or memory is exhausted.
            #[track_caller]
            pub fn $name(&self, other: impl Operand<B>) -> Tensor<B> {
                match other.number() {
                    Some(y) => op::comparison::with_number(op::comparison::Comparison::$variant, self, y).or_fail(),
                    None => other.with(stringify!($name), self, |y| op::$name(self, y)).or_fail(),
                }
            }
        )*}
    };
}

comparison! {
    "x == y (bool)" eq Eq;
    "x != y (bool)" ne Ne;
    "x < y (bool)" lt Lt;
    "x <= y (bool)" le Le;
    "x > y (bool)" gt Gt;
    "x >= y (bool)" ge Ge;
}

impl<B: Backend> Tensor<B> {
    /// x to the power of y, elementwise, operands broadcast. For floats, the exponents 2, 3 and -1
    /// given as numbers are computed as x * x, x * x * x and 1 / x.
    ///
    /// # Panics
    /// If shapes do not broadcast, dtypes or devices differ, the op is not defined for this dtype,
    /// or memory is exhausted.
    #[track_caller]
    pub fn pow(&self, other: impl Operand<B>) -> Tensor<B> {
        match other.number() {
            Some(y) if self.dtype().is_float() => op::pow::pow_by(self, y).or_fail(),
            _ => other.with("pow", self, |y| op::pow(self, y)).or_fail(),
        }
    }
    /// NumPy's matrix product: x[b.., m, k] @ w[b.., k, n] gives [b.., m, n]; a vector is a row on
    /// the left and a column on the right, batches broadcast.
    ///
    /// # Panics
    /// If inner sizes differ, batches do not broadcast, or dtypes or devices differ.
    #[track_caller]
    pub fn matmul(&self, w: &Tensor<B>) -> Tensor<B> {
        op::matmul(self, w).or_fail()
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident, $assign:ident $assign_method:ident, $f:path;)*) => {$(
        impl<B: Backend, R: Operand<B>> std::ops::$trait<R> for &Tensor<B> {
            type Output = Tensor<B>;
            #[track_caller]
            fn $method(self, other: R) -> Tensor<B> {
                other.with(stringify!($method), self, |y| $f(self, y)).or_fail()
            }
        }
        impl<B: Backend, R: Operand<B>> std::ops::$trait<R> for Tensor<B> {
            type Output = Tensor<B>;
            #[track_caller]
            fn $method(self, other: R) -> Tensor<B> {
                std::ops::$trait::$method(&self, other)
            }
        }
        impl<B: Backend, R: Operand<B>> std::ops::$assign<R> for Tensor<B> {
            #[track_caller]
            fn $assign_method(&mut self, other: R) {
                *self = std::ops::$trait::$method(&*self, other);
            }
        }
        left_scalar!($trait $method $f: f32, f64, i64, i32);
    )*};
}

macro_rules! left_scalar {
    ($trait:ident $method:ident $f:path: $($t:ty),*) => {$(
        impl<B: Backend> std::ops::$trait<&Tensor<B>> for $t {
            type Output = Tensor<B>;
            #[track_caller]
            fn $method(self, other: &Tensor<B>) -> Tensor<B> {
                self.with(stringify!($method), other, |x| $f(x, other)).or_fail()
            }
        }
        impl<B: Backend> std::ops::$trait<Tensor<B>> for $t {
            type Output = Tensor<B>;
            #[track_caller]
            fn $method(self, other: Tensor<B>) -> Tensor<B> {
                std::ops::$trait::$method(self, &other)
            }
        }
    )*};
}

operator! {
    Add add, AddAssign add_assign, op::add;
    Sub sub, SubAssign sub_assign, op::sub;
    Mul mul, MulAssign mul_assign, op::mul;
    Div div, DivAssign div_assign, op::div;
    // Rust's % has the sign of the dividend.
    Rem rem, RemAssign rem_assign, op::fmod;
}

macro_rules! bit_operator {
    ($($trait:ident $method:ident $f:path;)*) => {$(
        impl<B: Backend, R: Operand<B>> std::ops::$trait<R> for &Tensor<B> {
            type Output = Tensor<B>;
            #[track_caller]
            fn $method(self, other: R) -> Tensor<B> {
                other.with(stringify!($method), self, |y| $f(self, y)).or_fail()
            }
        }
        impl<B: Backend, R: Operand<B>> std::ops::$trait<R> for Tensor<B> {
            type Output = Tensor<B>;
            #[track_caller]
            fn $method(self, other: R) -> Tensor<B> {
                std::ops::$trait::$method(&self, other)
            }
        }
    )*};
}

bit_operator! {
    BitAnd bitand op::bitwise_and;
    BitOr bitor op::bitwise_or;
    BitXor bitxor op::bitwise_xor;
    Shl shl op::shift_left;
    Shr shr op::shift_right;
}

macro_rules! prefix {
    ($($trait:ident $method:ident $f:path;)*) => {$(
        impl<B: Backend> std::ops::$trait for &Tensor<B> {
            type Output = Tensor<B>;
            #[track_caller]
            fn $method(self) -> Tensor<B> {
                $f(self).or_fail()
            }
        }
        impl<B: Backend> std::ops::$trait for Tensor<B> {
            type Output = Tensor<B>;
            #[track_caller]
            fn $method(self) -> Tensor<B> {
                $f(&self).or_fail()
            }
        }
    )*};
}

prefix! {
    Neg neg op::neg;
    Not not op::bitwise_not;
}
