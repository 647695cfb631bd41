//! Shared by ops that are defined for some values only: the values are looked at.
//!
//! Reading the answer synchronises with the device. A function that is recorded may not read, so in
//! one of them values are not looked at, and what an op gives for others is what its formula gives.

use super::any;
use crate::prelude::*;
use crate::recording::is_recording;

/// Is x below a bound, or above the other? NaN is neither.
#[derive(Clone, Copy, Debug)]
struct Outside {
    low: f64,
    high: f64,
}

impl Map<1> for Outside {
    const NAME: &'static str = "range";
    const OUT: Out = Out::Bool;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        L::from_mask(x.lt(L::lit(self.low)) | x.gt(L::lit(self.high)))
    }
}
compile_map! { 1 Outside; }

/// Checks that all elements of `x`, called `what`, are in `low..=high`, or NaN.
///
/// # Errors
/// `InvalidArgument` if one is not; `DTypeMismatch` if x is not of floats; what the device reports.
pub fn check_range<V: Value>(op: &str, what: &str, x: &V, low: f64, high: f64) -> Result<()> {
    if is_recording() || x.shape().numel() == 0 {
        return Ok(());
    }
    let x = x.array();
    let outside = map(Outside { low, high }, [x]).map_err(|e| e.at(op))?;
    if any(&outside, None, false)?.to_host()?.as_slice::<bool>()? == [false] {
        return Ok(());
    }
    let range = if high == f64::INFINITY { format!("{low} or more") } else { format!("in {low}..={high}") };
    Err(Error::argument(format!("{op}: an element of {what} is not in its range; all should be {range}")))
}
