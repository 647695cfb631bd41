//! Batch norm with mean and variance over all gradient shards of a step, whatever worker has them.
//!
//! It is made of ops and of sums over shards, whose gradient is the sum of gradients; so each
//! shard's part of the gradient is its own. Mean first and deviations from it after that, so that
//! nothing cancels.

use crate::Module;
use crate::across::{count_over_shards, sum_over_shards};
use elinvar_core::{Error, Result};
use elinvar_ops::catalogue as op;
use elinvar_ops::{Backend, Value};
use elinvar_tensor::{Tensor, no_grad};

/// PyTorch's `SyncBatchNorm.convert_sync_batchnorm`: all batch norms of a module take mean and
/// variance over all gradient shards of a step ([`BatchNorm::sync`](super::BatchNorm::sync)).
/// Returns how many there are.
pub fn convert_sync_batchnorm<B: Backend>(module: &dyn Module<B>) -> usize {
    let all = module.leaves().across;
    all.iter().for_each(|a| a.set(true));
    all.len()
}

/// Mean and variance of a channel over all shards, of shape [1, c, 1..], and the values less the
/// mean.
struct Moments<B: Backend> {
    mean: Tensor<B>,
    variance: Tensor<B>,
    centered: Tensor<B>,
    /// Elements of a channel in all shards.
    count: usize,
}

fn times<B: Backend>(x: &Tensor<B>, factor: f64) -> Result<Tensor<B>> {
    op::mul(x, &x.scalar_like(factor)?)
}

/// Of x: [n, c, spatial..].
fn moments<B: Backend>(x: &Tensor<B>) -> Result<Option<Moments<B>>> {
    let dims: Vec<isize> = (0..x.rank() as isize).filter(|d| *d != 1).collect();
    let elements = dims.iter().map(|d| x.dims()[*d as usize]).product();
    let count = count_over_shards::<B>(elements, x.device())?;
    match count {
        0 => return Ok(None),
        1 => {
            return Err(Error::argument(format!(
                "batch_norm: a channel of input {} has one element in all shards; training needs two at least",
                x.shape()
            )));
        }
        _ => {}
    }
    let share = 1.0 / count as f64;
    let mean = times(&sum_over_shards(&op::sum(x, Some(&dims), true)?)?, share)?;
    let centered = op::sub(x, &mean)?;
    let squares = op::mul(&centered, &centered)?;
    let variance = times(&sum_over_shards(&op::sum(&squares, Some(&dims), true)?)?, share)?;
    Ok(Some(Moments { mean, variance, centered, count }))
}

/// y = (x - mean) * (1 / sqrt(variance + eps) * weight) + bias per channel, and the running
/// statistics after it. `momentum` is asked for if there is an element.
pub(super) fn over_shards<B: Backend>(
    x: &Tensor<B>,
    running: Option<(&Tensor<B>, &Tensor<B>)>,
    weight: Option<&Tensor<B>>,
    bias: Option<&Tensor<B>>,
    momentum: impl FnOnce() -> Result<f64>,
    eps: f64,
) -> Result<(Tensor<B>, Option<[Tensor<B>; 2]>)> {
    let dtype = x.dtype().compute();
    let wide = x.try_to_dtype(dtype)?;
    let Some(Moments { mean, variance, centered, count }) = moments(&wide)? else {
        return Ok((x.clone(), None));
    };
    let column = |v: &Tensor<B>| v.try_to_dtype(dtype)?.try_reshape(mean.shape().clone());
    let mut scale = op::rsqrt(&op::add(&variance, &variance.scalar_like(eps)?)?)?;
    if let Some(weight) = weight {
        scale = op::mul(&scale, &column(weight)?)?;
    }
    let mut y = op::mul(&centered, &scale)?;
    if let Some(bias) = bias {
        y = op::add(&y, &column(bias)?)?;
    }
    let next = running.map(|(old_mean, old_variance)| -> Result<_> {
        let momentum = momentum()?;
        let follow = |old: &Tensor<B>, new: &Tensor<B>| -> Result<Tensor<B>> {
            let new = new.try_reshape(old.shape().clone())?;
            let sum = op::add(&times(&old.try_to_dtype(dtype)?, 1.0 - momentum)?, &times(&new, momentum)?)?;
            sum.try_to_dtype(old.dtype())
        };
        no_grad(|| {
            let unbiased = times(&variance, count as f64 / (count - 1) as f64)?;
            Ok([follow(old_mean, &mean)?, follow(old_variance, &unbiased)?])
        })
    });
    Ok((y.try_to_dtype(x.dtype())?, next.transpose()?))
}
