//! histogram: how many elements lie in each of several parts of a range, or the sum of their
//! weights. What is outside of the range is read, which synchronises with the device. No gradient.

use super::{
    aminmax, cast, div::div, flatten, index_select, logical_and, mul, narrow, nonzero, scatter, searchsorted,
    sub, sum, view,
};
use crate::prelude::*;
use crate::recording;
use elinvar_core::host;

/// The parts of a histogram.
#[derive(Clone, Copy, Debug)]
pub enum Bins<'a, V> {
    /// So many of one width, in a range; without one from the smallest element to the largest.
    Count(usize, Option<(f64, f64)>),
    /// A vector of their ends, in ascending order.
    Edges(&'a V),
}

/// `n` parts of a range as `n + 1` edges: counted from the nearer end, so that both are exact.
fn edges<V: Value>(flat: &V, n: usize, range: Option<(f64, f64)>) -> Result<V> {
    let (mut low, mut high) = match range {
        Some(range) => range,
        None if flat.shape().numel() == 0 => (0.0, 0.0),
        None => {
            let (a, b) = aminmax(flat, None, false)?;
            let read = |v: &V| Ok::<_, Error>(v.array().to_host()?.to_f64_vec()[0]);
            (read(&a)?, read(&b)?)
        }
    };
    if low == high {
        (low, high) = (low - 0.5, high + 0.5);
    }
    if n == 0 || !(low < high && (high - low).is_finite()) {
        return Err(Error::argument(format!(
            "histogram: {n} bins from {low} to {high}; there must be one at least, and the ends finite and ascending"
        )));
    }
    let step = (high - low) / n as f64;
    let mut all = host::with_capacity(n.saturating_add(1))?;
    let half = n.div_ceil(2);
    all.extend((0..=n).map(|i| if i < half { low + step * i as f64 } else { high - step * (n - i) as f64 }));
    Ok(V::from_array(Array::from_f64s(flat.device(), all, &[n + 1], flat.dtype())?))
}

/// How many elements of `x`, a float tensor, lie in each part, or the sum of their `weight`;
/// divided by their sum and the part's width if `density`. A part has its lower end, the last one
/// both. Returns that and the edges, in the dtype of `x`.
///
/// # Errors
/// `InvalidArgument` if there are no bins, or a range is not finite and ascending; `ShapeMismatch`
/// if edges are no vector of two or more, or weights are not of the shape of x; `DTypeMismatch`;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn histogram<V: Value>(x: &V, bins: Bins<'_, V>, weight: Option<&V>, density: bool) -> Result<(V, V)> {
    if !x.dtype().is_float() {
        return Err(Error::dtype(format!("histogram: {} are no floats; convert them", x.dtype())));
    }
    recording::refuse("histogram: counting")?;
    let wide = |v: &V| crate::value::cast(&flatten::all(&v.detached())?, x.dtype().compute());
    let flat = wide(x)?;
    let ends = match bins {
        Bins::Count(n, range) => edges(&flat, n, range)?,
        Bins::Edges(ends) if ends.shape().rank() != 1 || ends.shape()[0] < 2 => {
            return Err(Error::shape(format!(
                "histogram: edges of shape {}; they must be a vector of two or more",
                ends.shape()
            )));
        }
        Bins::Edges(ends) => {
            view::same_dtype("histogram", &[x, ends])?;
            wide(ends)?
        }
    };
    if let Some(w) = weight {
        view::same_dtype("histogram", &[x, w])?;
        if w.shape() != x.shape() {
            return Err(Error::shape(format!(
                "histogram: weights of shape {} for shape {}; they must be equal",
                w.shape(),
                x.shape()
            )));
        }
    }
    let n = ends.shape()[0] - 1;
    let (first, last) = (narrow(&ends, 0, 0, 1)?, narrow(&ends, 0, n as isize, 1)?);
    let inside = logical_and(&super::ge(&flat, &first)?, &super::le(&flat, &last)?)?;
    let inside = nonzero::numbers(&inside)?;
    let taken = index_select(&flat, 0, &inside)?;
    let place = searchsorted(&ends, &taken, true).map_err(|e| e.at("histogram"))?;
    let most = place.scalar_like(n)?;
    let place = sub(&super::minimum(&place, &most)?, &place.scalar_like(1i64)?)?;
    let what = match weight {
        Some(w) => index_select(&wide(w)?, 0, &inside)?,
        None => place.full_like(1i64)?,
    };
    let zeros = view::zeros(&what, &Shape::new(&[n])?)?;
    let counts = scatter::run("histogram", Scatter::Add, &zeros, 0, &place, &what)?;
    let mut counts = cast(&counts, flat.dtype())?;
    if density {
        let width = sub(&narrow(&ends, 0, 1, n)?, &narrow(&ends, 0, 0, n)?)?;
        counts = div(&counts, &mul(&width, &sum(&counts, None, false)?)?)?;
    }
    Ok((cast(&counts, x.dtype())?, cast(&ends, x.dtype())?))
}

/// By name: operands x, weight if there is one, and bins (the edges) if they are no number;
/// attributes bins, range (null: that of the elements) and density (absent: false).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let range = a.maybe("range", |a, name| {
        let number = |v: &Attr| match v {
            Attr::Int(v) => Some(*v as f64),
            Attr::Float(v) => Some(*v),
            _ => None,
        };
        match a.list(name)? {
            [low, high] => number(low).zip(number(high)),
            _ => None,
        }
        .ok_or_else(|| Error::argument("histogram: attribute range must be two numbers".to_string()))
    })?;
    let bins = match a.optional("bins") {
        Some(edges) => Bins::Edges(edges),
        None => Bins::Count(a.size("bins")?, range),
    };
    let density = a.maybe("density", Args::bool)?.unwrap_or(false);
    let (counts, edges) = histogram(a.input("x")?, bins, a.optional("weight"), density)?;
    Ok(vec![counts, edges])
}
