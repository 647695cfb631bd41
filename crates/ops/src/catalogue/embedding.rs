//! embedding: rows of a table picked by index.

use super::gather::{Gather, as_index};
use super::{eq, flatten, index_select, reshape, scatter_add, view, where_};
use crate::prelude::*;

/// Rows of operand 0 by operand 1, an index expanded over the columns; the row `padding` gets no
/// gradient.
#[derive(Clone, Copy, Debug)]
pub struct Embedding {
    /// The row whose gradient is 0.
    pub padding: usize,
}

impl Op for Embedding {
    fn name(&self) -> &'static str {
        "embedding"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::INPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Gather { axis: 0 }.forward(x)
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("embedding has one result");
        let (index, zero) = (c.x(1), view::zeros(g, &Shape::scalar())?);
        let padding = eq(index, &index.scalar_like(self.padding)?)?;
        let dx =
            c.want(0, || scatter_add(&view::zeros(g, c.shape(0))?, 0, index, &where_(&padding, &zero, g)?))?;
        Ok(vec![dx, None])
    }
}

/// For every element of `index` that row of `weight` [rows, columns]: [index.., columns]. The row
/// `padding_idx`, which may count from the end, gets gradient 0.
///
/// # Errors
/// `ShapeMismatch` if the weight is not a matrix; `InvalidArgument` if an index or padding_idx
/// names no row; `DTypeMismatch` if the index is not of integers; `DeviceMismatch`; `OutOfMemory`.
pub fn embedding<V: Value>(index: &V, weight: &V, padding_idx: Option<isize>) -> Result<V> {
    let [rows, columns] = weight.shape()[..] else {
        return Err(Error::shape(format!(
            "embedding: weight of shape {}; it must be a matrix",
            weight.shape()
        )));
    };
    let mut shape = Dims::from_slice(index.shape());
    shape.push(columns);
    let at = flatten::all(&as_index("embedding", index)?)?;
    let y = match padding_idx {
        None => index_select(weight, 0, &at).map_err(|e| e.at("embedding"))?,
        Some(p) => {
            let row = if p < 0 { p.saturating_add_unsigned(rows) } else { p };
            let padding = usize::try_from(row).ok().filter(|&r| r < rows).ok_or_else(|| {
                Error::argument(format!("embedding: padding_idx {p} names no row of a weight with {rows}"))
            })?;
            let spread = index_select::spread("embedding", weight.shape(), 0, &at)?;
            V::apply(Embedding { padding }, &[weight, &spread]).map_err(|e| e.at("embedding"))?
        }
    };
    reshape::to_shape(&y, &Shape::new(&shape)?)
}

/// By name: operands index and weight; attribute padding_idx (null: none).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![embedding(a.input("index")?, a.input("weight")?, a.maybe("padding_idx", Args::dim)?)?])
}
