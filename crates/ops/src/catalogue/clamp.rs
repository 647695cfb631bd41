//! clamp: x limited to a range. Exact; NaN propagates; where the lower bound is above the upper,
//! the result is the upper. The gradient passes inside of the range, ends included.

use crate::prelude::*;

/// x clamped to a range given by scalars.
#[derive(Clone, Copy, Debug)]
pub struct Clamp {
    /// Lower bound.
    pub min: Option<Scalar>,
    /// Upper bound.
    pub max: Option<Scalar>,
}

impl Map<1> for Clamp {
    const NAME: &'static str = "clamp";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        let above = self.min.map_or(x, |m| x.max(L::lit(m.to_f64())));
        self.max.map_or(above, |m| above.min(L::lit(m.to_f64())))
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let zero = L::lit(0.0);
        let g = self.min.map_or(g, |m| L::select(x.ge(L::lit(m.to_f64())), g, zero));
        self.max.map_or(g, |m| L::select(x.le(L::lit(m.to_f64())), g, zero))
    }
}
compile_map! { 1 Clamp; }

impl IntMap<1> for Clamp {
    const NAME: &'static str = "clamp";
    /// Compared as i64, so that a bound may be outside the dtype's range.
    #[inline(always)]
    fn int<I: Int>(&self, [x]: [I; 1]) -> I {
        x.within(self.min.map(Scalar::to_i64), self.max.map(Scalar::to_i64))
    }
}
compile_int_map! { 1 Clamp; }

/// x clamped to a range given by tensors.
#[derive(Clone, Copy, Debug)]
pub struct ClampBoth;

impl Map<3> for ClampBoth {
    const NAME: &'static str = "clamp";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, min, max]: [L; 3]) -> L {
        x.max(min).min(max)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, min, max]: [L; 3], _: L, g: L) -> L {
        let taken = match i {
            0 => x.ge(min) & x.le(max),
            1 => x.lt(min) & min.lt(max),
            _ => x.gt(max) | min.gt(max),
        };
        L::select(taken, g, L::lit(0.0))
    }
}
compile_map! { 3 ClampBoth; }

impl IntMap<3> for ClampBoth {
    const NAME: &'static str = "clamp";
    #[inline(always)]
    fn int<I: Int>(&self, [x, min, max]: [I; 3]) -> I {
        x.max(min).min(max)
    }
}
compile_int_map! { 3 ClampBoth; }

/// x clamped on one side by a tensor.
#[derive(Clone, Copy, Debug)]
pub struct ClampOne {
    /// Is it the upper bound?
    pub upper: bool,
}

impl Map<2> for ClampOne {
    const NAME: &'static str = "clamp";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, bound]: [L; 2]) -> L {
        if self.upper { x.min(bound) } else { x.max(bound) }
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, bound]: [L; 2], _: L, g: L) -> L {
        let taken = match (i, self.upper) {
            (0, false) => x.ge(bound),
            (0, true) => x.le(bound),
            (_, false) => x.lt(bound),
            (_, true) => x.gt(bound),
        };
        L::select(taken, g, L::lit(0.0))
    }
}
compile_map! { 2 ClampOne; }

impl IntMap<2> for ClampOne {
    const NAME: &'static str = "clamp";
    #[inline(always)]
    fn int<I: Int>(&self, [x, bound]: [I; 2]) -> I {
        if self.upper { x.min(bound) } else { x.max(bound) }
    }
}
compile_int_map! { 2 ClampOne; }

fn no_bound() -> Error {
    Error::argument("clamp: neither min nor max is given; at least one should be")
}

/// x clamped to `min..=max`, elementwise, for floats and integers; one bound may be missing, but
/// not both.
///
/// # Errors
/// `InvalidArgument` if there is no bound; `DTypeMismatch` if x is of integers and a bound is not a
/// whole number, or elements would become one that their dtype cannot hold; `OutOfMemory`.
pub fn clamp<V: Value>(x: &V, min: Option<Scalar>, max: Option<Scalar>) -> Result<V> {
    if min.is_none() && max.is_none() {
        return Err(no_bound());
    }
    let Some((low, high)) = x.dtype().range() else { return map_any(Clamp { min, max }, [x]) };
    // A lower bound below the dtype's numbers, or an upper one above them, has no effect.
    let bound = |m: Scalar, idle: &dyn Fn(i128) -> bool, end: i64| match m.floor() {
        Some((v, true)) if idle(v) => Ok(Scalar::Int(end)),
        _ => m.fits(x.dtype()).map(|()| m).map_err(|e| e.at("clamp")),
    };
    let min = min.map(|m| bound(m, &|v| v < low.into(), low)).transpose()?;
    let max = max.map(|m| bound(m, &|v| v > high.into(), high)).transpose()?;
    map_any(Clamp { min, max }, [x])
}

/// x clamped to `min..=max`, elementwise, all broadcast; one bound may be missing, but not both.
///
/// # Errors
/// `InvalidArgument` if there is no bound; `ShapeMismatch` if the shapes do not broadcast;
/// `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn clamp_tensor<V: Value>(x: &V, min: Option<&V>, max: Option<&V>) -> Result<V> {
    match (min, max) {
        (Some(min), Some(max)) => map_any(ClampBoth, [x, min, max]),
        (Some(min), None) => map_any(ClampOne { upper: false }, [x, min]),
        (None, Some(max)) => map_any(ClampOne { upper: true }, [x, max]),
        (None, None) => Err(no_bound()),
    }
}

/// By name: operand x; min and max as attributes (null: no bound) or as operands.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let x = a.input("x")?;
    let (min, max) = (a.optional("min"), a.optional("max"));
    Ok(vec![if min.is_some() || max.is_some() {
        clamp_tensor(x, min, max)?
    } else {
        clamp(x, a.maybe("min", Args::scalar)?, a.maybe("max", Args::scalar)?)?
    }])
}
