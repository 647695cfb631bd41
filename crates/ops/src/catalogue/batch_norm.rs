//! batch_norm: each channel shifted and scaled, in training by its own mean and variance over the
//! batch, else by running ones; then weight and bias per channel.

use super::batch_moments::{Moments, batch_moments};
use super::instance_norm::{per_channel, per_channel_operand};
use super::normalize::{check_eps, normalize, signed};
use super::{add, mean, mul, reshape, rsqrt, var};
use crate::autocast::{casts, within};
use crate::prelude::*;

/// (x - center) * scale, + bias if there are four operands.
#[derive(Clone, Copy, Debug)]
pub struct Affine;

impl<const N: usize> Map<N> for Affine {
    const NAME: &'static str = "batch_norm";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, x: [L; N]) -> L {
        let y = x[0] - x[1];
        if N == 3 { y * x[2] } else { y.fma(x[2], x[3]) }
    }
}
compile_map! { 3 Affine; 4 Affine; }

/// old + (new - old) * momentum
#[derive(Clone, Copy, Debug)]
pub struct Follow {
    /// The weight of the new value.
    pub momentum: f64,
}

impl Map<2> for Follow {
    const NAME: &'static str = "batch_norm";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [old, new]: [L; 2]) -> L {
        (L::lit(1.0 - self.momentum)) * old + L::lit(self.momentum) * new
    }
}
compile_map! { 2 Follow; }

/// The result of [`batch_norm`].
#[derive(Clone, Debug)]
pub struct BatchNorm<V> {
    /// The normalized values.
    pub y: V,
    /// In training, if running statistics were given: mean and variance after this step.
    pub running: Option<(V, V)>,
}

/// y = (x - mean) / sqrt(variance + eps) * weight + bias per channel.
///
/// x: [n, c, spatial..], or one sample \[c\]   running, weight, bias: \[c\]   y: as x.
///
/// In training, mean and variance are those of the channel over batch and spatial axes (the
/// variance divides by the number of elements), and the running ones become (1 - momentum) * old +
/// momentum * new, where the new variance divides by one less; a batch without elements, which has
/// neither mean nor variance, leaves them as they are. Otherwise mean and variance are the running
/// ones, which have no gradient. Storage floats run in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch` if x has no channels or an operand does not have one number per channel;
/// `InvalidArgument` if in training a channel has a single element, or not in training there are no
/// running statistics, or eps is negative or not finite, or the momentum not finite;
/// `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn batch_norm<V: Value>(
    x: &V,
    running: Option<(&V, &V)>,
    weight: Option<&V>,
    bias: Option<&V>,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<BatchNorm<V>> {
    let (center, variance) = running.unzip();
    if let Some(casts) = casts("batch_norm", &[Some(x), center, variance, weight, bias]) {
        let (x, center, variance) = (casts.on(x)?, casts.on_some(center)?, casts.on_some(variance)?);
        let (weight, bias) = (casts.on_some(weight)?, casts.on_some(bias)?);
        let (running, weight, bias) = (center.as_ref().zip(variance.as_ref()), weight.as_ref(), bias.as_ref());
        let new = within(None, || batch_norm(&x, running, weight, bias, training, momentum, eps))?;
        return Ok(BatchNorm { y: casts.back(new.y)?, running: new.running });
    }
    let s = x.shape();
    if let [c] = s[..] {
        let one = reshape::to_shape(x, &Shape::new(&[1, c])?)?;
        let BatchNorm { y, running } = batch_norm(&one, running, weight, bias, training, momentum, eps)?;
        return Ok(BatchNorm { y: reshape::to_shape(&y, s)?, running });
    }
    if s.rank() == 0 {
        return Err(Error::shape(format!("batch_norm: input {s} should be [n, c, spatial..]")));
    }
    check_eps("batch_norm", eps)?;
    if !momentum.is_finite() {
        return Err(Error::argument(format!("batch_norm: momentum is {momentum}; it should be finite")));
    }
    let each = [running.map(|r| r.0), running.map(|r| r.1), weight, bias];
    for (what, v) in ["running_mean", "running_var", "weight", "bias"].into_iter().zip(each) {
        per_channel_operand("batch_norm", s, what, v)?;
    }
    let column = |v: &V| reshape::to_shape(v, &per_channel(s));
    if !training {
        let Some((center, variance)) = running else {
            return Err(Error::argument("batch_norm: without training there must be running statistics"));
        };
        let (center, variance) = (center.detached(), variance.detached());
        let fixed = |center: &V, variance: &V| -> Result<_> {
            let scale = rsqrt(&add(variance, &variance.scalar_like(eps)?)?)?;
            Ok((column(center)?, scale))
        };
        let y = match (weight, bias) {
            (None, None) => widen([x, &center, &variance], |[x, m, v]| {
                let (m, scale) = fixed(m, v)?;
                map(Affine, [x, &m, &column(&scale)?])
            }),
            (Some(w), None) => widen([x, &center, &variance, w], |[x, m, v, w]| {
                let (m, scale) = fixed(m, v)?;
                map(Affine, [x, &m, &column(&mul(&scale, w)?)?])
            }),
            (None, Some(b)) => widen([x, &center, &variance, b], |[x, m, v, b]| {
                let (m, scale) = fixed(m, v)?;
                map(Affine, [x, &m, &column(&scale)?, &column(b)?])
            }),
            (Some(w), Some(b)) => widen([x, &center, &variance, w, b], |[x, m, v, w, b]| {
                let (m, scale) = fixed(m, v)?;
                map(Affine, [x, &m, &column(&mul(&scale, w)?)?, &column(b)?])
            }),
        }?;
        return Ok(BatchNorm { y, running: None });
    }
    let axes: Dims = (0..s.rank()).filter(|&a| a != 1).collect();
    let n: usize = axes.iter().map(|&a| s[a]).product();
    if n == 1 && s[1] > 0 {
        return Err(Error::argument(format!(
            "batch_norm: a channel of input {s} has one element; training needs two at least"
        )));
    }
    let (w, b) = (weight.map(column).transpose()?, bias.map(column).transpose()?);
    let kept = running.filter(|_| n == 0).map(|(mean, var)| (mean.detached(), var.detached()));
    let running = running.filter(|_| n > 0);
    if x.dtype().is_storage() {
        let new = halves(x, &axes, (w.as_ref(), b.as_ref()), running, momentum, eps)?;
        return Ok(BatchNorm { running: new.running.or(kept), ..new });
    }
    let Moments { y, mean, variance } = batch_moments(x, &axes, w.as_ref(), b.as_ref(), eps)?;
    let running = running.map(|(old_mean, old_var)| -> Result<_> {
        let follow = |old: &V, new: &V| {
            map(Follow { momentum }, [&old.detached(), &reshape::to_shape(new, old.shape())?])
        };
        Ok((follow(old_mean, &mean)?, follow(old_var, &variance)?))
    });
    Ok(BatchNorm { y, running: running.transpose()?.or(kept) })
}

/// In training, for storage floats: mean and variance are rounded where they are stored, but not
/// where they are used to normalize.
fn halves<V: Value>(
    x: &V,
    axes: &[usize],
    (weight, bias): (Option<&V>, Option<&V>),
    running: Option<(&V, &V)>,
    momentum: f64,
    eps: f64,
) -> Result<BatchNorm<V>> {
    let y = normalize(x, axes, weight, bias, eps)?;
    let running = running.map(|(old_mean, old_var)| -> Result<_> {
        let (x, dims) = (x.detached(), signed(axes));
        let follow = |old: &V, new: V| map(Follow { momentum }, [&old.detached(), &new]);
        let mean = mean(&x, Some(&dims), false)?;
        let variance = var(&x, Some(&dims), 1.0, false)?;
        Ok((follow(old_mean, mean)?, follow(old_var, variance)?))
    });
    Ok(BatchNorm { y, running: running.transpose()? })
}

/// By name: operands x, running_mean, running_var, weight and bias if there are; attributes
/// training, momentum, eps. Gives y, and in training the new running statistics.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let running = a.optional("running_mean").zip(a.optional("running_var"));
    let (weight, bias, training) = (a.optional("weight"), a.optional("bias"), a.bool("training")?);
    let out = batch_norm(a.input("x")?, running, weight, bias, training, a.f64("momentum")?, a.f64("eps")?)?;
    let mut all = vec![out.y];
    if let Some((mean, variance)) = out.running {
        all.extend([mean, variance]);
    }
    Ok(all)
}
