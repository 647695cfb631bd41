//! cumsum: prefix sums along an axis, in the canonical order of scans. Integers and bool sum to
//! i64.

use super::gather::at_least_1d;
use super::{permute, reshape};
use crate::prelude::*;
use crate::rows::rows_last;

/// Prefix sums along `axis`, or suffix sums.
#[derive(Clone, Copy, Debug)]
pub struct CumSum {
    /// The axis.
    pub axis: usize,
    /// From the end?
    pub reverse: bool,
}

impl Op for CumSum {
    fn name(&self) -> &'static str {
        "cumsum"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok(Outputs::from_iter([scan(x[0], Scan::Sum, self.axis, self.reverse)?]))
    }
    fn backward<V: Value>(&self, _: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a scan has one result");
        Ok(vec![Some(V::apply(CumSum { reverse: !self.reverse, ..*self }, &[g])?)])
    }
}

/// Scans an array along an axis, from its start or its end.
pub(super) fn scan<B: Backend>(x: &Array<B>, s: Scan, axis: usize, reverse: bool) -> Result<Array<B>> {
    let to = if x.dtype().is_float() { x.dtype() } else { DType::I64 };
    let order = rows_last(x.shape(), &[axis]);
    let turn = |l: &Layout| if reverse { l.flip(axis) } else { l.clone() };
    let layout = turn(x.layout()).permute(&order);
    let y = B::scan(x.device(), s, x.view_as(&layout), to)?;
    let y = Array::placed(x.device(), y, layout.shape().clone(), to);
    Ok(y.with_layout(turn(&y.layout().permute(&permute::inverse(&order)))))
}

/// The sums of all elements of `x` along `dim` up to each one. Integers and bool sum to i64.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `OutOfMemory`.
pub fn cumsum<V: Value>(x: &V, dim: isize) -> Result<V> {
    let axis = x.shape().axis("cumsum", dim)?;
    let y = V::apply(CumSum { axis, reverse: false }, &[&at_least_1d(x)?])?;
    reshape::to_shape(&y, x.shape())
}

/// By name: operand x; attribute dim; and dtype
/// (null: its own), in which it runs.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![cumsum(&a.converted()?, a.dim("dim")?)?])
}
