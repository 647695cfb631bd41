//! Matrix products.

use super::{boxed, forward};
use crate::row::{Group, Row};
use elinvar::{DType, Device, Precision};

/// Which operand is stored transposed.
#[derive(Clone, Copy)]
enum Order {
    /// x: [m, k]   w: [k, n]
    Nn,
    /// x: [m, k]   w: [n, k]
    Nt,
    /// x: [k, m]   w: [k, n]
    Tn,
}

/// A device that packs the right operand each time, also if it is unchanged: the row measures a
/// product of two activations, not of weights.
fn keeps_nothing(device: &Device) -> Device {
    match device {
        Device::Cpu(d) => Device::Cpu(d.clone().pack_up_to(0)),
        other => other.clone(),
    }
}

/// y\[m, n\], with operands stored as `order` states.
fn product(order: Order, [m, n, k]: [usize; 3], dtype: DType) -> Row {
    let name = match order {
        Order::Nn => "gemm_nn",
        Order::Nt => "gemm_nt",
        Order::Tn => "gemm_tn",
    };
    let make = move |data: &mut crate::Data<Device>| match order {
        Order::Nn => {
            let (x, w) = (data.of(&[m, k], dtype), data.of(&[k, n], dtype));
            boxed(forward(move || x.matmul(&w)))
        }
        Order::Nt => {
            data.device = keeps_nothing(&data.device);
            let (x, w) = (data.of(&[m, k], dtype), data.of(&[n, k], dtype));
            boxed(forward(move || x.matmul(&w.t())))
        }
        Order::Tn => {
            let (x, w) = (data.of(&[k, m], dtype), data.of(&[k, n], dtype));
            boxed(forward(move || x.t().matmul(&w)))
        }
    };
    Row::new(Group::Gemm, name, format!("{m}x{n}x{k}"), dtype, make)
        .flops(2 * m * n * k)
        .bytes(dtype.size() * (m * k + k * n + m * n))
}

/// y[m, n] = x w^T, w: [n, k], without a bias.
fn linear([m, n, k]: [usize; 3]) -> Row {
    Row::new(Group::Gemm, "linear", format!("{m}x{n}x{k}"), DType::F32, move |data| {
        let (x, w) = (data.floats(&[m, k]), data.floats(&[n, k]));
        forward(move || x.linear(&w, None))
    })
    .flops(2 * m * n * k)
    .bytes(4 * (m * k + k * n + m * n))
}

/// The same with a prepacked weight, as in serving.
fn linear_prepacked([m, n, k]: [usize; 3]) -> Row {
    Row::new(Group::Gemm, "linear_prepacked", format!("{m}x{n}x{k}"), DType::F32, move |data| {
        let (x, w) = (data.floats(&[m, k]), data.floats(&[n, k]));
        w.t().prepack();
        forward(move || x.linear(&w, None))
    })
    .flops(2 * m * n * k)
    .bytes(4 * (m * k + k * n + m * n))
}

/// `gemm_nn` with `Precision::Fast`.
fn fast(n: usize, dtype: DType) -> Row {
    Row::new(Group::Gemm, "gemm_nn_fast", format!("{n}x{n}x{n}"), dtype, move |data| {
        let (x, w) = (data.of(&[n, n], dtype), data.of(&[n, n], dtype));
        forward(move || Precision::Fast.scope(|| x.matmul(&w)))
    })
    .flops(2 * n * n * n)
    .bytes(3 * dtype.size() * n * n)
}

/// y[b, m, n] = x[b, m, k] w[b, k, n]
fn batched([b, m, n, k]: [usize; 4]) -> Row {
    Row::new(Group::Gemm, "bmm", format!("{b}x{m}x{n}x{k}"), DType::F32, move |data| {
        let (x, w) = (data.floats(&[b, m, k]), data.floats(&[b, k, n]));
        forward(move || x.bmm(&w))
    })
    .flops(2 * b * m * n * k)
    .bytes(4 * b * (m * k + k * n + m * n))
}

pub(super) fn rows() -> Vec<Row> {
    let square = |order, n, dtype| product(order, [n, n, n], dtype);
    let mut rows = vec![];
    rows.extend([64, 128, 256, 512, 1024, 2048].map(|n| square(Order::Nn, n, DType::F32)));
    rows.extend([DType::F64, DType::BF16, DType::F16].map(|dtype| square(Order::Nn, 1024, dtype)));
    rows.push(fast(1024, DType::BF16));
    for order in [Order::Nt, Order::Tn] {
        rows.extend([256, 1024].map(|n| square(order, n, DType::F32)));
    }
    for nk in [1024, 4096] {
        rows.extend([1, 8, 32].map(|m| linear([m, nk, nk])));
        rows.extend([1, 8, 32].map(|m| linear_prepacked([m, nk, nk])));
    }
    rows.extend([[64, 64, 64, 64], [96, 128, 128, 64]].map(batched));
    rows
}
