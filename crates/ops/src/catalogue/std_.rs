//! std: the square root of the variance. Its gradient is 0 where it is 0.

use super::{sum, var};
use crate::prelude::*;
use crate::rows::STATS;

/// Statistics: those of the variance.
#[derive(Clone, Copy, Debug)]
pub struct Std {
    /// The variance under the root.
    pub var: var::Var,
}

/// g / y, but 0 at y = 0.
#[derive(Clone, Copy, Debug)]
struct Slope;

impl Map<2> for Slope {
    const NAME: &'static str = "std";
    #[inline(always)]
    fn lane<L: Lane>(&self, [y, g]: [L; 2]) -> L {
        L::select(y.eq(L::lit(0.0)), L::lit(0.0), g / y)
    }
}
compile_map! { 2 Slope; }

impl RowFormula<1> for Std {
    const NAME: &'static str = "std";
    const FOLDS: &'static [Fold] = <var::Var as RowFormula<1>>::FOLDS;
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Once;
    const SAVES: Saves = Saves::BOTH;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, x: [L; 1], s: [L; STATS], n: L) -> L {
        self.var.term(k, x, s, n)
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, s: [L; STATS], n: L) -> L {
        self.var.finish(k, folded, s, n)
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 1], s: [L; STATS], n: L) -> L {
        self.var.mean_square(s, n).sqrt() / s[1]
    }
}
impl Rows<1> for Std {
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        let scale = 1.0 / var::divisor(c.shape(0), axes, self.var.correction);
        let slope = map(Slope, [c.y(0), g])?;
        Ok(vec![Some(var::centered(axes, c.x(0), &slope, scale)?)])
    }
}
compile_rows! { 1 Std; }

/// The standard deviation over `dims` (all axes if `None` or empty): the square root of the
/// variance.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `DTypeMismatch` if x is not of floats;
/// `OutOfMemory`.
pub fn std_<V: Value>(x: &V, dims: Option<&[isize]>, correction: f64, keepdim: bool) -> Result<V> {
    let axes = sum::axes("std", x.shape(), dims)?;
    let y = rows(Std { var: var::Var { correction } }, &axes, [x])?;
    sum::drop_axes(y, &axes, keepdim)
}

/// By name: operand x; attributes dim (null, an axis or a list), correction and keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    Ok(vec![std_(a.input("x")?, dims.as_deref(), a.f64("correction")?, a.bool("keepdim")?)?])
}
