//! amax: the largest element. NaN wins; +0 is larger than -0. Equal elements share the gradient.

use super::{cast, div, sum, view, where_};
use crate::fold::{self, Folding};
use crate::prelude::*;

/// The largest or smallest element over `axes`, which stay with size 1.
#[derive(Clone, Debug)]
pub struct Extreme<F> {
    /// [`fold::Max`] or [`fold::Min`].
    pub fold: F,
    /// The reduced axes.
    pub axes: Dims,
}

/// Is x equal to the extreme y?
#[derive(Clone, Copy, Debug)]
struct Won;

impl Map<2> for Won {
    const NAME: &'static str = "amax";
    const OUT: Out = Out::Bool;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        L::from_mask(x.eq(y) | (x.is_nan() & y.is_nan()))
    }
}
compile_map! { 2 Won; }

impl<F: Folding> Op for Extreme<F> {
    fn name(&self) -> &'static str {
        "amax"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::BOTH
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok(Outputs::from_buf([sum::fold(self.fold, x[0], &self.axes)?]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a fold has one result");
        let won = map(Won, [c.x(0), c.y(0)])?;
        let winners = sum(&won, Some(&sum::as_dims(&self.axes)), true)?;
        // In f32 for storage floats, where a count of 65,520 is infinite in f16 and one of 257 is
        // rounded in bf16.
        let share = widen([g], |[g]| div(g, &cast(&winners, g.dtype())?))?;
        Ok(vec![Some(where_(&won, &share, &view::zeros(g, &Shape::scalar())?)?)])
    }
}

/// Runs amax or amin.
///
/// # Errors
/// As [`amax`].
pub(super) fn run<V: Value>(
    op: &str,
    fold: impl Folding,
    x: &V,
    dims: Option<&[isize]>,
    keepdim: bool,
) -> Result<V> {
    let axes = sum::axes(op, x.shape(), dims)?;
    sum::not_empty(op, x.shape(), &axes)?;
    let y = V::apply(Extreme { fold, axes: axes.clone() }, &[x])?;
    sum::drop_axes(y, &axes, keepdim)
}

/// The largest element over `dims` (all axes if `None` or empty). NaN wins. Equal elements share
/// the gradient equally.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or it is empty; `OutOfMemory`.
pub fn amax<V: Value>(x: &V, dims: Option<&[isize]>, keepdim: bool) -> Result<V> {
    run("amax", fold::Max, x, dims, keepdim)
}

/// By name: operand x; attributes dim (null, an axis or a list) and keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    Ok(vec![amax(a.input("x")?, dims.as_deref(), a.bool("keepdim")?)?])
}
