use super::*;

type D = Dual<f64>;
const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

fn variable(value: f64) -> D {
    Dual { value, slope: 1.0 }
}
fn constant(v: f64) -> D {
    <D as Lane>::lit(v)
}
fn slope(f: impl Fn(D) -> D, x: f64) -> f64 {
    f(variable(x)).slope
}
fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

/// Every smooth function against the difference quotient of its own values, which does not use
/// the chain rule.
#[test]
fn slopes_are_derivatives() {
    type F = fn(D) -> D;
    let rows: [(&str, F, &[f64]); 42] = [
        ("exp", Lane::exp, &[-3.0, 0.0, 2.0]),
        ("exp2", Lane::exp2, &[-3.0, 0.0, 2.0]),
        ("expm1", Lane::expm1, &[-3.0, 0.1, 2.0]),
        ("log", Lane::log, &[0.1, 1.0, 30.0]),
        ("log2", Lane::log2, &[0.1, 1.0, 30.0]),
        ("log10", Lane::log10, &[0.1, 1.0, 30.0]),
        ("log1p", Lane::log1p, &[-0.5, 0.1, 30.0]),
        ("sin", Lane::sin, &[-7.0, 0.5, 2.0]),
        ("cos", Lane::cos, &[-7.0, 0.5, 2.0]),
        ("tan", Lane::tan, &[-7.0, 0.5, 2.0]),
        ("asin", Lane::asin, &[-0.9, 0.1, 0.6]),
        ("acos", Lane::acos, &[-0.9, 0.1, 0.6]),
        ("atan", Lane::atan, &[-3.0, 0.1, 0.9]),
        ("sinh", Lane::sinh, &[-3.0, 0.1, 2.0]),
        ("cosh", Lane::cosh, &[-3.0, 0.1, 2.0]),
        ("tanh", Lane::tanh, &[-3.0, 0.1, 2.0]),
        ("erf", Lane::erf, &[-2.0, 0.1, 1.5]),
        ("phi", Lane::phi, &[-2.0, 0.1, 1.5]),
        ("sigmoid", Lane::sigmoid, &[-3.0, 0.0, 4.0]),
        ("sqrt", Lane::sqrt, &[0.1, 1.0, 30.0]),
        ("rsqrt", Lane::rsqrt, &[0.1, 1.0, 30.0]),
        ("asinh", Lane::asinh, &[-3.0, 0.1, 2.0]),
        ("acosh", Lane::acosh, &[1.3, 2.0, 30.0]),
        ("atanh", Lane::atanh, &[-0.9, 0.1, 0.6]),
        ("erfc", Lane::erfc, &[-2.0, 0.1, 1.5]),
        ("erfcx", Lane::erfcx, &[-1.0, 0.1, 0.6, 5.0]),
        ("erfinv", Lane::erfinv, &[-0.9, 0.1, 0.6]),
        ("ndtr", Lane::ndtr, &[-2.0, 0.1, 1.5]),
        ("log_ndtr", Lane::log_ndtr, &[-7.0, -0.5, 1.5]),
        ("ndtri", Lane::ndtri, &[0.1, 0.4, 0.8]),
        ("lgamma", Lane::lgamma, &[-1.3, 0.3, 1.2, 2.6, 30.0]),
        ("digamma", Lane::digamma, &[-1.3, 0.4, 1.2, 2.6, 30.0]),
        ("abs", Lane::abs, &[-2.0, 3.0]),
        ("x * x", |x| x * x, &[-2.0, 3.0]),
        ("1 / x", |x| constant(1.0) / x, &[-2.0, 3.0]),
        ("x / (x + 2)", |x| x / (x + constant(2.0)), &[-1.0, 3.0]),
        ("fma", |x| x.fma(x, -x), &[-1.0, 3.0]),
        ("pow by base", |x| x.pow(constant(2.5)), &[0.5, 3.0]),
        ("pow by exponent", |x| constant(2.5).pow(x), &[-1.5, 3.0]),
        ("atan2 by y", |x| Lane::atan2(x, constant(-2.0)), &[-1.5, 3.0]),
        ("atan2 by x", |x| Lane::atan2(constant(-2.0), x), &[-1.5, 3.0]),
        ("fmod by y", |x| Lane::fmod(constant(-7.5), x), &[2.0, -3.2]),
    ];
    for (name, f, points) in rows {
        for &x in points {
            let h = 1e-5;
            let difference = (f(constant(x + h)).value - f(constant(x - h)).value) / (2.0 * h);
            let got = slope(f, x);
            // The error of the difference quotient: h^2 times a third derivative, and rounding
            // over h.
            assert!(
                (got - difference).abs() < 3e-8 * (1.0 + got.abs()),
                "{name}'({x}) = {got}, not {difference}"
            );
        }
    }
}

#[test]
fn corners() {
    let two = constant(2.0);
    let rows: [(&str, f64, f64); 26] = [
        ("abs at 0", slope(Lane::abs, 0.0), 0.0),
        ("abs at NaN", slope(Lane::abs, NAN), NAN),
        ("max of a tie gives half", slope(|x| x.max(two), 2.0), 0.5),
        ("max of itself gives both halves", slope(|x| x.max(x), 2.0), 1.0),
        ("max takes the larger", slope(|x| x.max(two), 3.0), 1.0),
        ("max leaves the smaller", slope(|x| x.max(two), 1.0), 0.0),
        ("min takes the smaller", slope(|x| x.min(two), 1.0), 1.0),
        ("max lets NaN through", slope(|x| x.max(two), NAN), 1.0),
        ("floor is flat", slope(Lane::floor, 1.5), 0.0),
        ("x - trunc(x) is not", slope(|x| x - x.trunc(), 1.5), 1.0),
        ("fmod by x", slope(|x| Lane::fmod(x, two), 5.5), 1.0),
        ("sqrt at 0", slope(Lane::sqrt, 0.0), INF),
        ("square of a negative", slope(|x| x.pow(two), -3.0), -6.0), // log(-3) is NaN, and not used
        ("x^0 is flat", slope(|x| x.pow(constant(0.0)), 0.0), 0.0),
        ("0^y is flat", slope(|y| constant(0.0).pow(y), 2.0), 0.0),
        ("0^y at 0 is flat", slope(|y| constant(0.0).pow(y), 0.0), 0.0),
        ("x^1 at 0", slope(|x| x.pow(constant(1.0)), 0.0), 1.0),
        ("doubling infinity", slope(|x| x * two, INF), 2.0), // infinity times the slope of 2 is no NaN
        ("half of infinity", slope(|x| x / two, INF), 0.5),
        ("a constant's pole", constant(0.0).log().slope, 0.0),
        ("copysign flips", slope(|x| x.copysign(constant(-1.0)), 2.0), -1.0),
        ("copysign at 0", slope(|x| x.copysign(constant(-1.0)), 0.0), 0.0),
        ("atan2 at the origin", slope(|y| Lane::atan2(y, constant(0.0)), 0.0), 0.0),
        ("atan2 of huge", slope(|y| Lane::atan2(y, constant(1e300)), 1e300), 0.5e-300),
        ("tanh far out", slope(Lane::tanh, 30.0), 0.0),
        ("erf far out", slope(Lane::erf, 1e200), 0.0),
    ];
    for (name, got, want) in rows {
        assert!(same(got, want) || (got - want).abs() < 1e-14 * want.abs(), "{name}: {got}, not {want}");
    }
}

/// The branch that is not selected has no effect, even where it is infinite.
#[test]
fn select_hides_the_other_branch() {
    let safe_log = |x: D| {
        let zero = constant(0.0);
        D::select(x.gt(zero), x.log(), zero)
    };
    assert_eq!(slope(safe_log, 0.0), 0.0);
    assert_eq!(slope(safe_log, 4.0), 0.25);
}

/// A dual of duals: the derivative of the derivative.
#[test]
fn duals_nest() {
    let one = constant(1.0);
    let x = Dual { value: variable(0.7), slope: one };
    let y = x.sin().exp();
    let (s, c) = (0.7f64.sin(), 0.7f64.cos());
    assert!((y.slope.slope - s.exp() * (c * c - s)).abs() < 1e-15);
    let cube = x.pow(<Dual<D> as Lane>::lit(3.0));
    assert!((cube.slope.slope - 6.0 * 0.7).abs() < 1e-14);
}
