//! Gradient clipping.
//!
//! The norm of all gradients is computed on their device and stays there, without synchronisation.
//! The sum is in the order of the parameters' names in the module, which does not depend on the
//! history of a run.

use crate::Module;
use elinvar_core::{DType, Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_ops::catalogue::{clamp, norm, stack};
use elinvar_ops::lane::Lane;
use elinvar_ops::update::{Part, Update, update};
use elinvar_tensor::{Gradients, Tensor};

/// The norm of gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NormType {
    /// The sum of absolute values.
    L1,
    /// The Euclidean norm.
    L2,
    /// The largest absolute value.
    Inf,
    /// (sum of |g|^p)^(1/p)
    P(f64),
}

impl NormType {
    fn power(self) -> f64 {
        match self {
            NormType::L1 => 1.0,
            NormType::L2 => 2.0,
            NormType::Inf => f64::INFINITY,
            NormType::P(p) => p,
        }
    }
}

/// Settings of [`clip_grad_norm_with`].
#[derive(Clone, Copy, Debug)]
pub struct ClipOptions {
    /// The norm.
    pub norm_type: NormType,
    /// Is an infinite or NaN norm an error? The check synchronises with the device.
    pub error_if_nonfinite: bool,
}

impl Default for ClipOptions {
    fn default() -> Self {
        ClipOptions { norm_type: NormType::L2, error_if_nonfinite: false }
    }
}

/// x * min(1, most / (norm + 1e-6)). The 1e-6 is PyTorch's, against a norm of 0.
#[derive(Clone, Copy, Debug)]
struct Factor {
    most: f64,
}

impl Update<1, 1> for Factor {
    const NAME: &'static str = "clip_grad_norm";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1], [norm]: [L; 1]) -> [L; 1] {
        [x * (L::lit(self.most) / (norm + L::lit(1e-6))).min(L::lit(1.0))]
    }
}
elinvar_ops::compile_update! { 1 1 Factor; }

/// The parameters of a module that have a gradient: variable and gradient.
pub(crate) fn with_gradients<B: Backend>(
    module: &dyn Module<B>,
    gradients: &Gradients<B>,
) -> Vec<(Tensor<B>, Tensor<B>)> {
    let values = module.parameters().into_iter().map(|p| p.get());
    values.filter_map(|x| gradients.get(&x).cloned().map(|g| (x, g))).collect()
}

/// The norm of these gradients as one vector, in the widest of their compute dtypes. For none, 0 of
/// f32.
pub(super) fn total<B: Backend>(
    all: &[(Tensor<B>, Tensor<B>)],
    norm_type: NormType,
) -> Result<Option<Array<B>>> {
    let p = norm_type.power();
    if p.is_nan() || p <= 0.0 {
        return Err(Error::argument(format!("norm of gradients: p is {p}, and should be above 0")));
    }
    of_norms(&norms(all, p, widest(all.iter().map(|(_, g)| g.dtype())))?, p)
}

/// The dtype of a norm over gradients of these.
pub(crate) fn widest(mut dtypes: impl Iterator<Item = DType>) -> DType {
    if dtypes.any(|dtype| dtype.compute() == DType::F64) { DType::F64 } else { DType::F32 }
}

/// The norm of each gradient that has elements.
pub(crate) fn norms<B: Backend>(
    all: &[(Tensor<B>, Tensor<B>)],
    p: f64,
    dtype: DType,
) -> Result<Vec<Array<B>>> {
    let some = all.iter().filter(|(_, g)| g.numel() > 0);
    some.map(|(_, g)| norm(&g.array().cast(g.dtype().compute())?, p, None, false)?.cast(dtype)).collect()
}

/// The norm of all gradients, from that of each.
pub(crate) fn of_norms<B: Backend>(norms: &[Array<B>], p: f64) -> Result<Option<Array<B>>> {
    match norms {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        more => Ok(Some(norm(&stack(&more.iter().collect::<Vec<_>>(), 0)?, p, None, false)?)),
    }
}

fn or_zero<B: Backend>(
    total: Option<Array<B>>,
    all: &[(Tensor<B>, Tensor<B>)],
    op: &str,
) -> Result<Tensor<B>> {
    match (total, all.first()) {
        (Some(t), _) => Ok(Tensor::from_array(t)),
        (None, Some((_, g))) => Ok(Tensor::from_array(Array::scalar(g.device(), 0.0.into(), DType::F32)?)),
        (None, None) => Err(Error::autograd(format!("{op}: no parameter has a gradient here"))),
    }
}

/// The norm of a module's gradients as one vector. Does not synchronise with the device.
///
/// # Errors
/// `InvalidArgument` if p is not above 0; `Autograd` if no parameter has a gradient here;
/// `DeviceMismatch` if they are on several devices; `OutOfMemory`.
pub fn get_total_norm<B: Backend>(
    module: &dyn Module<B>,
    gradients: &Gradients<B>,
    norm_type: NormType,
) -> Result<Tensor<B>> {
    let all = with_gradients(module, gradients);
    or_zero(total(&all, norm_type)?, &all, "get_total_norm")
}

/// Scales a module's gradients so that their norm as one vector is at most `max_norm`, and returns
/// the norm before. Does not synchronise with the device.
///
/// # Errors
/// As [`clip_grad_norm_with`].
pub fn clip_grad_norm<B: Backend>(
    module: &dyn Module<B>,
    gradients: &mut Gradients<B>,
    max_norm: f64,
) -> Result<Tensor<B>> {
    clip_grad_norm_with(module, gradients, max_norm, ClipOptions::default())
}

/// As [`clip_grad_norm`], with settings.
///
/// # Errors
/// `InvalidArgument` if `max_norm` is negative or NaN, p is not above 0, or, with
/// `error_if_nonfinite`, the norm is not finite; `Autograd` if no parameter has a gradient here;
/// `DeviceMismatch` if they are on several devices; `OutOfMemory`. After an error the gradients are
/// unchanged.
pub fn clip_grad_norm_with<B: Backend>(
    module: &dyn Module<B>,
    gradients: &mut Gradients<B>,
    max_norm: f64,
    options: ClipOptions,
) -> Result<Tensor<B>> {
    const OP: &str = "clip_grad_norm";
    not_negative(OP, "max_norm", max_norm)?;
    let all = with_gradients(module, gradients);
    let total = or_zero(total(&all, options.norm_type)?, &all, OP)?;
    if options.error_if_nonfinite {
        let norm = total.to_host()?.to_f64_vec()[0];
        if !norm.is_finite() {
            return Err(Error::argument(format!("{OP}: the norm of the gradients is {norm}")));
        }
    }
    scale_to(max_norm, total.array(), all, gradients)?;
    Ok(total)
}

/// Scales gradients whose norm, `total`, is more than `most`.
pub(crate) fn scale_to<B: Backend>(
    most: f64,
    total: &Array<B>,
    all: Vec<(Tensor<B>, Tensor<B>)>,
    gradients: &mut Gradients<B>,
) -> Result<()> {
    let norms = all.iter().map(|(_, g)| total.cast(g.dtype().compute())).collect::<Result<Vec<_>>>()?;
    // The gradients are moved out, so that uniquely owned ones are scaled in place.
    let variables: Vec<Tensor<B>> = all.into_iter().map(|(x, _)| x).collect();
    let mut taken: Vec<Tensor<B>> = variables.iter().filter_map(|x| gradients.take(x)).collect();
    let parts = taken.iter_mut().zip(&norms).map(|(g, norm)| Part::new([g.array_mut()], [norm]));
    let done = update(&Factor { most }, &mut parts.collect::<Vec<_>>());
    for (x, g) in variables.iter().zip(taken) {
        gradients.set(x, if done.is_ok() { g.detach() } else { g });
    }
    done
}

/// Clamps every element of a module's gradients to -clip_value..=clip_value. NaN stays NaN.
///
/// # Errors
/// `InvalidArgument` if `clip_value` is negative or NaN; `OutOfMemory`. After an error the
/// gradients are unchanged.
pub fn clip_grad_value<B: Backend>(
    module: &dyn Module<B>,
    gradients: &mut Gradients<B>,
    clip_value: f64,
) -> Result<()> {
    not_negative("clip_grad_value", "clip_value", clip_value)?;
    let all = with_gradients(module, gradients);
    replace(gradients, &all, |g| clamp(g, Some((-clip_value).into()), Some(clip_value.into())))
}

pub(crate) fn not_negative(op: &str, name: &str, v: f64) -> Result<()> {
    if v >= 0.0 {
        Ok(())
    } else {
        Err(Error::argument(format!("{op}: {name} is {v}, and should be 0 or more")))
    }
}

/// Replaces every gradient by `f` of it, once all of them are computed.
fn replace<B: Backend>(
    gradients: &mut Gradients<B>,
    all: &[(Tensor<B>, Tensor<B>)],
    f: impl Fn(&Array<B>) -> Result<Array<B>>,
) -> Result<()> {
    let new = all.iter().map(|(_, g)| f(g.array())).collect::<Result<Vec<_>>>()?;
    all.iter().zip(new).for_each(|((x, _), g)| gradients.set(x, Tensor::from_array(g)));
    Ok(())
}
