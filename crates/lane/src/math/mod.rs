//! The elementary functions, written over [`Lane`](crate::lane::Lane): the same arithmetic in every
//! reading.
//!
//! Nothing here branches or looks a number up in memory: a choice is a select of two computed
//! values, so that a loop over a function is vector code, and a GPU kernel has no divergent lanes.
//! A function asks the lane for its width and takes coefficients of that width; the 32-bit forms
//! use 32-bit floats and integers only (many GPUs have nothing wider), the 64-bit forms 64-bit
//! ones.
//!
//! What keeps the error under one unit in the last place (ULP) is, nearly everywhere, the same
//! thing: the last operation adds a large exact number and a small correction, so that only that
//! one rounding counts. Where the large number is not exact, its rounding error is computed by an
//! error-free transformation (`parts.rs`) and becomes part of the correction.
//!
//! The bound is 1 ULP in both widths, but 2 for tanh in 32 bits and more for some special
//! functions;
//! each function states the largest
//! error that was measured, rounded up. In 32 bits that is over all 2^32 inputs, against f64
//! (`elinvar-lab ulp`; `docs/reference/numerics.md` has its table); in 64 bits, and for pow and
//! atan2, over millions of samples against 192-bit arithmetic.
//!
//! Polynomials were made by Sollya's `fpminimax` (Brisebarre, Chevillard: "Efficient polynomial
//! L-infinity approximations", ARITH 2007), which rounds coefficients to the format together, not
//! one by one; the comment at a polynomial states its range and its error. (That of tanh in 32 bits
//! is a fit by least squares, weighted until errors were level; those of special functions are by
//! Remez' exchange in 45 digits, leading coefficients rounded one after another.)

mod complement;
mod constants;
mod erf;
mod exp;
mod gamma;
mod hyperbolic;
mod inverse_hyperbolic;
mod inverse_normal;
mod inverse_trig;
mod log;
mod normal;
mod parts;
mod polygamma;
mod pow;
mod reduce;
mod rsqrt;
mod sigmoid;
mod trig;

pub use complement::{erfc, erfcx, log_ndtr, ndtr};
pub use erf::erf;
pub use exp::{exp, exp2, expm1};
pub use gamma::{digamma, lgamma};
pub use hyperbolic::{cosh, sinh, tanh};
pub use inverse_hyperbolic::{acosh, asinh, atanh};
pub use inverse_normal::{erfinv, ndtri};
pub use inverse_trig::{acos, asin, atan, atan2};
pub use log::{log, log1p, log2, log10};
pub use normal::phi;
pub use parts::exact_power;
pub use polygamma::{Cotangent, MOST as POLYGAMMA_MOST, cotangent, polygamma};
pub use pow::pow;
pub use reduce::moderate_bound;
pub use rsqrt::rsqrt;
pub use sigmoid::sigmoid;
pub use trig::{cos, cos_moderate, sin, sin_moderate, tan};

#[cfg(test)]
mod edges;
