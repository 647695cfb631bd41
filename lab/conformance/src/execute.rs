//! Runs the op of a case on a backend: results, gradients, gradients through views.
//!
//! An input that is a view is fed in three ways, because three things can be wrong with it. As
//! strided memory that is itself the variable: the results, and the gradient of the view. As a
//! recorded view of its base: the gradient of the base. And as contiguous memory: the bits must not
//! depend on the layout.

use crate::compare::bits;
use crate::golden::{Case, Input};
use crate::{second, training, view};
use elinvar_core::{Error, HostTensor, Result, Scalar};
use elinvar_devices::Any;
use elinvar_ops::args::Args;
use elinvar_ops::{Array, Backend, Value, catalogue};
use elinvar_tensor::{Backward, Gradients, Tensor, backward};

/// The results of an op in a case.
#[derive(Clone, Debug)]
pub struct Results {
    /// The results.
    pub outputs: Vec<HostTensor>,
    /// The gradients that the case asks for, in its order.
    pub grads: Vec<HostTensor>,
    /// The gradients of the bases of those inputs that are views.
    pub base_grads: Vec<Option<HostTensor>>,
}

/// How an operand is fed.
#[derive(Clone, Copy, PartialEq)]
enum Feed {
    Strided,
    Contiguous,
    FromBase,
}

/// Runs the op of a case.
///
/// # Errors
/// Those of the op and of its gradient; `InvalidArgument` if a strided operand gives other bits.
pub fn execute<B: Backend>(case: &Case, device: &B::Device) -> Result<Results> {
    let (outputs, grads) = pass::<B>(case, device, Feed::Strided)?;
    let mut base_grads = vec![None; grads.len()];
    if case.inputs.iter().any(|i| i.view.is_some()) {
        let (plain, plain_grads) = pass::<B>(case, device, Feed::Contiguous)?;
        same("output", &outputs, &plain)?;
        same("gradient", &grads, &plain_grads)?;
    }
    if case.grads.iter().any(|g| g.base.is_some()) {
        let (from_base, of_bases) = pass::<B>(case, device, Feed::FromBase)?;
        same("output", &outputs, &from_base)?;
        for ((slot, grad), g) in base_grads.iter_mut().zip(&case.grads).zip(of_bases) {
            *slot = grad.base.as_ref().map(|_| g);
        }
    }
    Ok(Results { outputs, grads, base_grads })
}

fn same(what: &str, strided: &[HostTensor], contiguous: &[HostTensor]) -> Result<()> {
    for (i, (s, c)) in strided.iter().zip(contiguous).enumerate() {
        bits(s, c).map_err(|m| {
            Error::argument(format!("{what} {i} of strided operands, by contiguous ones: {m}"))
        })?;
    }
    Ok(())
}

/// The results and the gradients of the variables that the case names.
fn pass<B: Backend>(
    case: &Case,
    device: &B::Device,
    feed: Feed,
) -> Result<(Vec<HostTensor>, Vec<HostTensor>)> {
    let mut leaves = Vec::new();
    let mut operands = Vec::new();
    for (i, input) in case.inputs.iter().enumerate() {
        let is_variable = case.grads.iter().any(|g| g.input == i);
        let leaf = Tensor::from_array(fed::<B>(input, device, feed)?);
        let leaf = if is_variable { leaf.requires_grad() } else { leaf };
        operands.push(match (&input.view, feed) {
            (Some(v), Feed::FromBase) => {
                v.steps.iter().try_fold(leaf.clone(), |x, s| view::recorded(&x, s))?
            }
            _ => leaf.clone(),
        });
        leaves.push(leaf);
    }
    let outputs = call(case, &operands, device)?;
    if case.grads.is_empty() {
        return Ok((hosts(&outputs)?, Vec::new()));
    }
    if outputs.len() != case.grad_outputs.len() {
        // The comparison checks the number of results and fails the case.
        return Ok((hosts(&outputs)?, Vec::new()));
    }
    let mut seeds = Vec::new();
    for g in &case.grad_outputs {
        seeds.push(g.as_ref().map(|g| Tensor::from_host(g.clone(), device)).transpose()?);
    }
    let pairs: Vec<_> = outputs.iter().zip(&seeds).collect();
    let gradients = gradients(&pairs, Backward::default())?;
    let mut grads = Vec::new();
    for g in &case.grads {
        grads.push(or_zero(&gradients, &leaves[g.input])?.to_host()?);
    }
    Ok((hosts(&outputs)?, grads))
}

fn fed<B: Backend>(input: &Input, device: &B::Device, feed: Feed) -> Result<Array<B>> {
    match (&input.view, feed) {
        (None, _) | (Some(_), Feed::Contiguous) => Array::from_host(device, input.tensor.clone()),
        (Some(v), Feed::FromBase) => Array::from_host(device, v.base.clone()),
        (Some(v), Feed::Strided) => {
            Ok(Array::from_host(device, v.base.clone())?.with_layout(v.layout.clone()))
        }
    }
}

/// The op of a case on these operands.
fn call<B: Backend>(case: &Case, operands: &[Tensor<B>], device: &B::Device) -> Result<Vec<Tensor<B>>> {
    let roles = case.inputs.iter().map(|i| i.role.clone());
    let args = Args {
        op: case.op.clone(),
        inputs: roles.zip(operands.iter().cloned()).collect(),
        attrs: case.attrs.clone(),
    };
    match case.op.as_str() {
        second::NAME => second::call(&args),
        name if training::has(name) => training::call(&args, device),
        _ => catalogue::call(&args),
    }
}

/// Calls an op by its name, on the backend that is chosen at run time. All calls by name go through
/// here, so that the catalogue is compiled once for that backend.
///
/// # Errors
/// `Unsupported` if there is no such op; else those of the op.
pub fn by_name(args: &Args<Tensor<Any>>) -> Result<Vec<Tensor<Any>>> {
    catalogue::call(args)
}

/// The gradients of the outputs that have a seed and depend on a variable.
pub(crate) fn gradients<B: Backend>(
    outputs: &[(&Tensor<B>, &Option<Tensor<B>>)],
    options: Backward,
) -> Result<Gradients<B>> {
    let taking_part: Vec<_> = outputs
        .iter()
        .filter(|(y, _)| y.is_tracked())
        .filter_map(|(y, seed)| seed.as_ref().map(|s| (*y, Some(s))))
        .collect();
    if taking_part.is_empty() { Ok(Gradients::new()) } else { backward(&taking_part, options) }
}

/// The gradient by a variable; zeros if nothing depends on it.
pub(crate) fn or_zero<B: Backend>(g: &Gradients<B>, variable: &Tensor<B>) -> Result<Tensor<B>> {
    match g.get(variable) {
        Some(g) => Ok(g.clone()),
        None => Value::full_like(variable, Scalar::Float(0.0)),
    }
}

fn hosts<B: Backend>(tensors: &[Tensor<B>]) -> Result<Vec<HostTensor>> {
    tensors.iter().map(Tensor::to_host).collect()
}
