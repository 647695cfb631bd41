//! cumprod: prefix products along an axis, in the canonical order of scans. Integers and bool
//! multiply to i64.
//!
//! The gradient does not divide, so zeros among the factors are exact, in it and in its own
//! gradient.

use super::cumsum::scan;
use super::gather::at_least_1d;
use super::{add, concat, flip, mul, narrow, reshape, view};
use crate::prelude::*;
use crate::value::cast;

/// Prefix products along `axis`.
#[derive(Clone, Copy, Debug)]
pub struct CumProd {
    /// The axis.
    pub axis: usize,
}

impl Op for CumProd {
    fn name(&self) -> &'static str {
        "cumprod"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::INPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok(Outputs::from_iter([scan(x[0], Scan::Prod, self.axis, false)?]))
    }
    /// dx_i = (x_0 .. x_(i-1)) r_i with r_i = sum over k >= i of g_k x_(i+1) .. x_k.
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a scan has one result");
        let wide = g.dtype().compute();
        let (x, g) = (cast(c.x(0), wide)?, cast(g, wide)?);
        let dx = mul(&before(&x, self.axis)?, &suffix(&x, &g, self.axis)?)?;
        Ok(vec![Some(cast(&dx, c.dtype(0))?)])
    }
}

/// The product of all elements along `axis` before each one; 1 for the first.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn before<V: Value>(x: &V, axis: usize) -> Result<V> {
    let n = x.shape()[axis];
    if n == 0 {
        return Ok(x.clone());
    }
    let one = view::full(x, &view::resized(x.shape(), axis, 1)?, Scalar::Int(1))?;
    let products = V::apply(CumProd { axis }, &[&narrow::run(x, axis, 0, n - 1)?])?;
    concat(&[&one, &products], axis as isize)
}

/// The product of all elements along `axis` after each one; 1 for the last.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn after<V: Value>(x: &V, axis: usize) -> Result<V> {
    let dims = [axis as isize];
    flip(&before(&flip(x, &dims)?, axis)?, &dims)
}

/// r_i = g_i + x_(i+1) r_(i+1), from the end. By doubling: each pass adds the element `step` ahead,
/// times the factors in between.
fn suffix<V: Value>(x: &V, g: &V, axis: usize) -> Result<V> {
    let n = x.shape()[axis];
    let (mut r, mut step) = (g.clone(), 1);
    // Factor i leads from element i + step to i.
    let mut factor = if n > 1 { narrow::run(x, axis, 1, n - 1)? } else { x.clone() };
    while step < n {
        let head = n - step;
        let ahead = mul(&factor, &narrow::run(&r, axis, step, head)?)?;
        let seen = add(&narrow::run(&r, axis, 0, head)?, &ahead)?;
        r = concat(&[&seen, &narrow::run(&r, axis, head, step)?], axis as isize)?;
        if 2 * step < n {
            let left = n - 2 * step;
            factor = mul(&narrow::run(&factor, axis, 0, left)?, &narrow::run(&factor, axis, step, left)?)?;
        }
        step *= 2;
    }
    Ok(r)
}

/// The products of all elements of `x` along `dim` up to each one. Integers and bool multiply to
/// i64.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `OutOfMemory`.
pub fn cumprod<V: Value>(x: &V, dim: isize) -> Result<V> {
    let axis = x.shape().axis("cumprod", dim)?;
    let y = V::apply(CumProd { axis }, &[&at_least_1d(x)?])?;
    reshape::to_shape(&y, x.shape())
}

/// By name: operand x; attribute dim; and dtype
/// (null: its own), in which it runs.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![cumprod(&a.converted()?, a.dim("dim")?)?])
}
