//! ZeRO-1: each worker updates a share of the parameters, and has the optimiser's states of those
//! alone.
//!
//! Shares are of whole parameters, in their order. A worker gets the gradients of its own, and
//! gives the others its parameters after the step. What belongs to all gradients together (their
//! norm, whether they are finite) is made of what each worker finds of its own, in the order of the
//! parameters.
//!
//! How it can be wrong: a worker that makes fewer calls to the group than others, because it has
//! nothing of its own. So all that decides about calls is known to every worker.

use super::train_step::{Clip, TrainStep};
use crate::Module;
use crate::optim::{
    Named, Optimizer, check_updated, clip_grad_value, norms, not_negative, of_norms, scale_to, widest,
    with_gradients,
};
use elinvar_core::{DType, HostData, HostTensor, Result, Scalar, Shape};
use elinvar_distributed::{Group, Shares};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_ops::catalogue::{concat, narrow};
use elinvar_tensor::{Gradients, Tensor};

/// The shares of a step.
pub(super) struct Zero<'z> {
    pub shares: &'z Shares,
    pub group: &'z Group,
    /// Has a parameter a gradient, on whichever worker?
    pub updated: &'z [bool],
}

/// Is it so on any worker?
fn on_any<B: Backend>(group: &Group, here: &Array<B>) -> Result<Array<B>> {
    let is_here = here.to_host()?.to_f64_vec().contains(&1.0);
    let all = group.all_reduce_slice(&[i64::from(is_here)])?[0];
    Array::scalar(here.device(), Scalar::Bool(all > 0), DType::Bool)
}

impl Zero<'_> {
    /// This worker's of all parameters.
    fn own<'p, 'a, B: Backend>(&self, parameters: &'p Named<'a, B>) -> &'p Named<'a, B> {
        &parameters[self.shares.of(self.group.rank())]
    }
    /// Shares of `size` numbers for each parameter that is updated.
    fn cut(&self, size: impl Fn(usize) -> usize) -> Shares {
        self.shares.elements(|i| if self.updated[i] { size(i) } else { 0 })
    }
    /// Clips the norm of the gradients of all workers.
    fn clip_norm<B: Backend>(
        &self,
        most: f64,
        parameters: &Named<'_, B>,
        module: &dyn Module<B>,
        gradients: &mut Gradients<B>,
        device: &B::Device,
    ) -> Result<()> {
        const EUCLIDEAN: f64 = 2.0;
        not_negative("clip_grad_norm", "max_norm", most)?;
        let values: Vec<Tensor<B>> = parameters.iter().map(|(_, p)| p.get()).collect();
        let updated = values.iter().zip(self.updated).filter(|(_, updated)| **updated);
        let dtype = widest(updated.map(|(x, _)| x.dtype()));
        let all = with_gradients(module, gradients);
        let mut bytes = vec![];
        for norm in norms(&all, EUCLIDEAN, dtype)? {
            bytes.extend(norm.to_host()?.data().to_le_bytes());
        }
        let cut = self.cut(|i| if values[i].numel() > 0 { dtype.size() } else { 0 });
        let bytes = self.group.all_gather_shares(&bytes, &cut)?;
        let one = |bytes: &[u8]| {
            Array::from_host(
                device,
                HostTensor::new(Shape::scalar(), HostData::from_le_bytes(dtype, bytes)?)?,
            )
        };
        let each = bytes.chunks(dtype.size()).map(one).collect::<Result<Vec<_>>>()?;
        match of_norms(&each, EUCLIDEAN)? {
            Some(total) => scale_to(most, &total, all, gradients),
            None => Ok(()),
        }
    }
    /// Gives all workers the parameters that each has updated.
    fn gather<B: Backend>(&self, parameters: &Named<'_, B>) -> Result<()> {
        let values: Vec<Tensor<B>> = parameters.iter().map(|(_, p)| p.get()).collect();
        let linked = values.first().is_some_and(|x| self.group.is_linked::<B>(x.device()));
        if linked && values.iter().all(|x| x.device() == values[0].device()) {
            return self.gather_on_devices(parameters, &values);
        }
        let size = |i: usize| values[i].numel() * values[i].dtype().size();
        let (cut, own) = (self.cut(size), self.shares.of(self.group.rank()));
        let mut bytes = Vec::with_capacity(cut.of(self.group.rank()).len());
        for i in own.clone().filter(|i| self.updated[*i]) {
            bytes.extend(values[i].to_host()?.data().to_le_bytes());
        }
        let all = self.group.all_gather_shares(&bytes, &cut)?;
        let mut rest = &all[..];
        for (i, (_, p)) in parameters.iter().enumerate().filter(|(i, _)| self.updated[*i]) {
            let (bytes, more) = rest.split_at(size(i));
            rest = more;
            if !own.contains(&i) {
                let data = HostData::from_le_bytes(values[i].dtype(), bytes)?;
                let host = HostTensor::new(values[i].shape().clone(), data)?;
                p.set(&Tensor::from_host(host, values[i].device())?)?;
            }
        }
        Ok(())
    }
}

impl Zero<'_> {
    /// The same from device to device: those of each dtype at once.
    fn gather_on_devices<B: Backend>(&self, parameters: &Named<'_, B>, values: &[Tensor<B>]) -> Result<()> {
        let own = self.shares.of(self.group.rank());
        for dtype in DType::ALL {
            let is_of = |i: usize| self.updated[i] && values[i].dtype() == dtype;
            if !(0..values.len()).any(is_of) {
                continue;
            }
            let cut = self.cut(|i| if is_of(i) { values[i].numel() } else { 0 });
            let flat = |i: usize| values[i].array().reshape(&Shape::new(&[values[i].numel()])?);
            let mut mine = own.clone().filter(|i| is_of(*i)).map(flat).collect::<Result<Vec<_>>>()?;
            // One that has none of this dtype calls all the same.
            let nothing = Array::full(values[0].device(), &Shape::new(&[0])?, Scalar::Int(0), dtype)?;
            mine.push(nothing);
            let mine = concat(&mine.iter().collect::<Vec<_>>(), 0)?;
            let all = self.group.all_gather_array_shares(&mine, &cut)?;
            let mut at = 0;
            for i in (0..values.len()).filter(|i| is_of(*i)) {
                let theirs = narrow(&all, 0, at as isize, values[i].numel())?;
                at += values[i].numel();
                if !own.contains(&i) {
                    parameters[i].1.set(&Tensor::from_array(theirs.reshape(values[i].shape())?))?;
                }
            }
        }
        Ok(())
    }
}

impl<B: Backend, M: Module<B>, D> TrainStep<'_, B, M, D> {
    /// Clips, makes the optimiser's step of this worker's parameters, and gets the others.
    pub(super) fn finish_share(
        &mut self,
        optimizer: &mut dyn Optimizer<B>,
        gradients: &mut Gradients<B>,
        zero: &Zero<'_>,
        device: &B::Device,
    ) -> Result<()> {
        let parameters = self.model.named_parameters();
        check_updated(&parameters, zero.updated.iter().filter(|updated| **updated).count())?;
        let skip = match &mut self.scaler {
            Some(scaler) => {
                Some(scaler.unscale_some(self.model, gradients, |here| on_any(zero.group, &here))?)
            }
            None => None,
        };
        match self.clip {
            None => {}
            Some(Clip::Norm(most)) => zero.clip_norm(most, &parameters, self.model, gradients, device)?,
            Some(Clip::Value(most)) => clip_grad_value(self.model, gradients, most)?,
        }
        optimizer.step_some(zero.own(&parameters), gradients, skip.as_ref())?;
        if let Some(scaler) = &mut self.scaler {
            scaler.update()?;
        }
        zero.gather(&parameters)
    }
}
