//! sinc: sin(pi x) / (pi x), 1 at 0. Angles are exact: whole numbers give 0.

use crate::prelude::*;
use core::f64::consts::PI;

/// The derivative of sinc over x in x^2, for |x| up to 1/2: 2k (-pi^2)^k / (2k + 1)!, k from 1.
fn series() -> [f64; 12] {
    let mut c = [0.0; 12];
    let mut term = 1.0;
    for (k, c) in (1u32..).zip(&mut c) {
        term *= -PI * PI / (f64::from(2 * k) * f64::from(2 * k + 1));
        *c = f64::from(2 * k) * term;
    }
    c
}

/// sin(pi x) / (pi x)
#[derive(Clone, Copy, Debug)]
pub struct Sinc {
    series: [f64; 12],
}

/// sin(pi x) and cos(pi x), by the distance from the nearest whole number.
#[inline(always)]
fn turn<L: Lane>(x: L) -> [L; 2] {
    let whole = x.round();
    let angle = (x - whole) * L::lit(PI);
    let half = whole * L::lit(0.5);
    let sign = L::select(half.eq(half.floor()), L::lit(1.0), L::lit(-1.0));
    [angle.sin() * sign, angle.cos() * sign]
}

impl Map<1> for Sinc {
    const NAME: &'static str = "sinc";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        let one = L::lit(1.0);
        let y = turn(x)[0] / (x * L::lit(PI));
        // Near 0 pi x may be subnormal, and the result is 1.
        L::select(x.abs().lt(L::lit(1e-20)), one, L::select(x.abs().eq(L::lit(f64::INFINITY)), L::lit(f64::NAN), y))
    }
    /// (cos(pi x) - sinc(x)) / x, near 0 by its series.
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let near = x.abs().lt(L::lit(0.5));
        let z = x * x;
        let mut sum = L::lit(self.series[11]);
        for i in (0..11).rev() {
            sum = sum.fma(z, L::lit(self.series[i]));
        }
        // 1 in place of x, so that the part that is not taken is finite.
        let far = L::select(near, L::lit(1.0), x);
        let [sine, cosine] = turn(far);
        let slope = (cosine - sine / (far * L::lit(PI))) / far;
        g * L::select(near, sum * x, slope)
    }
}
compile_map! { 1 Sinc; }

/// sin(pi x) / (pi x), elementwise; 1 at 0.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn sinc<V: Value>(x: &V) -> Result<V> {
    map(Sinc { series: series() }, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![sinc(a.input("x")?)?])
}
