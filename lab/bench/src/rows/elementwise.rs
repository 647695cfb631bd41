//! Elementwise work, and copies.

use super::forward;
use crate::row::{Group, Row};
use elinvar::ops::catalogue::gelu::Approximate;
use elinvar::{DType, Tensor};

/// Elements that fit in L1, in L2, in the shared cache, and in memory only.
const SIZES: [usize; 4] = [1 << 10, 1 << 16, 1 << 20, 1 << 24];
/// Those that exceed a core's private caches.
const LARGE: [usize; 2] = [1 << 20, 1 << 24];

fn row<F>(
    workload: &'static str,
    shape: impl Into<String>,
    make: impl Fn(&mut crate::Data<elinvar::Device>) -> F + 'static,
) -> Row
where
    F: FnMut() -> elinvar::Result<()> + 'static,
{
    Row::new(Group::Elementwise, workload, shape, DType::F32, make)
}

fn unary(workload: &'static str, f: fn(&Tensor) -> Tensor) -> impl Iterator<Item = Row> {
    SIZES.into_iter().map(move |n| {
        row(workload, n.to_string(), move |data| {
            let x = data.floats(&[n]);
            forward(move || f(&x))
        })
        .bytes(8 * n)
    })
}

fn binary(workload: &'static str, f: fn(&Tensor, &Tensor) -> Tensor) -> impl Iterator<Item = Row> {
    SIZES.into_iter().map(move |n| {
        row(workload, n.to_string(), move |data| {
            let (x, y) = (data.floats(&[n]), data.floats(&[n]));
            forward(move || f(&x, &y))
        })
        .bytes(12 * n)
    })
}

/// A square matrix plus a column or a row.
fn broadcast(workload: &'static str, other: &'static [usize]) -> Row {
    const N: usize = 1024;
    let sizes = other.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
    row(workload, format!("{N}x{N}+{sizes}"), move |data| {
        let (x, y) = (data.floats(&[N, N]), data.floats(other));
        forward(move || &x + &y)
    })
    .bytes(4 * (2 * N * N + N))
}

fn transpose_copy() -> Row {
    const N: usize = 2048;
    row("transpose_copy", format!("{N}x{N}"), |data| {
        let x = data.floats(&[N, N]);
        forward(move || x.t().contiguous())
    })
    .bytes(8 * N * N)
}

fn cast_bf16(n: usize) -> Row {
    row("cast_bf16", n.to_string(), move |data| {
        let x = data.floats(&[n]);
        forward(move || x.to_dtype(DType::BF16))
    })
    .bytes(6 * n)
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = vec![];
    rows.extend(binary("add", |x, y| x + y));
    rows.extend(binary("mul", |x, y| x * y));
    rows.extend(unary("exp", Tensor::exp));
    rows.extend(unary("tanh", Tensor::tanh));
    rows.extend(unary("gelu_erf", |x| x.gelu(Approximate::None)));
    rows.extend(unary("gelu_tanh", |x| x.gelu(Approximate::Tanh)));
    rows.extend(unary("chain", |x| (x * 1.5 + 0.25).gelu(Approximate::None) * 0.5 + 1.0));
    rows.extend(unary("chain10", |x| (0..5).fold(x.clone(), |y, _| (&y * x).abs())));
    rows.push(broadcast("bcast_col", &[1024, 1]));
    rows.push(broadcast("bcast_row", &[1024]));
    rows.push(transpose_copy());
    rows.extend(LARGE.map(cast_bf16));
    rows
}
