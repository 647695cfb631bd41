//! A single number of any element type: the scalar in `x + 1`, the value of `full`.

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
    /// Is it a float with a fraction, or not finite: a value that an integer tensor cannot hold?
    pub fn is_fractional(self) -> bool {
        matches!(self, Scalar::Float(v) if v.fract() != 0.0 || !v.is_finite())
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

macro_rules! from {
    ($($t:ty => $variant:ident as $as:ty),*) => {$(
        impl From<$t> for Scalar { fn from(v: $t) -> Self { Scalar::$variant(v as $as) } }
    )*};
}
from!(f32 => Float as f64, f64 => Float as f64, i64 => Int as i64, i32 => Int as i64, u8 => Int as i64,
      u32 => Int as i64, usize => Int as i64, bool => Bool as bool);
