//! What may be drawn: the checks of a distribution, and the formula of a uniform number.

use crate::array::Array;
use crate::backend::{Backend, Random};
use crate::lane::Lane;
use elinvar_core::philox::Stream;
use elinvar_core::{DType, Element, Error, HostData, Layout, Result, Shape, rounding};

/// Checks that a distribution exists, and that the dtype can hold its numbers.
///
/// # Errors
/// `DTypeMismatch` if the dtype is not of floats, for uniform and normal numbers, or not of
/// integers, for whole ones; `InvalidArgument` if a parameter is NaN or infinite, out of its range
/// or that of the dtype, or the bounds are not in order.
pub fn check(op: &str, r: Random, dtype: DType) -> Result<()> {
    let fits = match r {
        Random::Uniform { .. } | Random::Normal { .. } => dtype.is_float(),
        Random::Int { .. } => dtype.is_int(),
        Random::Bernoulli { .. } => true,
    };
    if !fits {
        return Err(Error::dtype(format!("{op}: not defined for {dtype}")));
    }
    let wrong = |what: String| Err(Error::argument(format!("{op}: {what}")));
    match r {
        Random::Uniform { low, high } => {
            // Negated so that NaN fails too.
            if !(low <= high && low.is_finite() && high.is_finite()) {
                return wrong(format!("the bounds are {low} and {high}; they should be finite and in order"));
            }
            let largest = rounding::largest_below(f64::INFINITY, dtype);
            let span = largest_span(dtype);
            if low < -largest || high > largest || high - low > span {
                return wrong(format!(
                    "{dtype} cannot hold numbers from {low} to {high}; its largest is {largest:e}, and the bounds may \
                     be {span:e} apart"
                ));
            }
            let Interval { least, most, .. } = Interval::of(low, high, dtype);
            if least > most {
                return wrong(format!("{dtype} has no number from {low} on and below {high}"));
            }
        }
        Random::Normal { mean, std } => {
            if !(std >= 0.0 && std.is_finite() && mean.is_finite()) {
                return wrong(format!(
                    "mean {mean} and standard deviation {std}; they should be finite, and the deviation 0 or more"
                ));
            }
        }
        Random::Bernoulli { p } => {
            if !(0.0..=1.0).contains(&p) {
                return wrong(format!("p is {p}; a probability is in 0..=1"));
            }
        }
        Random::Int { low, high } => {
            if low >= high {
                return wrong(format!("there is no whole number in {low}..{high}"));
            }
            if let Some((least, most)) = dtype.range()
                && (low < least || high - 1 > most)
            {
                return wrong(format!("{dtype} cannot hold {low}..{high}; its numbers are {least}..={most}"));
            }
        }
    }
    Ok(())
}

/// The stream that memory of i32 holds, at the four positions of a layout (see
/// [`Stream::to_words`]).
///
/// # Errors
/// `DTypeMismatch`, `ShapeMismatch` if it holds none.
pub fn stream_in(memory: &HostData, at: &Layout) -> Result<Stream> {
    let words = i32::slice(memory)
        .ok_or_else(|| Error::dtype(format!("a stream in memory is i32, and not {}", memory.dtype())))?;
    let words: Vec<i32> = at.positions().map(|i| words[i]).collect();
    match words[..] {
        [a, b, c, d] => Ok(Stream::from_words([a, b, c, d])),
        _ => Err(Error::shape(format!("a stream in memory has shape [4], and not {}", at.shape()))),
    }
}

/// Draws numbers from the stream that a tensor holds, i32 \[4\]: those that [`Stream`] itself
/// gives.
///
/// # Errors
/// Those of [`check`]; `DTypeMismatch`, `ShapeMismatch` if `at` is no stream; `OutOfMemory`.
pub fn draw_at<B: Backend>(
    op: &str,
    r: Random,
    at: &Array<B>,
    shape: &Shape,
    dtype: DType,
) -> Result<Array<B>> {
    check(op, r, dtype)?;
    check_stream(op, at)?;
    let at = at.contiguous()?;
    let none = Stream { seed: 0, stream: 0 };
    let buffer = B::random(at.device(), r, none, Some(at.view()), dtype, shape.numel())?;
    Ok(Array::new(at.device(), buffer, shape.clone(), dtype))
}

/// Checks that a tensor holds a stream.
///
/// # Errors
/// `DTypeMismatch`, `ShapeMismatch`.
pub fn check_stream<B: Backend>(op: &str, at: &Array<B>) -> Result<()> {
    if at.dtype() != DType::I32 {
        return Err(Error::dtype(format!("{op}: the stream is {}; it should be i32", at.dtype())));
    }
    if at.shape().dims() != [4] {
        return Err(Error::shape(format!("{op}: the stream has shape {}; it should be [4]", at.shape())));
    }
    Ok(())
}

/// The largest difference of bounds: that of the type of computation.
fn largest_span(dtype: DType) -> f64 {
    rounding::largest_below(f64::INFINITY, dtype.compute())
}

/// The interval of a uniform number, as a formula needs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Upper end less lower end.
    pub span: f64,
    /// Lower end.
    pub low: f64,
    /// The least number of the dtype that is not below the lower end.
    pub least: f64,
    /// The largest number of the dtype that is below the upper end.
    pub most: f64,
}

impl Interval {
    /// Of numbers of a float dtype in `low..high`; `low` itself, rounded, if both are equal.
    pub fn of(low: f64, high: f64, dtype: DType) -> Interval {
        let (least, most) = if low == high {
            let near = rounding::nearest(low, dtype);
            (near, near)
        } else {
            (rounding::least_from(low, dtype), rounding::largest_below(high, dtype))
        };
        Interval { span: high - low, low, least, most }
    }
    /// Span, low, least, most: what [`uniform`] takes, to be rounded to the type of computation
    /// (which changes span and low alone).
    pub fn numbers(self) -> [f64; 4] {
        [self.span, self.low, self.least, self.most]
    }
}

/// The uniform number of an [`Interval`] from u in 0..1: low + u * span with one fma, and where
/// that, or its rounding to the dtype, would leave the half-open interval, the number of the dtype
/// next to its end. The bounds are numbers of the dtype, so the rounding that follows does not pass
/// them.
#[inline(always)]
pub fn uniform<L: Lane>(u: L, [span, low, least, most]: [L; 4]) -> L {
    u.fma(span, low).at_least(least).at_most(most)
}
