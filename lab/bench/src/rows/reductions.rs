//! Reductions, row-wise ops, and other work along axes.

use super::forward;
use crate::row::{Group, Row};
use elinvar::{DType, Tensor};

/// Reads x once, and writes as much if `writes`.
fn row(workload: &'static str, dims: &'static [usize], writes: bool, f: fn(&Tensor) -> Tensor) -> Row {
    let n: usize = dims.iter().product();
    Row::new(Group::Reductions, workload, shape(dims), DType::F32, move |data| {
        let x = data.floats(dims);
        forward(move || f(&x))
    })
    .bytes(if writes { 8 * n } else { 4 * n })
}

fn shape(dims: &[usize]) -> String {
    dims.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}

fn layer_norm() -> Row {
    const DIMS: [usize; 2] = [4096, 768];
    Row::new(Group::Reductions, "layer_norm", shape(&DIMS), DType::F32, |data| {
        let (x, w, b) = (data.floats(&DIMS), data.floats(&DIMS[1..]), data.floats(&DIMS[1..]));
        forward(move || x.layer_norm(&DIMS[1..], Some(&w), Some(&b), 1e-5))
    })
    .bytes(8 * DIMS[0] * DIMS[1])
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("sum_all", &[1 << 24], false, Tensor::sum),
        row("max_all", &[1 << 24], false, Tensor::max),
        row("sum_axis0", &[4096, 4096], false, |x| x.sum_dim(0, false)),
        row("sum_axis1", &[4096, 4096], false, |x| x.sum_dim(1, false)),
        row("argmax_axis1", &[4096, 4096], false, |x| x.argmax(Some(1), false)),
        row("softmax", &[4096, 1024], true, |x| x.softmax(-1)),
        row("softmax", &[16, 12, 128, 128], true, |x| x.softmax(-1)),
        layer_norm(),
        row("cumsum_axis1", &[4096, 1024], true, |x| x.cumsum(1)),
    ]
}
