//! Elementwise functions of one tensor.

use crate::Tensor;
use crate::fail::OrFail;
use elinvar_core::DType;
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue as op;

macro_rules! unary {
    ($($doc:literal $name:ident;)*) => {
        impl<B: Backend> Tensor<B> {$(
            #[doc = concat!($doc, ", elementwise.")]
            ///
            /// # Panics
            /// If the op is not defined for this dtype, or memory is exhausted.
            #[track_caller]
            pub fn $name(&self) -> Tensor<B> {
                op::$name(self).or_fail()
            }
        )*}
    };
}

unary! {
    "|x|" abs;
    "-x" neg;
    "e^x" exp;
    "2^x" exp2;
    "e^x - 1, accurate for tiny x" expm1;
    "The natural logarithm" log;
    "log(1 + x), accurate for tiny x" log1p;
    "The logarithm to base 2" log2;
    "The logarithm to base 10" log10;
    "The square root" sqrt;
    "1 / sqrt(x)" rsqrt;
    "1 / x" reciprocal;
    "x * x" square;
    "Sine, x in radians" sin;
    "Cosine, x in radians" cos;
    "Tangent, x in radians" tan;
    "Inverse sine" asin;
    "Inverse cosine" acos;
    "Inverse tangent" atan;
    "Hyperbolic sine" sinh;
    "Hyperbolic cosine" cosh;
    "Hyperbolic tangent" tanh;
    "The error function" erf;
    "1 / (1 + e^-x)" sigmoid;
    "max(x, 0); the gradient at 0 is 0" relu;
    "Scaled exponential linear unit" selu;
    "x * sigmoid(x)" silu;
    "x * tanh(softplus(x))" mish;
    "x / (1 + |x|)" softsign;
    "x * min(max(x + 3, 0), 6) / 6" hardswish;
    "The largest whole number not above" floor;
    "The smallest whole number not below" ceil;
    "The nearest whole number, halves to even" round;
    "Without the fraction" trunc;
    "x - trunc(x)" frac;
    "-1, 0 or 1" sign;
    "Not a number? (bool)" isnan;
    "Infinite? (bool)" isinf;
    "Finite? (bool)" isfinite;
    "x == 0 (bool)" logical_not;
    "Every bit turned; logical not for bool" bitwise_not;
}

impl<B: Backend> Tensor<B> {
    /// x where it is positive, `negative_slope` times x elsewhere.
    ///
    /// # Panics
    /// If the elements are not floats, or memory is exhausted.
    #[track_caller]
    pub fn leaky_relu(&self, negative_slope: f64) -> Tensor<B> {
        op::leaky_relu(self, negative_slope).or_fail()
    }
    /// x where it is positive, `alpha` * (e^x - 1) elsewhere.
    ///
    /// # Panics
    /// If the elements are not floats, or memory is exhausted.
    #[track_caller]
    pub fn elu(&self, alpha: f64) -> Tensor<B> {
        op::elu(self, alpha).or_fail()
    }
    /// log(1 + e^(beta x)) / beta, and x itself where beta x > `threshold`.
    ///
    /// # Panics
    /// If the elements are not floats, or memory is exhausted.
    #[track_caller]
    pub fn softplus(&self, beta: f64, threshold: f64) -> Tensor<B> {
        op::softplus(self, beta, threshold).or_fail()
    }
    /// x clamped to `min_val..=max_val`.
    ///
    /// # Panics
    /// If the elements are not floats, or memory is exhausted.
    #[track_caller]
    pub fn hardtanh(&self, min_val: f64, max_val: f64) -> Tensor<B> {
        op::hardtanh(self, min_val, max_val).or_fail()
    }
    /// As another dtype. Floats round to nearest even; float to integer truncates towards zero; to
    /// bool: x != 0. The gradient of a cast between floats is a cast back.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn to_dtype(&self, dtype: DType) -> Tensor<B> {
        elinvar_ops::value::cast(self, dtype).or_fail()
    }
}
