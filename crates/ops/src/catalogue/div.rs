//! div: x / y. Correctly rounded; integers and bool become f32 first. With a rounding mode: a whole
//! number, of the exact quotient, in the operands' dtype, and with gradient 0.

use super::floor_divide::floor_quotient;
use super::fmod::quotient;
use crate::array::one_dtype;
use crate::prelude::*;
use crate::value::cast;

/// x / y
#[derive(Clone, Copy, Debug)]
pub struct Div;

impl Map<2> for Div {
    const NAME: &'static str = "div";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        x / y
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, y]: [L; 2], _: L, g: L) -> L {
        // The quotient first: y^2 may overflow where the gradient does not.
        if i == 0 { g / y } else { -g * (x / y / y) }
    }
}
compile_map! { 2 Div; }

/// The rounding of the quotient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rounding {
    /// None: division of real numbers.
    #[default]
    None,
    /// Truncated towards zero. Integers by zero: 0.
    Trunc,
    /// Rounded down. Integers by zero: 0.
    Floor,
}

/// x / y as a whole number.
#[derive(Clone, Copy, Debug)]
pub struct DivWhole {
    /// Rounded down instead of truncated towards zero?
    pub floor: bool,
}

impl Map<2> for DivWhole {
    const NAME: &'static str = "div";
    const SAVES: Saves = Saves::NOTHING;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        if self.floor { floor_quotient(x, y) } else { quotient(x, y) }
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 2], _: L, _: L) -> L {
        L::lit(0.0)
    }
}
compile_map! { 2 DivWhole; }

impl IntMap<2> for DivWhole {
    const NAME: &'static str = "div";
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        if self.floor { x.div_floor(y) } else { x.div_trunc(y) }
    }
}
compile_int_map! { 2 DivWhole; }

/// x / y, elementwise, operands broadcast. Integers and bool become f32 first, and so is the
/// result.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn div<V: Value>(x: &V, y: &V) -> Result<V> {
    if V::autocast().is_some() && (x.dtype().is_float() || y.dtype().is_float()) {
        return map(Div, [x, y]);
    }
    if one_dtype("div", &[x.array(), y.array()])?.is_float() {
        map(Div, [x, y])
    } else {
        map(Div, [&cast(x, DType::F32)?, &cast(y, DType::F32)?])
    }
}

/// x / y, elementwise, operands broadcast, rounded to a whole number as asked.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn div_mode<V: Value>(x: &V, y: &V, rounding: Rounding) -> Result<V> {
    match rounding {
        Rounding::None => div(x, y),
        Rounding::Trunc => map_any(DivWhole { floor: false }, [x, y]),
        Rounding::Floor => map_any(DivWhole { floor: true }, [x, y]),
    }
}

/// By name: operands x and y, or x and the attribute scalar; attribute rounding_mode: null, "trunc"
/// or "floor".
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let rounding = match a.maybe("rounding_mode", Args::str)? {
        None => Rounding::None,
        Some("trunc") => Rounding::Trunc,
        Some("floor") => Rounding::Floor,
        Some(other) => {
            return Err(Error::argument(format!(
                "div: rounding_mode is {other:?}, and should be null, \"trunc\" or \"floor\""
            )));
        }
    };
    let (x, y) = a.pair()?;
    Ok(vec![div_mode(&x, &y, rounding)?])
}
