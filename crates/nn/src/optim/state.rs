//! What optimisers keep per parameter, and the walk over the parameters that all of them take.

use crate::{Module, Param};
use elinvar_core::{DType, Element, Error, HostData, HostTensor, Layout, Result, Scalar, Shape, each_data};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_tensor::{Gradients, Tensor};
use std::collections::BTreeMap;

/// What an optimiser keeps for one parameter.
#[derive(Clone, Debug)]
pub struct ParamState<B: Backend> {
    /// Number of steps that the parameter has made.
    pub step: u64,
    /// Tensors of the parameter's shape by PyTorch's names: `momentum_buffer`, `exp_avg`, ...
    pub tensors: BTreeMap<&'static str, Array<B>>,
}

impl<B: Backend> Default for ParamState<B> {
    fn default() -> Self {
        ParamState { step: 0, tensors: BTreeMap::new() }
    }
}

impl<B: Backend> ParamState<B> {
    /// The tensor of this name; zeros before the first step.
    pub(super) fn or_zeros(&self, name: &str, like: &Array<B>) -> Result<Array<B>> {
        match self.tensors.get(name) {
            Some(t) => Ok(t.clone()),
            None => Array::full(like.device(), like.shape(), Scalar::Float(0.0), like.dtype()),
        }
    }
}

/// The states of all parameters, by name.
#[derive(Clone, Debug)]
pub struct States<B: Backend> {
    by_name: BTreeMap<String, ParamState<B>>,
}

impl<B: Backend> Default for States<B> {
    fn default() -> Self {
        States { by_name: BTreeMap::new() }
    }
}

impl<B: Backend> States<B> {
    /// The states with the names of their parameters.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ParamState<B>)> {
        self.by_name.iter().map(|(n, s)| (n.as_str(), s))
    }
    /// The state of a parameter that has made a step.
    pub fn get(&self, name: &str) -> Option<&ParamState<B>> {
        self.by_name.get(name)
    }
    /// Puts a parameter's state in its place: one that was saved, say.
    pub fn insert(&mut self, name: String, state: ParamState<B>) {
        self.by_name.insert(name, state);
    }

    /// Runs `update` on every parameter that is to be trained and has a gradient: parameter and gradient in the type
    /// in which they are computed, the state, with its step counted; it gives the parameter's new value.
    pub(super) fn each(
        &mut self,
        op: &str,
        module: &dyn Module<B>,
        gradients: &Gradients<B>,
        mut update: impl FnMut(&Array<B>, &Array<B>, &mut ParamState<B>) -> Result<Array<B>>,
    ) -> Result<()> {
        let trained: Vec<_> = module.named_parameters().into_iter().filter(|(_, p)| !p.is_frozen()).collect();
        let mut any = false;
        for (name, p) in &trained {
            let value = p.get();
            let Some(g) = gradients.get(&value) else { continue };
            any = true;
            self.one(name, p, &value, g, &mut update).map_err(|e| e.at(name).at(op))?;
        }
        if !any && !trained.is_empty() {
            return Err(Error::autograd(format!(
                "{op}: none of the {} parameters has a gradient here; gradients belong to the weights that they were \
                 computed from, and a step makes new ones",
                trained.len()
            )));
        }
        Ok(())
    }
    fn one(
        &mut self,
        name: &str,
        p: &Param<B>,
        value: &Tensor<B>,
        g: &Tensor<B>,
        update: &mut impl FnMut(&Array<B>, &Array<B>, &mut ParamState<B>) -> Result<Array<B>>,
    ) -> Result<()> {
        if (g.shape(), g.dtype()) != (value.shape(), value.dtype()) {
            return Err(Error::shape(format!(
                "the gradient is {} {}, the parameter {} {}",
                g.dtype(),
                g.shape(),
                value.dtype(),
                value.shape()
            )));
        }
        let wide = value.dtype().compute();
        let (x, g) = (value.array().cast(wide)?, g.array().cast(wide)?);
        // The state changes only once nothing can go wrong any more.
        let mut state = self.by_name.get(name).cloned().unwrap_or_default();
        state.step += 1;
        if let Some((key, t)) =
            state.tensors.iter().find(|(_, t)| t.shape() != x.shape() || t.dtype() != wide)
        {
            return Err(Error::shape(format!(
                "the optimiser's {key} is {} {}, and should be {wide} {}",
                t.dtype(),
                t.shape(),
                x.shape()
            )));
        }
        for t in state.tensors.values_mut() {
            if t.device() != x.device() {
                *t = Array::from_host(x.device(), t.to_host()?)?;
            }
        }
        let new = update(&x, &g, &mut state)?.cast(value.dtype())?;
        p.set(&Tensor::from_array(new))?;
        self.by_name.insert(name.to_owned(), state);
        Ok(())
    }
}

/// Numbers of this step as operands of shape [], rounded to `like`'s dtype, on its device: one upload for all.
pub(super) fn scalars<B: Backend, const N: usize>(
    like: &Array<B>,
    values: [f64; N],
) -> Result<[Array<B>; N]> {
    let mut data = HostData::full(like.dtype(), N, Scalar::Int(0))?;
    each_data!(&mut data, d => d.iter_mut().zip(values).for_each(|(d, v)| *d = Element::from_f64(v)));
    let all = Array::from_host(like.device(), HostTensor::new(Shape::new(&[N])?, data)?)?;
    let mut views = Vec::with_capacity(N);
    for i in 0..N {
        views.push(all.with_layout(Layout::strided(Shape::scalar(), &[], i, N)?));
    }
    Ok(views.try_into().expect("one view per number"))
}

/// Remembers the scalars of the last (step, dtype, device): parameters mostly make their steps together.
pub(super) struct Memo<B: Backend, const N: usize> {
    last: Option<(u64, DType, B::Device, [Array<B>; N])>,
}

impl<B: Backend, const N: usize> Memo<B, N> {
    pub(super) fn new() -> Self {
        Memo { last: None }
    }
    pub(super) fn get(
        &mut self,
        step: u64,
        like: &Array<B>,
        values: impl Fn() -> [f64; N],
    ) -> Result<[Array<B>; N]> {
        match &self.last {
            Some((s, dtype, device, all))
                if *s == step && *dtype == like.dtype() && device == like.device() =>
            {
                Ok(all.clone())
            }
            _ => {
                let all = scalars(like, values())?;
                self.last = Some((step, like.dtype(), like.device().clone(), all.clone()));
                Ok(all)
            }
        }
    }
}
