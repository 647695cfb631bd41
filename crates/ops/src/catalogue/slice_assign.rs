//! slice_assign: a tensor with a part of it replaced, as Python's `x[start:stop:step] = src`,
//! without writing to x.

use super::slice::{Range, Run};
use super::view::{self, Part};
use crate::array;
use crate::autocast;
use crate::prelude::*;
use smallvec::SmallVec;

/// A part of the first operand replaced by the second, which has the part's shape.
#[derive(Clone, Debug)]
pub struct SliceAssign {
    /// Which part.
    pub part: Part,
}

impl Op for SliceAssign {
    fn name(&self) -> &'static str {
        "slice_assign"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let [x, src] = [x[0], x[1]];
        array::one_device("slice_assign", &[x, src])?;
        let whole = Layout::contiguous(x.shape().clone());
        let part = self.part.layout(&whole);
        let parts = [(x.view(), whole), (src.view(), part)];
        let buffer = B::assemble(x.device(), Scalar::Int(0), x.dtype(), x.shape(), &parts)?;
        Ok(Outputs::from_iter([Array::new(x.device(), buffer, x.shape().clone(), x.dtype())]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("an assignment has one result");
        let zeros = || crate::value::broadcast(&g.scalar_like(0.0)?, c.shape(1));
        Ok(vec![
            c.want(0, || V::apply(self.clone(), &[g, &zeros()?]))?,
            c.want(1, || view::take(g, self.part.clone()))?,
        ])
    }
}

/// `x` with the elements that a run of each axis reaches replaced by `src`, which is broadcast to
/// them; axes without a run stay whole.
///
/// # Errors
/// `InvalidArgument` if there are more runs than axes, or one leaves its axis; `ShapeMismatch` if
/// `src` does not broadcast to the part; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn runs<V: Value>(x: &V, runs: &[Run], src: &V) -> Result<V> {
    if V::autocast().is_some() {
        return autocast::run("slice_assign", [x, src], |[x, src]| self::runs(x, runs, src));
    }
    if x.dtype() != src.dtype() {
        return Err(Error::dtype(format!(
            "slice_assign: a tensor of {} cannot take elements of {}; convert one with to_dtype",
            x.dtype(),
            src.dtype()
        )));
    }
    // Reading the part first checks the runs.
    let shape = super::slice::runs(&x.detached(), runs)?.shape().clone();
    let all: SmallVec<[Run; 4]> =
        (0..x.shape().rank()).map(|i| runs.get(i).copied().unwrap_or(Run::all(x.shape()[i]))).collect();
    let misfit = |_| {
        Error::shape(format!("slice_assign: src {} does not broadcast to the part {shape}", src.shape()))
    };
    let src = crate::value::broadcast(src, &shape).map_err(misfit)?;
    V::apply(SliceAssign { part: Part::Slice(all) }, &[x, &src])
}

/// `x` with `x[ranges[0], ranges[1], ..]` replaced by `src`, which is broadcast to it.
///
/// # Errors
/// `InvalidArgument` if there are more ranges than axes, or a step is 0; `ShapeMismatch` if `src`
/// does not broadcast to the part; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn slice_assign<V: Value>(x: &V, ranges: &[Range], src: &V) -> Result<V> {
    let sizes = x.shape().iter().copied().chain(std::iter::repeat(0));
    let all = ranges.iter().zip(sizes).map(|(r, n)| r.resolve(n)).collect::<Result<Vec<_>>>()?;
    runs(x, &all, src)
}

/// By name: operands x and src; attribute slices, per axis null or [start, stop, step] with null
/// parts.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let ranges = super::slice::ranges(a)?;
    Ok(vec![slice_assign(a.input("x")?, &ranges, a.input("src")?)?])
}
