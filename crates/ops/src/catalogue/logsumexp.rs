//! logsumexp: log(sum(exp(x))), with the maximum subtracted so that nothing overflows. All -inf, or
//! empty: -inf.

use super::sum;
use crate::prelude::*;
use crate::rows::STATS;

/// Statistics: the maximum, or 0 if it is infinite; then the sum of exp(x - maximum).
#[derive(Clone, Copy, Debug)]
pub struct LogSumExp;

/// g * exp(x - y): the share of each element in the sum.
#[derive(Clone, Copy, Debug)]
struct Share;

impl Map<3> for Share {
    const NAME: &'static str = "logsumexp";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y, g]: [L; 3]) -> L {
        g * (x - y).exp()
    }
}
compile_map! { 3 Share; }

impl RowFormula<1> for LogSumExp {
    const NAME: &'static str = "logsumexp";
    const FOLDS: &'static [Fold] = &[Fold::Max, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Once;
    const SAVES: Saves = Saves::BOTH;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x]: [L; 1], s: [L; STATS], _: L) -> L {
        if k == 0 { x } else { (x - s[0]).exp() }
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], _: L) -> L {
        if k == 0 { L::select(folded.abs().eq(L::lit(f64::INFINITY)), L::lit(0.0), folded) } else { folded }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 1], s: [L; STATS], _: L) -> L {
        s[1].log() + s[0]
    }
}
impl Rows<1> for LogSumExp {
    fn backward<V: Value>(&self, _: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        Ok(vec![Some(map(Share, [c.x(0), c.y(0), g])?)])
    }
}
compile_rows! { 1 LogSumExp; }

/// log(sum(exp(x))) over `dims` (all axes if `None` or empty), without overflow.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `DTypeMismatch` if x is not of floats;
/// `OutOfMemory`.
pub fn logsumexp<V: Value>(x: &V, dims: Option<&[isize]>, keepdim: bool) -> Result<V> {
    let axes = sum::axes("logsumexp", x.shape(), dims)?;
    sum::drop_axes(rows(LogSumExp, &axes, [x])?, &axes, keepdim)
}

/// By name: operand x; attributes dim (null, an axis or a list) and keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    Ok(vec![logsumexp(a.input("x")?, dims.as_deref(), a.bool("keepdim")?)?])
}
