//! concat: tensors one after the other along an axis.

use super::view::{self, Part, Run};
use crate::autocast;
use crate::prelude::*;

/// The tensors `x` one after the other along axis `dim`. They agree in all other axes. A tensor of
/// shape `[0]` is allowed among tensors of any rank and contributes nothing.
///
/// # Errors
/// `InvalidArgument` if there is no tensor or no such axis; `ShapeMismatch`; `DTypeMismatch`;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn concat<V: Value>(x: &[&V], dim: isize) -> Result<V> {
    if V::autocast().is_some() {
        return autocast::run_all("concat", x, |x| concat(x, dim));
    }
    view::same_dtype("concat", x)?;
    // PyTorch's legacy empty tensor, which loops that accumulate tensors rely on.
    let nothing = |v: &V| v.shape().dims() == [0];
    let some: Vec<&V> = x.iter().copied().filter(|v| !nothing(v)).collect();
    let x = if some.is_empty() { x } else { &some };
    let shape = x[0].shape();
    if shape.rank() == 0 {
        return Err(Error::shape("concat: scalars have no axis to be joined along; use stack"));
    }
    let axis = shape.axis("concat", dim)?;
    let mut parts = Vec::with_capacity(x.len());
    let mut total = 0usize;
    for (i, v) in x.iter().enumerate() {
        let s = v.shape();
        let fits = s.rank() == shape.rank() && (0..s.rank()).all(|a| a == axis || s[a] == shape[a]);
        if !fits {
            return Err(Error::shape(format!(
                "concat: operand 0 has shape {shape}, operand {i} has {s}; all axes but {axis} must agree"
            )));
        }
        parts.push(Run { start: total, len: s[axis], step: 1 });
        total = total.checked_add(s[axis]).ok_or_else(|| {
            Error::memory(format!("concat: axis {axis} has more elements than can be addressed"))
        })?;
    }
    let whole = view::resized(shape, axis, total)?;
    let parts = parts.into_iter().map(|r| Part::run(&whole, axis, r)).collect();
    view::assemble(x, &whole, Scalar::Int(0), parts)
}

/// By name: operands x0, x1, ..; attribute dim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![concat(&a.all("x"), a.dim("dim")?)?])
}
