//! hypot: sqrt(x^2 + y^2), without overflow, within 1 ULP. The gradient at (0, 0) is NaN, as in
//! PyTorch.

use crate::math::exact_power;
use crate::prelude::*;

/// sqrt(x^2 + y^2)
#[derive(Clone, Copy, Debug)]
pub struct Hypot;

impl Map<2> for Hypot {
    const NAME: &'static str = "hypot";
    const SAVES: Saves = Saves::BOTH;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        let (zero, infinity) = (L::lit(0.0), L::lit(f64::INFINITY));
        let (p, q) = (x.abs(), y.abs());
        let swap = p.lt(q);
        let (large, small) = (L::select(swap, q, p), L::select(swap, p, q));
        // Scaled by a power of two, so that no square leaves the range.
        let (reach, lower) = if L::bits() == 32 { (60, 70) } else { (500, 600) };
        let power = |n: i32| L::lit(exact_power(n));
        let up = large.lt(power(-reach));
        let down = large.gt(power(reach));
        let into = L::select(down, power(-lower), L::select(up, power(2 * reach), L::lit(1.0)));
        let back = L::select(down, power(lower), L::select(up, power(-2 * reach), L::lit(1.0)));
        let (a, b) = (large * into, small * into);
        // The sum of squares in two pieces, and its root corrected by the remainder.
        let (s, t) = (a * a, b * b);
        let sum = s + t;
        let lost = (s - sum) + t + a.fma(a, -s) + b.fma(b, -t);
        let r = sum.sqrt();
        let rest = (r.fma(-r, sum) + lost) / (r + r);
        let y = L::select(r.gt(zero), r + rest, r) * back;
        let y = L::select(large.is_nan() | small.is_nan(), large + small, y);
        L::select(p.eq(infinity) | q.eq(infinity), infinity, y)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, y]: [L; 2], r: L, g: L) -> L {
        g * (if i == 0 { x } else { y } / r)
    }
}
compile_map! { 2 Hypot; }

/// sqrt(x^2 + y^2), elementwise, operands broadcast; infinite if one of them is.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn hypot<V: Value>(x: &V, y: &V) -> Result<V> {
    map(Hypot, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![hypot(&x, &y)?])
}
