//! IR: constants, one scalar and its bit pattern.

use super::types::Scalar;

/// A scalar and its bit pattern. Two constants are equal if their bits are: NaN equals itself, and
/// +0 is not -0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Constant {
    /// The type.
    pub scalar: Scalar,
    /// The bits; those above the width are 0. Bool is 0 or 1.
    pub bits: u64,
}

impl Constant {
    /// The number nearest to `v`: floats round to nearest even, integers cut towards zero and
    /// saturate, bool is `v != 0`. NaN is the quiet NaN without a sign.
    pub fn float(scalar: Scalar, v: f64) -> Constant {
        let bits = match scalar {
            Scalar::F32 => u64::from(if v.is_nan() { f32::NAN } else { v as f32 }.to_bits()),
            Scalar::F64 => if v.is_nan() { f64::NAN } else { v }.to_bits(),
            Scalar::I32 => u64::from(v as i32 as u32),
            Scalar::U32 => u64::from(v as u32),
            Scalar::I64 => v as i64 as u64,
            Scalar::U64 => v as u64,
            Scalar::Bool => u64::from(v != 0.0),
        };
        Constant { scalar, bits }
    }
    /// The number `v`: integers are cut to the width, floats round to nearest even, bool is `v !=
    /// 0`.
    pub fn int(scalar: Scalar, v: i64) -> Constant {
        let bits = match scalar {
            Scalar::I32 | Scalar::U32 => u64::from(v as u32),
            Scalar::I64 | Scalar::U64 => v as u64,
            Scalar::F32 => u64::from((v as f32).to_bits()),
            Scalar::F64 => (v as f64).to_bits(),
            Scalar::Bool => u64::from(v != 0),
        };
        Constant { scalar, bits }
    }
    /// The number as f64; large 64-bit integers are rounded.
    pub fn to_f64(self) -> f64 {
        match self.scalar {
            Scalar::Bool | Scalar::U32 | Scalar::U64 => self.bits as f64,
            Scalar::I32 => f64::from(self.bits as u32 as i32),
            Scalar::I64 => self.bits as i64 as f64,
            Scalar::F32 => f64::from(f32::from_bits(self.bits as u32)),
            Scalar::F64 => f64::from_bits(self.bits),
        }
    }
}

impl From<bool> for Constant {
    fn from(v: bool) -> Constant {
        Constant::int(Scalar::Bool, i64::from(v))
    }
}
impl From<u32> for Constant {
    fn from(v: u32) -> Constant {
        Constant::int(Scalar::U32, i64::from(v))
    }
}
impl From<i64> for Constant {
    fn from(v: i64) -> Constant {
        Constant::int(Scalar::I64, v)
    }
}
impl From<f32> for Constant {
    fn from(v: f32) -> Constant {
        Constant { scalar: Scalar::F32, bits: u64::from(v.to_bits()) }
    }
}
