//! The ops as functions of a backend, `B::add(&x, &y)`, on arrays without a tape.
//!
//! For code that is generic over a backend. The functions call those of the catalogue: a row of a
//! table below is a name, a signature and a path.

use crate::array::Array;
use crate::backend::{Backend, Random};
use crate::catalogue as op;
use crate::catalogue::fourier::Norm;
use crate::catalogue::lstsq::Driver;
use crate::catalogue::matrix_norm::MatrixOrd;
use crate::catalogue::qr::QrMode;
use crate::random::check;
use elinvar_core::philox::Stream;
use elinvar_core::{DType, Element, HostTensor, Result, Scalar, Shape};

/// The operands and results of every function below.
type A<B> = Array<B>;

/// `"doc" name;` for `name(x)`.
macro_rules! unary {
    ($($doc:literal $name:ident;)*) => {$(
        #[doc = concat!($doc, ". See [`", stringify!($name), "`](mod@crate::catalogue::", stringify!($name), ").")]
        ///
        /// # Errors
        /// Those of the op: what does not fit, or `OutOfMemory`.
        fn $name(x: &A<Self>) -> Result<A<Self>> {
            op::$name(x)
        }
    )*};
}

/// `"doc" name;` for `name(x, y)`.
macro_rules! binary {
    ($($doc:literal $name:ident;)*) => {$(
        #[doc = concat!($doc, ". See [`", stringify!($name), "`](mod@crate::catalogue::", stringify!($name), ").")]
        ///
        /// # Errors
        /// Those of the op: what does not fit, or `OutOfMemory`.
        fn $name(x: &A<Self>, y: &A<Self>) -> Result<A<Self>> {
            op::$name(x, y)
        }
    )*};
}

/// `"doc" name(operands and attributes) -> result = path;`
macro_rules! forward {
    ($($doc:literal $name:ident($($arg:ident: $t:ty),*) -> $ret:ty = $path:path;)*) => {$(
        #[doc = concat!($doc, ". See [`", stringify!($path), "`](fn@", stringify!($path), ").")]
        ///
        /// # Errors
        /// Those of the op: what does not fit, or `OutOfMemory`.
        fn $name($($arg: $t),*) -> Result<$ret> {
            $path($($arg),*)
        }
    )*};
}

/// The ops as associated functions of every backend.
///
/// Operands broadcast; the catalogue entry of each function lists the dtypes that it takes. A few
/// ops have the names of kinds of work of [`Backend`], and are called otherwise here: `gather_dim`,
/// `scatter_dim`, `sort_dim`, `nonzero_indices`, `fold_patches`. Reserved words of the language
/// have an underscore: `where_`; so has `std_`.
///
/// ```
/// use elinvar_core::{DType, Result};
/// use elinvar_ops::{Array, Backend, Door};
///
/// /// The probability that a logistic regression gives to each row of x.
/// ///
/// /// x: [n, k]   w: [k, 1]   b: [1]   result: [n, 1]
/// fn predict<B: Backend>(x: &Array<B>, w: &Array<B>, b: &Array<B>) -> Result<Array<B>> {
///     B::sigmoid(&B::add(&B::matmul(x, w)?, b)?)
/// }
///
/// # use elinvar_reference::{Reference, ReferenceDevice};
/// let device = ReferenceDevice;
/// let x = Reference::from_vec(&device, vec![1.0f32, 2.0, -3.0, 0.5], &[2, 2])?;
/// let w = Reference::from_vec(&device, vec![2.0f32, -1.0], &[2, 1])?;
/// let p = predict::<Reference>(&x, &w, &Reference::zeros(&device, &[1], DType::F32)?)?;
/// assert_eq!(p.shape().dims(), [2, 1]);
/// assert_eq!(Reference::to_vec::<f32>(&p)?[0], 0.5);
/// # Ok::<(), elinvar_core::Error>(())
/// ```
pub trait Door: Backend {
    // Creating arrays, and reading them

    /// Zeros.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn zeros(device: &Self::Device, shape: &[usize], dtype: DType) -> Result<A<Self>> {
        Self::full(device, shape, 0i64, dtype)
    }
    /// Ones.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn ones(device: &Self::Device, shape: &[usize], dtype: DType) -> Result<A<Self>> {
        Self::full(device, shape, 1i64, dtype)
    }
    /// All elements equal.
    ///
    /// # Errors
    /// `DTypeMismatch` if the value does not fit; `OutOfMemory`.
    fn full(
        device: &Self::Device,
        shape: &[usize],
        value: impl Into<Scalar>,
        dtype: DType,
    ) -> Result<A<Self>> {
        Array::full(device, &Shape::new(shape)?, value.into(), dtype)
    }
    /// One element, of shape [].
    ///
    /// # Errors
    /// `DTypeMismatch` if the value does not fit; `OutOfMemory`.
    fn scalar(device: &Self::Device, value: impl Into<Scalar>, dtype: DType) -> Result<A<Self>> {
        Array::scalar(device, value.into(), dtype)
    }
    /// An array of these elements, row-major.
    ///
    /// # Errors
    /// `ShapeMismatch` if the number of elements is not the shape's; `OutOfMemory`.
    fn from_vec<T: Element>(device: &Self::Device, v: Vec<T>, shape: &[usize]) -> Result<A<Self>> {
        Array::from_vec(device, v, shape)
    }
    /// Host memory, copied to the device.
    ///
    /// # Errors
    /// `OutOfMemory`, or the device's errors.
    fn from_host(device: &Self::Device, host: HostTensor) -> Result<A<Self>> {
        Array::from_host(device, host)
    }
    /// The elements on the host.
    ///
    /// # Errors
    /// The device's errors.
    fn to_host(x: &A<Self>) -> Result<HostTensor> {
        x.to_host()
    }
    /// The elements on the host, row-major.
    ///
    /// # Errors
    /// `DTypeMismatch` if `T` is not their type; the device's errors.
    fn to_vec<T: Element>(x: &A<Self>) -> Result<Vec<T>> {
        Ok(x.to_host()?.as_slice::<T>()?.to_vec())
    }
    /// 0, 1, .. below `n`, of i64.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn arange(device: &Self::Device, n: usize) -> Result<A<Self>> {
        let ones = Self::ones(device, &[n], DType::I64)?;
        Self::sub(&Self::cumsum(&ones, 0)?, &ones)
    }
    /// The n x n matrix with ones on its diagonal.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn eye(device: &Self::Device, n: usize, dtype: DType) -> Result<A<Self>> {
        Self::diag(&Self::ones(device, &[n], dtype)?, 0)
    }
    /// Floats, uniform in `low..high`, from a stream.
    ///
    /// # Errors
    /// Those of [`check`]; `OutOfMemory`.
    fn uniform(
        device: &Self::Device,
        stream: Stream,
        low: f64,
        high: f64,
        shape: &[usize],
        dtype: DType,
    ) -> Result<A<Self>> {
        draw("uniform", device, Random::Uniform { low, high }, stream, shape, dtype)
    }
    /// Floats, normally distributed, from a stream.
    ///
    /// # Errors
    /// Those of [`check`]; `OutOfMemory`.
    fn normal(
        device: &Self::Device,
        stream: Stream,
        mean: f64,
        std: f64,
        shape: &[usize],
        dtype: DType,
    ) -> Result<A<Self>> {
        draw("normal", device, Random::Normal { mean, std }, stream, shape, dtype)
    }
    /// The rows and columns of a lower triangle: see [`op::tril_indices::on`].
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn tril_indices(device: &Self::Device, rows: usize, columns: usize, offset: isize) -> Result<A<Self>> {
        op::tril_indices::on(device, rows, columns, offset)
    }
    /// The rows and columns of an upper triangle: see [`op::triu_indices::on`].
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn triu_indices(device: &Self::Device, rows: usize, columns: usize, offset: isize) -> Result<A<Self>> {
        op::triu_indices::on(device, rows, columns, offset)
    }
    /// `x` broadcast to a shape, as a view.
    ///
    /// # Errors
    /// `ShapeMismatch` if it does not broadcast.
    fn broadcast_to(x: &A<Self>, shape: &[usize]) -> Result<A<Self>> {
        op::expand(x, &Shape::new(shape)?)
    }

    // Unary

    unary! {
        "|x|, for floats and integers" abs;
        "e^x" exp;
        "-x, for floats and integers" neg;
        "-1, 0 or 1 by the sign of x, for floats and integers; NaN gives 0" sign;
        "2^x" exp2;
        "e^x - 1, without the cancellation near 0" expm1;
        "The natural logarithm" log;
        "The logarithm to base 2" log2;
        "The logarithm to base 10" log10;
        "log(1 + x), without the rounding of 1 + x" log1p;
        "The square root" sqrt;
        "1 / sqrt(x)" rsqrt;
        "1 / x" reciprocal;
        "x * x, for floats and integers" square;
        "The sine, in radians; accurate for arguments of any size" sin;
        "The cosine, in radians; accurate for arguments of any size" cos;
        "The tangent, in radians; accurate for arguments of any size" tan;
        "The inverse sine, in radians" asin;
        "The inverse cosine, in radians" acos;
        "The inverse tangent, in radians" atan;
        "The hyperbolic sine" sinh;
        "The hyperbolic cosine" cosh;
        "The hyperbolic tangent" tanh;
        "The error function" erf;
        "The inverse hyperbolic sine" asinh;
        "The inverse hyperbolic cosine" acosh;
        "The inverse hyperbolic tangent" atanh;
        "1 - erf(x), relatively accurate" erfc;
        "exp(x^2) erfc(x)" erfcx;
        "The inverse of the error function" erfinv;
        "The normal distribution function" ndtr;
        "The logarithm of the normal distribution function" log_ndtr;
        "The inverse of the normal distribution function" ndtri;
        "The logarithm of |gamma(x)|" lgamma;
        "The derivative of lgamma" digamma;
        "-x log(x); 0 at 0, -inf below" entr;
        "sin(pi x) / (pi x)" sinc;
        "1 / (1 + e^-x)" sigmoid;
        "log(sigmoid(x))" log_sigmoid;
        "max(x, 0), for floats and integers" relu;
        "min(max(x, 0), 6)" relu6;
        "The scaled exponential linear unit" selu;
        "x sigmoid(x)" silu;
        "x tanh(softplus(x))" mish;
        "x / (1 + |x|)" softsign;
        "x relu6(x + 3) / 6" hardswish;
        "relu6(x + 3) / 6" hardsigmoid;
        "x - tanh(x)" tanhshrink;
        "The largest whole number not above x" floor;
        "The smallest whole number not below x" ceil;
        "The nearest whole number, halves to even" round;
        "x without its fraction" trunc;
        "The fraction of x with its sign" frac;
        "True where x is NaN" isnan;
        "True where x is +inf or -inf" isinf;
        "True where x is neither infinite nor NaN" isfinite;
        "True where x is +inf" isposinf;
        "True where x is -inf" isneginf;
        "True where x has a minus sign" signbit;
        "True where x is zero or false" logical_not;
        "Every bit flipped, for integers; the logical not for bool" bitwise_not;
    }
    forward! {
        "log(x / (1 - x)); with `eps`, of x cut to `eps..=1 - eps`"
        logit(x: &A<Self>, eps: Option<f64>) -> A<Self> = op::logit;
        "The derivative of digamma of order `n`"
        polygamma(n: usize, x: &A<Self>) -> A<Self> = op::polygamma;
        "m in 1/2..1 and e (i32), with x = m 2^e"
        frexp(x: &A<Self>) -> (A<Self>, A<Self>) = op::frexp;
        "x where it is positive, else x times a number between `lower` and `upper`"
        rrelu(x: &A<Self>, lower: f64, upper: f64, slopes: op::rrelu::Slopes<'_, A<Self>>) -> A<Self> = op::rrelu;
        "x where it is positive, else `negative_slope * x`"
        leaky_relu(x: &A<Self>, negative_slope: f64) -> A<Self> = op::leaky_relu;
        "x where it is positive, else `alpha (e^x - 1)`"
        elu(x: &A<Self>, alpha: f64) -> A<Self> = op::elu;
        "x where it is positive, else `alpha (e^(x / alpha) - 1)`"
        celu(x: &A<Self>, alpha: f64) -> A<Self> = op::celu;
        "x times the normal distribution function of x"
        gelu(x: &A<Self>, approximate: op::gelu::Approximate) -> A<Self> = op::gelu;
        "`log(1 + e^(beta x)) / beta`; x itself where `beta x > threshold`"
        softplus(x: &A<Self>, beta: f64, threshold: f64) -> A<Self> = op::softplus;
        "x cut to `min_val..=max_val`"
        hardtanh(x: &A<Self>, min_val: f64, max_val: f64) -> A<Self> = op::hardtanh;
        "x - lambd above lambd, x + lambd below -lambd, else 0"
        softshrink(x: &A<Self>, lambd: f64) -> A<Self> = op::softshrink;
        "0 where `|x| <= lambd`, else x"
        hardshrink(x: &A<Self>, lambd: f64) -> A<Self> = op::hardshrink;
        "x where it is above `threshold`, else `value`"
        threshold(x: &A<Self>, threshold: f64, value: f64) -> A<Self> = op::threshold;
    }

    // Binary

    binary! {
        "x + y" add;
        "x - y" sub;
        "x * y" mul;
        "x / y" div;
        "floor(x / y), for floats and integers" floor_divide;
        "The remainder of x / y with the sign of x" fmod;
        "The remainder of x / y with the sign of y" remainder;
        "x^y, for floats and integers" pow;
        "The larger of x and y" maximum;
        "The smaller of x and y" minimum;
        "The angle of the point (y, x) in radians" atan2;
        "The magnitude of x with the sign of y" copysign;
        "sqrt(x^2 + y^2), without overflow" hypot;
        "x log(y); 0 where x is 0" xlogy;
        "x log(1 + y); 0 where x is 0" xlog1py;
        "x 2^y" ldexp;
        "The larger of x and y, NaN being missing" fmax;
        "The smaller of x and y, NaN being missing" fmin;
        "0 below 0, 1 above, y at 0" heaviside;
        "log(e^x + e^y), without overflow" logaddexp;
        "Have x and y the same shape and elements? bool, []" equal;
        "x == y, as bool" eq;
        "x != y, as bool" ne;
        "x < y, as bool" lt;
        "x <= y, as bool" le;
        "x > y, as bool" gt;
        "x >= y, as bool" ge;
        "x and y, as bool; any dtype" logical_and;
        "x or y, as bool; any dtype" logical_or;
        "Either x or y, not both, as bool; any dtype" logical_xor;
        "x and y, bit by bit; for integers and bool" bitwise_and;
        "x or y, bit by bit; for integers and bool" bitwise_or;
        "Either x or y, not both, bit by bit; for integers and bool" bitwise_xor;
        "The bits of x moved left by y; for integers" shift_left;
        "The bits of x moved right by y; for integers, keeping the sign" shift_right;
    }
    forward! {
        "|x - y| <= atol + rtol |y|, as bool, operands broadcast"
        isclose(x: &A<Self>, y: &A<Self>, rtol: f64, atol: f64, equal_nan: bool) -> A<Self> = op::isclose;
        "Is all of x close to y? bool, []"
        allclose(x: &A<Self>, y: &A<Self>, rtol: f64, atol: f64, equal_nan: bool) -> A<Self> = op::allclose;
        "`x` with numbers for NaN, +inf and -inf"
        nan_to_num(x: &A<Self>, nan: f64, posinf: Option<f64>, neginf: Option<f64>) -> A<Self> = op::nan_to_num;
        "x / y, operands broadcast, rounded to a whole number as asked"
        div_mode(x: &A<Self>, y: &A<Self>, rounding: op::div::Rounding) -> A<Self> = op::div::div_mode;
    }

    // Select, blend, cast

    forward! {
        "`x` where `cond` is true, else `y`, all three broadcast"
        where_(cond: &A<Self>, x: &A<Self>, y: &A<Self>) -> A<Self> = op::where_;
        "x cut to `min..=max`, for floats and integers; a bound may be missing, but not both"
        clamp(x: &A<Self>, min: Option<Scalar>, max: Option<Scalar>) -> A<Self> = op::clamp;
        "x cut to `min..=max`, all broadcast; a bound may be missing, but not both"
        clamp_tensor(
            x: &A<Self>, min: Option<&A<Self>>, max: Option<&A<Self>>
        ) -> A<Self> = op::clamp::clamp_tensor;
        "x + weight (y - x), all three broadcast"
        lerp(x: &A<Self>, y: &A<Self>, weight: &A<Self>) -> A<Self> = op::lerp;
        "x + weight (y - x), operands broadcast"
        lerp_by(x: &A<Self>, y: &A<Self>, weight: f64) -> A<Self> = op::lerp::lerp_by;
        "`x` with `value` where `mask` is true, broadcast"
        masked_fill(x: &A<Self>, mask: &A<Self>, value: impl Into<Scalar>) -> A<Self> = op::masked_fill;
        "x + value * t1 * t2, operands broadcast"
        addcmul(x: &A<Self>, t1: &A<Self>, t2: &A<Self>, value: f64) -> A<Self> = op::addcmul;
        "x + value * t1 / t2, operands broadcast"
        addcdiv(x: &A<Self>, t1: &A<Self>, t2: &A<Self>, value: f64) -> A<Self> = op::addcdiv;
        "x + alpha * y, operands broadcast"
        add_scaled(x: &A<Self>, y: &A<Self>, alpha: impl Into<Scalar>) -> A<Self> = op::add::scaled;
        "x - alpha * y, operands broadcast"
        sub_scaled(x: &A<Self>, y: &A<Self>, alpha: impl Into<Scalar>) -> A<Self> = op::sub::scaled;
        "x * y + z, rounded once, operands broadcast"
        fma(x: &A<Self>, y: &A<Self>, z: &A<Self>) -> A<Self> = op::fma;
        "`x` as dtype `to`"
        cast(x: &A<Self>, to: DType) -> A<Self> = op::cast;
    }

    // Reductions

    forward! {
        "The sum over `dims` (all axes if `None` or empty). Integers and bool sum to i64"
        sum(x: &A<Self>, dims: Option<&[isize]>, keepdim: bool) -> A<Self> = op::sum;
        "The opposite of broadcasting: the sum over the axes along which `shape` was repeated"
        sum_to(x: &A<Self>, shape: &Shape) -> A<Self> = op::sum::sum_to;
        "The mean over `dims` (all axes if `None` or empty)"
        mean(x: &A<Self>, dims: Option<&[isize]>, keepdim: bool) -> A<Self> = op::mean;
        "The product over `dims` (all axes if `None` or empty). Integers and bool multiply to i64"
        prod(x: &A<Self>, dims: Option<&[isize]>, keepdim: bool) -> A<Self> = op::prod;
        "The largest element over `dims` (all axes if `None` or empty)"
        amax(x: &A<Self>, dims: Option<&[isize]>, keepdim: bool) -> A<Self> = op::amax;
        "The smallest element over `dims` (all axes if `None` or empty)"
        amin(x: &A<Self>, dims: Option<&[isize]>, keepdim: bool) -> A<Self> = op::amin;
        "The largest element of `x` along `dim` and its index (i64): (values, indices)"
        max(x: &A<Self>, dim: isize, keepdim: bool) -> (A<Self>, A<Self>) = op::max;
        "The smallest element of `x` along `dim` and its index (i64): (values, indices)"
        min(x: &A<Self>, dim: isize, keepdim: bool) -> (A<Self>, A<Self>) = op::min;
        "The index (i64) of the largest element of `x` along `dim`, or in the flattened tensor"
        argmax(x: &A<Self>, dim: Option<isize>, keepdim: bool) -> A<Self> = op::argmax;
        "The index (i64) of the smallest element of `x` along `dim`, or in the flattened tensor"
        argmin(x: &A<Self>, dim: Option<isize>, keepdim: bool) -> A<Self> = op::argmin;
        "The median of `x` along `dim` and its index (i64): (values, indices)"
        median(x: &A<Self>, dim: isize, keepdim: bool) -> (A<Self>, A<Self>) = op::median;
        "The smallest and the largest element of `x` along `dim`, or of all: (least, largest)"
        aminmax(x: &A<Self>, dim: Option<isize>, keepdim: bool) -> (A<Self>, A<Self>) = op::aminmax;
        "The median of what is not NaN along `dim` and its index (i64): (values, indices)"
        nanmedian(x: &A<Self>, dim: isize, keepdim: bool) -> (A<Self>, A<Self>) = op::nanmedian;
        "The `k`-th smallest element of `x` along `dim` and its index (i64): (values, indices)"
        kthvalue(x: &A<Self>, k: usize, dim: isize, keepdim: bool) -> (A<Self>, A<Self>) = op::kthvalue;
        "The most frequent element of `x` along `dim` and its last index (i64): (values, indices)"
        mode(x: &A<Self>, dim: isize, keepdim: bool) -> (A<Self>, A<Self>) = op::mode;
        "The elements at the fractions `q` of the way through a sorted axis, or through all elements"
        quantile(
            x: &A<Self>, q: &A<Self>, dim: Option<isize>, keepdim: bool, between: op::quantile::Between
        ) -> A<Self> = op::quantile;
        "The quantiles of what is not NaN"
        nanquantile(
            x: &A<Self>, q: &A<Self>, dim: Option<isize>, keepdim: bool, between: op::quantile::Between
        ) -> A<Self> = op::nanquantile;
        "The sum over `dims` (all axes if `None` or empty) of what is not NaN"
        nansum(x: &A<Self>, dims: Option<&[isize]>, keepdim: bool) -> A<Self> = op::nansum;
        "The mean over `dims` (all axes if `None` or empty) of what is not NaN"
        nanmean(x: &A<Self>, dims: Option<&[isize]>, keepdim: bool) -> A<Self> = op::nanmean;
        "The variance and the mean over `dims` (all axes if `None` or empty): (variance, mean)"
        var_mean(
            x: &A<Self>, dims: Option<&[isize]>, correction: f64, keepdim: bool
        ) -> (A<Self>, A<Self>) = op::var_mean;
        "The standard deviation and the mean over `dims` (all axes if `None` or empty): (std, mean)"
        std_mean(
            x: &A<Self>, dims: Option<&[isize]>, correction: f64, keepdim: bool
        ) -> (A<Self>, A<Self>) = op::std_mean;
        "The largest element along `dim` up to each one, and its index (i64): (values, indices)"
        cummax(x: &A<Self>, dim: isize) -> (A<Self>, A<Self>) = op::cummax;
        "The smallest element along `dim` up to each one, and its index (i64): (values, indices)"
        cummin(x: &A<Self>, dim: isize) -> (A<Self>, A<Self>) = op::cummin;
        "log(sum of e^x) along `dim` up to each element"
        logcumsumexp(x: &A<Self>, dim: isize) -> A<Self> = op::logcumsumexp;
        "Differences of neighbours along `dim`, `n` times"
        diff(
            x: &A<Self>, n: usize, dim: isize, prepend: Option<&A<Self>>, append: Option<&A<Self>>
        ) -> A<Self> = op::diff;
        "The variance over `dims` (all axes if `None` or empty)"
        var(x: &A<Self>, dims: Option<&[isize]>, correction: f64, keepdim: bool) -> A<Self> = op::var;
        "The standard deviation over `dims` (all axes if `None` or empty)"
        std_(x: &A<Self>, dims: Option<&[isize]>, correction: f64, keepdim: bool) -> A<Self> = op::std_;
        "log(sum(exp(x))) over `dims` (all axes if `None` or empty), without overflow"
        logsumexp(x: &A<Self>, dims: Option<&[isize]>, keepdim: bool) -> A<Self> = op::logsumexp;
        "The `p`-norm of `x` over `dims` (all axes if `None` or empty)"
        norm(x: &A<Self>, p: f64, dims: Option<&[isize]>, keepdim: bool) -> A<Self> = op::norm;
        "Is some element of `x` along `dims` (all axes if `None`) not zero? bool"
        any(x: &A<Self>, dims: Option<&[isize]>, keepdim: bool) -> A<Self> = op::any;
        "Is no element of `x` along `dims` (all axes if `None`) zero? bool"
        all(x: &A<Self>, dims: Option<&[isize]>, keepdim: bool) -> A<Self> = op::all;
        "How many elements (i64) of `x` over `dims` (all axes if `None` or empty) are not zero"
        count_nonzero(x: &A<Self>, dims: Option<&[isize]>) -> A<Self> = op::count_nonzero;
        "The sums of all elements of `x` along `dim` up to each one. Integers and bool sum to i64"
        cumsum(x: &A<Self>, dim: isize) -> A<Self> = op::cumsum;
        "The products of all elements of `x` along `dim` up to each one"
        cumprod(x: &A<Self>, dim: isize) -> A<Self> = op::cumprod;
        "Softmax along `dim`: every row becomes positive numbers that sum to 1"
        softmax(x: &A<Self>, dim: isize) -> A<Self> = op::softmax;
        "The logarithm of the softmax along `dim`"
        log_softmax(x: &A<Self>, dim: isize) -> A<Self> = op::log_softmax;
    }

    // Linear algebra

    binary! {
        "The matrix product for each batch" bmm;
        "Every element of vector x times every element of vector y" outer;
        "The sum of the products of the elements of two vectors" dot;
        "The Kronecker product" kron;
    }
    forward! {
        "The matrix product, batches broadcast"
        matmul(x: &A<Self>, w: &A<Self>) -> A<Self> = op::matmul;
        "`beta * input + alpha * (x @ y)` for matrices"
        addmm(
            input: &A<Self>, x: &A<Self>, y: &A<Self>, beta: impl Into<Scalar>, alpha: impl Into<Scalar>
        ) -> A<Self> = op::addmm;
        "beta * input + alpha * (x @ y), of a matrix and a vector"
        addmv(
            input: &A<Self>, x: &A<Self>, y: &A<Self>, beta: impl Into<Scalar>, alpha: impl Into<Scalar>
        ) -> A<Self> = op::addmv;
        "beta * input + alpha * `x[i] * y[j]`"
        addr(
            input: &A<Self>, x: &A<Self>, y: &A<Self>, beta: impl Into<Scalar>, alpha: impl Into<Scalar>
        ) -> A<Self> = op::addr;
        "The sum of x * y over `dim`"
        vecdot(x: &A<Self>, y: &A<Self>, dim: isize) -> A<Self> = op::vecdot;
        "The cross product along `dim`, or the first axis of size 3"
        cross(x: &A<Self>, y: &A<Self>, dim: Option<isize>) -> A<Self> = op::cross;
        "The distances of all pairs of rows"
        cdist(x: &A<Self>, y: &A<Self>, p: f64) -> A<Self> = op::cdist;
        "The distances of all pairs of different rows of x"
        pdist(x: &A<Self>, p: f64) -> A<Self> = op::pdist;
        "The distance of each row from the other operand's row"
        pairwise_distance(
            x: &A<Self>, y: &A<Self>, p: f64, eps: f64, keepdim: bool
        ) -> A<Self> = op::pairwise_distance;
        "A form that is linear in each of two operands"
        bilinear(
            x1: &A<Self>, x2: &A<Self>, weight: &A<Self>, bias: Option<&A<Self>>
        ) -> A<Self> = op::bilinear;
        "`beta * input + alpha * (x @ y)` for batches of matrices"
        baddbmm(
            input: &A<Self>, x: &A<Self>, y: &A<Self>, beta: impl Into<Scalar>, alpha: impl Into<Scalar>
        ) -> A<Self> = op::baddbmm;
        "`beta * input + alpha * (x @ y)`, summed over batches of matrices"
        addbmm(
            input: &A<Self>, x: &A<Self>, y: &A<Self>, beta: impl Into<Scalar>, alpha: impl Into<Scalar>
        ) -> A<Self> = op::addbmm;
        "The sum over axis `dims_x[i]` of `x` together with axis `dims_y[i]` of `y`, for all `i`"
        tensordot(x: &A<Self>, y: &A<Self>, dims_x: &[isize], dims_y: &[isize]) -> A<Self> = op::tensordot;
        "The sum that `equation` names, such as 'ij,jk->ik'"
        einsum(equation: &str, x: &[&A<Self>]) -> A<Self> = op::einsum;
        "`x @ weight^T + bias`"
        linear(x: &A<Self>, weight: &A<Self>, bias: Option<&A<Self>>) -> A<Self> = op::linear;
    }

    // Factorisations

    forward! {
        "The product of several matrices, in the cheapest order"
        multi_dot(x: &[&A<Self>]) -> A<Self> = op::multi_dot;
        "The product of `n` factors x, or of inverses if it is negative"
        matrix_power(x: &A<Self>, n: i64) -> A<Self> = op::matrix_power;
        "A norm of the matrices in two axes"
        matrix_norm(x: &A<Self>, ord: MatrixOrd, dim: [isize; 2], keepdim: bool) -> A<Self> = op::matrix_norm;
        "The exponentials of matrices"
        matrix_exp(x: &A<Self>) -> A<Self> = op::matrix_exp;
        "L with L L^T = x, or its transpose"
        cholesky(x: &A<Self>, upper: bool) -> A<Self> = op::cholesky;
        "The same, and the number of the first pivot that is not positive"
        cholesky_ex(x: &A<Self>, upper: bool) -> (A<Self>, A<Self>) = op::cholesky_ex;
        "The solution of x X = y with a triangle of x"
        solve_triangular(
            x: &A<Self>, y: &A<Self>, upper: bool, left: bool, unitriangular: bool
        ) -> A<Self> = op::solve_triangular;
        "The solution of x X = y, or X x = y without `left`"
        solve(x: &A<Self>, y: &A<Self>, left: bool) -> A<Self> = op::solve;
        "The inverses of matrices"
        inv(x: &A<Self>) -> A<Self> = op::inv;
        "The same, and the number of the first pivot that is 0"
        inv_ex(x: &A<Self>) -> (A<Self>, A<Self>) = op::inv_ex;
        "The pseudoinverses of matrices"
        pinv(x: &A<Self>, atol: Option<f64>, rtol: Option<f64>, hermitian: bool) -> A<Self> = op::pinv;
        "Packed LU factors and exchanges of rows"
        lu_factor(x: &A<Self>, pivot: bool) -> (A<Self>, A<Self>) = op::lu_factor;
        "The same, and the number of the first pivot that is 0"
        lu_factor_ex(x: &A<Self>, pivot: bool) -> (A<Self>, A<Self>, A<Self>) = op::lu_factor_ex;
        "P, L and U with x = P L U, or L and U with x = L U without `pivot`"
        lu(x: &A<Self>, pivot: bool) -> (A<Self>, A<Self>, A<Self>) = op::lu;
        "The solution of a system by the results of `lu_factor`"
        lu_solve(
            lu: &A<Self>, pivots: &A<Self>, y: &A<Self>, left: bool, adjoint: bool
        ) -> A<Self> = op::lu_solve;
        "L and D of symmetric matrices in one, and exchanges of rows"
        ldl_factor(x: &A<Self>) -> (A<Self>, A<Self>) = op::ldl_factor;
        "The same, and the number of the first block of D that is 0"
        ldl_factor_ex(x: &A<Self>) -> (A<Self>, A<Self>, A<Self>) = op::ldl_factor_ex;
        "The solution of a system by the results of `ldl_factor`"
        ldl_solve(ld: &A<Self>, pivots: &A<Self>, y: &A<Self>) -> A<Self> = op::ldl_solve;
        "The determinants of matrices"
        det(x: &A<Self>) -> A<Self> = op::det;
        "Signs of determinants, and the logarithms of their magnitudes"
        slogdet(x: &A<Self>) -> (A<Self>, A<Self>) = op::slogdet;
        "Q and R with x = Q R"
        qr(x: &A<Self>, mode: QrMode) -> (A<Self>, A<Self>) = op::qr;
        "The first columns of a product of reflections"
        householder_product(x: &A<Self>, tau: &A<Self>) -> A<Self> = op::householder_product;
        "Solutions of least squares, residuals, ranks, singular values"
        lstsq(
            x: &A<Self>, y: &A<Self>, rcond: Option<f64>, driver: Driver
        ) -> (A<Self>, A<Self>, A<Self>, A<Self>) = op::lstsq;
        "Eigenvalues and eigenvectors of symmetric matrices"
        eigh(x: &A<Self>, upper: bool) -> (A<Self>, A<Self>) = op::eigh;
        "Eigenvalues of symmetric matrices"
        eigvalsh(x: &A<Self>, upper: bool) -> A<Self> = op::eigvalsh;
        "U, S and V^T with x = U diag(S) V^T"
        svd(x: &A<Self>, full_matrices: bool) -> (A<Self>, A<Self>, A<Self>) = op::svd;
        "Singular values"
        svdvals(x: &A<Self>) -> A<Self> = op::svdvals;
    }

    // Fourier transforms

    forward! {
        "The discrete Fourier transform of pairs (re, im) along axis `dim`"
        fft(x: &A<Self>, n: Option<usize>, dim: isize, norm: Norm) -> A<Self> = op::fft;
        "The inverse discrete Fourier transform of pairs (re, im) along axis `dim`"
        ifft(x: &A<Self>, n: Option<usize>, dim: isize, norm: Norm) -> A<Self> = op::ifft;
        "Half the spectrum of real numbers along axis `dim`"
        rfft(x: &A<Self>, n: Option<usize>, dim: isize, norm: Norm) -> A<Self> = op::rfft;
        "The real numbers of which `x` is half the spectrum along axis `dim`"
        irfft(x: &A<Self>, n: Option<usize>, dim: isize, norm: Norm) -> A<Self> = op::irfft;
        "`fft` over two axes"
        fft2(x: &A<Self>, s: Option<&[usize]>, dim: [isize; 2], norm: Norm) -> A<Self> = op::fft2;
        "`ifft` over two axes"
        ifft2(x: &A<Self>, s: Option<&[usize]>, dim: [isize; 2], norm: Norm) -> A<Self> = op::ifft2;
        "`rfft` over two axes"
        rfft2(x: &A<Self>, s: Option<&[usize]>, dim: [isize; 2], norm: Norm) -> A<Self> = op::rfft2;
        "`irfft` over two axes"
        irfft2(x: &A<Self>, s: Option<&[usize]>, dim: [isize; 2], norm: Norm) -> A<Self> = op::irfft2;
        "`fft` over several axes"
        fftn(x: &A<Self>, s: Option<&[usize]>, dim: Option<&[isize]>, norm: Norm) -> A<Self> = op::fftn;
        "`ifft` over several axes"
        ifftn(x: &A<Self>, s: Option<&[usize]>, dim: Option<&[isize]>, norm: Norm) -> A<Self> = op::ifftn;
        "`rfft` over several axes"
        rfftn(x: &A<Self>, s: Option<&[usize]>, dim: Option<&[isize]>, norm: Norm) -> A<Self> = op::rfftn;
        "`irfft` over several axes"
        irfftn(x: &A<Self>, s: Option<&[usize]>, dim: Option<&[isize]>, norm: Norm) -> A<Self> = op::irfftn;
        "The transforms of windows of a signal"
        stft(
            x: &A<Self>, window: Option<&A<Self>>, frames: &op::stft::Frames, pad_mode: op::pad::Mode
        ) -> A<Self> = op::stft;
        "The signal of which windows have these transforms"
        istft(
            x: &A<Self>, window: Option<&A<Self>>, frames: &op::stft::Frames, length: Option<usize>
        ) -> A<Self> = op::istft;
    }

    // Movement

    unary! {
        "The sum of the main diagonal of a matrix `x`. Integers and bool sum to i64" trace;
    }
    forward! {
        "`x` under another shape, in which one size may be -1: what is left of the elements"
        reshape(x: &A<Self>, sizes: &[isize]) -> A<Self> = op::reshape;
        "`x` with axes `dim0` and `dim1` swapped. A view; a scalar stays as it is"
        transpose(x: &A<Self>, dim0: isize, dim1: isize) -> A<Self> = op::transpose;
        "`x` with its axes in another order: axis `i` of the result is axis `dims[i]` of `x`. A view"
        permute(x: &A<Self>, dims: &[isize]) -> A<Self> = op::permute;
        "`x` with its axes of size 1 repeated to `shape`; new axes stand in front. A view"
        expand(x: &A<Self>, shape: &Shape) -> A<Self> = op::expand;
        "`repeats[i]` copies of `x` along axis `i`"
        repeat(x: &A<Self>, repeats: &[usize]) -> A<Self> = op::repeat;
        "`dims[i]` copies of `x` along axis `i`; axes without an entry are not repeated"
        tile(x: &A<Self>, dims: &[usize]) -> A<Self> = op::tile;
        "`x[ranges[0], ranges[1], ..]` in Python's meaning; axes without a range stay whole. A view"
        slice(x: &A<Self>, ranges: &[op::slice::Range]) -> A<Self> = op::slice;
        "`x` with `x[ranges[0], ranges[1], ..]` replaced by `src`, which is broadcast to it"
        slice_assign(x: &A<Self>, ranges: &[op::slice::Range], src: &A<Self>) -> A<Self> = op::slice_assign;
        "The elements of `x` at `index` of axis `dim`, without that axis"
        select(x: &A<Self>, dim: isize, index: isize) -> A<Self> = op::select;
        "`length` elements of axis `dim` from `start` on, which may count from the end. A view"
        narrow(x: &A<Self>, dim: isize, start: isize, length: usize) -> A<Self> = op::narrow;
        "`x` with the order of the elements along `dims` reversed. A view"
        flip(x: &A<Self>, dims: &[isize]) -> A<Self> = op::flip;
        "`x` turned by `k` quarters in the plane of two axes. A view"
        rot90(x: &A<Self>, k: isize, dims: &[isize]) -> A<Self> = op::rot90;
        "Matrices that have the rows of `x` as their diagonals"
        diag_embed(x: &A<Self>, offset: isize, dim1: isize, dim2: isize) -> A<Self> = op::diag_embed;
        "The matrix that has the matrices `x` along its diagonal"
        block_diag(x: &[&A<Self>]) -> A<Self> = op::block_diag;
        "Channels of several groups interleaved"
        channel_shuffle(x: &A<Self>, groups: usize) -> A<Self> = op::channel_shuffle;
        "Every index of an axis as often as `repeats` says"
        repeat_interleave_by(
            x: &A<Self>, repeats: &A<Self>, dim: Option<isize>
        ) -> A<Self> = op::repeat_interleave::by;
        "`x` with its elements moved by `shifts[i]` places along `dims[i]`, one axis after the other"
        roll(x: &A<Self>, shifts: &[isize], dims: Option<&[isize]>) -> A<Self> = op::roll;
        "The tensors `x` one after the other along axis `dim`"
        concat(x: &[&A<Self>], dim: isize) -> A<Self> = op::concat;
        "The tensors `x`, all of one shape, along a new axis that stands at `dim` of the result"
        stack(x: &[&A<Self>], dim: isize) -> A<Self> = op::stack;
        "`x` cut along `dim` into parts of `size` elements, of which the last may be smaller. Views"
        split(x: &A<Self>, size: usize, dim: isize) -> Vec<A<Self>> = op::split;
        "`x` cut along `dim` into parts of these sizes. Views"
        split_sizes(x: &A<Self>, sizes: &[usize], dim: isize) -> Vec<A<Self>> = op::split::sizes;
        "`x` cut along `dim` into parts of ceil(n / chunks) elements; the last may be smaller"
        chunk(x: &A<Self>, chunks: usize, dim: isize) -> Vec<A<Self>> = op::chunk;
        "The elements of `x` at each index of axis `dim`, without that axis. Views"
        unbind(x: &A<Self>, dim: isize) -> Vec<A<Self>> = op::unbind;
        "`x` with elements added at both ends of its last axes"
        pad(x: &A<Self>, amounts: &[isize], mode: op::pad::Mode) -> A<Self> = op::pad;
        "`x` without those of `dims` (all axes if `None`) that have size 1; the others stay. A view"
        squeeze(x: &A<Self>, dims: Option<&[isize]>) -> A<Self> = op::squeeze;
        "`x` with a new axis of size 1 that stands at `dim` of the result. A view"
        unsqueeze(x: &A<Self>, dim: isize) -> A<Self> = op::unsqueeze;
        "`x` with axes `start_dim` to `end_dim` (included) merged into one; a scalar gets one axis"
        flatten(x: &A<Self>, start_dim: isize, end_dim: isize) -> A<Self> = op::flatten;
        "The lower triangle of the last two axes, up to `diagonal` above the main one"
        tril(x: &A<Self>, diagonal: isize) -> A<Self> = op::tril;
        "The upper triangle of the last two axes, from `diagonal` above the main one"
        triu(x: &A<Self>, diagonal: isize) -> A<Self> = op::triu;
        "The diagonal of axes `dim1` (rows) and `dim2` (columns), `offset` above the main one"
        diagonal(x: &A<Self>, offset: isize, dim1: isize, dim2: isize) -> A<Self> = op::diagonal;
        "For a matrix `x` the diagonal `offset` above the main one, as a view"
        diag(x: &A<Self>, offset: isize) -> A<Self> = op::diag;
        "Windows of `size` elements, `step` apart, along axis `dimension` of `x`"
        unfold_dim(x: &A<Self>, dimension: isize, size: usize, step: usize) -> A<Self> = op::unfold_dim;
        "The patches of images as columns"
        unfold(x: &A<Self>, patches: &op::unfold::Patches) -> A<Self> = op::unfold;
        "Columns added up to images: the opposite of `unfold`"
        fold_patches(x: &A<Self>, size: [usize; 2], patches: &op::unfold::Patches) -> A<Self> = op::fold;
        "`x` with axis `source[i]` at place `destination[i]` of the result"
        movedim(x: &A<Self>, source: &[isize], destination: &[isize]) -> A<Self> = op::movedim;
        "For vectors, the tensors of one common shape that hold each one's coordinates"
        meshgrid(x: &[&A<Self>], xy: bool) -> Vec<A<Self>> = op::meshgrid;
        "Every index of axis `dim` `repeats` times in a row; without `dim`, every element"
        repeat_interleave(x: &A<Self>, repeats: usize, dim: Option<isize>) -> A<Self> = op::repeat_interleave;
    }

    // By index

    forward! {
        "For every element of `index` the element of `x` that it names along `dim`"
        gather_dim(x: &A<Self>, dim: isize, index: &A<Self>) -> A<Self> = op::gather;
        "A copy of `x` into which each element of `src` is written at the place that `index` names along `dim`"
        scatter_dim(x: &A<Self>, dim: isize, index: &A<Self>, src: &A<Self>) -> A<Self> = op::scatter;
        "A copy of `x` into which `value` is written at `index` along `dim`"
        scatter_value(
            x: &A<Self>, dim: isize, index: &A<Self>, value: Scalar
        ) -> A<Self> = op::scatter::value;
        "A copy of `x` to which each element of `src` is added at the place that `index` names along `dim`"
        scatter_add(x: &A<Self>, dim: isize, index: &A<Self>, src: &A<Self>) -> A<Self> = op::scatter_add;
        "The slices of axis `dim` of `x` that the vector `index` names, in its order"
        index_select(x: &A<Self>, dim: isize, index: &A<Self>) -> A<Self> = op::index_select;
        "A copy of `x` to which `alpha * src` is added at the slices that `index` names"
        index_add(
            x: &A<Self>, dim: isize, index: &A<Self>, src: &A<Self>, alpha: impl Into<Scalar>
        ) -> A<Self> = op::index_add;
        "A copy of `x` in which the slices of axis `dim` that the vector `index` names are `value`"
        index_fill(
            x: &A<Self>, dim: isize, index: &A<Self>, value: impl Into<Scalar>
        ) -> A<Self> = op::index_fill;
        "For every element of `index` the element of `x` that it names along `dim`"
        take_along_dim(x: &A<Self>, index: &A<Self>, dim: Option<isize>) -> A<Self> = op::take_along_dim;
        "The elements of `x` where `mask` (bool) is true, as a vector in row-major order"
        masked_select(x: &A<Self>, mask: &A<Self>) -> A<Self> = op::masked_select;
        "The coordinates (i64) of the elements of `x` that are not zero, a row each"
        nonzero_indices(x: &A<Self>) -> A<Self> = op::nonzero;
        "For every class number in `x` a row of `num_classes` zeros with a 1 at that place"
        one_hot(x: &A<Self>, num_classes: usize) -> A<Self> = op::one_hot;
        "The elements of `x` in order along `dim`, and their indices (i64): (values, indices)"
        sort_dim(x: &A<Self>, dim: isize, descending: bool) -> (A<Self>, A<Self>) = op::sort;
        "The indices (i64) that put the elements of `x` in order along `dim`"
        argsort(x: &A<Self>, dim: isize, descending: bool) -> A<Self> = op::argsort;
        "The `k` largest (or smallest) elements of `x` along `dim`, sorted, and their indices (i64)"
        topk(x: &A<Self>, k: usize, dim: isize, largest: bool) -> (A<Self>, A<Self>) = op::topk;
        "The different elements of `x`, flattened"
        unique(x: &A<Self>, dim: Option<isize>) -> op::unique::Unique<A<Self>> = op::unique;
        "The part of `x` that the items name, as in NumPy and PyTorch"
        index(x: &A<Self>, items: &[op::index::Item<A<Self>>]) -> A<Self> = op::index;
        "`x` with the part that the items name replaced by `values`, or these added to it"
        index_put(
            x: &A<Self>, items: &[op::index::Item<A<Self>>], values: &A<Self>, accumulate: bool
        ) -> A<Self> = op::index_put;
        "`x` with the slices of axis `dim` that `index` names replaced by those of `src`"
        index_copy(x: &A<Self>, dim: isize, index: &A<Self>, src: &A<Self>) -> A<Self> = op::index_copy;
        "`x` with the slices of `src` reduced into those of axis `dim` that `index` names"
        index_reduce(
            x: &A<Self>, dim: isize, index: &A<Self>, src: &A<Self>, reduce: op::scatter_reduce::Reduce,
            include_self: bool
        ) -> A<Self> = op::index_reduce;
        "`x` with the elements of `src` reduced into those that `index` names along `dim`"
        scatter_reduce(
            x: &A<Self>, dim: isize, index: &A<Self>, src: &A<Self>, reduce: op::scatter_reduce::Reduce,
            include_self: bool
        ) -> A<Self> = op::scatter_reduce;
        "The reduction of each segment of the slices of axis 0 of `x`"
        segment_reduce(
            x: &A<Self>, reduce: op::scatter_reduce::Reduce,
            segments: op::segment_reduce::Segments<'_, A<Self>>, axis: isize,
            initial: Option<f64>
        ) -> A<Self> = op::segment_reduce;
        "`x` with its elements where `mask` is true replaced by the first of `source`"
        masked_scatter(x: &A<Self>, mask: &A<Self>, source: &A<Self>) -> A<Self> = op::masked_scatter;
        "The elements of `x` at row-major positions"
        take(x: &A<Self>, index: &A<Self>) -> A<Self> = op::take;
        "`x` with its elements at row-major positions replaced by `source`, or these added to them"
        put(x: &A<Self>, index: &A<Self>, source: &A<Self>, accumulate: bool) -> A<Self> = op::put;
        "Is each of `elements` one of `test_elements` (or none of them)? bool"
        isin(elements: &A<Self>, test_elements: &A<Self>, invert: bool) -> A<Self> = op::isin;
        "The elements, or slices along `dim`, that differ from the one before them"
        unique_consecutive(
            x: &A<Self>, dim: Option<isize>
        ) -> op::unique::Unique<A<Self>> = op::unique_consecutive;
        "The coordinates of row-major positions in `shape`"
        unravel_index(index: &A<Self>, shape: &[usize]) -> Vec<A<Self>> = op::unravel_index;
        "How many elements lie in each of `bins` parts of a range"
        histc(x: &A<Self>, bins: usize, min: f64, max: f64) -> A<Self> = op::histc;
        "How many elements, or what weights, lie in each part of a range; and the edges"
        histogram(
            x: &A<Self>, bins: op::histogram::Bins<'_, A<Self>>, weight: Option<&A<Self>>, density: bool
        ) -> (A<Self>, A<Self>) = op::histogram;
        "The insertion positions of values in rows that `sorter` sorts"
        searchsorted_by(
            rows: &A<Self>, sorter: &A<Self>, values: &A<Self>, right: bool
        ) -> A<Self> = op::searchsorted::by;
        "Rows of `weight` reduced in bags of indices"
        embedding_bag(
            index: &A<Self>, weight: &A<Self>, bags: op::embedding_bag::Bags<'_, A<Self>>
        ) -> A<Self> = op::embedding_bag;
        "The sum of the `weights` of the elements of `x` that are 0, 1, .."
        bincount_weighted(x: &A<Self>, weights: &A<Self>, min_length: usize) -> A<Self> = op::bincount::weighted;
        "For each of `values` the number (i64) of elements of its row of `sorted` that are smaller"
        searchsorted(sorted: &A<Self>, values: &A<Self>, right: bool) -> A<Self> = op::searchsorted;
        "How often (i64) each of 0, 1, .. occurs in the vector `x` of integers"
        bincount(x: &A<Self>, min_length: usize) -> A<Self> = op::bincount;
        "For every element of `index` that row of `weight`"
        embedding(index: &A<Self>, weight: &A<Self>, padding_idx: Option<isize>) -> A<Self> = op::embedding;
    }

    // Layers

    forward! {
        "The convolution (cross-correlation) over one axis"
        conv1d(
            x: &A<Self>, weight: &A<Self>, bias: Option<&A<Self>>, stride: &[usize],
            padding: &op::conv::Padding, dilation: &[usize], groups: usize
        ) -> A<Self> = op::conv1d;
        "The convolution (cross-correlation) over two axes"
        conv2d(
            x: &A<Self>, weight: &A<Self>, bias: Option<&A<Self>>, stride: &[usize],
            padding: &op::conv::Padding, dilation: &[usize], groups: usize
        ) -> A<Self> = op::conv2d;
        "The convolution (cross-correlation) over three axes"
        conv3d(
            x: &A<Self>, weight: &A<Self>, bias: Option<&A<Self>>, stride: &[usize],
            padding: &op::conv::Padding, dilation: &[usize], groups: usize
        ) -> A<Self> = op::conv3d;
        "The transposed convolution: what `conv1d` reads, this adds to"
        conv_transpose1d(
            x: &A<Self>, weight: &A<Self>, bias: Option<&A<Self>>, stride: &[usize], padding: &[usize],
            output_padding: &[usize], groups: usize, dilation: &[usize]
        ) -> A<Self> = op::conv_transpose1d;
        "The transposed convolution: what `conv2d` reads, this adds to"
        conv_transpose2d(
            x: &A<Self>, weight: &A<Self>, bias: Option<&A<Self>>, stride: &[usize], padding: &[usize],
            output_padding: &[usize], groups: usize, dilation: &[usize]
        ) -> A<Self> = op::conv_transpose2d;
        "The transposed convolution: what `conv3d` reads, this adds to"
        conv_transpose3d(
            x: &A<Self>, weight: &A<Self>, bias: Option<&A<Self>>, stride: &[usize], padding: &[usize],
            output_padding: &[usize], groups: usize, dilation: &[usize]
        ) -> A<Self> = op::conv_transpose3d;
        "The largest element of each window"
        max_pool1d(
            x: &A<Self>, kernel_size: &[usize], stride: &[usize], padding: &[usize], dilation: &[usize],
            ceil_mode: bool
        ) -> A<Self> = op::max_pool1d;
        "As `max_pool1d`, with where each element came from: its row-major number in its plane"
        max_pool1d_with_indices(
            x: &A<Self>, kernel_size: &[usize], stride: &[usize], padding: &[usize], dilation: &[usize],
            ceil_mode: bool
        ) -> (A<Self>, A<Self>) = op::max_pool1d::with_indices;
        "The largest element of each window"
        max_pool2d(
            x: &A<Self>, kernel_size: &[usize], stride: &[usize], padding: &[usize], dilation: &[usize],
            ceil_mode: bool
        ) -> A<Self> = op::max_pool2d;
        "As `max_pool2d`, with where each element came from: its row-major number in its plane"
        max_pool2d_with_indices(
            x: &A<Self>, kernel_size: &[usize], stride: &[usize], padding: &[usize], dilation: &[usize],
            ceil_mode: bool
        ) -> (A<Self>, A<Self>) = op::max_pool2d::with_indices;
        "The largest element of each window"
        max_pool3d(
            x: &A<Self>, kernel_size: &[usize], stride: &[usize], padding: &[usize], dilation: &[usize],
            ceil_mode: bool
        ) -> A<Self> = op::max_pool3d;
        "As `max_pool3d`, with where each element came from: its row-major number in its plane"
        max_pool3d_with_indices(
            x: &A<Self>, kernel_size: &[usize], stride: &[usize], padding: &[usize], dilation: &[usize],
            ceil_mode: bool
        ) -> (A<Self>, A<Self>) = op::max_pool3d::with_indices;
        "The average of each window"
        avg_pool1d(
            x: &A<Self>, kernel_size: &[usize], stride: &[usize], padding: &[usize], ceil_mode: bool,
            count_include_pad: bool
        ) -> A<Self> = op::avg_pool1d;
        "The average of each window"
        avg_pool2d(
            x: &A<Self>, kernel_size: &[usize], stride: &[usize], padding: &[usize], ceil_mode: bool,
            count_include_pad: bool
        ) -> A<Self> = op::avg_pool2d;
        "The average of each window"
        avg_pool3d(
            x: &A<Self>, kernel_size: &[usize], stride: &[usize], padding: &[usize], ceil_mode: bool,
            count_include_pad: bool
        ) -> A<Self> = op::avg_pool3d;
        "The largest elements of windows put back to where they were"
        max_unpool1d(
            x: &A<Self>, indices: &A<Self>, kernel_size: &[usize], stride: &[usize], padding: &[usize],
            output_size: Option<&[usize]>
        ) -> A<Self> = op::max_unpool1d;
        "The largest elements of windows put back to where they were"
        max_unpool2d(
            x: &A<Self>, indices: &A<Self>, kernel_size: &[usize], stride: &[usize], padding: &[usize],
            output_size: Option<&[usize]>
        ) -> A<Self> = op::max_unpool2d;
        "The largest elements of windows put back to where they were"
        max_unpool3d(
            x: &A<Self>, indices: &A<Self>, kernel_size: &[usize], stride: &[usize], padding: &[usize],
            output_size: Option<&[usize]>
        ) -> A<Self> = op::max_unpool3d;
        "The average of each of `output_size` parts"
        adaptive_avg_pool1d(x: &A<Self>, output_size: &[usize]) -> A<Self> = op::adaptive_avg_pool1d;
        "The average of each of `output_size` parts"
        adaptive_avg_pool2d(x: &A<Self>, output_size: &[usize]) -> A<Self> = op::adaptive_avg_pool2d;
        "The average of each of `output_size` parts"
        adaptive_avg_pool3d(x: &A<Self>, output_size: &[usize]) -> A<Self> = op::adaptive_avg_pool3d;
        "The largest element of each of `output_size` parts"
        adaptive_max_pool1d(x: &A<Self>, output_size: &[usize]) -> A<Self> = op::adaptive_max_pool1d;
        "The largest element of each of `output_size` parts"
        adaptive_max_pool2d(x: &A<Self>, output_size: &[usize]) -> A<Self> = op::adaptive_max_pool2d;
        "The largest element of each of `output_size` parts"
        adaptive_max_pool3d(x: &A<Self>, output_size: &[usize]) -> A<Self> = op::adaptive_max_pool3d;
        "x with other spatial sizes"
        interpolate(
            x: &A<Self>, target: &op::interpolate::Target, mode: op::interpolate::Interpolation
        ) -> A<Self> = op::interpolate;
        "x read at the positions that a grid names"
        grid_sample(
            x: &A<Self>, grid: &A<Self>, sampling: op::grid_sample::Sampling, padding: op::grid_sample::Padding,
            align_corners: bool
        ) -> A<Self> = op::grid_sample;
        "The positions that an affine map reads, for `grid_sample`"
        affine_grid(theta: &A<Self>, size: &[usize], align_corners: bool) -> A<Self> = op::affine_grid;
        "x / max(its `p`-norm over `dim`, eps)"
        normalize(x: &A<Self>, p: f64, dim: isize, eps: f64) -> A<Self> = op::normalize_rows;
        "Normalized over the last axes, of sizes `normalized_shape`, then scaled and shifted"
        layer_norm(
            x: &A<Self>, normalized_shape: &[usize], weight: Option<&A<Self>>, bias: Option<&A<Self>>,
            eps: f64
        ) -> A<Self> = op::layer_norm;
        "Divided by the root mean square of the last axes, then scaled"
        rms_norm(
            x: &A<Self>, normalized_shape: &[usize], weight: Option<&A<Self>>, eps: Option<f64>
        ) -> A<Self> = op::rms_norm;
        "Normalized over the channels of a group and the spatial axes, then scaled and shifted"
        group_norm(
            x: &A<Self>, num_groups: usize, weight: Option<&A<Self>>, bias: Option<&A<Self>>, eps: f64
        ) -> A<Self> = op::group_norm;
        "Normalized over the spatial axes, then scaled and shifted"
        instance_norm(
            x: &A<Self>, weight: Option<&A<Self>>, bias: Option<&A<Self>>, eps: f64
        ) -> A<Self> = op::instance_norm;
        "Normalized per channel over batch and spatial axes, then scaled and shifted"
        batch_norm(
            x: &A<Self>, running: Option<(&A<Self>, &A<Self>)>, weight: Option<&A<Self>>,
            bias: Option<&A<Self>>, training: bool, momentum: f64, eps: f64
        ) -> op::batch_norm::BatchNorm<A<Self>> = op::batch_norm;
        "softmax(scale * q k^T + mask) v for each batch and head"
        scaled_dot_product_attention(
            q: &A<Self>, k: &A<Self>, v: &A<Self>, mask: Option<&A<Self>>, is_causal: bool,
            scale: Option<f64>, enable_gqa: bool
        ) -> A<Self> = op::scaled_dot_product_attention;
        "The same with dropout of the attention weights"
        scaled_dot_product_attention_with_dropout(
            q: &A<Self>, k: &A<Self>, v: &A<Self>, mask: Option<&A<Self>>, is_causal: bool, scale: Option<f64>,
            enable_gqa: bool, drops: Option<op::scaled_dot_product_attention::Drops<'_, A<Self>>>
        ) -> A<Self> = op::scaled_dot_product_attention::with_dropout;
        "Attention with `heads` heads over projections of query, key and value"
        multi_head_attention(
            query: &A<Self>, key: &A<Self>, value: &A<Self>,
            weights: op::multi_head_attention::MhaWeights<'_, A<Self>>, key_padding_mask: Option<&A<Self>>,
            attn_mask: Option<&A<Self>>, heads: usize, batch_first: bool,
            give: op::multi_head_attention::HeadWeights
        ) -> (A<Self>, Option<A<Self>>) = op::multi_head_attention;
        "The same with a projection each for query, key and value, and with keys that are added"
        multi_head_attention_parts(
            query: &A<Self>, key: &A<Self>, value: &A<Self>,
            weights: op::multi_head_attention::MhaParts<'_, A<Self>>, key_padding_mask: Option<&A<Self>>,
            attn_mask: Option<&A<Self>>, heads: usize, batch_first: bool,
            give: op::multi_head_attention::HeadWeights
        ) -> (A<Self>, Option<A<Self>>) = op::multi_head_attention::parts;
        "A recurrent network: per step h' = tanh(w_ih x + b_ih + w_hh h + b_hh); (y, h)"
        rnn_tanh(
            x: &A<Self>, state: Option<&A<Self>>, weights: &[op::recurrent::RnnWeights<'_, A<Self>>],
            options: op::recurrent::RnnOptions
        ) -> (A<Self>, A<Self>) = op::rnn_tanh;
        "A recurrent network: per step h' = relu(w_ih x + b_ih + w_hh h + b_hh); (y, h)"
        rnn_relu(
            x: &A<Self>, state: Option<&A<Self>>, weights: &[op::recurrent::RnnWeights<'_, A<Self>>],
            options: op::recurrent::RnnOptions
        ) -> (A<Self>, A<Self>) = op::rnn_relu;
        "A long short-term memory: (y, h, c)"
        lstm(
            x: &A<Self>, state: Option<(&A<Self>, &A<Self>)>,
            weights: &[op::recurrent::RnnWeights<'_, A<Self>>], options: op::recurrent::RnnOptions
        ) -> (A<Self>, A<Self>, A<Self>) = op::lstm;
        "`lstm` with a projection of each output, or of none"
        lstm_projected(
            x: &A<Self>, state: Option<(&A<Self>, &A<Self>)>, weights: &[op::recurrent::RnnWeights<'_, A<Self>>],
            projections: &[&A<Self>], options: op::recurrent::RnnOptions
        ) -> (A<Self>, A<Self>, A<Self>) = op::lstm::projected;
        "Gated recurrent units: (y, h)"
        gru(
            x: &A<Self>, state: Option<&A<Self>>, weights: &[op::recurrent::RnnWeights<'_, A<Self>>],
            options: op::recurrent::RnnOptions
        ) -> (A<Self>, A<Self>) = op::gru;
        "In training each element of `x` is 0 with probability `p`, else x / (1 - p)"
        dropout(x: &A<Self>, p: f64, stream: Stream, training: bool) -> A<Self> = op::dropout;
    }

    // Losses

    forward! {
        "(x - target)^2, reduced"
        mse_loss(
            x: &A<Self>, target: &A<Self>, reduction: op::reduction::Reduction
        ) -> A<Self> = op::mse_loss;
        "|x - target|, reduced"
        l1_loss(x: &A<Self>, target: &A<Self>, reduction: op::reduction::Reduction) -> A<Self> = op::l1_loss;
        "|x - target|, squared where it is small, and reduced"
        smooth_l1_loss(
            x: &A<Self>, target: &A<Self>, reduction: op::reduction::Reduction, beta: f64
        ) -> A<Self> = op::smooth_l1_loss;
        "|x - target|, squared where it is small, and reduced"
        huber_loss(
            x: &A<Self>, target: &A<Self>, reduction: op::reduction::Reduction, delta: f64
        ) -> A<Self> = op::huber_loss;
        "x where the target is 1, max(0, margin - x) where it is -1, reduced"
        hinge_embedding_loss(
            x: &A<Self>, target: &A<Self>, reduction: op::reduction::Reduction, margin: f64
        ) -> A<Self> = op::hinge_embedding_loss;
        "The binary cross entropy of probabilities x, reduced"
        binary_cross_entropy(
            x: &A<Self>, target: &A<Self>, weight: Option<&A<Self>>, reduction: op::reduction::Reduction
        ) -> A<Self> = op::binary_cross_entropy;
        "The binary cross entropy of sigmoid(x), without its overflows, reduced"
        binary_cross_entropy_with_logits(
            x: &A<Self>, target: &A<Self>, weight: Option<&A<Self>>, pos_weight: Option<&A<Self>>,
            reduction: op::reduction::Reduction
        ) -> A<Self> = op::binary_cross_entropy_with_logits;
        "The negative log-probability of each target class, reduced"
        nll_loss(
            x: &A<Self>, target: &A<Self>, weight: Option<&A<Self>>, ignore_index: i64,
            reduction: op::reduction::Reduction
        ) -> A<Self> = op::nll_loss;
        "The cross entropy of the target distribution and softmax(x), reduced"
        cross_entropy(
            x: &A<Self>, target: &A<Self>, weight: Option<&A<Self>>, ignore_index: i64,
            reduction: op::reduction::Reduction, label_smoothing: f64
        ) -> A<Self> = op::cross_entropy;
        "target (log target - x), reduced"
        kl_div(
            x: &A<Self>, target: &A<Self>, reduction: op::reduction::Reduction, log_target: bool
        ) -> A<Self> = op::kl_div;
        "sum(x y) / (max(|x|, eps) max(|y|, eps)) over `dim` of the broadcast operands"
        cosine_similarity(x: &A<Self>, y: &A<Self>, dim: isize, eps: f64) -> A<Self> = op::cosine_similarity;
        "max(0, margin + d(anchor, positive) - d(anchor, negative)) over the last axis, reduced"
        triplet_margin_loss(
            anchor: &A<Self>, positive: &A<Self>, negative: &A<Self>, margin: f64, p: f64, eps: f64,
            swap: bool, reduction: op::reduction::Reduction
        ) -> A<Self> = op::triplet_margin_loss;
        "-log of the probability of each sample's targets under `log_probs`, reduced"
        ctc_loss(
            log_probs: &A<Self>, targets: &A<Self>, input_lengths: &A<Self>, target_lengths: &A<Self>,
            blank: usize, reduction: op::reduction::Reduction, zero_infinity: bool
        ) -> A<Self> = op::ctc_loss;
    }
}

impl<B: Backend> Door for B {}

fn draw<B: Backend>(
    op: &str,
    device: &B::Device,
    r: Random,
    s: Stream,
    shape: &[usize],
    dtype: DType,
) -> Result<A<B>> {
    check(op, r, dtype)?;
    let shape = Shape::new(shape)?;
    let buffer = B::random(device, r, s, None, dtype, shape.numel())?;
    Ok(Array::new(device, buffer, shape, dtype))
}
