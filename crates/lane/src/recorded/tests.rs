//! Formulas that use every method, read directly and replayed: the same bits, and the same calls
//! with the same numbers in the same order.

use super::{Expression, IntExpression};
use crate::int::Int;
use crate::lane::dual::Dual;
use crate::lane::{Lane, LaneInt, Mask};
use std::cell::Cell;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::num::Wrapping;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};
use std::panic::catch_unwind;

thread_local! {
    static CALLS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}
fn called(call: String) {
    CALLS.with_borrow_mut(|c| c.push(call));
}
/// The result of `f`, and the calls on logged numbers that it makes.
fn calls_of<T>(f: impl FnOnce() -> T) -> (T, Vec<String>) {
    CALLS.take();
    let result = f();
    (result, CALLS.take())
}

/// An f64 that logs each call.
#[derive(Clone, Copy, Debug)]
struct LoggedFloat(f64);
#[derive(Clone, Copy, Debug)]
struct LoggedBits(Wrapping<i64>);
#[derive(Clone, Copy, Debug)]
struct LoggedMask(bool);
/// An i64 that logs each call.
#[derive(Clone, Copy, Debug)]
struct LoggedInt(i64);

macro_rules! logged {
    ($class:literal [$inner:ty as $trait:path] $result:ident (self): $($method:ident)*) => {$(
        fn $method(self) -> $result {
            called(format!(concat!($class, ".", stringify!($method), " {:?}"), self.0));
            $result(<$inner as $trait>::$method(self.0))
        }
    )*};
    ($class:literal [$inner:ty as $trait:path] $result:ident (self, o): $($method:ident)*) => {$(
        fn $method(self, o: Self) -> $result {
            called(format!(concat!($class, ".", stringify!($method), " {:?} {:?}"), self.0, o.0));
            $result(<$inner as $trait>::$method(self.0, o.0))
        }
    )*};
    ($class:literal [$inner:ty as $trait:path] $result:ident (mask, a, b): $($method:ident)*) => {$(
        fn $method(mask: LoggedMask, a: Self, b: Self) -> $result {
            called(format!(concat!($class, ".", stringify!($method), " {:?} {:?} {:?}"), mask.0, a.0, b.0));
            $result(<$inner as $trait>::$method(mask.0, a.0, b.0))
        }
    )*};
    ($class:literal [$inner:ty as $trait:path] $result:ident ($x:ident: $type:ty): $($method:ident)*) => {$(
        fn $method($x: $type) -> $result {
            called(format!(concat!($class, ".", stringify!($method), " {:?}"), $x));
            $result(<$inner as $trait>::$method($x))
        }
    )*};
    ($class:literal [$inner:ty as $trait:path] $result:ident from $type:ident: $($method:ident)*) => {$(
        fn $method(x: $type) -> $result {
            called(format!(concat!($class, ".", stringify!($method), " {:?}"), x.0));
            $result(<$inner as $trait>::$method(x.0))
        }
    )*};
}
macro_rules! logged_operators {
    ($class:literal $inner:ty as $type:ident: $($trait:ident $method:ident)*) => {$(
        impl $trait for $type {
            type Output = Self;
            logged! { $class [$inner as $trait] $type (self, o): $method }
        }
    )*};
}
logged_operators! { "float" f64 as LoggedFloat: Add add Sub sub Mul mul Div div }
logged_operators! { "bits" Wrapping<i64> as LoggedBits: Add add Sub sub Mul mul BitAnd bitand BitOr bitor BitXor bitxor }
logged_operators! { "mask" bool as LoggedMask: BitAnd bitand BitOr bitor BitXor bitxor }
impl Neg for LoggedFloat {
    type Output = Self;
    logged! { "float" [f64 as Neg] LoggedFloat (self): neg }
}
impl Not for LoggedBits {
    type Output = Self;
    logged! { "bits" [Wrapping<i64> as Not] LoggedBits (self): not }
}
impl Not for LoggedMask {
    type Output = Self;
    logged! { "mask" [bool as Not] LoggedMask (self): not }
}
impl Mask for LoggedMask {
    logged! { "mask" [bool as Mask] LoggedMask (v: bool): all_lanes }
}

impl Lane for LoggedFloat {
    type Mask = LoggedMask;
    type Int = LoggedBits;
    const BITS: u32 = 64;
    logged! { "float" [f64 as Lane] LoggedFloat (v: f64): lit }
    logged! { "float" [f64 as Lane] LoggedFloat (self): sqrt abs round floor ceil trunc exp exp2 expm1 log log2 log10 log1p
    sin cos tan asin acos atan sinh cosh tanh erf phi sigmoid rsqrt }
    logged! { "float" [f64 as Lane] LoggedFloat (self, o): min max copysign with_sign_bit at_least at_most fmod pow atan2 }
    logged! { "float" [f64 as Lane] LoggedMask (self): is_nan to_mask }
    logged! { "float" [f64 as Lane] LoggedMask (self, o): lt le eq gt ge ne }
    logged! { "float" [f64 as Lane] LoggedFloat (mask, a, b): select }
    logged! { "float" [f64 as Lane] LoggedFloat from LoggedMask: from_mask }
    logged! { "float" [f64 as Lane] LoggedBits (self): to_bits to_int }
    logged! { "float" [f64 as Lane] LoggedFloat from LoggedBits: from_bits from_int }
    fn fma(self, b: Self, c: Self) -> Self {
        called(format!("float.fma {:?} {:?} {:?}", self.0, b.0, c.0));
        LoggedFloat(Lane::fma(self.0, b.0, c.0))
    }
}

impl LaneInt<LoggedMask> for LoggedBits {
    logged! { "bits" [Wrapping<i64> as LaneInt<bool>] LoggedBits (v: i64): lit }
    logged! { "bits" [Wrapping<i64> as LaneInt<bool>] LoggedBits (self, o): shl_by shr_logical_by mul_high_unsigned }
    logged! { "bits" [Wrapping<i64> as LaneInt<bool>] LoggedMask (self, o): eq lt }
    logged! { "bits" [Wrapping<i64> as LaneInt<bool>] LoggedBits (mask, a, b): select }
    fn shl(self, n: u32) -> Self {
        called(format!("bits.shl {} {n}", self.0));
        LoggedBits(LaneInt::shl(self.0, n))
    }
    fn shr(self, n: u32) -> Self {
        called(format!("bits.shr {} {n}", self.0));
        LoggedBits(LaneInt::shr(self.0, n))
    }
    fn shr_logical(self, n: u32) -> Self {
        called(format!("bits.shr_logical {} {n}", self.0));
        LoggedBits(self.0.shr_logical(n))
    }
}

impl Int for LoggedInt {
    type Mask = LoggedMask;
    logged! { "int" [i64 as Int] LoggedInt (v: i64): lit }
    logged! { "int" [i64 as Int] LoggedInt (self): not }
    logged! { "int" [i64 as Int] LoggedInt (self, o): power add sub mul div_trunc rem_trunc div_floor rem_floor min max and or
    xor shl shr }
    logged! { "int" [i64 as Int] LoggedMask (self, o): lt eq }
    logged! { "int" [i64 as Int] LoggedMask (self): is_true }
    logged! { "int" [i64 as Int] LoggedInt (mask, a, b): select }
    logged! { "int" [i64 as Int] LoggedInt from LoggedMask: from_mask }
    fn within(self, min: Option<i64>, max: Option<i64>) -> Self {
        called(format!("int.within {} {min:?} {max:?}", self.0));
        LoggedInt(self.0.within(min, max))
    }
}

/// A reading that can be compared.
trait Sample: Lane {
    /// The rounded number; in a dual number, as a variable.
    fn of(v: f64) -> Self;
    /// The bits of its floats, one pattern for every NaN.
    fn pattern(self) -> Vec<u64>;
}
impl Sample for f32 {
    fn of(v: f64) -> Self {
        v as f32
    }
    fn pattern(self) -> Vec<u64> {
        vec![if f32::is_nan(self) { u64::MAX } else { f32::to_bits(self).into() }]
    }
}
impl Sample for f64 {
    fn of(v: f64) -> Self {
        v
    }
    fn pattern(self) -> Vec<u64> {
        vec![if f64::is_nan(self) { u64::MAX } else { f64::to_bits(self) }]
    }
}
impl Sample for LoggedFloat {
    fn of(v: f64) -> Self {
        LoggedFloat(v)
    }
    fn pattern(self) -> Vec<u64> {
        self.0.pattern()
    }
}
impl<L: Sample> Sample for Dual<L> {
    fn of(v: f64) -> Self {
        Dual { value: L::of(v), slope: L::of(1.0) }
    }
    fn pattern(self) -> Vec<u64> {
        [self.value.pattern(), self.slope.pattern()].concat()
    }
}

const SAMPLES: [f64; 26] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.5,
    -2.5,
    3.0,
    0.1,
    -7.3,
    88.5,
    -104.2,
    710.1,
    1e5,
    -3e9,
    1e30,
    f64::MAX,
    f32::MIN_POSITIVE as f64,
    1e-40, // a subnormal of f32
    -3e-45,
    1e-310, // and of f64
    -5e-324,
];

/// Triples of the samples: all pairs, each with a third.
fn triples() -> impl Iterator<Item = [f64; 3]> {
    let at = |i: usize| SAMPLES[i % SAMPLES.len()];
    (0..SAMPLES.len()).flat_map(move |i| (0..SAMPLES.len()).map(move |j| [at(i), at(j), at(i + 2 * j + 5)]))
}

trait Formula {
    fn lane<L: Lane>(x: [L; 3]) -> Vec<L>;

    fn record(bits: u32) -> Expression {
        Expression::record(bits, 3, &|x| Self::lane([x[0], x[1], x[2]]))
    }
}

fn check<F: Formula, L: Sample>(name: &str) {
    let expression = F::record(L::BITS);
    assert_eq!(expression, F::record(L::BITS), "{name}: recorded twice");
    for x in triples() {
        let operands = x.map(L::of);
        let (direct, direct_calls) = calls_of(|| F::lane(operands));
        let (replayed, calls) = calls_of(|| expression.replay(&operands));
        assert_eq!(calls, direct_calls, "{name} at {x:?}");
        assert_eq!(replayed.len(), direct.len(), "{name}");
        for (i, (a, b)) in replayed.into_iter().zip(direct).enumerate() {
            assert_eq!(a.pattern(), b.pattern(), "{name}, result {i} at {x:?}");
        }
    }
}

macro_rules! formulas {
    ($($name:ident [$x:ident, $y:ident, $z:ident] $body:expr;)*) => {
        $(
            struct $name;
            impl Formula for $name {
                fn lane<L: Lane>([$x, $y, $z]: [L; 3]) -> Vec<L> {
                    $body
                }
            }
        )*
        fn check_all<L: Sample>() {
            $(check::<$name, L>(stringify!($name));)*
        }
        /// Names of all methods that the formulas call.
        fn methods_called() -> BTreeSet<String> {
            let x = [0.5, 2.0, -3.0].map(LoggedFloat);
            let all = [$(calls_of(|| $name::lane(x)).1),*].concat();
            all.iter().map(|c| c.split(' ').next().unwrap_or_default().to_string()).collect()
        }
    };
}
formulas! {
    Operands [x, y, z] vec![z, x, y, x];
    Constants [x, _y, _z] {
        let unused = L::lit(3.0);
        let _ = unused * x;
        vec![L::lit(f64::NAN), L::lit(0.1), -L::lit(0.0), L::lit(1e300), L::lit(2.0) + L::lit(3.0)]
    };
    Arithmetic [x, y, z] vec![x + y, x - y, x * y, x / y, -x, x.fma(y, z), (x + y) * (x + y) - z];
    Bounds [x, y, z] vec![x.min(y), x.max(y), x.at_least(y), x.at_most(y), x.max(y).min(z), x.copysign(y), x.with_sign_bit(y), x.abs()];
    Rounding [x, y, _z] vec![x.round(), x.floor(), x.ceil(), x.trunc(), x.sqrt(), x.fmod(y)];
    Comparisons [x, y, z] {
        let masks = [x.lt(y), x.le(y), x.eq(y), x.gt(y), x.ge(y), x.ne(y), x.is_nan(), x.to_mask()];
        let mut all = masks.map(L::from_mask).to_vec();
        all.extend(masks.map(|m| L::select(m, y, z)));
        all
    };
    Masks [x, y, z] {
        let (a, b) = (x.lt(y), y.le(z));
        let yes = <L::Mask as Mask>::all_lanes(true);
        let no = <L::Mask as Mask>::all_lanes(false);
        [a & b, a | b, a ^ b, !a, a ^ yes, b | no, yes, no].map(L::from_mask).to_vec()
    };
    Bits [x, y, _z] {
        let (a, b) = (x.to_bits(), y.to_bits());
        let n = b & L::Int::lit(31);
        let mut all: Vec<L> = [a + b, a - b, a * b, a & b, a | b, a ^ b, !a, L::Int::lit(-1), a.mul_high_unsigned(b)]
            .map(L::from_bits)
            .to_vec();
        all.extend([a.shl(3), a.shr(7), a.shr_logical(5), a.shl_by(n), a.shr_logical_by(n)].map(L::from_bits));
        all.extend([a.lt(b), a.eq(b), a.eq(a)].map(L::from_mask));
        all.push(L::from_bits(L::Int::select(a.lt(b), a, b)));
        all
    };
    Whole [x, _y, _z] {
        let n = x.at_least(L::lit(-1e6)).at_most(L::lit(1e6)).round();
        let n = L::select(n.is_nan(), L::lit(0.0), n).to_int();
        vec![L::from_int(n), L::from_int(n * n + L::Int::lit(1))]
    };
    Elementary [x, y, _z] vec![
        x.exp(), x.exp2(), x.expm1(), x.log(), x.log2(), x.log10(), x.log1p(), x.sin(), x.cos(), x.tan(), x.asin(),
        x.acos(), x.atan(), x.sinh(), x.cosh(), x.tanh(), x.erf(), x.phi(), x.sigmoid(), x.rsqrt(), x.pow(y), x.atan2(y),
        x.asinh(), x.acosh(), x.atanh(), x.erfc(), x.erfcx(), x.erfinv(), x.ndtr(), x.log_ndtr(), x.ndtri(), x.lgamma(), x.digamma(),
    ];
    Width [x, y, _z] vec![if L::bits() == 32 { x + y } else { x * y }];
    Gradients [x, y, _z] {
        let x = Dual { value: x, slope: L::lit(1.0) };
        let y = Dual { value: y, slope: L::lit(0.0) };
        [x * y, x / y, x.max(y), x.abs(), x.exp(), x.tanh(), x.pow(y), x.at_least(y), x.fma(x, y)].map(|d| d.slope).to_vec()
    };
}

#[test]
fn floats_have_the_same_bits() {
    check_all::<f32>();
    check_all::<f64>();
}

#[test]
fn duals_have_the_same_bits() {
    check_all::<Dual<f32>>();
    check_all::<Dual<f64>>();
}

#[test]
fn floats_make_the_same_calls() {
    check_all::<LoggedFloat>();
    check_all::<Dual<LoggedFloat>>();
    let names: BTreeSet<String> = [
        ("float", "lit add sub mul div neg fma sqrt abs min max round floor ceil trunc copysign lt le eq gt ge ne is_nan"),
        ("float", "with_sign_bit select at_least at_most to_bits from_bits to_int from_int from_mask to_mask fmod exp exp2 expm1 log"),
        ("float", "log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh erf phi sigmoid rsqrt pow atan2"),
        ("bits", "lit add sub mul bitand bitor bitxor not shl shr shr_logical shl_by shr_logical_by mul_high_unsigned"),
        ("bits", "eq lt select"),
        ("mask", "all_lanes bitand bitor bitxor not"),
    ]
    .into_iter()
    .flat_map(|(class, names)| names.split(' ').map(move |n| format!("{class}.{n}")))
    .collect();
    assert_eq!(methods_called(), names);
}

fn all_ints<I: Int>(x: &[I]) -> Vec<I> {
    let (x, y, z) = (x[0], x[1], x[2]);
    let masks = [x.lt(y), x.eq(y), x.is_true()];
    let (a, b) = (masks[0], masks[1]);
    let (yes, no) = (I::Mask::all_lanes(true), I::Mask::all_lanes(false));
    let mut all = vec![
        x,
        I::lit(300),
        I::lit(-1),
        x.power(y),
        x.add(y),
        x.sub(y),
        x.mul(y),
        x.div_trunc(y),
        x.rem_trunc(y),
        x.div_floor(y),
        x.rem_floor(y),
        x.min(y),
        x.max(y),
        x.and(y),
        x.or(y),
        x.xor(y),
        x.not(),
        x.shl(y),
        x.shr(y),
        x.within(Some(-3), None),
        x.within(None, Some(1000)),
        x.within(Some(2), Some(1)),
        I::select(z.is_true(), x.mul(x), y),
    ];
    all.extend(masks.map(|m| I::select(m, y, z)));
    all.extend([a & b, a | b, a ^ b, !a, a ^ yes, b | no].map(I::from_mask));
    all
}

#[test]
fn ints_have_the_same_bits() {
    fn check<I: Int + PartialEq>(expression: &IntExpression, values: &[I]) {
        for &x in values {
            for &y in values {
                for &z in values {
                    assert_eq!(expression.replay(&[x, y, z]), all_ints(&[x, y, z]), "at {x:?} {y:?} {z:?}");
                }
            }
        }
    }
    // One recording for all types.
    let expression = IntExpression::record(3, &all_ints);
    check::<i64>(&expression, &[i64::MIN, -9, -3, -1, 0, 1, 2, 5, 31, 64, 1 << 40, i64::MAX]);
    check::<i32>(&expression, &[i32::MIN, -9, -3, -1, 0, 1, 2, 5, 31, 32, 64, i32::MAX]);
    check::<u8>(&expression, &[0, 1, 2, 5, 7, 8, 127, 128, 255]);
    check::<bool>(&expression, &[false, true]);
}

#[test]
fn ints_make_the_same_calls() {
    let expression = IntExpression::record(3, &all_ints);
    let mut names = BTreeSet::new();
    for x in [[7, -2, 0], [-7, 3, 1], [0, 0, 2]] {
        let x = x.map(LoggedInt);
        let calls = calls_of(|| all_ints(&x)).1;
        assert_eq!(calls_of(|| expression.replay(&x)).1, calls);
        names.extend(calls.iter().filter_map(|c| c.split(' ').next().map(str::to_string)));
    }
    let all = "lit lt eq select within power add sub mul div_trunc rem_trunc div_floor rem_floor min max and or xor not shl shr \
               from_mask is_true";
    let all = all.split(' ').map(|n| format!("int.{n}"));
    let masks = ["all_lanes", "bitand", "bitor", "bitxor", "not"].map(|n| format!("mask.{n}"));
    assert_eq!(names, all.chain(masks).collect());
}

#[test]
fn one_result() {
    let square = Expression::record(32, 1, &|x| vec![x[0] * x[0]]);
    assert_eq!(square.replay_one(&[3.0f32]), 9.0);
    assert_eq!((square.bits(), square.inputs(), square.outputs()), (32, 1, 1));
    let double = IntExpression::record(1, &|x| vec![x[0].add(x[0])]);
    assert_eq!(double.replay_one(&[200u8]), 144);
    assert_eq!((double.inputs(), double.outputs()), (1, 1));
}

#[test]
fn equal_where_the_calls_are() {
    let constant = |v: f64| Expression::record(64, 0, &move |_| vec![Lane::lit(v)]);
    assert_eq!(constant(f64::NAN), constant(f64::NAN));
    assert_ne!(constant(0.0), constant(-0.0));
    let narrow = Expression::record(32, 0, &|_| vec![Lane::lit(0.0)]);
    assert_ne!(constant(0.0), narrow);
}

#[test]
fn recordings_nest() {
    let outer = Expression::record(64, 1, &|x| {
        let y = x[0] + Lane::lit(1.0);
        let inner = Expression::record(32, 1, &|x| vec![x[0].exp()]);
        assert_eq!(inner.replay_one(&[0.0f32]), 1.0);
        // A formula that panics leaves the outer recording as it was.
        let panics = catch_unwind(|| Expression::record(64, 1, &|_| panic!("on purpose")));
        assert!(panics.is_err());
        vec![y * x[0]]
    });
    assert_eq!(outer.replay_one(&[3.0f64]), 12.0);
}

#[test]
#[should_panic(expected = "another width")]
fn refuses_another_width() {
    Expression::record(64, 1, &|x| vec![x[0].exp()]).replay_one(&[0.0f32]);
}

#[test]
#[should_panic(expected = "only while recording")]
fn refuses_to_compute_outside() {
    let kept = Cell::new(None);
    Expression::record(64, 1, &|x| {
        kept.set(Some(x[0]));
        vec![x[0]]
    });
    let _ = kept.take().map(Lane::exp);
}
