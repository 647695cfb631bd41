//! Gradient checks by finite differences, for new ops and layers.

use crate::Tensor;
use crate::tape::{Backward, backward, enable_grad};
use elinvar_core::{DType, Error, HostTensor, Result};
use elinvar_ops::backend::Backend;

/// The gradient of the sum of `f`'s result by each element of `x[at]`, from central differences
/// (f(x + h) - f(x - h)) / 2h. Use f64: in f32 rounding errors dominate the differences.
///
/// # Errors
/// Those of `f`; `DTypeMismatch` if `x[at]` is not of floats.
pub fn numerical_gradient<B: Backend>(
    f: impl Fn(&[Tensor<B>]) -> Result<Tensor<B>>,
    x: &[Tensor<B>],
    at: usize,
    h: f64,
) -> Result<Vec<f64>> {
    let host = x[at].to_host()?;
    if !host.dtype().is_float() {
        return Err(Error::dtype(format!("numerical_gradient: operand {at} is {}", host.dtype())));
    }
    let values = host.to_f64_vec();
    let total = |i: usize, v: f64| -> Result<f64> {
        let mut moved = values.clone();
        moved[i] = v;
        let mut data = elinvar_core::HostData::full(host.dtype(), moved.len(), 0.0.into())?;
        elinvar_core::each_data!(&mut data, d => {
            d.iter_mut().zip(&moved).for_each(|(d, v)| *d = elinvar_core::Element::from_f64(*v));
        });
        let mut all = x.to_vec();
        all[at] = Tensor::from_host(HostTensor::new(host.shape().clone(), data)?, x[at].device())?;
        // As variables, because `f` may ask for gradients itself.
        Ok(enable_grad(|| f(&variables(&all)))?.to_host()?.to_f64_vec().iter().sum())
    };
    (0..values.len()).map(|i| Ok((total(i, values[i] + h)? - total(i, values[i] - h)?) / (2.0 * h))).collect()
}

/// The tensors of floats as variables.
fn variables<B: Backend>(x: &[Tensor<B>]) -> Vec<Tensor<B>> {
    x.iter().map(|t| if t.dtype().is_float() { t.requires_grad() } else { t.clone() }).collect()
}

/// Checks the gradients of the sum of `f`'s result by every float operand against
/// [`numerical_gradient`]:
/// |exact - numerical| <= tolerance * (1 + |numerical|). `f` may use gradients itself, as a
/// gradient penalty does.
///
/// # Errors
/// `Autograd` with operand, element and both values if they disagree; those of `f`.
pub fn check_gradient<B: Backend>(
    f: impl Fn(&[Tensor<B>]) -> Result<Tensor<B>>,
    x: &[Tensor<B>],
    h: f64,
    tolerance: f64,
) -> Result<()> {
    let leaves = variables(x);
    let y = enable_grad(|| f(&leaves))?;
    let gradients = if y.is_tracked() {
        backward(&[(&y, Some(&y.ones_like()))], Backward::default())?
    } else {
        crate::Gradients::new()
    };
    for (at, leaf) in leaves.iter().enumerate().filter(|(_, t)| t.dtype().is_float()) {
        let numerical = numerical_gradient(&f, x, at, h)?;
        let exact = match gradients.get(leaf) {
            Some(g) if g.dtype() != leaf.dtype() || g.shape() != leaf.shape() => {
                return Err(Error::autograd(format!(
                    "check_gradient: operand {at} is {} {}, its gradient {} {}",
                    leaf.dtype(),
                    leaf.shape(),
                    g.dtype(),
                    g.shape()
                )));
            }
            Some(g) => g.to_host()?.to_f64_vec(),
            None => vec![0.0; leaf.numel()],
        };
        for (i, (e, n)) in exact.iter().zip(&numerical).enumerate() {
            let close = (e - n).abs() <= tolerance * (1.0 + n.abs());
            if !close {
                return Err(Error::autograd(format!(
                    "check_gradient: operand {at}, element {i}: the gradient is {e}, differences say {n}"
                )));
            }
        }
    }
    debug_assert!(leaves.iter().all(|l| l.dtype() != DType::Bool || !l.is_tracked()));
    Ok(())
}
