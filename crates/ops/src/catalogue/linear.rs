//! linear: a layer's x @ weight^T + bias, with the bias added before the one rounding of f16 and
//! bf16.

use super::matmul::{Matmul, precision};
use super::{add, matmul, reshape, sum, transpose, view};
use crate::array;
use crate::prelude::*;

/// `y[m, n]` = sum over k of `x[m, k] * weight[n, k]`, plus `bias[n]` if there is a third operand.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    /// The precision of the sums, also of its gradients.
    pub precision: Precision,
}

impl Op for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::INPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        array::one_device("linear", x)?;
        let (device, m, n) = (x[0].device(), x[0].shape()[0], x[1].shape()[0]);
        let (rows, columns) = (x[0].layout().unsqueeze(0), x[1].layout().transpose(0, 1).unsqueeze(0));
        let (rows, columns) = (x[0].view_as(&rows), x[1].view_as(&columns));
        let buffer = match x.get(2) {
            None => B::contract(device, self.precision, rows, columns, None, &[])?,
            Some(bias) => {
                let bias = bias.broadcast_to(&Shape::new(&[1, m, n])?, "linear")?;
                let add = AddBias::object(&Compiled(AddBias));
                B::contract(device, self.precision, rows, columns, Some(add), &[bias.view()])?
            }
        };
        Ok(Outputs::from_buf([Array::new(device, buffer, Shape::new(&[m, n])?, x[0].dtype())]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("linear has one result");
        let product = Matmul { precision: self.precision };
        let dx = c.want(0, || V::apply(product, &[g, c.x(1)]))?;
        let dw = c.want(1, || V::apply(product, &[&transpose(g, 0, 1)?, c.x(0)]))?;
        let mut all = vec![dx, dw];
        if c.len() == 3 {
            all.push(c.want(2, || sum::gradient_to(g, c.shape(2)))?);
        }
        Ok(all)
    }
}

/// `x[.., in] @ weight[out, in]^T + bias[out]`: `[.., out]`. With a weight \[in\], and a bias of
/// shape [], the result has no last axis: \[..\]. Storage floats are rounded once, after the bias;
/// integers wrap.
///
/// # Errors
/// `ShapeMismatch` if the sizes do not fit; `DTypeMismatch`, also for bool; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn linear<V: Value>(x: &V, weight: &V, bias: Option<&V>) -> Result<V> {
    autocast!("linear", x, weight; bias => linear(x, weight, bias));
    let (xs, ws) = (x.shape(), weight.shape());
    if let (&[_], true) = (&ws[..], xs.rank() > 0) {
        return one_output(x, weight, bias);
    }
    let (Some(&k), &[n, inner]) = (xs.last(), &ws[..]) else {
        return Err(Error::shape(format!(
            "linear: x {xs}, weight {ws}; they must be [.., in] and [out, in]"
        )));
    };
    if k != inner {
        return Err(Error::shape(format!(
            "linear: x {xs}, weight {ws}; the last sizes are {k} and {inner}, and must be equal"
        )));
    }
    if let Some(b) = bias.filter(|b| b.shape().dims() != [n]) {
        return Err(Error::shape(format!("linear: bias {} for weight {ws}; it must be [{n}]", b.shape())));
    }
    let operands: Vec<&V> = [x, weight].into_iter().chain(bias).collect();
    let dtype = view::same_dtype("linear", &operands)?;
    if !dtype.is_float() {
        let product = matmul(x, &transpose(weight, 0, 1)?).map_err(|e| e.at("linear"))?;
        return bias.map_or(Ok(product.clone()), |b| add(&product, b));
    }
    let rows = xs[..xs.rank() - 1].iter().product();
    let flat = reshape::to_shape(x, &Shape::new(&[rows, k])?)?;
    let operands: Vec<&V> = [&flat, weight].into_iter().chain(bias).collect();
    reshape::to_shape(&V::apply(Linear { precision: precision(x) }, &operands)?, &view::resized(xs, xs.rank() - 1, n)?)
}

/// `x[.., in] @ weight[in] + bias[]`: `[..]`.
fn one_output<V: Value>(x: &V, weight: &V, bias: Option<&V>) -> Result<V> {
    let xs = x.shape();
    if let Some(b) = bias.filter(|b| b.shape().rank() > 0) {
        return Err(Error::shape(format!(
            "linear: bias {} for weight {}; it must be []",
            b.shape(),
            weight.shape()
        )));
    }
    let row = reshape::to_shape(weight, &Shape::new(&[1, weight.shape()[0]])?)?;
    let bias = bias.map(|b| reshape::to_shape(b, &Shape::new(&[1])?)).transpose()?;
    let y = linear(x, &row, bias.as_ref())?;
    reshape::to_shape(&y, &Shape::new(&xs[..xs.rank() - 1])?)
}

/// By name: operands x, weight and, if there is one, bias.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![linear(a.input("x")?, a.input("weight")?, a.optional("bias"))?])
}
