//! reshape: the same elements in row-major order with another shape. A view if the strides allow
//! it.

use crate::prelude::*;

/// The elements of x with shape `shape`.
#[derive(Clone, Debug)]
pub struct Reshape {
    /// The shape of the result.
    pub shape: Shape,
}

impl Op for Reshape {
    fn name(&self) -> &'static str {
        "reshape"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok(Outputs::from_buf([x[0].reshape(&self.shape)?]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a view has one result");
        Ok(vec![Some(to_shape(g, c.shape(0))?)])
    }
}

/// `x` with shape `shape`; `x` itself if it has that shape already.
///
/// # Errors
/// `ShapeMismatch` if the number of elements differs; `OutOfMemory`.
pub fn to_shape<V: Value>(x: &V, shape: &Shape) -> Result<V> {
    if x.shape() == shape { Ok(x.clone()) } else { V::apply(Reshape { shape: shape.clone() }, &[x]) }
}

/// `x` with another shape, in which one size may be -1: it is inferred.
///
/// # Errors
/// `ShapeMismatch` if the number of elements differs; `InvalidArgument` if a size is negative,
/// or -1 occurs twice or is ambiguous; `OutOfMemory`.
pub fn reshape<V: Value>(x: &V, sizes: &[isize]) -> Result<V> {
    to_shape(x, &resolve(x.shape(), sizes)?)
}

/// The sizes with -1 replaced.
fn resolve(shape: &Shape, sizes: &[isize]) -> Result<Shape> {
    let mut dims = Dims::new();
    let mut open = None;
    for (i, &s) in sizes.iter().enumerate() {
        match usize::try_from(s) {
            Ok(s) => dims.push(s),
            Err(_) if s == -1 && open.is_none() => {
                open = Some(i);
                dims.push(1);
            }
            Err(_) => {
                return Err(Error::argument(format!(
                    "reshape: size {s} in {sizes:?}; sizes are not negative, but for a single -1"
                )));
            }
        }
    }
    if let Some(i) = open {
        let known = Shape::new(&dims)?.numel();
        if known == 0 {
            return Err(Error::argument(format!(
                "reshape: the size -1 in {sizes:?} could be anything, as another one is 0"
            )));
        }
        if !shape.numel().is_multiple_of(known) {
            return Err(Error::shape(format!(
                "reshape: shape {shape} has {} elements, which {sizes:?} cannot take: they are no multiple of {known}",
                shape.numel()
            )));
        }
        dims[i] = shape.numel() / known;
    }
    Shape::new(&dims)
}

/// By name: operand x; attribute shape, in which one size may be -1.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![reshape(a.input("x")?, &a.dims("shape")?)?])
}
