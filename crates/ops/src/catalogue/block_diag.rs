//! block_diag: a matrix with several along its diagonal, and 0 elsewhere.

use super::reshape;
use super::view::{self, Part, Run};
use crate::autocast;
use crate::prelude::*;

/// The matrix that has the matrices `x` along its diagonal. A vector is a row, a scalar one
/// element.
///
/// # Errors
/// `InvalidArgument` if there is none; `ShapeMismatch` if one has more than two axes;
/// `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn block_diag<V: Value>(x: &[&V]) -> Result<V> {
    let operands: Vec<Option<&V>> = x.iter().copied().map(Some).collect();
    if let Some(casts) = autocast::casts("block_diag", &operands) {
        let all = x.iter().map(|x| casts.on(*x)).collect::<Result<Vec<V>>>()?;
        return autocast::within(None, || block_diag_of(&all.iter().collect::<Vec<_>>()));
    }
    block_diag_of(x)
}

fn block_diag_of<V: Value>(x: &[&V]) -> Result<V> {
    view::same_dtype("block_diag", x)?;
    let matrix = |x: &&V| match x.shape()[..] {
        [_, _] => Ok((*x).clone()),
        [n] => reshape::to_shape(*x, &Shape::new(&[1, n])?),
        [] => reshape::to_shape(*x, &Shape::new(&[1, 1])?),
        _ => Err(Error::shape(format!("block_diag: shape {}; it must have two axes at most", x.shape()))),
    };
    let all = x.iter().map(matrix).collect::<Result<Vec<V>>>()?;
    let mut corner = [0, 0];
    let mut parts = Vec::with_capacity(all.len());
    for m in &all {
        let run = |axis: usize| Run { start: corner[axis], len: m.shape()[axis], step: 1 };
        parts.push(Part::Slice([run(0), run(1)].into_iter().collect()));
        corner = [corner[0] + m.shape()[0], corner[1] + m.shape()[1]];
    }
    let all: Vec<&V> = all.iter().collect();
    view::assemble(&all, &Shape::new(&corner)?, Scalar::Int(0), parts)
}

/// By name: operands x0, x1, ...
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![block_diag(&a.all("x"))?])
}
