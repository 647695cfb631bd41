//! Elementwise functions of one tensor.

use super::table::methods;
use crate::Tensor;
use crate::fail::OrFail;
use elinvar_core::{DType, Result};
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue as op;

macro_rules! unary {
    ($($doc:literal $name:ident $twin:ident;)*) => {
        methods! {$(
            #[doc = concat!($doc, ", elementwise.")]
            fn $name, $twin() -> Tensor<B> = |x| op::$name(x);
        )*}
    };
}

unary! {
    "|x|" abs try_abs;
    "-x" neg try_neg;
    "e^x" exp try_exp;
    "2^x" exp2 try_exp2;
    "e^x - 1, accurate for tiny x" expm1 try_expm1;
    "The natural logarithm" log try_log;
    "log(1 + x), accurate for tiny x" log1p try_log1p;
    "The logarithm to base 2" log2 try_log2;
    "The logarithm to base 10" log10 try_log10;
    "The square root" sqrt try_sqrt;
    "1 / sqrt(x)" rsqrt try_rsqrt;
    "1 / x" reciprocal try_reciprocal;
    "x * x" square try_square;
    "Sine, x in radians" sin try_sin;
    "Cosine, x in radians" cos try_cos;
    "Tangent, x in radians" tan try_tan;
    "Inverse sine" asin try_asin;
    "Inverse cosine" acos try_acos;
    "Inverse tangent" atan try_atan;
    "Hyperbolic sine" sinh try_sinh;
    "Hyperbolic cosine" cosh try_cosh;
    "Hyperbolic tangent" tanh try_tanh;
    "The error function" erf try_erf;
    "The inverse hyperbolic sine" asinh try_asinh;
    "The inverse hyperbolic cosine" acosh try_acosh;
    "The inverse hyperbolic tangent" atanh try_atanh;
    "1 - erf(x), relatively accurate" erfc try_erfc;
    "exp(x^2) erfc(x)" erfcx try_erfcx;
    "The inverse of the error function" erfinv try_erfinv;
    "The normal distribution function" ndtr try_ndtr;
    "The logarithm of the normal distribution function" log_ndtr try_log_ndtr;
    "The inverse of the normal distribution function" ndtri try_ndtri;
    "The logarithm of |gamma(x)|" lgamma try_lgamma;
    "The derivative of lgamma" digamma try_digamma;
    "-x log(x); 0 at 0, -inf below" entr try_entr;
    "sin(pi x) / (pi x)" sinc try_sinc;
    "1 / (1 + e^-x)" sigmoid try_sigmoid;
    "log(sigmoid(x))" log_sigmoid try_log_sigmoid;
    "max(x, 0); the gradient at 0 is 0" relu try_relu;
    "min(max(x, 0), 6)" relu6 try_relu6;
    "Scaled exponential linear unit" selu try_selu;
    "x * sigmoid(x)" silu try_silu;
    "x * tanh(softplus(x))" mish try_mish;
    "x / (1 + |x|)" softsign try_softsign;
    "x * relu6(x + 3) / 6" hardswish try_hardswish;
    "relu6(x + 3) / 6" hardsigmoid try_hardsigmoid;
    "x - tanh(x)" tanhshrink try_tanhshrink;
    "The largest whole number not above" floor try_floor;
    "The smallest whole number not below" ceil try_ceil;
    "The nearest whole number, halves to even" round try_round;
    "Without the fraction" trunc try_trunc;
    "x - trunc(x)" frac try_frac;
    "-1, 0 or 1" sign try_sign;
    "Not a number? (bool)" isnan try_isnan;
    "Infinite? (bool)" isinf try_isinf;
    "Finite? (bool)" isfinite try_isfinite;
    "Is it +inf? (bool)" isposinf try_isposinf;
    "Is it -inf? (bool)" isneginf try_isneginf;
    "Has it a minus sign? (bool)" signbit try_signbit;
    "x == 0 (bool)" logical_not try_logical_not;
    "Every bit turned; logical not for bool" bitwise_not try_bitwise_not;
}

methods! {
    /// `nan` for NaN, `posinf` for +inf and `neginf` for -inf (`None`: the largest and the least
    /// finite number).
    fn nan_to_num, try_nan_to_num(nan: f64, posinf: Option<f64>, neginf: Option<f64>) -> Tensor<B> =
        |x| op::nan_to_num(x, nan, posinf, neginf);
    /// log(x / (1 - x)); with `eps`, of x cut to `eps..=1 - eps`.
    fn logit, try_logit(eps: Option<f64>) -> Tensor<B> = |x| op::logit(x, eps);
    /// The derivative of [`Tensor::digamma`] of order `n`, up to 9.
    fn polygamma, try_polygamma(n: usize) -> Tensor<B> = |x| op::polygamma(n, x);
    /// m in 1/2..1 with the sign of x, and e (i32): x is m 2^e.
    fn frexp, try_frexp() -> (Tensor<B>, Tensor<B>) = |x| op::frexp(x);
    /// x where it is positive, `negative_slope` times x elsewhere.
    fn leaky_relu, try_leaky_relu(negative_slope: f64) -> Tensor<B> = |x| op::leaky_relu(x, negative_slope);
    /// x where it is positive, `alpha` * (e^x - 1) elsewhere.
    fn elu, try_elu(alpha: f64) -> Tensor<B> = |x| op::elu(x, alpha);
    /// x where it is positive, `alpha` * (e^(x / alpha) - 1) elsewhere.
    fn celu, try_celu(alpha: f64) -> Tensor<B> = |x| op::celu(x, alpha);
    /// x * Phi(x), exactly or by tanh.
    fn gelu, try_gelu(approximate: op::gelu::Approximate) -> Tensor<B> = |x| op::gelu(x, approximate);
    /// log(1 + e^(beta x)) / beta, and x itself where beta x > `threshold`.
    fn softplus, try_softplus(beta: f64, threshold: f64) -> Tensor<B> = |x| op::softplus(x, beta, threshold);
    /// x clamped to `min_val..=max_val`.
    fn hardtanh, try_hardtanh(min_val: f64, max_val: f64) -> Tensor<B> = |x| op::hardtanh(x, min_val, max_val);
    /// x - lambd above lambd, x + lambd below -lambd, 0 between.
    fn softshrink, try_softshrink(lambd: f64) -> Tensor<B> = |x| op::softshrink(x, lambd);
    /// 0 where |x| <= lambd, x elsewhere.
    fn hardshrink, try_hardshrink(lambd: f64) -> Tensor<B> = |x| op::hardshrink(x, lambd);
    /// x where it is above `threshold`, `value` elsewhere.
    fn threshold, try_threshold(threshold: f64, value: f64) -> Tensor<B> = |x| op::threshold(x, threshold, value);
    /// As another dtype. Floats round to nearest even; float to integer truncates towards zero; to
    /// bool: x != 0. The gradient of a cast between floats is a cast back.
    fn to_dtype, try_to_dtype(dtype: DType) -> Tensor<B> = |x| elinvar_ops::value::cast(x, dtype);
}
