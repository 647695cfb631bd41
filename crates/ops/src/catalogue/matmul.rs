//! matmul: NumPy's matrix product: vectors, matrices, batches that broadcast. K = 0 gives zeros.
//!
//! One chain of fma per chunk of K, see `elinvar_core::order::contract`.

use super::{reshape, sum, transpose, view};
use crate::array::{self, Laid};
use crate::prelude::*;

/// y[b.., m, n] = sum over k of x[b.., m, k] * w[b.., k, n]; both operands have rank 2 at least,
/// batches broadcast.
#[derive(Clone, Copy, Debug)]
pub struct Matmul {
    /// The precision of the sums, also of its gradients.
    pub precision: Precision,
}

impl Matmul {
    /// With the precision of the scope, or else of the device.
    pub fn with<V: Value>(x: &V) -> Matmul {
        Matmul { precision: precision(x) }
    }
}

/// The precision of the scope, or else of the device.
pub(super) fn precision<V: Value>(x: &V) -> Precision {
    Precision::of_scope().unwrap_or_else(|| V::B::precision(x.device()))
}

impl Op for Matmul {
    fn name(&self) -> &'static str {
        "matmul"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::INPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let [x, w] = [x[0], x[1]];
        array::one_device("matmul", &[x, w])?;
        if x.dtype() != w.dtype() || x.dtype() == DType::Bool {
            return Err(Error::dtype(format!(
                "matmul: operands are {} and {}; they must be of one type, and not bool",
                x.dtype(),
                w.dtype()
            )));
        }
        let (xs, ws) = (x.shape(), w.shape());
        let (r, s) = (xs.rank() - 2, ws.rank() - 2);
        let (m, k, n) = (xs[r], xs[r + 1], ws[s + 1]);
        if k != ws[s] {
            return Err(Error::shape(format!(
                "matmul: inner sizes differ: left {xs}, right {ws}; {k} and {} must be equal",
                ws[s]
            )));
        }
        let (xf, wf, out) = if (r, s) == (0, 0) {
            // No batches: skip the broadcast, whose cost is that of a small product.
            let flat = |x: &Array<B>| x.layout().unsqueeze(0);
            (Laid::Here(x, flat(x)), Laid::Here(w, flat(w)), Shape::new(&[m, n])?)
        } else {
            let batch = Shape::new(&xs[..r])?.broadcast(&Shape::new(&ws[..s])?, "matmul")?;
            let b = batch.numel();
            let shape = |rest: [usize; 2]| {
                let mut d = Dims::from_slice(&batch);
                d.extend(rest);
                Shape::new(&d)
            };
            // Strides of 0 survive where the batch is broadcast as a whole; other mixtures are
            // copied.
            let flat = |[rows, cols]: [usize; 2]| Shape::new(&[b, rows, cols]);
            (
                x.laid_as(&shape([m, k])?, &flat([m, k])?, "matmul")?,
                w.laid_as(&shape([k, n])?, &flat([k, n])?, "matmul")?,
                shape([m, n])?,
            )
        };
        let buffer = B::contract(x.device(), self.precision, xf.view(), wf.view(), None, &[])?;
        Ok(Outputs::from_buf([Array::new(x.device(), buffer, out, x.dtype())]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("matmul has one result");
        let turned = |v: &V| transpose(v, -1, -2);
        let dx = c.want(0, || product_to(*self, g, &turned(c.x(1))?, c.shape(0)))?;
        let dw = c.want(1, || product_to(*self, &turned(c.x(0))?, g, c.shape(1)))?;
        Ok(vec![dx, dw])
    }
}

/// The product summed over the batches that `shape` does not have; storage floats are rounded once,
/// after that sum.
fn product_to<V: Value>(op: Matmul, x: &V, w: &V, shape: &Shape) -> Result<V> {
    let r = x.shape().rank().max(w.shape().rank()) - 2;
    let batches: usize = shape[..shape.rank() - 2].iter().product();
    let all = |v: &V| v.shape()[..v.shape().rank() - 2].iter().product::<usize>();
    if shape.rank() == r + 2 && batches == all(x).max(all(w)) {
        return sum::gradient_to(&V::apply(op, &[x, w])?, shape);
    }
    widen([x, w], |[x, w]| sum::gradient_to(&V::apply(op, &[x, w])?, shape))
}

/// NumPy's matrix product: x[b.., m, k] * w[b.., k, n] gives y[b.., m, n]; a vector is a row on the
/// left and a column on the right, and that axis is dropped from the result.
///
/// # Errors
/// `ShapeMismatch` if the inner sizes differ, the batches do not broadcast, or an operand is a
/// scalar; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn matmul<V: Value>(x: &V, w: &V) -> Result<V> {
    autocast!("matmul", x, w => matmul(x, w));
    if x.shape().rank() == 0 || w.shape().rank() == 0 {
        return Err(Error::shape(format!(
            "matmul: operands of shapes {} and {}; a scalar has nothing to contract, use mul",
            x.shape(),
            w.shape()
        )));
    }
    if (x.shape().rank(), w.shape().rank()) == (2, 2) {
        return V::apply(Matmul::with(x), &[x, w]);
    }
    let (vx, vw) = (x.shape().rank() == 1, w.shape().rank() == 1);
    let row = if vx { reshape::to_shape(x, &Shape::new(&[1, x.shape()[0]])?)? } else { x.clone() };
    let col = if vw { reshape::to_shape(w, &Shape::new(&[w.shape()[0], 1])?)? } else { w.clone() };
    let y = if row.shape().rank() > 2 && col.shape().rank() == 2 {
        // One matrix for all batches: the batches are more rows of one product, and so is the
        // gradient.
        let (k, lead) = (row.shape().rank() - 1, row.shape()[..row.shape().rank() - 1].iter().product());
        let flat = reshape::to_shape(&row, &Shape::new(&[lead, row.shape()[k]])?)?;
        let y = V::apply(Matmul::with(x), &[&flat, &col])?;
        reshape::to_shape(&y, &view::resized(row.shape(), k, col.shape()[1])?)?
    } else {
        V::apply(Matmul::with(x), &[&row, &col])?
    };
    let rank = y.shape().rank();
    let mut gone = Dims::new();
    if vx {
        gone.push(rank - 2);
    }
    if vw {
        gone.push(rank - 1);
    }
    sum::drop_axes(y, &gone, false)
}

/// By name: operands x and y.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![matmul(a.input("x")?, a.input("y")?)?])
}
