//! expand: axes of size 1 repeated, without copying.

use super::sum;
use crate::prelude::*;

/// Broadcast to `shape`.
#[derive(Clone, Debug)]
pub struct Expand {
    /// The shape of the result.
    pub shape: Shape,
}

impl Op for Expand {
    fn name(&self) -> &'static str {
        "expand"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok(Outputs::from_buf([x[0].broadcast_to(&self.shape, "expand")?]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a view has one result");
        Ok(vec![Some(sum::gradient_to(g, c.shape(0))?)])
    }
}

/// `x` with its axes of size 1 repeated to `shape`; new axes are leading. A view.
///
/// # Errors
/// `ShapeMismatch` if x does not broadcast to `shape`.
pub fn expand<V: Value>(x: &V, shape: &Shape) -> Result<V> {
    V::apply(Expand { shape: shape.clone() }, &[x])
}

/// As [`expand`], of sizes in which -1 keeps the size of an axis.
///
/// # Errors
/// `InvalidArgument` if another size is negative, or a new axis has -1; `ShapeMismatch`.
pub fn expand_sizes<V: Value>(x: &V, sizes: &[isize]) -> Result<V> {
    let new = sizes.len().saturating_sub(x.shape().rank());
    let mut dims = Dims::new();
    for (i, &s) in sizes.iter().enumerate() {
        dims.push(match s {
            -1 if i >= new => x.shape()[i - new],
            s => usize::try_from(s).map_err(|_| Error::argument(format!("expand: size {s} in shape {sizes:?}")))?,
        });
    }
    expand(x, &Shape::new(&dims)?)
}

/// By name: operand x; attribute shape, in which -1 keeps a size.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![expand_sizes(a.input("x")?, &a.dims("shape")?)?])
}
