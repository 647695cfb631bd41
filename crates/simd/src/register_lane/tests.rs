//! Each operation by registers against the scalar lane, on all pairs of special values and on
//! random bits.

use super::RegisterLane;
use super::register::FloatRegister;
use crate::dispatch::{ReduceLanes, SimdLanes};
use crate::isa::Isa;
use crate::isa::{Kernel, Level, dispatch};
use crate::scalar_lane::ScalarLane;
use elinvar_core::philox::philox4x32;
use elinvar_lane::formula::Fold;
use elinvar_lane::lane::{Lane, LaneInt, Mask};
use elinvar_lane::math::moderate_bound;
use std::arch::x86_64::{__m256, __m512};
use std::marker::PhantomData;
use std::{array, thread};

/// Elements that go through an operation together: a multiple of every width.
const ELEMENTS: usize = 192;

/// An operation on three operands.
trait LaneOp {
    const NAME: &'static str;
    /// Are its results bit patterns, in which NaNs may differ?
    const OF_BITS: bool;
    fn of<L: Lane>(a: L, b: L, c: L) -> L;
}

/// An operation run with several numbers of registers.
struct RunLaneOp<'a, O, R> {
    x: [&'a [f32; ELEMENTS]; 3],
    y: &'a mut [[f32; ELEMENTS]; 3],
    _of: PhantomData<(O, R)>,
}

#[inline(always)]
fn all_of<O: LaneOp, R: FloatRegister, const K: usize>(x: [&[f32; ELEMENTS]; 3], y: &mut [f32; ELEMENTS]) {
    for j in (0..ELEMENTS).step_by(K * R::LANES) {
        let a = RegisterLane::<R, K>::load(&x[0][j..]);
        let (b, c) = (RegisterLane::load(&x[1][j..]), RegisterLane::load(&x[2][j..]));
        O::of(a, b, c).store(&mut y[j..]);
    }
}

impl<O: LaneOp, R: FloatRegister> Kernel for RunLaneOp<'_, O, R> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let [long, middle, short] = self.y;
        all_of::<O, R, 4>(self.x, long);
        all_of::<O, R, 2>(self.x, middle);
        all_of::<O, R, 1>(self.x, short);
    }
}

/// The processor's instruction set of this level.
fn isa_of(level: Level) -> Option<Isa> {
    Isa::all().into_iter().find(|isa| isa.level() == level)
}

/// Values next to a change of behaviour: signs, exponents, roundings, NaN.
const SPECIAL_VALUES: [f32; 32] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    -2.5,
    3.0,
    1e-45,
    -1e-45,
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
    1e-39,
    f32::MAX,
    f32::MIN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    -f32::NAN,
    8_388_607.5,
    8_388_609.0,
    -16_777_217.0,
    2_147_483_520.0,
    -2_147_483_648.0,
    0.999_999_94,
    1.000_000_1,
    -149.0,
    127.0,
    88.722_84,
    -103.972_08,
    0.843_75,
];

/// All triples of special values that differ by at most the third, then random bits, in groups.
fn samples() -> Vec<[[f32; ELEMENTS]; 3]> {
    let n = SPECIAL_VALUES.len();
    let pairs = (0..n * n)
        .map(|i| [SPECIAL_VALUES[i / n], SPECIAL_VALUES[i % n], SPECIAL_VALUES[(i / n + 7 * i) % n]]);
    let random = (0..4096u32).map(|i| {
        let [a, b, c, near] = philox4x32([i, 0, 0, 0], [0, 0]);
        // Half of them of moderate magnitude: random bits are nearly all huge or tiny.
        let bits = [a, b, c].map(|w| if near & 1 == 0 { w } else { w & 0x83ff_ffff | 0x3c00_0000 });
        bits.map(f32::from_bits)
    });
    let all: Vec<[f32; 3]> = pairs.chain(random).collect();
    all.as_chunks::<ELEMENTS>().0.iter().map(|g| array::from_fn(|k| g.map(|x| x[k]))).collect()
}

/// On each instruction set that has registers.
fn check<O: LaneOp>(want: impl Fn([f32; 3]) -> f32 + Sync) {
    check_by::<O, __m256>(Level::Avx2, &want);
    check_by::<O, __m512>(Level::Avx512, &want);
}

fn check_by<O: LaneOp, R: FloatRegister>(level: Level, want: &(impl Fn([f32; 3]) -> f32 + Sync)) {
    // Without optimisation, each intermediate value of an elementary function has its own stack
    // slot.
    let large = thread::Builder::new().stack_size(1 << 26);
    thread::scope(|s| {
        let check = || check_here::<O, R>(level, want);
        large.spawn_scoped(s, check).expect("a thread").join().expect("equal results");
    });
}

fn check_here<O: LaneOp, R: FloatRegister>(level: Level, want: &impl Fn([f32; 3]) -> f32) {
    let Some(isa) = isa_of(level) else { return };
    for [a, b, c] in &samples() {
        let mut y = [[0.0; ELEMENTS]; 3];
        dispatch(isa, RunLaneOp::<O, R> { x: [a, b, c], y: &mut y, _of: PhantomData });
        for i in 0..ELEMENTS {
            let (a, b, c) = (a[i], b[i], c[i]);
            let want = want([a, b, c]);
            for got in y.map(|y| y[i]) {
                let same = want.to_bits() == got.to_bits() || !O::OF_BITS && want.is_nan() && got.is_nan();
                assert!(same, "{isa}: {}({a:e}, {b:e}, {c:e}) = {got:e}, not {want:e}", O::NAME);
            }
        }
    }
}

macro_rules! operations {
    ($of_bits:literal: $($name:ident($a:ident, $b:ident, $c:ident) $body:expr;)*) => {$(
        #[test]
        fn $name() {
            struct This;
            impl LaneOp for This {
                const NAME: &'static str = stringify!($name);
                const OF_BITS: bool = $of_bits;
                #[inline(always)]
                #[allow(unused_variables, reason = "not all operations have three operands")]
                fn of<L: Lane>($a: L, $b: L, $c: L) -> L {
                    $body
                }
            }
            check::<This>(|x| {
                let [a, b, c] = x.map(ScalarLane);
                This::of(a, b, c).0
            });
        }
    )*};
}

/// A whole number of as many bits as the significand of an f32 has, and a few more.
#[inline(always)]
fn multiple<L: Lane>(a: L) -> L {
    let bits = a.to_bits();
    L::from_int(bits.shr_logical_by(L::Int::lit(7) + (bits & L::Int::lit(15))))
}

/// A shift by less than the width.
#[inline(always)]
fn few<L: Lane>(n: L) -> L::Int {
    n.to_bits() & L::Int::lit(31)
}

operations! { false:
    add(a, b, c) a + b;
    sub(a, b, c) a - b;
    mul(a, b, c) a * b;
    div(a, b, c) a / b;
    fma(a, b, c) a.fma(b, c);
    sqrt(a, b, c) a.sqrt();
    min(a, b, c) a.min(b);
    max(a, b, c) a.max(b);
    round(a, b, c) a.round();
    floor(a, b, c) a.floor();
    ceil(a, b, c) a.ceil();
    trunc(a, b, c) a.trunc();
    fmod(a, b, c) a.fmod(b);
    fmod_below_a_multiple(a, b, c) L::from_bits((multiple(a) * b).to_bits() + L::Int::lit(-1)).fmod(b);
    fmod_above_a_multiple(a, b, c) L::from_bits((multiple(a) * b).to_bits() + L::Int::lit(1)).fmod(b);
    literal(a, b, c) a + L::lit(0.1);
    nan_of_both_signs(a, b, c) a.fma(L::lit(f64::NAN), -a);
}

operations! { true:
    neg(a, b, c) -a;
    abs(a, b, c) a.abs();
    copysign(a, b, c) a.copysign(b);
    less(a, b, c) L::from_mask(a.lt(b));
    less_or_equal(a, b, c) L::from_mask(a.le(b));
    equal(a, b, c) L::from_mask(a.eq(b));
    greater(a, b, c) L::from_mask(a.gt(b));
    greater_or_equal(a, b, c) L::from_mask(a.ge(b));
    not_equal(a, b, c) L::from_mask(a.ne(b));
    is_nan(a, b, c) L::from_mask(a.is_nan());
    to_mask(a, b, c) L::from_mask(a.to_mask());
    at_least(a, b, c) a.at_least(b);
    at_most(a, b, c) a.at_most(b);
    select(a, b, c) L::select(a.lt(b), b, c);
    masks_and(a, b, c) L::from_mask(a.lt(b) & b.lt(c));
    masks_or(a, b, c) L::from_mask(a.lt(b) | b.lt(c));
    masks_xor(a, b, c) L::from_mask(a.lt(b) ^ b.lt(c));
    masks_not(a, b, c) L::from_mask(!a.lt(b));
    all_lanes(a, b, c) L::select(L::Mask::all_lanes(true), L::select(L::Mask::all_lanes(false), a, b), c);
    ints_add(a, b, c) L::from_bits(a.to_bits() + b.to_bits());
    ints_sub(a, b, c) L::from_bits(a.to_bits() - b.to_bits());
    ints_mul(a, b, c) L::from_bits(a.to_bits() * b.to_bits());
    ints_and(a, b, c) L::from_bits(a.to_bits() & b.to_bits());
    ints_or(a, b, c) L::from_bits(a.to_bits() | b.to_bits());
    ints_xor(a, b, c) L::from_bits(a.to_bits() ^ b.to_bits());
    ints_not(a, b, c) L::from_bits(!a.to_bits());
    ints_literal(a, b, c) L::from_bits(a.to_bits() + L::Int::lit(0x1_dead_beef));
    shl(a, b, c) L::from_bits(a.to_bits().shl(0).shl(9));
    shr(a, b, c) L::from_bits(a.to_bits().shr(0).shr(9));
    shr_logical(a, b, c) L::from_bits(a.to_bits().shr_logical(0).shr_logical(9));
    shl_by(a, b, c) L::from_bits(a.to_bits().shl_by(few(b)));
    shr_logical_by(a, b, c) L::from_bits(a.to_bits().shr_logical_by(few(b)));
    mul_high_unsigned(a, b, c) L::from_bits(a.to_bits().mul_high_unsigned(b.to_bits()));
    ints_equal(a, b, c) L::from_mask(a.to_bits().eq(b.to_bits()));
    ints_less(a, b, c) L::from_mask(a.to_bits().lt(b.to_bits()));
    ints_select(a, b, c) L::from_bits(L::Int::select(a.lt(b), b.to_bits(), c.to_bits()));
    to_int(a, b, c) L::from_bits(L::select(a.abs().lt(L::lit(2_147_483_648.0)), a.trunc(), L::lit(7.0)).to_int());
    from_int(a, b, c) L::from_int(a.to_bits());
}

// Formulas of many operations.
operations! { false:
    exp(a, b, c) a.exp();
    exp2(a, b, c) a.exp2();
    expm1(a, b, c) a.expm1();
    log(a, b, c) a.log();
    log2(a, b, c) a.log2();
    log10(a, b, c) a.log10();
    log1p(a, b, c) a.log1p();
    sin(a, b, c) a.sin();
    cos(a, b, c) a.cos();
    tan(a, b, c) a.tan();
    sin_of_moderate(a, b, c) moderate(a).sin();
    cos_of_moderate(a, b, c) moderate(a).cos();
    tan_of_moderate(a, b, c) moderate(a).tan();
    asin(a, b, c) a.asin();
    acos(a, b, c) a.acos();
    atan(a, b, c) a.atan();
    sinh(a, b, c) a.sinh();
    cosh(a, b, c) a.cosh();
    tanh(a, b, c) a.tanh();
    erf(a, b, c) a.erf();
    phi(a, b, c) a.phi();
    asinh(a, b, c) a.asinh();
    acosh(a, b, c) a.acosh();
    atanh(a, b, c) a.atanh();
    erfc(a, b, c) a.erfc();
    erfcx(a, b, c) a.erfcx();
    erfinv(a, b, c) a.erfinv();
    ndtr(a, b, c) a.ndtr();
    log_ndtr(a, b, c) a.log_ndtr();
    ndtri(a, b, c) a.ndtri();
    lgamma(a, b, c) a.lgamma();
    digamma(a, b, c) a.digamma();
    sigmoid(a, b, c) a.sigmoid();
    rsqrt(a, b, c) a.rsqrt();
    pow(a, b, c) a.pow(b);
    atan2(a, b, c) a.atan2(b);
}

/// An angle below the bound for large-argument reduction.
#[inline(always)]
fn moderate<L: Lane>(a: L) -> L {
    L::select(a.abs().lt(moderate_bound()), a, L::lit(0.75))
}

/// a * 2^n
struct ScaleOp;
impl LaneOp for ScaleOp {
    const NAME: &'static str = "scaled";
    const OF_BITS: bool = false;
    #[inline(always)]
    fn of<L: Lane>(a: L, b: L, _: L) -> L {
        a.scaled(power(b)).expect("an instruction of AVX-512")
    }
}

/// A whole number in -512..512, or far beyond all exponents.
#[inline(always)]
fn power<L: Lane>(b: L) -> L {
    let whole = L::from_int(b.to_bits().shr(22));
    L::select(b.abs().lt(L::lit(1e-41)), whole * L::lit(1e30), whole)
}

#[test]
fn scaled() {
    check_by::<ScaleOp, __m512>(Level::Avx512, &|[a, b, _]| {
        // Beyond 600 the result no longer changes; in f64 the product is exact, unless it is so
        // small that it is zero in f32.
        let n = power(ScalarLane(b)).0.clamp(-600.0, 600.0);
        let power = f64::from_bits(((n as i64 + 1023) as u64) << 52);
        (f64::from(a) * power) as f32
    });
}

/// The first `n` elements of four registers as one number, and whether a NaN was among them.
struct FoldFirst<'a, R> {
    f: Fold,
    x: &'a [f32],
    n: usize,
    _of: PhantomData<R>,
}

impl<R: FloatRegister> Kernel for FoldFirst<'_, R> {
    type Out = (f32, bool);
    #[inline(always)]
    fn run(self) -> (f32, bool) {
        let none = ScalarLane(if self.f == Fold::Max { f32::NEG_INFINITY } else { 0.0 });
        let x = RegisterLane::<R, 4>::load(self.x).first(self.n, none.0);
        (RegisterLane::<R, 4>::folded(x.few(self.f), self.f), x.or_nan(0) != 0)
    }
}

/// Of numbers in the order of the tree: halves, then quarters, and so on.
fn folds_by<R: FloatRegister>(level: Level) {
    let Some(isa) = isa_of(level) else { return };
    let len = 4 * R::LANES;
    for group in &samples() {
        for n in 0..=len {
            for f in [Fold::Sum, Fold::Max] {
                let x = &group[0][..len];
                let (got, has_nan) = dispatch(isa, FoldFirst::<R> { f, x, n, _of: PhantomData });
                let none = if f == Fold::Max { f32::NEG_INFINITY } else { 0.0 };
                let mut all: Vec<f32> = (0..len).map(|i| if i < n { x[i] } else { none }).collect();
                assert_eq!(has_nan, all.iter().any(|x| x.is_nan()), "{isa}: NaN among {all:?}");
                while all.len() > 1 {
                    let (a, b) = all.split_at(all.len() / 2);
                    let pairs = a.iter().zip(b);
                    all = match f {
                        Fold::Sum => pairs.map(|(a, b)| a + b).collect(),
                        _ => pairs.map(|(a, b)| Lane::max(*a, *b)).collect(),
                    };
                }
                // The largest of numbers of which one is NaN is not specified.
                let same =
                    got.to_bits() == all[0].to_bits() || all[0].is_nan() && (f == Fold::Max || got.is_nan());
                assert!(same, "{isa}: {f:?} of {n} is {got:e}, not {:e}", all[0]);
            }
        }
    }
}

#[test]
fn folds() {
    folds_by::<__m256>(Level::Avx2);
    folds_by::<__m512>(Level::Avx512);
}
