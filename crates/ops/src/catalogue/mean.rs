//! mean: the sum, in the canonical order, divided by the number of elements. Empty: NaN.

use super::{div, expand, sum};
use crate::prelude::*;
use crate::rows::STATS;

/// Statistic: the sum.
#[derive(Clone, Copy, Debug)]
pub struct Mean;

impl RowFormula<1> for Mean {
    const NAME: &'static str = "mean";
    const FOLDS: &'static [Fold] = &[Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Once;
    const SAVES: Saves = Saves::NOTHING;

    #[inline(always)]
    fn term<L: Lane>(&self, _: usize, [x]: [L; 1], _: [L; STATS], _: L) -> L {
        x
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 1], s: [L; STATS], n: L) -> L {
        s[0] / n
    }
}
impl Rows<1> for Mean {
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        let n = g.scalar_like(sum::row_len(c.shape(0), axes))?;
        Ok(vec![Some(expand(&div(g, &n)?, c.shape(0))?)])
    }
}
compile_rows! { 1 Mean; }

/// The mean over `dims` (all axes if `None` or empty).
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `DTypeMismatch` if x is not of floats;
/// `OutOfMemory`.
pub fn mean<V: Value>(x: &V, dims: Option<&[isize]>, keepdim: bool) -> Result<V> {
    let axes = sum::axes("mean", x.shape(), dims)?;
    sum::drop_axes(rows(Mean, &axes, [x])?, &axes, keepdim)
}

/// By name: operand x; attributes dim (null, an axis or a list) and keepdim; and dtype
/// (null: its own), in which it runs.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    Ok(vec![mean(&a.converted()?, dims.as_deref(), a.bool("keepdim")?)?])
}
