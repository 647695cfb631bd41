//! The exact floating-point remainder (fmod), by long division of the significands.
//!
//! x = a 2^i and y = b 2^j with whole a and b. While i is above j, a is doubled modulo b; what is
//! left is the remainder, times 2^j. Every step is exact, in integers of the float's width.

use crate::builder::Val;
use crate::ir::{Scalar, Unary};

/// The remainder of `x / y`, with the sign of x; NaN if x is infinite, y is zero, or either is NaN.
pub fn fmod<'k>(x: Val<'k>, y: Val<'k>) -> Val<'k> {
    let k = x.builder();
    let float = x.scalar();
    let (word, fraction, infinity) = match float {
        Scalar::F32 => (Scalar::U32, 23, 0x7f80_0000u64),
        Scalar::F64 => (Scalar::U64, 52, 0x7ff0_0000_0000_0000),
        Scalar::Bool | Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64 => {
            unreachable!("a remainder of {float} is an instruction")
        }
    };
    let lit = |v: i64| k.int(word, v);
    let (a, b) = (x.unary(Unary::Abs).bitcast(word), y.unary(Unary::Abs).bitcast(word));
    let inf = lit(infinity as i64);
    let refused = !a.lt(inf) | inf.lt(b) | b.eq(lit(0));
    // A subnormal has the exponent of the least normal number, and no leading one.
    let (hidden, mask) = (lit(1 << fraction), lit((1 << fraction) - 1));
    let parts = |bits: Val<'k>| {
        let e = bits >> fraction;
        let subnormal = e.eq(lit(0));
        (subnormal.select(lit(1), e), (bits & mask) | subnormal.select(lit(0), hidden))
    };
    let ((i, a), (j, b)) = (parts(a), parts(b));
    // b is 0 only where the result is NaN anyway; 1 keeps the division below harmless.
    let b = b.max(lit(1));
    // No more than there are exponents: a bound that devices with a limit to loops ask for.
    let steps = (i.max(j) - j).min(inf >> fraction);
    let smaller = i.lt(j);
    let r = k.for_(lit(0), steps, lit(1), &[a % b], |_, c| vec![(c[0] << 1) % b])[0];
    let r = smaller.select(a, r);
    // r 2^(e - 1): shifted until the leading one is in its place, as far as the exponent allows.
    let e = smaller.select(i, j);
    let shifted = k.for_(lit(0), lit(fraction + 1), lit(1), &[r, e], |_, c| {
        let (r, e) = (c[0], c[1]);
        let more = r.lt(hidden) & lit(1).lt(e);
        vec![more.select(r << 1, r), more.select(e - 1, e)]
    });
    let (r, e) = (shifted[0], shifted[1]);
    let normal = !r.lt(hidden);
    let bits = normal.select((e << fraction) | (r & mask), r);
    let magnitude = bits.bitcast(float);
    let nan = k.float(float, f64::NAN);
    refused.select(nan, magnitude.binary(crate::ir::Binary::CopySign, x))
}
