//! A single number of any element type: the scalar in `x + 1`, the value of `full`.
//!
//! One rule says which numbers a tensor takes, for all ops: a tensor of floats takes every number,
//! rounded to its dtype; a tensor of integers the whole numbers of its range, and one of bool
//! 0 and 1. Any other number is an error ([`Scalar::fits`]). Comparisons alone take all numbers,
//! because their result is a truth value whatever the number is.

use crate::{DType, Error, Result};
use std::fmt;

/// One number: a float, an integer or a truth value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A float.
    Float(f64),
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
}

impl Scalar {
    /// As f64; true is 1.
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Float(v) => v,
            Scalar::Int(v) => v as f64,
            Scalar::Bool(v) => v as u8 as f64,
        }
    }
    /// As i64; floats are truncated towards zero and saturate, true is 1.
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Float(v) => v as i64,
            Scalar::Int(v) => v,
            Scalar::Bool(v) => v as i64,
        }
    }
    /// Is it not zero?
    pub fn to_bool(self) -> bool {
        match self {
            Scalar::Float(v) => v != 0.0,
            Scalar::Int(v) => v != 0,
            Scalar::Bool(v) => v,
        }
    }
    /// The largest whole number not above it, and whether it is that number; `None` for NaN.
    /// Numbers beyond those of i128, infinite ones among them, count as its last ones.
    pub fn floor(self) -> Option<(i128, bool)> {
        match self {
            Scalar::Float(v) if v.is_nan() => None,
            Scalar::Float(v) => Some((v.floor() as i128, v.fract() == 0.0)),
            Scalar::Int(v) => Some((v.into(), true)),
            Scalar::Bool(v) => Some((v.into(), true)),
        }
    }
    /// Checks that a tensor of this dtype can hold the number: floats hold every number, rounded;
    /// integers the whole ones of their range; bool 0 and 1.
    ///
    /// # Errors
    /// `DTypeMismatch`.
    #[inline]
    pub fn fits(self, dtype: DType) -> Result<()> {
        let Some((low, high)) = dtype.range() else { return Ok(()) };
        match self.floor() {
            Some((v, true)) if (low.into()..=high.into()).contains(&v) => Ok(()),
            _ => Err(Error::dtype(format!(
                "the number {self} does not fit a tensor of {dtype}, which holds the whole numbers from {low} to \
                 {high}; convert the tensor with to_dtype"
            ))),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Float(v) => write!(f, "{v:?}"),
            Scalar::Int(v) => write!(f, "{v}"),
            Scalar::Bool(v) => write!(f, "{v}"),
        }
    }
}

/// Above the range of i64 it is a float, so that it does not become negative.
impl From<usize> for Scalar {
    fn from(v: usize) -> Self {
        i64::try_from(v).map_or(Scalar::Float(v as f64), Scalar::Int)
    }
}

macro_rules! from {
    ($($t:ty => $variant:ident as $as:ty),*) => {$(
        impl From<$t> for Scalar { fn from(v: $t) -> Self { Scalar::$variant(v as $as) } }
    )*};
}
from!(f32 => Float as f64, f64 => Float as f64, i64 => Int as i64, i32 => Int as i64, u8 => Int as i64,
      u32 => Int as i64, isize => Int as i64, i16 => Int as i64, u16 => Int as i64, i8 => Int as i64, bool => Bool as bool);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_where_they_can_be_held() {
        use DType::*;
        let two63 = 2f64.powi(63);
        let rows: [(Scalar, &[DType]); 22] = [
            (0.into(), &[U8, I32, I64, Bool]),
            (1.into(), &[U8, I32, I64, Bool]),
            (2.into(), &[U8, I32, I64]),
            (true.into(), &[U8, I32, I64, Bool]),
            ((-0.0).into(), &[U8, I32, I64, Bool]),
            (255.into(), &[U8, I32, I64]),
            (255.0.into(), &[U8, I32, I64]),
            (256.into(), &[I32, I64]),
            (300.0.into(), &[I32, I64]),
            ((-1).into(), &[I32, I64]),
            ((-1.0).into(), &[I32, I64]),
            (i32::MAX.into(), &[I32, I64]),
            (2147483648.0.into(), &[I64]),
            ((-2147483648.0).into(), &[I32, I64]),
            (i64::MIN.into(), &[I64]),
            ((-two63).into(), &[I64]),
            (two63.into(), &[]),
            (usize::MAX.into(), &[]),
            (0.5.into(), &[]),
            (1e300.into(), &[]),
            (f64::INFINITY.into(), &[]),
            (f64::NAN.into(), &[]),
        ];
        for (v, fits) in rows {
            for dtype in DType::ALL {
                let want = dtype.is_float() || fits.contains(&dtype);
                assert_eq!(v.fits(dtype).is_ok(), want, "{v} in {dtype}");
            }
        }
        let e = Scalar::Int(300).fits(U8).unwrap_err();
        assert!(e.message().starts_with("the number 300 does not fit a tensor of u8"), "{e}");
    }
}
