//! The errors of the elementary functions, measured over every `f32` there is.
//!
//! The oracle is the same function in f64 (the C library behind Rust's std, the `libm` crate where
//! std has none, and where neither has the function, its own f64 form): its own error, below one
//! f64 ULP, is 2^-29 of what is measured. An error is counted in ULP of the exact value: the
//! spacing of the floats in its binade, or of the subnormals below the normal ones.
//!
//! How it can be wrong: the oracle. An error that it shares with the function is not detected; so
//! the f64 forms are also compared with a table computed in 300-bit arithmetic (`ulp_f64.txt`, by
//! mpmath).

use elinvar_ops::math;
use std::sync::atomic::{AtomicU64, Ordering};

/// One function of one variable, in both widths, with its oracle and its stated bound.
pub struct Function {
    /// The name, as in the op catalogue.
    pub name: &'static str,
    /// The 32-bit form.
    pub f32: fn(f32) -> f32,
    /// The 32-bit form over a block of inputs: a loop that the compiler can vectorise.
    pub block: fn(&[f32], &mut [f32]),
    /// The 64-bit form.
    pub f64: fn(f64) -> f64,
    /// The exact value, to about f64's precision.
    pub oracle: fn(f64) -> f64,
    /// The largest error in ULP that the 32-bit form may have.
    pub bound: f64,
    /// The largest error in ULP that the 64-bit form may have.
    pub bound_64: f64,
    /// An error of a result below this, for a negative input, is counted in ULP of this: there the
    /// result is the difference of larger numbers.
    pub least: f64,
}

impl Function {
    /// The same with another bound of the 64-bit form.
    const fn bound_64(self, bound_64: f64) -> Self {
        Self { bound_64, ..self }
    }
    /// The same with errors below `least`, for negative inputs, counted absolutely.
    const fn least(self, least: f64) -> Self {
        Self { least, ..self }
    }
}

/// The result of a sweep.
#[derive(Clone, Copy, Debug)]
pub struct Worst {
    /// The largest error in ULP.
    pub ulp: f64,
    /// The input of the largest error.
    pub input: f32,
    /// The function's result there.
    pub got: f32,
    /// The exact value.
    pub want: f64,
    /// How many inputs were tried.
    pub inputs: u64,
    /// Results that are not the float nearest to the exact value.
    pub not_nearest: u64,
    /// Results that are special where the exact value is not, or the other way round, or have a
    /// wrong sign of zero: no error in ULP is defined for these, and none may occur.
    pub wrong_special: u64,
    /// The first such input, as bits.
    pub first_wrong_special: Option<u32>,
}

impl Worst {
    fn none() -> Self {
        Self {
            ulp: 0.0,
            input: 0.0,
            got: 0.0,
            want: 0.0,
            inputs: 0,
            not_nearest: 0,
            wrong_special: 0,
            first_wrong_special: None,
        }
    }

    /// The worse of two sweeps.
    fn join(self, o: Self) -> Self {
        let worse = if o.ulp > self.ulp { o } else { self };
        Self {
            inputs: self.inputs + o.inputs,
            not_nearest: self.not_nearest + o.not_nearest,
            wrong_special: self.wrong_special + o.wrong_special,
            first_wrong_special: self.first_wrong_special.or(o.first_wrong_special),
            ..worse
        }
    }

    #[inline(always)]
    fn see(&mut self, input: f32, got: f32, want: f64, least: f64) {
        self.inputs += 1;
        let small = input < 0.0 && want.abs() < least && f64::from(got).abs() < least;
        let counted = if small { error_beside(got, want, least) } else { error(got, want) };
        match counted {
            Some(ulp) => {
                self.not_nearest += u64::from(ulp > 0.5);
                if ulp > self.ulp {
                    (self.ulp, self.input, self.got, self.want) = (ulp, input, got, want);
                }
            }
            None => {
                self.wrong_special += 1;
                self.first_wrong_special.get_or_insert(input.to_bits());
            }
        }
    }
}

/// The error of `got` in ULP of `want`; `None` if a NaN, an infinity or a zero does not match.
///
/// An infinity for a finite exact value counts as 2^128: next to the largest float, rounding up is
/// right.
pub fn error(got: f32, want: f64) -> Option<f64> {
    if want.is_nan() || got.is_nan() {
        return (want.is_nan() && got.is_nan()).then_some(0.0);
    }
    if want.is_infinite() || want == 0.0 {
        return (f64::from(got).to_bits() == want.to_bits()).then_some(0.0);
    }
    if got.is_sign_negative() != want.is_sign_negative() {
        return None;
    }
    // Past 2^128, infinity is right at any distance.
    let limit = 2.0f64.powi(128);
    let want = want.clamp(-limit, limit);
    let value = if got.is_infinite() { limit.copysign(want) } else { f64::from(got) };
    let exponent = ((want.to_bits() >> 52) & 0x7ff).clamp(1023 - 126, 1023 + 127);
    let ulp = f64::from_bits((exponent - 23) << 52);
    Some((value - want).abs() / ulp)
}

/// The same in ULP of `least`, than which both are smaller.
fn error_beside(got: f32, want: f64, least: f64) -> Option<f64> {
    let exponent = (least.to_bits() >> 52) & 0x7ff;
    Some((f64::from(got) - want).abs() / f64::from_bits((exponent - 23) << 52))
}

macro_rules! function {
    ($name:ident, $oracle:expr, $bound:expr) => {
        Function {
            name: stringify!($name),
            f32: math::$name,
            block: |x, y| {
                for (x, y) in x.iter().zip(y) {
                    *y = math::$name(*x);
                }
            },
            f64: math::$name,
            oracle: $oracle,
            bound: $bound,
            bound_64: 1.0,
            least: 0.0,
        }
    };
}

/// Every elementary function of one variable.
pub fn functions() -> &'static [Function] {
    const FUNCTIONS: &[Function] = &[
        function!(exp, f64::exp, 1.0),
        function!(exp2, f64::exp2, 1.0),
        function!(expm1, f64::exp_m1, 1.0),
        function!(log, f64::ln, 1.0),
        function!(log2, f64::log2, 1.0),
        function!(log10, f64::log10, 1.0),
        function!(log1p, f64::ln_1p, 1.0),
        function!(sin, f64::sin, 1.0),
        function!(cos, f64::cos, 1.0),
        function!(tan, f64::tan, 1.0),
        function!(asin, f64::asin, 1.0),
        function!(acos, f64::acos, 1.0),
        function!(atan, f64::atan, 1.0),
        function!(sinh, f64::sinh, 1.0),
        function!(cosh, f64::cosh, 1.0),
        function!(tanh, f64::tanh, 2.0),
        function!(erf, libm::erf, 1.0),
        function!(sigmoid, sigmoid, 2.0),
        function!(rsqrt, |x| 1.0 / x.sqrt(), 1.0),
        function!(asinh, libm::asinh, 1.0),
        function!(acosh, acosh, 1.0),
        function!(atanh, libm::atanh, 1.0),
        function!(erfc, libm::erfc, 2.0).bound_64(2.0),
        function!(erfcx, math::erfcx, 2.0).bound_64(2.0),
        function!(erfinv, math::erfinv, 3.0).bound_64(2.0),
        function!(ndtr, math::ndtr, 2.0).bound_64(2.0),
        function!(log_ndtr, math::log_ndtr, 2.0).bound_64(2.0),
        function!(ndtri, math::ndtri, 4.0).bound_64(3.0),
        function!(lgamma, math::lgamma, 3.0).bound_64(2.0).least(1.0),
        function!(digamma, math::digamma, 6.0).bound_64(3.0).least(8.0),
    ];
    FUNCTIONS
}

/// Below 1 the C library's has values.
fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

/// 1 / (1 + exp(-x)), with the small exponential on both sides to avoid cancellation.
fn sigmoid(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    if x < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
}

/// Inputs that are computed together, so that the loop over them vectorises; then compared.
const BLOCK: usize = 1024;

/// Inputs per work item of a thread.
const CHUNK: u64 = 1 << 22;

/// Runs all 2^32 inputs on `threads` threads. `progress` is called with the number done, by any
/// thread.
pub fn sweep(f: &Function, threads: usize, progress: &(dyn Fn(u64) + Sync)) -> Worst {
    sweep_every(f, 1, threads, progress)
}

/// The same on every `stride`-th bit pattern only.
pub fn sweep_every(f: &Function, stride: u64, threads: usize, progress: &(dyn Fn(u64) + Sync)) -> Worst {
    let count = (1u64 << 32).div_ceil(stride);
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        let mut worst = Worst::none();
        loop {
            let start = next.fetch_add(CHUNK, Ordering::Relaxed);
            if start >= count {
                return worst;
            }
            let end = (start + CHUNK).min(count);
            worst = worst.join(range(f, start, end, stride));
            progress(done.fetch_add(end - start, Ordering::Relaxed) + end - start);
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.max(1)).map(|_| scope.spawn(work)).collect();
        let first = work();
        others.into_iter().fold(first, |w, t| w.join(t.join().expect("a sweep does not panic")))
    })
}

/// Inputs `start..end` of the bit patterns 0, stride, 2 stride, ...
fn range(f: &Function, start: u64, end: u64, stride: u64) -> Worst {
    let mut worst = Worst::none();
    let (mut x, mut y) = ([0.0f32; BLOCK], [0.0f32; BLOCK]);
    let mut at = start;
    while at < end {
        let n = (end - at).min(BLOCK as u64) as usize;
        for (i, x) in x[..n].iter_mut().enumerate() {
            *x = f32::from_bits(((at + i as u64) * stride) as u32);
        }
        (f.block)(&x[..n], &mut y[..n]);
        for (&x, &y) in x[..n].iter().zip(&y[..n]) {
            worst.see(x, y, (f.oracle)(f64::from(x)), f.least);
        }
        at += n as u64;
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every 65537th bit pattern: all exponents, both signs, fractions of all kinds.
    #[test]
    fn unary_within_bounds() {
        for f in functions() {
            let worst = sweep_every(f, 65537, 1, &|_| ());
            assert_eq!(worst.inputs, 65536);
            assert_eq!(worst.wrong_special, 0, "{}: first at {:x?}", f.name, worst.first_wrong_special);
            assert!(
                worst.ulp <= f.bound,
                "{}({:?}) = {:?}, not {:?}: {} ULP",
                f.name,
                worst.input,
                worst.got,
                worst.want,
                worst.ulp
            );
        }
    }

    #[test]
    fn one_element_equals_a_block() {
        for f in functions() {
            let x: Vec<f32> = (0..1000).map(|i| (i as f32 - 500.0) * 0.037).collect();
            let mut y = vec![0.0; x.len()];
            (f.block)(&x, &mut y);
            for (&x, y) in x.iter().zip(y) {
                let one = (f.f32)(x);
                assert!(one.to_bits() == y.to_bits() || (one.is_nan() && y.is_nan()), "{}({x})", f.name);
            }
        }
    }

    /// A xorshift generator (Marsaglia 2003), so that every run tries the same numbers.
    struct Random(u64);

    impl Random {
        fn bits(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }
        fn float(&mut self) -> f32 {
            f32::from_bits((self.bits() >> 16) as u32)
        }
        /// Uniform in -1..1.
        fn unit(&mut self) -> f32 {
            ((self.bits() >> 40) as f32 / 8_388_608.0) - 1.0
        }
    }

    fn binary(
        name: &str,
        f: fn(f32, f32) -> f32,
        oracle: fn(f64, f64) -> f64,
        pairs: impl Iterator<Item = [f32; 2]>,
    ) {
        for [x, y] in pairs {
            let (got, want) = (f(x, y), oracle(f64::from(x), f64::from(y)));
            let ulp = error(got, want);
            assert!(
                ulp.is_some_and(|u| u <= 1.0),
                "{name}({x:?}, {y:?}) = {got:?}, not {want:?}: {ulp:?} ULP"
            );
        }
    }

    /// Values for which special rules hold, or which are near them.
    const SPECIAL: [f32; 26] = [
        0.0,
        1.0,
        0.5,
        2.0,
        3.0,
        0.999_999_94,
        1.000_000_1,
        1.5,
        1e-3,
        1e-40,
        1e-45,
        f32::MIN_POSITIVE,
        1e10,
        16_777_215.0, // the largest odd float
        16_777_216.0,
        16_777_218.0,
        8_388_607.5, // the largest half
        1e30,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
        88.0,
        127.0,
        128.0,
        149.0,
        150.0,
    ];

    fn special_pairs() -> impl Iterator<Item = [f32; 2]> {
        let both = || SPECIAL.into_iter().flat_map(|x| [x, -x]);
        both().flat_map(move |x| both().map(move |y| [x, y]))
    }

    #[test]
    fn pow_within_one() {
        let mut r = Random(1);
        let random = (0..60_000).map(move |i| match i % 3 {
            0 => [r.float(), r.float()],
            // Results over the whole range of exponents.
            1 => {
                let x = r.float().abs();
                [x, 100.0 * r.unit() / x.ln()]
            }
            _ => [r.unit() * 2.0, (r.unit() * 60.0).round()],
        });
        binary("pow", math::pow, f64::powf, special_pairs().chain(random));
    }

    #[test]
    fn atan2_within_one() {
        let mut r = Random(2);
        let random = (0..60_000).map(move |i| match i % 3 {
            0 => [r.float(), r.float()],
            1 => [r.unit(), r.unit()],
            _ => {
                let x = r.float();
                [x, x * (1.0 + r.unit())]
            }
        });
        binary("atan2", math::atan2, f64::atan2, special_pairs().chain(random));
    }

    /// The error of a 64-bit result in ULP, of `least` if it is larger; the exact value is the
    /// float `nearest` plus `rest` ULP of it.
    fn error_64(got: f64, nearest: f64, rest: f64, least: f64) -> f64 {
        let ulp = |v: f64| {
            let exponent = ((v.to_bits() >> 52) & 0x7ff).max(1);
            f64::from_bits(if exponent > 52 { (exponent - 52) << 52 } else { 1 << (exponent - 1) })
        };
        let (own, counted) = (ulp(nearest), ulp(nearest.abs().max(least)));
        if got == nearest {
            rest.abs() * (own / counted)
        } else {
            ((got - nearest) / counted - rest * (own / counted)).abs()
        }
    }

    /// Rows of name, inputs, the float nearest to the exact value, and the rest in ULP, as bits;
    /// see the module documentation.
    const TABLE: &str = include_str!("ulp_f64.txt");

    #[test]
    fn double_precision() {
        for line in TABLE.lines() {
            let mut words = line.split(' ');
            let name = words.next().expect("a name");
            let v: Vec<f64> = words
                .map(|w| f64::from_bits(u64::from_str_radix(w, 16).expect("bits in hexadecimal")))
                .collect();
            let got = match name {
                "pow" => math::pow(v[0], v[1]),
                "atan2" => math::atan2(v[0], v[1]),
                _ => {
                    let f = functions().iter().find(|f| f.name == name).expect("a function of the list");
                    (f.f64)(v[0])
                }
            };
            let (nearest, rest) = (v[v.len() - 2], v[v.len() - 1]);
            let f = functions().iter().find(|f| f.name == name);
            let (bound, least) =
                f.map_or((1.0, 0.0), |f| (f.bound_64, if v[0] < 0.0 { f.least } else { 0.0 }));
            let ulp = error_64(got, nearest, rest, least);
            assert!(
                ulp <= bound,
                "{line}: {name}({:?}) = {got:?}, not {nearest:?}: {ulp} ULP",
                &v[..v.len() - 2]
            );
        }
    }

    #[test]
    fn errors_are_counted_in_ulp_of_the_truth() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let rows = [
            (1.0, 1.0, Some(0.0)),
            (1.0, 1.0 + 2.0f64.powi(-24), Some(0.5)),
            (1.0, 1.0 - 2.0f64.powi(-24), Some(1.0)), // below 1 floats are twice as dense
            (1e-45, 0.0, None),                       // a zero has to be a zero
            (0.0, 2.0f64.powi(-150), Some(0.5)),      // subnormal spacing
            (-0.0, 2.0f64.powi(-150), None),          // on the right side
            (-0.0, 0.0, None),
            (f32::INFINITY, inf, Some(0.0)),
            (f32::MAX, inf, None),
            (f32::INFINITY, 1e300, Some(0.0)),
            (f32::MAX, 2.0f64.powi(128), Some(1.0)),
            (f32::INFINITY, f64::from(f32::MAX), Some(1.0)),
            (f32::NAN, nan, Some(0.0)),
            (f32::NAN, 1.0, None),
            (1.0, nan, None),
        ];
        for (got, want, ulp) in rows {
            assert_eq!(error(got, want), ulp, "error({got:?}, {want:?})");
        }
    }
}
