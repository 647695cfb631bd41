//! Float arithmetic. It is the processor's; a NaN result is the quiet one.

macro_rules! float {
    ($module:ident, $t:ty, $unsigned:ty, $half:expr, $brain:expr, $exp2:expr) => {
        pub mod $module {
            use crate::arith::{BinaryFn, UnaryFn};
            use crate::ir::{Binary, Compare, Unary};
            use elinvar_ops::lane::Lane;
            #[allow(unused_imports)]
            use half::{bf16, f16};

            fn to(x: u64) -> $t {
                <$t>::from_bits(x as $unsigned)
            }
            fn bits(x: $t) -> u64 {
                let one = if x.is_nan() { <$t>::NAN } else { x };
                u64::from(<$t>::to_bits(one))
            }
            /// The bits as they are: a move keeps a NaN's.
            fn kept(x: $t) -> u64 {
                u64::from(<$t>::to_bits(x))
            }

            pub fn unary(op: Unary) -> Option<UnaryFn> {
                match op {
                    Unary::Neg => Some(|x| kept(-to(x))),
                    Unary::Abs => Some(|x| kept(<$t>::abs(to(x)))),
                    Unary::Sqrt => Some(|x| bits(<$t>::sqrt(to(x)))),
                    Unary::Floor => Some(|x| bits(<$t>::floor(to(x)))),
                    Unary::Ceil => Some(|x| bits(<$t>::ceil(to(x)))),
                    Unary::Trunc => Some(|x| bits(<$t>::trunc(to(x)))),
                    Unary::Round => Some(|x| bits(<$t>::round_ties_even(to(x)))),
                    Unary::RoundF16 => $half,
                    Unary::RoundBF16 => $brain,
                    Unary::Exp2 => $exp2,
                    Unary::Not => None,
                }
            }
            pub fn binary(op: Binary) -> Option<BinaryFn> {
                match op {
                    Binary::Add => Some(|x, y| bits(to(x) + to(y))),
                    Binary::Sub => Some(|x, y| bits(to(x) - to(y))),
                    Binary::Mul => Some(|x, y| bits(to(x) * to(y))),
                    Binary::Div => Some(|x, y| bits(to(x) / to(y))),
                    Binary::Min => Some(|x, y| bits(Lane::min(to(x), to(y)))),
                    Binary::Max => Some(|x, y| bits(Lane::max(to(x), to(y)))),
                    Binary::CopySign => Some(|x, y| kept(<$t>::copysign(to(x), to(y)))),
                    Binary::Rem
                    | Binary::And
                    | Binary::Or
                    | Binary::Xor
                    | Binary::Shl
                    | Binary::Shr
                    | Binary::MulHigh => None,
                }
            }
            pub fn compare(op: Compare) -> BinaryFn {
                match op {
                    Compare::Eq => |x, y| u64::from(to(x) == to(y)),
                    Compare::Ne => |x, y| u64::from(to(x) != to(y)),
                    Compare::Lt => |x, y| u64::from(to(x) < to(y)),
                    Compare::Le => |x, y| u64::from(to(x) <= to(y)),
                    Compare::Gt => |x, y| u64::from(to(x) > to(y)),
                    Compare::Ge => |x, y| u64::from(to(x) >= to(y)),
                }
            }
            /// Two roundings, where a device has no fused fma.
            pub fn unfused(x: u64, y: u64, z: u64) -> u64 {
                bits(to(x) * to(y) + to(z))
            }
            pub fn fma(x: u64, y: u64, z: u64) -> u64 {
                bits(to(x).mul_add(to(y), to(z)))
            }
        }
    };
}
float!(
    f32,
    f32,
    u32,
    Some(|x| bits(f16::from_f32(to(x)).to_f32())),
    Some(|x| bits(bf16::from_f32(to(x)).to_f32())),
    Some(|x| bits(super::exp2(to(x))))
);
float!(f64, f64, u64, None, None, None);

/// 2^x, to the nearest f32; 0 where that would be subnormal. The same on all machines: nothing of
/// the platform's is asked.
fn exp2(x: f32) -> f32 {
    if x >= 128.0 {
        return f32::INFINITY;
    }
    if x < -126.0 {
        return 0.0;
    }
    let wide = f64::from(x);
    let whole = wide.round_ties_even();
    let t = (wide - whole) * std::f64::consts::LN_2;
    // e^t for t up to 0.35: the first term left out is 3e-18.
    let power = (1..=14).rev().fold(1.0, |p: f64, n| 1.0 + p * t / f64::from(n));
    // The whole part is an exponent; what a NaN gives here is lost beside it.
    let scale = f64::from_bits(((1023 + whole as i64) as u64) << 52);
    (power * scale) as f32
}
