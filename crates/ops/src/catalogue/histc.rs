//! histc: how many elements lie in each of several parts of a range, all of one width. Without a
//! range its ends are read from the elements, which synchronises with the device. No gradient.

use super::{aminmax, cast, div::div, flatten, floor, ge, index_select, le, logical_and, minimum, mul, nonzero, scatter, sub, view};
use crate::prelude::*;
use crate::recording;

/// How many elements of `x`, a float tensor, lie in each of `bins` parts of `min..=max`, in the
/// dtype of `x`; of the smallest and largest element if both are 0. A part has its lower end, the
/// last one both.
///
/// # Errors
/// `InvalidArgument` if bins is 0, min is above max or one is not finite; `DTypeMismatch` if x is
/// not of floats; `OutOfMemory`.
pub fn histc<V: Value>(x: &V, bins: usize, min: f64, max: f64) -> Result<V> {
    if !x.dtype().is_float() {
        return Err(Error::dtype(format!("histc: {} are no floats; convert them", x.dtype())));
    }
    recording::refuse("histc: counting")?;
    let flat = crate::value::cast(&flatten::all(&x.detached())?, x.dtype().compute())?;
    let (mut low, mut high) = (min, max);
    if low == high && flat.shape().numel() > 0 {
        let (a, b) = aminmax(&flat, None, false)?;
        let read = |v: &V| Ok::<_, Error>(v.array().to_host()?.to_f64_vec()[0]);
        (low, high) = (read(&a)?, read(&b)?);
    }
    if low == high {
        (low, high) = (low - 1.0, high + 1.0);
    }
    if bins == 0 || !(low < high && low.is_finite() && high.is_finite()) {
        return Err(Error::argument(format!(
            "histc: {bins} bins from {low} to {high}; there must be one at least, and the ends finite and ascending"
        )));
    }
    let number = |v: f64| flat.scalar_like(v);
    let inside = logical_and(&ge(&flat, &number(low)?)?, &le(&flat, &number(high)?)?)?;
    let taken = index_select(&flat, 0, &nonzero::numbers(&inside)?)?;
    let way = mul(&sub(&taken, &number(low)?)?, &number(bins as f64)?)?;
    let place = floor(&div(&way, &number(high - low)?)?)?;
    let place = cast(&minimum(&place, &number(bins as f64 - 1.0)?)?, DType::I64)?;
    let zeros = view::zeros(&place, &Shape::new(&[bins])?)?;
    let counts = scatter::run("histc", Scatter::Add, &zeros, 0, &place, &place.full_like(1i64)?)?;
    cast(&counts, x.dtype())
}

/// By name: operand x; attributes bins (absent: 100), min and max (absent: 0).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let number = |name| Ok::<_, Error>(a.maybe(name, Args::f64)?.unwrap_or(0.0));
    let bins = a.maybe("bins", Args::size)?.unwrap_or(100);
    Ok(vec![histc(a.input("x")?, bins, number("min")?, number("max")?)?])
}
