//! All parameters as one vector, and what `Lbfgs` computes with such vectors.

use super::super::Named;
use crate::Param;
use elinvar_core::{DType, Error, Result, Scalar, Shape};
use elinvar_ops::Backend;
use elinvar_ops::array::{Array, one_device};
use elinvar_ops::catalogue::{self, abs, add, amax, concat, mul, narrow, sum};
use elinvar_tensor::{Gradients, Tensor};

/// The parameters that are not frozen, each once.
pub(super) struct Vector<'a, B: Backend> {
    all: Vec<&'a Param<B>>,
    /// f64 if one of them is, else f32.
    dtype: DType,
    len: usize,
}

impl<'a, B: Backend> Vector<'a, B> {
    pub(super) fn of(parameters: &Named<'a, B>) -> Result<Self> {
        let mut all: Vec<&Param<B>> = vec![];
        for (_, p) in parameters.iter().filter(|(_, p)| !p.is_frozen()) {
            if !all.iter().any(|other| other.is_shared_with(p)) {
                all.push(p);
            }
        }
        let values: Vec<Tensor<B>> = all.iter().map(|p| p.get()).collect();
        if values.is_empty() {
            return Err(Error::argument("there is no parameter that is not frozen"));
        }
        one_device("lbfgs", &values.iter().map(Tensor::array).collect::<Vec<_>>())?;
        let is_wide = values.iter().any(|v| v.dtype() == DType::F64);
        let len = values.iter().map(Tensor::numel).sum();
        Ok(Vector { all, dtype: if is_wide { DType::F64 } else { DType::F32 }, len })
    }
    /// Is a vector that was kept one of these parameters?
    pub(super) fn check(&self, kept: &Array<B>) -> Result<()> {
        if (kept.shape().numel(), kept.dtype()) == (self.len, self.dtype) {
            return Ok(());
        }
        Err(Error::shape(format!(
            "the state is of {} numbers of {}, and the parameters are {} of {}",
            kept.shape().numel(),
            kept.dtype(),
            self.len,
            self.dtype
        )))
    }
    fn flat(&self, parts: impl Iterator<Item = Result<Array<B>>>) -> Result<Array<B>> {
        let all = parts
            .map(|x| {
                let x = x?;
                x.cast(self.dtype)?.reshape(&Shape::new(&[x.shape().numel()])?)
            })
            .collect::<Result<Vec<_>>>()?;
        concat(&all.iter().collect::<Vec<_>>(), 0)
    }
    /// The values now.
    pub(super) fn now(&self) -> Result<Array<B>> {
        // A copy: a vector of one parameter would be its own memory.
        self.flat(self.all.iter().map(|p| Ok(p.get().array().clone())))?.copy()
    }
    /// Sets the parameters to these values.
    pub(super) fn set(&self, values: &Array<B>) -> Result<()> {
        let mut at = 0;
        for p in &self.all {
            let old = p.get();
            let part = narrow(values, 0, at as isize, old.numel())?;
            at += old.numel();
            p.set(&Tensor::from_array(part.reshape(old.shape())?.cast(old.dtype())?))?;
        }
        Ok(())
    }
    /// The gradients; zeros where there is none.
    pub(super) fn gradient(&self, gradients: &Gradients<B>) -> Result<Array<B>> {
        let mut found = false;
        let parts: Vec<Result<Array<B>>> = self
            .all
            .iter()
            .map(|p| {
                let value = p.get();
                match gradients.get(&value) {
                    Some(g) => {
                        found = true;
                        Ok(g.array().clone())
                    }
                    None => Array::full(value.device(), value.shape(), Scalar::Int(0), value.dtype()),
                }
            })
            .collect();
        if !found {
            return Err(Error::autograd(
                "no parameter has a gradient; the closure evaluates the loss anew, from the present values",
            ));
        }
        self.flat(parts.into_iter())
    }
}

/// The number of an array of one element. Waits for the device.
pub(super) fn number<B: Backend>(x: &Array<B>) -> Result<f64> {
    match x.to_host()?.to_f64_vec()[..] {
        [v] => Ok(v),
        _ => Err(Error::shape(format!("the loss has shape {}, and should be one number", x.shape()))),
    }
}

fn constant<B: Backend>(x: &Array<B>, v: f64) -> Result<Array<B>> {
    Array::scalar(x.device(), Scalar::Float(v), x.dtype())
}

/// v x
pub(super) fn scaled<B: Backend>(x: &Array<B>, v: f64) -> Result<Array<B>> {
    mul(x, &constant(x, v)?)
}

/// x + t d
pub(super) fn moved<B: Backend>(x: &Array<B>, t: f64, d: &Array<B>) -> Result<Array<B>> {
    add(x, &scaled(d, t)?)
}

pub(super) fn dot<B: Backend>(x: &Array<B>, y: &Array<B>) -> Result<f64> {
    number(&catalogue::dot(x, y)?)
}

/// The largest absolute value, 0 of none.
pub(super) fn largest<B: Backend>(x: &Array<B>) -> Result<f64> {
    if x.shape().numel() == 0 { Ok(0.0) } else { number(&amax(&abs(x)?, None, false)?) }
}

/// The sum of absolute values.
pub(super) fn sum_of_sizes<B: Backend>(x: &Array<B>) -> Result<f64> {
    number(&sum(&abs(x)?, None, false)?)
}
