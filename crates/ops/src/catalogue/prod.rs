//! prod: the product over some axes, in the canonical order. Empty: 1. Integers and bool multiply
//! to i64.
//!
//! The gradient is the product of the other elements, from prefix and suffix products, so zeros are
//! exact.

use super::{cumprod, mul, permute, reshape, sum};
use crate::fold;
use crate::prelude::*;
use crate::rows::rows_last;
use crate::value::cast;

/// A product over `axes`, which stay with size 1.
#[derive(Clone, Debug)]
pub struct Prod {
    /// The reduced axes.
    pub axes: Dims,
}

impl Op for Prod {
    fn name(&self) -> &'static str {
        "prod"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::INPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok(Outputs::from_iter([sum::fold(fold::Prod, x[0], &self.axes)?]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a product has one result");
        let wide = g.dtype().compute();
        let (x, g) = (cast(c.x(0), wide)?, cast(g, wide)?);
        // The axes as one row at the end.
        let order = rows_last(x.shape(), &self.axes);
        let turned = permute::to_axes(&x, &order)?;
        let kept = x.shape().rank() - self.axes.len();
        let mut dims = Dims::from_slice(&turned.shape()[..kept]);
        dims.push(sum::row_len(x.shape(), &self.axes));
        let row = reshape::to_shape(&turned, &Shape::new(&dims)?)?;
        let others = mul(&cumprod::before(&row, kept)?, &cumprod::after(&row, kept)?)?;
        let back = permute::to_axes(&reshape::to_shape(&others, turned.shape())?, &permute::inverse(&order))?;
        Ok(vec![Some(cast(&mul(&g, &back)?, c.dtype(0))?)])
    }
}

/// The product over `dims` (all axes if `None` or empty). Integers and bool multiply to i64.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `OutOfMemory`.
pub fn prod<V: Value>(x: &V, dims: Option<&[isize]>, keepdim: bool) -> Result<V> {
    autocast!("prod", x => prod(x, dims, keepdim));
    let axes = sum::axes("prod", x.shape(), dims)?;
    let y = V::apply(Prod { axes: axes.clone() }, &[x])?;
    sum::drop_axes(y, &axes, keepdim)
}

/// By name: operand x; attributes dim (null, an axis or a list) and keepdim; and dtype
/// (null: its own), in which it runs.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    Ok(vec![prod(&a.converted()?, dims.as_deref(), a.bool("keepdim")?)?])
}
