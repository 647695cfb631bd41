//! Row-wise ops: statistics of a row, then a value for each element or for each row.
//!
//! Softmax, norms, variance and most losses have this form. Written as formulas over
//! [`Lane`](crate::lane::Lane), they run in one pass of kernels on every backend, with the bits of
//! the same computation written as separate maps and folds: term, fold in the canonical order,
//! finish, next statistic, result.

use crate::array::{self, Array};
use crate::autocast::{self, is_mixed};
use crate::backend::{Backend, Fused, Placed, View};
use crate::op::{Context, Op, Outputs, Saves};
use crate::value::{Value, Widened, gradient_to, references};
use elinvar_core::{DType, Dims, Error, Layout, Result, Shape};
pub use elinvar_lane::formula::{Columns, RowFormula, RowOut, STATS};
use elinvar_simd::compiled::Compiled;
pub use elinvar_simd::compiled_rows::{ColumnsObject, CompiledColumns, CompiledRows, RowObject};
use smallvec::SmallVec;

/// A row-wise op: its formulas, and its gradient.
pub trait Rows<const N: usize>: CompiledRows<N> {
    /// The gradients, as in [`Op::backward`]; `axes` are the axes that make up a row, and `g` has
    /// the result's shape with axes of size 1 kept ([`RowOut::Once`]). All tensors are wide (never
    /// storage floats). A gradient may have the common shape of the operands; it is summed to its
    /// operand's.
    ///
    /// # Errors
    /// `OutOfMemory`, or `Autograd` if there is no gradient.
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>>;
}

/// The gradient of a row-wise op that stands in for a recorded one, which is made of other ops:
/// there is none.
///
/// # Errors
/// `Autograd`, always.
pub(crate) fn stands_in<V>(name: &str) -> Result<Vec<Option<V>>> {
    Err(Error::autograd(format!("{name}: it stands in for the recorded gradient only where nothing records")))
}

/// A row-wise op over chosen axes, on the tape. Results per row keep their axes with size 1; the
/// statistics of a row are a new last axis.
#[derive(Clone, Debug)]
pub struct RowsOp<R, const N: usize> {
    /// The formulas.
    pub rows: R,
    /// The axes that make up a row.
    pub axes: Dims,
}

impl<R: Rows<N>, const N: usize> Op for RowsOp<R, N> {
    fn name(&self) -> &'static str {
        R::NAME
    }
    fn saves(&self, _: DType) -> Saves {
        R::SAVES
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        forward(R::object(&Compiled(self.rows)), &self.axes, x)
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a row-wise op has one result");
        let all = self.rows.backward(&self.axes, c, g)?;
        all.into_iter().enumerate().map(|(i, x)| x.map(|x| gradient_to(&x, c.shape(i))).transpose()).collect()
    }
}

/// The values of a row-wise formula over `axes`.
fn forward<B: Backend>(f: &dyn RowObject, axes: &[usize], x: &[&Array<B>]) -> Result<Outputs<B>> {
    assert!(x.len() == f.arity(), "{}: as many operands as the formula takes", f.name());
    let device = x[0].device();
    let all = array::align(f.name(), x)?;
    let (dtype, shape) = (all.dtype, all.shape());
    if !dtype.is_float() {
        return Err(Error::dtype(format!(
            "{}: not defined for {dtype}; convert with to_dtype to a float type",
            f.name()
        )));
    }
    let order = rows_last(shape, axes);
    let kept = shape.rank() - axes.len();
    let layouts: Layouts = all.views().iter().map(|x| x.layout.permute(&order)).collect();
    let y = B::rows(device, f, &views(x, &layouts), kept, dtype)?;
    Ok(Outputs::from_iter([match f.out() {
        RowOut::Once => Array::placed(device, y, shape.without(axes, true), dtype),
        RowOut::Statistics => {
            let mut dims = Dims::from_slice(&shape.without(axes, true));
            dims.push(f.folds().len());
            Array::placed(device, y, Shape::new(&dims)?, dtype)
        }
        RowOut::Each => each(device, y, &layouts[0], &order, dtype),
    }]))
}

/// The operands of the largest formula fit without an allocation.
type Layouts = SmallVec<[Layout; 5]>;

/// Operands in these layouts.
fn views<'a, B: Backend>(x: &[&'a Array<B>], layouts: &'a [Layout]) -> SmallVec<[View<'a, B>; 5]> {
    x.iter().zip(layouts).map(|(x, layout)| x.view_as(layout)).collect()
}

/// A value for each element, of rows whose axes come last, with the axes in the order that they
/// have in operands.
fn each<B: Backend>(
    device: &B::Device,
    y: Placed<B::Buffer>,
    permuted: &Layout,
    order: &[usize],
    dtype: DType,
) -> Array<B> {
    let y = Array::placed(device, y, permuted.shape().clone(), dtype);
    let mut back = Dims::from_elem(0, order.len());
    order.iter().enumerate().for_each(|(i, &o)| back[o] = i);
    y.with_layout(y.layout().permute(&back))
}

/// The values of a row-wise op over `axes` of operands of f32 or f64, and the first `sums` of its
/// sums over all other axes, which stay with size 1; if the backend has a way to take both at once,
/// or else nothing.
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `ShapeMismatch`, `OutOfMemory`.
pub fn rows_and_columns<B: Backend>(
    f: &dyn ColumnsObject,
    axes: &[usize],
    x: &[&Array<B>],
    sums: usize,
) -> Result<Option<(Array<B>, Vec<Array<B>>)>> {
    let name = f.rows().name();
    debug_assert!(f.rows().out() == RowOut::Each, "{name}: it has no value for each element");
    let device = x[0].device();
    let all = array::align(name, x)?;
    let (dtype, shape) = (all.dtype, all.shape());
    let order = rows_last(shape, axes);
    let kept = shape.rank() - axes.len();
    let layouts: Layouts = all.views().iter().map(|x| x.layout.permute(&order)).collect();
    let work = Fused::RowsAndColumns { f, kept, dtype, sums };
    let Some(all) = B::fused(device, &work, &views(x, &layouts))? else { return Ok(None) };
    let mut all = all.into_iter();
    let y = all.next().expect("the values are the first result");
    let summed = shape.without(&order[..kept], true);
    let sums = all.map(|sum| Array::placed(device, sum, summed.clone(), dtype)).collect();
    Ok(Some((each(device, y, &layouts[0], &order, dtype), sums)))
}

/// The axes of a shape with those of a row moved to the end, both in ascending order.
pub fn rows_last(shape: &Shape, axes: &[usize]) -> Dims {
    let kept = (0..shape.rank()).filter(|a| !axes.contains(a));
    let row = (0..shape.rank()).filter(|a| axes.contains(a));
    kept.chain(row).collect()
}

/// Runs a row-wise op over `axes`, operands broadcast to one shape; a result per row keeps its axes
/// with size 1, and its statistics are a new last axis.
/// Storage floats run in f32 and are rounded once.
///
/// A gradient is computed from operands in f32, so what is recorded is converted before. Otherwise
/// backends convert on the way, to the same bits: on a CPU a layer norm of 4096 x 1024 f16 went
/// through 80 MB of memory with copies in f32, and goes through 16.
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `ShapeMismatch`, `OutOfMemory`.
pub fn rows<V: Value, R: Rows<N>, const N: usize>(r: R, axes: &[usize], x: [&V; N]) -> Result<V> {
    if V::autocast().is_some() && is_mixed(&x) {
        return autocast::run(R::NAME, x, |x| rows(r, axes, x));
    }
    let wide = if is_converted_by_backend(&x) { None } else { Widened::of(&x)? };
    let op = RowsOp { rows: r, axes: Dims::from_slice(axes) };
    let y = V::apply(op, &wide.as_ref().map_or(x, |w| references(&w.operands)))?;
    Widened::narrow(wide.as_ref(), y)
}

/// Are the operands of one storage float, or bool, and nothing is recorded?
fn is_converted_by_backend<V: Value>(x: &[&V]) -> bool {
    let dtype = x[0].dtype();
    dtype.is_storage() && !V::records(x) && x.iter().all(|x| x.dtype() == dtype || x.dtype() == DType::Bool)
}
