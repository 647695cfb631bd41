//! index_add: slices added along an axis at the indices in a vector. Repeated indices add one by
//! one, in order.

use super::gather::at_least_1d;
use super::scatter::ScatterOp;
use super::{index_select, reshape, view};
use crate::prelude::*;
use crate::value::widen;

/// A copy of `x` to which `alpha * src` is added: slice `i` of `src` along `dim` to slice
/// `index[i]`. `src` agrees with `x` in all other axes. Storage floats run in f32 and are rounded
/// once.
///
/// # Errors
/// `InvalidArgument` if there is no such axis or an index is not in `0..size`; `ShapeMismatch`;
/// `DTypeMismatch`, also if alpha does not fit x; `DeviceMismatch`; `OutOfMemory`.
pub fn index_add<V: Value>(x: &V, dim: isize, index: &V, src: &V, alpha: impl Into<Scalar>) -> Result<V> {
    let alpha = alpha.into();
    view::same_dtype("index_add", &[x, src])?;
    alpha.fits(x.dtype()).map_err(|e| e.at("index_add"))?;
    let axis = x.shape().axis("index_add", dim)?;
    let (base, from) = (at_least_1d(x)?, at_least_1d(src)?);
    let at = index_select::spread("index_add", base.shape(), axis, index)?;
    if from.shape() != at.shape() {
        return Err(Error::shape(format!(
            "index_add: a source of shape {} for shape {} and {} indices along axis {axis}; it must be {}",
            src.shape(),
            x.shape(),
            index.shape().numel(),
            at.shape()
        )));
    }
    let add = |base: &V, from: &V| {
        V::apply(ScatterOp { how: Scatter::Add, axis }, &[base, &at, from]).map_err(|e| e.at("index_add"))
    };
    let y = if alpha.to_f64() == 1.0 {
        add(&base, &from)?
    } else {
        widen([&base, &from], |[base, from]| add(base, &super::mul(from, &from.scalar_like(alpha)?)?))?
    };
    reshape::to_shape(&y, x.shape())
}

/// By name: operands x, index and src; attributes dim and alpha.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let alpha = a.maybe("alpha", Args::scalar)?.unwrap_or(Scalar::Int(1));
    Ok(vec![index_add(a.input("x")?, a.dim("dim")?, a.input("index")?, a.input("src")?, alpha)?])
}
