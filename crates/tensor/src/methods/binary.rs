//! Elementwise functions of two tensors, and the operators.

use super::table::methods;
use crate::Tensor;
use crate::fail::OrFail;
use elinvar_core::{DType, Error, Result, Scalar};
use elinvar_ops::array::Array;
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

macro_rules! numbers {
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
        impl MaybeNumber for $t {
            fn maybe_number(self) -> Option<Scalar> {
                Some(Scalar::from(self))
            }
        }
    )*};
}
numbers!(f32, f64, i64, i32, u8, bool, usize, isize, u32, i16, u16, i8);

/// A number, or none: `0.0`, `-1`, `None`.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a bound", note = "a number is, and `None`")]
pub trait MaybeNumber {
    /// The number.
    fn maybe_number(self) -> Option<Scalar>;
}
impl MaybeNumber for Scalar {
    fn maybe_number(self) -> Option<Scalar> {
        Some(self)
    }
}
// For one type only, so that `None` has a type.
impl MaybeNumber for Option<Scalar> {
    fn maybe_number(self) -> Option<Scalar> {
        self
    }
}

macro_rules! binary {
    ($($doc:literal $name:ident $twin:ident;)*) => {
        methods! {$(
            #[doc = concat!($doc, ", elementwise, operands broadcast.")]
            fn $name, $twin(other: impl Operand<B>) -> Tensor<B> =
                |x| other.with(stringify!($name), x, |y| op::$name(x, y));
        )*}
    };
}

binary! {
    "x + y" add try_add;
    "x - y" sub try_sub;
    "x * y" mul try_mul;
    "x / y; of integers and bool, f32" div try_div;
    "The larger of the two; NaN wins; a tie gives each side half of the gradient" maximum try_maximum;
    "The smaller of the two; NaN wins; a tie gives each side half of the gradient" minimum try_minimum;
    "The angle of the point (y, x) given as `y.atan2(x)`, in radians" atan2 try_atan2;
    "The magnitude of x with the sign of y" copysign try_copysign;
    "sqrt(x^2 + y^2), without overflow" hypot try_hypot;
    "x log(y); 0 where x is 0" xlogy try_xlogy;
    "x log(1 + y); 0 where x is 0" xlog1py try_xlog1py;
    "x 2^y" ldexp try_ldexp;
    "The larger of x and y, NaN being missing" fmax try_fmax;
    "The smaller of x and y, NaN being missing" fmin try_fmin;
    "0 below 0, 1 above, y at 0" heaviside try_heaviside;
    "The exact remainder of x / y with the sign of x" fmod try_fmod;
    "The remainder of x / y with the sign of y" remainder try_remainder;
    "floor(x / y)" floor_divide try_floor_divide;
    "Both not zero? (bool)" logical_and try_logical_and;
    "Either not zero? (bool)" logical_or try_logical_or;
    "Exactly one not zero? (bool)" logical_xor try_logical_xor;
    "Bitwise and, of integers and bool" bitwise_and try_bitwise_and;
    "Bitwise or, of integers and bool" bitwise_or try_bitwise_or;
    "Bitwise exclusive or, of integers and bool" bitwise_xor try_bitwise_xor;
    "x shifted left by y bits" shift_left try_shift_left;
    "x shifted right by y bits" shift_right try_shift_right;
}

macro_rules! comparison {
    ($($doc:literal $name:ident $twin:ident $variant:ident;)*) => {
        methods! {$(
            #[doc = concat!($doc, ", elementwise, operands broadcast.")]
            /// A tensor of integers is compared with a number exactly, whether or not it could hold
            /// it; one of floats with the nearest number that it could hold.
            fn $name, $twin(other: impl Operand<B>) -> Tensor<B> = |x| match other.number() {
                Some(y) => op::comparison::with_number(op::comparison::Comparison::$variant, x, y),
                None => other.with(stringify!($name), x, |y| op::$name(x, y)),
            };
        )*}
    };
}

comparison! {
    "x == y (bool)" eq try_eq Eq;
    "x != y (bool)" ne try_ne Ne;
    "x < y (bool)" lt try_lt Lt;
    "x <= y (bool)" le try_le Le;
    "x > y (bool)" gt try_gt Gt;
    "x >= y (bool)" ge try_ge Ge;
}

methods! {
    /// x / y, elementwise, operands broadcast, rounded to a whole number as asked.
    fn div_mode, try_div_mode(other: impl Operand<B>, rounding: op::div::Rounding) -> Tensor<B> =
        |x| other.with("div", x, |y| op::div::div_mode(x, y, rounding));
    /// x to the power of y, elementwise, operands broadcast. For floats, the exponents 2, 3 and -1
    /// given as numbers are computed as x * x, x * x * x and 1 / x.
    fn pow, try_pow(other: impl Operand<B>) -> Tensor<B> = |x| match other.number() {
        Some(y) if x.dtype().is_float() => op::pow::pow_by(x, y),
        _ => other.with("pow", x, |y| op::pow(x, y)),
    };
    /// x + alpha * y, elementwise, operands broadcast.
    fn add_scaled, try_add_scaled(other: &Tensor<B>, alpha: impl Into<Scalar>) -> Tensor<B> =
        |x| op::add::scaled(x, other, alpha.into());
    /// x - alpha * y, elementwise, operands broadcast.
    fn sub_scaled, try_sub_scaled(other: &Tensor<B>, alpha: impl Into<Scalar>) -> Tensor<B> =
        |x| op::sub::scaled(x, other, alpha.into());
    /// log(e^x + e^y), elementwise, operands broadcast, without overflow.
    fn logaddexp, try_logaddexp(other: impl Operand<B>) -> Tensor<B> =
        |x| other.with("logaddexp", x, |y| op::logaddexp(x, y));
    /// |x - y| <= atol + rtol |y| (bool), elementwise, operands broadcast.
    fn isclose, try_isclose(other: impl Operand<B>, rtol: f64, atol: f64, equal_nan: bool) -> Tensor<B> =
        |x| other.with("isclose", x, |y| op::isclose(x, y, rtol, atol, equal_nan));
    /// Is all of this close to all of the other? A bool of shape [].
    fn allclose, try_allclose(other: &Tensor<B>, rtol: f64, atol: f64, equal_nan: bool) -> Tensor<B> =
        |x| op::allclose(x, other, rtol, atol, equal_nan);
    /// The same shape and elements? A bool of shape [].
    fn equal, try_equal(other: &Tensor<B>) -> Tensor<B> = |x| op::equal(x, other);
    /// This (bool) tensor as a condition: `x` where it is true, `y` elsewhere, all broadcast. A
    /// number gets the dtype of the tensor on the other side; two numbers are f32, i64 or bool.
    fn where_, try_where_(x: impl Operand<B>, y: impl Operand<B>) -> Tensor<B> =
        |condition| match (x.number(), y.number()) {
            (None, _) => x.with("where", condition, |x| y.with("where", x, |y| op::where_(condition, x, y))),
            (Some(x), None) => y.with("where", condition, |y| x.with("where", y, |x| op::where_(condition, x, y))),
            (Some(x), Some(y)) => of_numbers(condition, x, y),
        };
}

/// One of two numbers, of the dtype that PyTorch gives them.
fn of_numbers<B: Backend>(condition: &Tensor<B>, x: Scalar, y: Scalar) -> Result<Tensor<B>> {
    let dtype = match (x, y) {
        (Scalar::Float(_), _) | (_, Scalar::Float(_)) => DType::F32,
        (Scalar::Int(_), _) | (_, Scalar::Int(_)) => DType::I64,
        (Scalar::Bool(_), Scalar::Bool(_)) => DType::Bool,
    };
    let one = |v| Ok::<_, Error>(Tensor::from_array(Array::scalar(condition.device(), v, dtype)?));
    op::where_(condition, &one(x)?, &one(y)?)
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
        left_scalar!($trait $method $f: f32, f64, i64, i32, usize, isize);
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
