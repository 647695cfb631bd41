//! Integer arithmetic.

macro_rules! int {
    ($module:ident, $t:ty, $wide:ty, $unsigned:ty) => {
        pub mod $module {
            use crate::arith::{BinaryFn, UnaryFn};
            use crate::ir::{Binary, Compare, Unary};

            const BITS: u32 = <$t>::BITS;
            fn to(x: u64) -> $t {
                x as $t
            }
            fn bits(x: $t) -> u64 {
                u64::from(x as $unsigned)
            }

            pub fn unary(op: Unary) -> Option<UnaryFn> {
                match op {
                    Unary::Neg => Some(|x| bits(to(x).wrapping_neg())),
                    Unary::Not => Some(|x| bits(!to(x))),
                    Unary::Abs
                    | Unary::Sqrt
                    | Unary::Floor
                    | Unary::Ceil
                    | Unary::Trunc
                    | Unary::Round
                    | Unary::RoundF16
                    | Unary::RoundBF16
                    | Unary::Exp2 => None,
                }
            }
            pub fn binary(op: Binary) -> Option<BinaryFn> {
                Some(match op {
                    Binary::Add => |x, y| bits(to(x).wrapping_add(to(y))),
                    Binary::Sub => |x, y| bits(to(x).wrapping_sub(to(y))),
                    Binary::Mul => |x, y| bits(to(x).wrapping_mul(to(y))),
                    Binary::Div => |x, y| if to(y) == 0 { 0 } else { bits(to(x).wrapping_div(to(y))) },
                    Binary::Rem => |x, y| if to(y) == 0 { 0 } else { bits(to(x).wrapping_rem(to(y))) },
                    Binary::Min => |x, y| bits(to(x).min(to(y))),
                    Binary::Max => |x, y| bits(to(x).max(to(y))),
                    Binary::And => |x, y| x & y,
                    Binary::Or => |x, y| x | y,
                    Binary::Xor => |x, y| x ^ y,
                    Binary::Shl => |x, y| bits(to(x).wrapping_shl((y % u64::from(BITS)) as u32)),
                    Binary::Shr => |x, y| bits(to(x).wrapping_shr((y % u64::from(BITS)) as u32)),
                    Binary::MulHigh => {
                        |x, y| bits(((<$wide>::from(to(x)) * <$wide>::from(to(y))) >> BITS) as $t)
                    }
                    Binary::CopySign => return None,
                })
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
        }
    };
}
int!(i32, i32, i64, u32);
int!(u32, u32, u64, u32);
int!(i64, i64, i128, u64);
int!(u64, u64, u128, u64);
