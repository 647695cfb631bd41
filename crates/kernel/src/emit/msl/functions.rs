//! MSL: what is written once, as functions of a module: 64-bit operations that the language leaves
//! open or has not everywhere, and the bits of bf16, which is a type from Metal 3.1 on only.

use std::collections::{BTreeMap, BTreeSet};

/// Functions that are called: those of fixed text, and reductions by their names.
#[derive(Default, PartialEq)]
pub struct Called {
    pub functions: BTreeSet<Function>,
    pub reductions: BTreeMap<String, String>,
}

/// A function whose text is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Function {
    /// The nearest f32 of a u64, ties to even.
    FloatOfUlong,
    /// Of an i64.
    FloatOfLong,
    /// The upper half of a product of u64.
    MulHighUlong,
    /// Of i64.
    MulHighLong,
    /// The bits of the nearest bf16 of an f32.
    Bf16Bits,
    /// The f32 of a bf16's bits.
    Bf16Value,
}

impl Function {
    pub fn name(self) -> &'static str {
        match self {
            Function::FloatOfUlong => "float_of_ulong",
            Function::FloatOfLong => "float_of_long",
            Function::MulHighUlong => "mul_high_ulong",
            Function::MulHighLong => "mul_high_long",
            Function::Bf16Bits => "bf16_bits",
            Function::Bf16Value => "bf16_value",
        }
    }

    /// The function that this one calls.
    pub fn calls(self) -> Option<Function> {
        match self {
            Function::FloatOfLong => Some(Function::FloatOfUlong),
            Function::MulHighLong => Some(Function::MulHighUlong),
            Function::FloatOfUlong | Function::MulHighUlong | Function::Bf16Bits | Function::Bf16Value => {
                None
            }
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            // The 24 highest bits from the first one on, of which that one adds 1 to the exponent,
            // as does the carry of the rounding.
            Function::FloatOfUlong => {
                "static inline float float_of_ulong(ulong x) {
  if (x == 0ul) {
    return 0.0f;
  }
  const uint top = uint(x >> 32);
  const uint zeros = top != 0u ? clz(top) : 32u + clz(uint(x));
  const ulong all = x << zeros;
  const uint high = uint(all >> 40);
  const ulong rest = all << 24;
  const ulong half_way = 1ul << 63;
  const bool up = rest > half_way || (rest == half_way && (high & 1u) != 0u);
  return as_type<float>(((189u - zeros) << 23) + high + (up ? 1u : 0u));
}
"
            }
            Function::FloatOfLong => {
                "static inline float float_of_long(long x) {
  const ulong bits = as_type<ulong>(x);
  return x < 0 ? -float_of_ulong(0ul - bits) : float_of_ulong(bits);
}
"
            }
            Function::MulHighUlong => {
                "static inline ulong mul_high_ulong(ulong x, ulong y) {
  const ulong low = 0xfffffffful;
  const ulong x0 = x & low, x1 = x >> 32, y0 = y & low, y1 = y >> 32;
  const ulong a = x1 * y0 + (x0 * y0 >> 32);
  const ulong b = x0 * y1 + (a & low);
  return x1 * y1 + (a >> 32) + (b >> 32);
}
"
            }
            Function::MulHighLong => {
                "static inline long mul_high_long(long x, long y) {
  const ulong a = as_type<ulong>(x), b = as_type<ulong>(y);
  const ulong high = mul_high_ulong(a, b);
  return as_type<long>(high - (x < 0 ? b : 0ul) - (y < 0 ? a : 0ul));
}
"
            }
            Function::Bf16Bits => {
                "static inline ushort bf16_bits(float x) {
  const uint bits = as_type<uint>(x);
  const bool number = (bits & 0x7fffffffu) <= 0x7f800000u;
  const uint rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return ushort(number ? rounded >> 16 : 0x7fc0u);
}
"
            }
            Function::Bf16Value => {
                "static inline float bf16_value(ushort x) {
  return as_type<float>(uint(x) << 16);
}
"
            }
        }
    }
}
