//! Sizes that fill a large GPU, to measure its bandwidth and peak. Run only when asked for by name.

use super::{both_ways, forward};
use crate::harness::done;
use crate::row::{Group, Row};
use elinvar::nn::optim::{Adam, Optimizer};
use elinvar::nn::{Module, Param};
use elinvar::ops::Array;
use elinvar::ops::catalogue::gelu::Approximate;
use elinvar::{Any, DType, Gradients, Precision, Tensor};

/// Elements of workloads bound by memory: 256 MiB of f32.
const MANY: usize = 1 << 26;

/// Reads x once, and writes as much if `writes`.
fn moved(workload: &'static str, dims: &'static [usize], writes: bool, f: fn(&Tensor) -> Tensor) -> Row {
    let n: usize = dims.iter().product();
    let shape = dims.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
    Row::new(Group::Large, workload, shape, DType::F32, move |data| {
        let x = data.floats(dims);
        forward(move || f(&x))
    })
    .bytes(if writes { 8 * n } else { 4 * n })
}

fn add() -> Row {
    Row::new(Group::Large, "add", MANY.to_string(), DType::F32, |data| {
        let (x, y) = (data.floats(&[MANY]), data.floats(&[MANY]));
        forward(move || &x + &y)
    })
    .bytes(12 * MANY)
}

fn layer_norm() -> Row {
    const DIMS: [usize; 2] = [16384, 4096];
    Row::new(Group::Large, "layer_norm", "16384x4096", DType::F32, |data| {
        let (x, w, b) = (data.floats(&DIMS), data.floats(&DIMS[1..]), data.floats(&DIMS[1..]));
        forward(move || x.layer_norm(&DIMS[1..], Some(&w), Some(&b), 1e-5))
    })
    .bytes(8 * DIMS[0] * DIMS[1])
}

/// x w of n x n matrices.
fn product(n: usize, dtype: DType, precision: Precision) -> Row {
    let workload = match precision {
        Precision::Exact => "gemm_nn",
        Precision::Fast => "gemm_nn_fast",
    };
    Row::new(Group::Large, workload, format!("{n}x{n}x{n}"), dtype, move |data| {
        let (x, w) = (data.of(&[n, n], dtype), data.of(&[n, n], dtype));
        forward(move || precision.scope(|| x.matmul(&w)))
    })
    .flops(2 * n * n * n)
    .bytes(3 * dtype.size() * n * n)
}

/// Attention of bf16 with [`Precision::Fast`]. Causal work is counted as half, and the backward
/// pass takes five products where the forward pass takes two.
fn attention(causal: bool) -> [Row; 2] {
    const DIMS: [usize; 4] = [8, 16, 2048, 128];
    let [b, h, t, d] = DIMS;
    let shape = format!("{b}x{h}x{t}x{d}{}", if causal { "_causal" } else { "" });
    let attend = move |[q, k, v]: &[Tensor; 3]| {
        Precision::Fast.scope(|| q.scaled_dot_product_attention(k, v, None, causal, None, false))
    };
    let flops = 4 * b * h * t * t * d / if causal { 2 } else { 1 };
    let forwards = Row::new(Group::Large, "attn_f_fast", &*shape, DType::BF16, move |data| {
        let qkv = [(); 3].map(|()| data.of(&DIMS, DType::BF16));
        forward(move || attend(&qkv))
    });
    let both = Row::new(Group::Large, "attn_fb_fast", &*shape, DType::BF16, move |data| {
        let qkv = [(); 3].map(|()| data.of(&DIMS, DType::BF16).requires_grad());
        let variables = qkv.to_vec();
        both_ways(move || attend(&qkv), variables)
    });
    [forwards.flops(flops), both.flops(flops / 2 * 7).recorded()]
}

/// Convolutions as ResNet-50's stages have them, and both of their gradients.
fn conv([n, c, k, side]: [usize; 4], precision: Precision) -> [Row; 2] {
    let ([one, both], dtype) = match precision {
        Precision::Exact => (["conv2d_f", "conv2d_fb"], DType::F32),
        Precision::Fast => (["conv2d_f_fast", "conv2d_fb_fast"], DType::BF16),
    };
    let shape = format!("n{n}_c{c}_k{k}_h{side}_r3_s1_p1_g1");
    let of = move |x: &Tensor, w: &Tensor| precision.scope(|| x.conv2d(w, None, 1, 1, 1, 1));
    let flops = 2 * n * k * side * side * c * 9;
    let forwards = Row::new(Group::Large, one, &*shape, dtype, move |data| {
        let (x, w) = (data.of(&[n, c, side, side], dtype), data.of(&[k, c, 3, 3], dtype));
        forward(move || of(&x, &w))
    });
    let both = Row::new(Group::Large, both, &*shape, dtype, move |data| {
        let (x, w) = (data.of(&[n, c, side, side], dtype), data.of(&[k, c, 3, 3], dtype));
        let variables = vec![x.requires_grad(), w.requires_grad()];
        let (x, w) = (variables[0].clone(), variables[1].clone());
        both_ways(move || of(&x, &w), variables)
    });
    [forwards.flops(flops), both.flops(3 * flops).recorded()]
}

/// A step of Adam on 48 parameters of 2 Mi elements, with gradients given.
fn adam() -> Row {
    const COUNT: usize = 48;
    const EACH: usize = 1 << 21;
    Row::new(Group::Large, "adam", format!("{COUNT}x{EACH}"), DType::F32, |data| {
        let net: Vec<Param<Any>> = (0..COUNT).map(|_| Param::new(data.floats(&[EACH]))).collect();
        let given: Vec<Tensor> = (0..COUNT).map(|_| data.floats(&[EACH])).collect();
        let mut adam = Adam::new(1e-4);
        move || {
            let mut gradients = Gradients::new();
            for (p, g) in net.parameters().iter().zip(&given) {
                gradients.set(&p.get(), g.clone());
            }
            adam.step(&net, &gradients)?;
            done(&net.parameters()[COUNT - 1].get())
        }
    })
    // Parameter and two averages are read and written, the gradient is read.
    .bytes(7 * 4 * COUNT * EACH)
}

pub(super) fn rows() -> Vec<Row> {
    let copy = |x: &Tensor| Tensor::from_array(Array::copy(x.array()).expect("as much memory again"));
    let mut rows = vec![
        moved("copy", &[MANY], true, copy),
        add(),
        moved("exp", &[MANY], true, Tensor::exp),
        moved("gelu_tanh", &[MANY], true, |x| x.gelu(Approximate::Tanh)),
        moved("sum_all", &[MANY], false, Tensor::sum),
        moved("softmax", &[16384, 4096], true, |x| x.softmax(-1)),
        layer_norm(),
        adam(),
    ];
    for n in [4096, 8192] {
        rows.push(product(n, DType::F32, Precision::Exact));
        rows.extend([DType::F32, DType::BF16, DType::F16].map(|dtype| product(n, dtype, Precision::Fast)));
    }
    rows.extend([false, true].into_iter().flat_map(attention));
    for sizes in [[64, 64, 64, 56], [64, 256, 256, 14]] {
        rows.extend([Precision::Exact, Precision::Fast].into_iter().flat_map(|p| conv(sizes, p)));
    }
    rows
}
