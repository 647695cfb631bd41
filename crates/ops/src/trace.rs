//! `Traced`: the reading of a formula as operations on whole tensors.
//!
//! The gradient of an elementwise op is a formula too. Read in numbers, it is one fast kernel
//! without a gradient of its own; read in tensors, every step of it is an op that the tape records,
//! and so it can be differentiated again, as often as one likes. Both readings are the same
//! arithmetic and give the same bits.

use crate::array::Array;
use crate::backend::Memory;
use crate::catalogue as op;
use crate::lane::{Lane, LaneInt, Mask};
use crate::value::Value;
use core::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};
use elinvar_core::{DType, Error, Result, Scalar, storage};
use elinvar_lane::recorded::Expression;
use std::cell::RefCell;

/// Runs a recorded formula on tensors of `dtype` (f32 or f64). The result has the broadcast shape
/// of what it depends on. An operand that is not there is NaN: the formula does not read it.
///
/// # Errors
/// Those of the ops; `Unsupported` if the formula takes bit patterns apart.
pub(crate) fn trace<V: Value>(
    device: &<V::B as Memory>::Device,
    dtype: DType,
    record: &dyn Fn(u32) -> Expression,
    x: &[Option<&V>],
) -> Result<V> {
    match dtype {
        DType::F32 => run::<V, 32>(device, dtype, &record(32), x),
        DType::F64 => run::<V, 64>(device, dtype, &record(64), x),
        storage!(DType) | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
            unreachable!("formulas are traced in f32 or f64")
        }
    }
}

fn run<V: Value, const W: u32>(
    device: &<V::B as Memory>::Device,
    dtype: DType,
    formula: &Expression,
    x: &[Option<&V>],
) -> Result<V> {
    let arena =
        Arena { device: device.clone(), dtype, values: RefCell::new(Vec::new()), error: RefCell::new(None) };
    let operand = |v: &Option<&V>| v.map_or(Traced::Lit(f64::NAN), |v| arena.push(v.clone()));
    let x: Vec<Traced<'_, V, W>> = x.iter().map(operand).collect();
    let result = arena.value(formula.replay_one(&x));
    match arena.error.into_inner() {
        Some(e) => Err(e),
        None => result,
    }
}

/// The tensors of a trace; lanes are numbers in it, so that they can be copied.
struct Arena<V: Value> {
    device: <V::B as Memory>::Device,
    dtype: DType,
    values: RefCell<Vec<V>>,
    error: RefCell<Option<Error>>,
}

impl<V: Value> Arena<V> {
    fn push<const W: u32>(&self, v: V) -> Traced<'_, V, W> {
        let mut values = self.values.borrow_mut();
        values.push(v);
        Traced::Node(self, values.len() - 1)
    }
    fn value<const W: u32>(&self, t: Traced<'_, V, W>) -> Result<V> {
        match t {
            Traced::Lit(v) => Ok(V::from_array(Array::scalar(&self.device, Scalar::Float(v), self.dtype)?)),
            Traced::Node(_, i) => Ok(self.values.borrow()[i].clone()),
        }
    }
    fn mask(&self, m: TracedMask<'_, V>) -> Result<V> {
        match m {
            TracedMask::Lit(v) => {
                Ok(V::from_array(Array::scalar(&self.device, Scalar::Bool(v), DType::Bool)?))
            }
            TracedMask::Node(_, i) => Ok(self.values.borrow()[i].clone()),
        }
    }
    fn keep(&self, r: Result<V>) -> Option<usize> {
        match r {
            Ok(v) => {
                let mut values = self.values.borrow_mut();
                values.push(v);
                Some(values.len() - 1)
            }
            Err(e) => {
                self.error.borrow_mut().get_or_insert(e);
                None
            }
        }
    }
    fn lane<const W: u32>(&self, r: Result<V>) -> Traced<'_, V, W> {
        self.keep(r).map_or(Traced::Lit(f64::NAN), |i| Traced::Node(self, i))
    }
    fn truth(&self, r: Result<V>) -> TracedMask<'_, V> {
        self.keep(r).map_or(TracedMask::Lit(false), |i| TracedMask::Node(self, i))
    }
}

/// A lane that stands for a whole tensor, or for a constant. `W`: width of its floats.
pub enum Traced<'t, V: Value, const W: u32> {
    #[doc(hidden)]
    Lit(f64),
    #[doc(hidden)]
    #[allow(private_interfaces)]
    Node(&'t Arena<V>, usize),
}

/// A mask that stands for a whole bool tensor, or for a constant.
pub enum TracedMask<'t, V: Value> {
    #[doc(hidden)]
    Lit(bool),
    #[doc(hidden)]
    #[allow(private_interfaces)]
    Node(&'t Arena<V>, usize),
}

impl<V: Value, const W: u32> Clone for Traced<'_, V, W> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<V: Value, const W: u32> Copy for Traced<'_, V, W> {}
impl<V: Value> Clone for TracedMask<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<V: Value> Copy for TracedMask<'_, V> {}

impl<'t, V: Value, const W: u32> Traced<'t, V, W> {
    fn arena(self) -> Option<&'t Arena<V>> {
        match self {
            Traced::Lit(_) => None,
            Traced::Node(a, _) => Some(a),
        }
    }
    /// A constant, rounded as the lanes are.
    fn constant(v: f64) -> Self {
        Traced::Lit(if W == 32 { f64::from(v as f32) } else { v })
    }
    fn unary(self, on_lit: impl Fn(f64) -> f64, f: impl Fn(&V) -> Result<V>) -> Self {
        match self {
            Traced::Lit(v) => Self::constant(on_lit(v)),
            Traced::Node(a, _) => a.lane(a.value(self).and_then(|x| f(&x))),
        }
    }
    fn binary(self, o: Self, on_lit: impl Fn(f64, f64) -> f64, f: impl Fn(&V, &V) -> Result<V>) -> Self {
        match (self, o) {
            (Traced::Lit(x), Traced::Lit(y)) => Self::constant(on_lit(x, y)),
            _ => {
                let a = self.arena().or(o.arena()).expect("one of the two is a tensor");
                a.lane(a.value(self).and_then(|x| f(&x, &a.value(o)?)))
            }
        }
    }
    fn compare(
        self,
        o: Self,
        on_lit: impl Fn(f64, f64) -> bool,
        f: impl Fn(&V, &V) -> Result<V>,
    ) -> TracedMask<'t, V> {
        match (self, o) {
            (Traced::Lit(x), Traced::Lit(y)) => TracedMask::Lit(on_lit(x, y)),
            _ => {
                let a = self.arena().or(o.arena()).expect("one of the two is a tensor");
                a.truth(a.value(self).and_then(|x| f(&x, &a.value(o)?)))
            }
        }
    }
    fn opaque(self) -> TracedInt {
        if let Traced::Node(a, _) = self {
            let e = Error::unsupported(
                "gradient: a formula that takes bit patterns apart has no second derivative",
            );
            a.error.borrow_mut().get_or_insert(e);
        }
        TracedInt
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident $f:path;)*) => {$(
        impl<V: Value, const W: u32> $trait for Traced<'_, V, W> {
            type Output = Self;
            // A literal with a literal is computed in f64 and rounded to f32, which for these four
            // is the correctly rounded f32 result: f64 has more than 2 * 24 + 2 bits.
            fn $method(self, o: Self) -> Self {
                self.binary(o, |x, y| $trait::$method(x, y), $f)
            }
        }
    )*};
}
operator! { Add add op::add; Sub sub op::sub; Mul mul op::mul; Div div op::div::div; }

impl<V: Value, const W: u32> Neg for Traced<'_, V, W> {
    type Output = Self;
    fn neg(self) -> Self {
        self.unary(|x| -x, op::neg)
    }
}

macro_rules! mask_operator {
    ($($trait:ident $method:ident $f:path;)*) => {$(
        impl<V: Value> $trait for TracedMask<'_, V> {
            type Output = Self;
            fn $method(self, o: Self) -> Self {
                match (self, o) {
                    (TracedMask::Lit(x), TracedMask::Lit(y)) => TracedMask::Lit($trait::$method(x, y)),
                    (TracedMask::Node(a, _), _) | (_, TracedMask::Node(a, _)) => {
                        a.truth(a.mask(self).and_then(|x| $f(&x, &a.mask(o)?)))
                    }
                }
            }
        }
    )*};
}
mask_operator! { BitAnd bitand op::logical_and; BitOr bitor op::logical_or; BitXor bitxor op::logical_xor; }

impl<V: Value> Not for TracedMask<'_, V> {
    type Output = Self;
    fn not(self) -> Self {
        match self {
            TracedMask::Lit(v) => TracedMask::Lit(!v),
            TracedMask::Node(a, _) => a.truth(a.mask(self).and_then(|x| op::logical_not(&x))),
        }
    }
}

impl<V: Value> Mask for TracedMask<'_, V> {
    fn all_lanes(v: bool) -> Self {
        TracedMask::Lit(v)
    }
}

impl<'t, V: Value, const W: u32> Lane for Traced<'t, V, W> {
    type Mask = TracedMask<'t, V>;
    type Int = TracedInt;
    const BITS: u32 = W;

    fn lit(v: f64) -> Self {
        Self::constant(v)
    }
    fn fma(self, b: Self, c: Self) -> Self {
        match (self, b, c) {
            (Traced::Lit(x), Traced::Lit(y), Traced::Lit(z)) => Self::constant(if W == 32 {
                f64::from(Lane::fma(x as f32, y as f32, z as f32))
            } else {
                Lane::fma(x, y, z)
            }),
            _ => {
                let a = self.arena().or(b.arena()).or(c.arena()).expect("one of the three is a tensor");
                let all = || op::fma(&a.value(self)?, &a.value(b)?, &a.value(c)?);
                a.lane(all())
            }
        }
    }
    fn select(mask: TracedMask<'t, V>, x: Self, y: Self) -> Self {
        match mask {
            TracedMask::Lit(true) => x,
            TracedMask::Lit(false) => y,
            TracedMask::Node(a, _) => {
                let all = || op::where_(&a.mask(mask)?, &a.value(x)?, &a.value(y)?);
                a.lane(all())
            }
        }
    }
    fn min(self, o: Self) -> Self {
        self.binary(o, Lane::min, op::minimum)
    }
    fn max(self, o: Self) -> Self {
        self.binary(o, Lane::max, op::maximum)
    }
    fn copysign(self, o: Self) -> Self {
        self.binary(o, Lane::copysign, op::copysign)
    }
    // Where the two differ, the result is not used.
    fn with_sign_bit(self, o: Self) -> Self {
        self.copysign(o)
    }
    fn fmod(self, o: Self) -> Self {
        self.binary(o, |x, y| x % y, op::fmod)
    }
    fn lt(self, o: Self) -> TracedMask<'t, V> {
        self.compare(o, |x, y| x < y, op::lt)
    }
    fn le(self, o: Self) -> TracedMask<'t, V> {
        self.compare(o, |x, y| x <= y, op::le)
    }
    fn eq(self, o: Self) -> TracedMask<'t, V> {
        self.compare(o, |x, y| x == y, op::eq)
    }
    fn pow(self, o: Self) -> Self {
        self.binary(o, round2::<W>(|x, y| x.pow(y), |x, y| x.pow(y)), op::pow)
    }
    fn atan2(self, o: Self) -> Self {
        self.binary(o, round2::<W>(Lane::atan2, Lane::atan2), op::atan2)
    }
    fn exp(self) -> Self {
        self.unary(round1::<W>(Lane::exp, Lane::exp), op::exp)
    }
    fn exp2(self) -> Self {
        self.unary(round1::<W>(Lane::exp2, Lane::exp2), op::exp2)
    }
    fn expm1(self) -> Self {
        self.unary(round1::<W>(Lane::expm1, Lane::expm1), op::expm1)
    }
    fn log(self) -> Self {
        self.unary(round1::<W>(Lane::log, Lane::log), op::log)
    }
    fn log2(self) -> Self {
        self.unary(round1::<W>(Lane::log2, Lane::log2), op::log2)
    }
    fn log10(self) -> Self {
        self.unary(round1::<W>(Lane::log10, Lane::log10), op::log10)
    }
    fn log1p(self) -> Self {
        self.unary(round1::<W>(Lane::log1p, Lane::log1p), op::log1p)
    }
    fn sin(self) -> Self {
        self.unary(round1::<W>(Lane::sin, Lane::sin), op::sin)
    }
    fn cos(self) -> Self {
        self.unary(round1::<W>(Lane::cos, Lane::cos), op::cos)
    }
    fn tan(self) -> Self {
        self.unary(round1::<W>(Lane::tan, Lane::tan), op::tan)
    }
    fn asin(self) -> Self {
        self.unary(round1::<W>(Lane::asin, Lane::asin), op::asin)
    }
    fn acos(self) -> Self {
        self.unary(round1::<W>(Lane::acos, Lane::acos), op::acos)
    }
    fn atan(self) -> Self {
        self.unary(round1::<W>(Lane::atan, Lane::atan), op::atan)
    }
    fn sinh(self) -> Self {
        self.unary(round1::<W>(Lane::sinh, Lane::sinh), op::sinh)
    }
    fn cosh(self) -> Self {
        self.unary(round1::<W>(Lane::cosh, Lane::cosh), op::cosh)
    }
    fn tanh(self) -> Self {
        self.unary(round1::<W>(Lane::tanh, Lane::tanh), op::tanh)
    }
    fn erf(self) -> Self {
        self.unary(round1::<W>(Lane::erf, Lane::erf), op::erf)
    }
    /// By the error function, which is an op.
    fn phi(self) -> Self {
        let half = Self::lit(0.5);
        (self * Self::lit(core::f64::consts::FRAC_1_SQRT_2)).erf().fma(half, half)
    }
    fn asinh(self) -> Self {
        self.unary(round1::<W>(Lane::asinh, Lane::asinh), op::asinh)
    }
    fn acosh(self) -> Self {
        self.unary(round1::<W>(Lane::acosh, Lane::acosh), op::acosh)
    }
    fn atanh(self) -> Self {
        self.unary(round1::<W>(Lane::atanh, Lane::atanh), op::atanh)
    }
    fn erfc(self) -> Self {
        self.unary(round1::<W>(Lane::erfc, Lane::erfc), op::erfc)
    }
    fn erfcx(self) -> Self {
        self.unary(round1::<W>(Lane::erfcx, Lane::erfcx), op::erfcx)
    }
    fn erfinv(self) -> Self {
        self.unary(round1::<W>(Lane::erfinv, Lane::erfinv), op::erfinv)
    }
    fn ndtr(self) -> Self {
        self.unary(round1::<W>(Lane::ndtr, Lane::ndtr), op::ndtr)
    }
    fn log_ndtr(self) -> Self {
        self.unary(round1::<W>(Lane::log_ndtr, Lane::log_ndtr), op::log_ndtr)
    }
    fn ndtri(self) -> Self {
        self.unary(round1::<W>(Lane::ndtri, Lane::ndtri), op::ndtri)
    }
    fn lgamma(self) -> Self {
        self.unary(round1::<W>(Lane::lgamma, Lane::lgamma), op::lgamma)
    }
    fn digamma(self) -> Self {
        self.unary(round1::<W>(Lane::digamma, Lane::digamma), op::digamma)
    }
    fn sigmoid(self) -> Self {
        self.unary(round1::<W>(Lane::sigmoid, Lane::sigmoid), op::sigmoid)
    }
    fn rsqrt(self) -> Self {
        self.unary(round1::<W>(Lane::rsqrt, Lane::rsqrt), op::rsqrt)
    }
    fn sqrt(self) -> Self {
        self.unary(round1::<W>(Lane::sqrt, Lane::sqrt), op::sqrt)
    }
    fn abs(self) -> Self {
        self.unary(round1::<W>(Lane::abs, Lane::abs), op::abs)
    }
    fn round(self) -> Self {
        self.unary(round1::<W>(Lane::round, Lane::round), op::round)
    }
    fn floor(self) -> Self {
        self.unary(round1::<W>(Lane::floor, Lane::floor), op::floor)
    }
    fn ceil(self) -> Self {
        self.unary(round1::<W>(Lane::ceil, Lane::ceil), op::ceil)
    }
    fn trunc(self) -> Self {
        self.unary(round1::<W>(Lane::trunc, Lane::trunc), op::trunc)
    }
    fn to_bits(self) -> TracedInt {
        self.opaque()
    }
    fn from_bits(_: TracedInt) -> Self {
        Traced::Lit(f64::NAN)
    }
    fn to_int(self) -> TracedInt {
        self.opaque()
    }
    fn from_int(_: TracedInt) -> Self {
        Traced::Lit(f64::NAN)
    }
}

/// A function of a literal, computed in the lanes' width.
fn round1<const W: u32>(f: impl Fn(f32) -> f32, g: impl Fn(f64) -> f64) -> impl Fn(f64) -> f64 {
    move |x| if W == 32 { f64::from(f(x as f32)) } else { g(x) }
}
/// A function of two literals, computed in the lanes' width.
fn round2<const W: u32>(
    f: impl Fn(f32, f32) -> f32,
    g: impl Fn(f64, f64) -> f64,
) -> impl Fn(f64, f64) -> f64 {
    move |x, y| if W == 32 { f64::from(f(x as f32, y as f32)) } else { g(x, y) }
}

/// Bit patterns do not exist in this reading: the method that asked for one has put an error into
/// the trace.
#[derive(Clone, Copy, Debug)]
pub struct TracedInt;

macro_rules! nothing {
    ($($trait:ident $method:ident),*) => {$(
        impl $trait for TracedInt {
            type Output = Self;
            fn $method(self, _: Self) -> Self {
                self
            }
        }
    )*};
}
nothing!(Add add, Sub sub, Mul mul, BitAnd bitand, BitOr bitor, BitXor bitxor);

impl Not for TracedInt {
    type Output = Self;
    fn not(self) -> Self {
        self
    }
}

impl<M: Mask> LaneInt<M> for TracedInt {
    fn lit(_: i64) -> Self {
        TracedInt
    }
    fn shl(self, _: u32) -> Self {
        self
    }
    fn shr(self, _: u32) -> Self {
        self
    }
    fn shr_logical(self, _: u32) -> Self {
        self
    }
    fn shl_by(self, _: Self) -> Self {
        self
    }
    fn shr_logical_by(self, _: Self) -> Self {
        self
    }
    fn mul_high_unsigned(self, _: Self) -> Self {
        self
    }
    fn eq(self, _: Self) -> M {
        M::all_lanes(false)
    }
    fn lt(self, _: Self) -> M {
        M::all_lanes(false)
    }
    fn select(_: M, _: Self, _: Self) -> Self {
        TracedInt
    }
}
