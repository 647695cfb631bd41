//! How fast elementwise work, copies and random numbers are here, and how much faster than the reference.
//!
//! `cargo run --release -p elinvar-cpu --example time_elementwise [NAME]`

use elinvar_core::philox::Stream;
use elinvar_core::{DType, HostData, Layout, Scalar, Shape};
use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_ops::backend::{Random, Scatter};
use elinvar_ops::casting::All;
use elinvar_ops::catalogue as c;
use elinvar_ops::{Array, Backend, View};
use elinvar_reference::{Reference, ReferenceDevice};
use std::hint::black_box;
use std::time::Instant;

/// Seconds of the fastest of several runs.
fn least(mut f: impl FnMut()) -> f64 {
    let (all, mut best, mut runs) = (Instant::now(), f64::INFINITY, 0);
    while runs < 3 || all.elapsed().as_secs_f64() < 0.15 && runs < 20_000 {
        let one = Instant::now();
        f();
        best = best.min(one.elapsed().as_secs_f64());
        runs += 1;
    }
    best
}

/// What is timed on every backend: its name, elements of the result, bytes read and written, and the work.
struct Row<B: Backend> {
    name: String,
    elements: usize,
    bytes: usize,
    work: Box<dyn Fn(&B::Device)>,
}

fn array<B: Backend>(d: &B::Device, dims: &[usize], dtype: DType) -> Array<B> {
    let shape = Shape::new(dims).unwrap();
    let n = shape.numel();
    let x = B::random(d, Random::Uniform { low: -3.0, high: 3.0 }, Stream { seed: 1, stream: 1 }, dtype, n)
        .unwrap();
    Array::new(d, x, shape, dtype)
}

/// The side of the square that copies are timed on, a power of two from 512 on: `SIDE`, or 2048. Less is measured better
/// where others use the machine, too.
fn side() -> usize {
    std::env::var("SIDE").ok().and_then(|n| n.parse().ok()).unwrap_or(2048)
}

fn rows<B: Backend>(d: &B::Device) -> Vec<Row<B>> {
    let mut all: Vec<Row<B>> = vec![];
    type Unary<B> = fn(&Array<B>) -> elinvar_core::Result<Array<B>>;
    let unary: [(&str, Unary<B>); 9] = [
        ("relu", |x| c::relu(x)),
        ("exp", |x| c::exp(x)),
        ("tanh", |x| c::tanh(x)),
        ("sigmoid", |x| c::sigmoid(x)),
        ("gelu", |x| c::gelu(x, c::gelu::Approximate::None)),
        ("log", |x| c::log(x)),
        ("sin", |x| c::sin(x)),
        ("erf", |x| c::erf(x)),
        ("isnan", |x| c::isnan(x)),
    ];
    for n in [10, 1_000, 100_000, 10_000_000] {
        let x = array::<B>(d, &[n], DType::F32);
        for (name, f) in unary {
            let x = x.clone();
            all.push(Row {
                name: format!("{name} {n}"),
                elements: n,
                bytes: 8 * n,
                work: Box::new(move |_| drop(black_box(f(&x).unwrap()))),
            });
        }
        let y = array::<B>(d, &[n], DType::F32);
        let one = array::<B>(d, &[1], DType::F32);
        let (a, b) = (x.clone(), y.clone());
        all.push(Row {
            name: format!("add {n}"),
            elements: n,
            bytes: 12 * n,
            work: Box::new(move |_| drop(black_box(c::add(&a, &b).unwrap()))),
        });
        let (a, b) = (x.clone(), y.clone());
        all.push(Row {
            name: format!("mul {n}"),
            elements: n,
            bytes: 12 * n,
            work: Box::new(move |_| drop(black_box(c::mul(&a, &b).unwrap()))),
        });
        let a = x.clone();
        all.push(Row {
            name: format!("add scalar {n}"),
            elements: n,
            bytes: 8 * n,
            work: Box::new(move |_| drop(black_box(c::add(&a, &one).unwrap()))),
        });
        let a = x.clone();
        all.push(Row {
            name: format!("pow {n}"),
            elements: n,
            bytes: 12 * n,
            work: Box::new(move |_| drop(black_box(c::pow(&a, &y).unwrap()))),
        });
    }
    let s = side();
    let n = s * s;
    let x = array::<B>(d, &[s, s], DType::F32);
    let bias = array::<B>(d, &[s], DType::F32);
    let a = x.clone();
    all.push(Row {
        name: "add bias".into(),
        elements: n,
        bytes: 8 * n,
        work: Box::new(move |_| drop(black_box(c::add(&a, &bias).unwrap()))),
    });
    for dtype in [DType::F16, DType::BF16] {
        let h = array::<B>(d, &[s, s], dtype);
        all.push(Row {
            name: format!("add {dtype}"),
            elements: n,
            bytes: 6 * n,
            work: Box::new(move |_| drop(black_box(c::add(&h, &h).unwrap()))),
        });
    }
    let copies = |x: &Array<B>, name: &str, layout: Layout, to: DType| {
        let x = x.clone();
        let n = layout.shape().numel();
        let bytes = n * (x.dtype().size() + to.size());
        Row {
            name: format!("copy {name} to {to}"),
            elements: n,
            bytes,
            work: Box::new(move |d: &B::Device| {
                let view = View { buffer: x.buffer(), layout: &layout, dtype: x.dtype() };
                drop(black_box(B::cast::<All>(d, view, to).unwrap()));
            }),
        }
    };
    let square = x.layout().clone();
    all.push(copies(&x, "contiguous", square.clone(), DType::F32));
    all.push(copies(&x, "transposed", square.transpose(0, 1), DType::F32));
    let x4 = Layout::contiguous(Shape::new(&[n / 262_144, 64, 64, 64]).unwrap());
    all.push(copies(&x, "nchw->nhwc", x4.permute(&[0, 2, 3, 1]), DType::F32));
    let x3 = Layout::contiguous(Shape::new(&[n / 3, 3]).unwrap());
    all.push(copies(&x, "[n,3] transposed", x3.transpose(0, 1), DType::F32));
    all.push(copies(
        &x,
        "[3,n] transposed",
        Layout::contiguous(Shape::new(&[3, n / 3]).unwrap()).transpose(0, 1),
        DType::F32,
    ));
    all.push(copies(&x, "flipped", square.flip(1), DType::F32));
    all.push(copies(
        &x,
        "heads transposed",
        Layout::contiguous(Shape::new(&[n / 65_536, 64, 16, 64]).unwrap()).transpose(1, 2),
        DType::F32,
    ));
    for to in DType::ALL {
        if to != DType::F32 {
            all.push(copies(&x, "f32", square.clone(), to));
        }
    }
    for from in DType::ALL {
        if from != DType::F32 {
            let y = c::cast(&x, from).unwrap();
            all.push(copies(&y, from.name(), square.clone(), DType::F32));
        }
    }
    let draws = [
        ("uniform", Random::Uniform { low: 0.0, high: 1.0 }, DType::F32),
        ("normal", Random::Normal { mean: 0.0, std: 1.0 }, DType::F32),
        ("bernoulli", Random::Bernoulli { p: 0.3 }, DType::Bool),
        ("bernoulli", Random::Bernoulli { p: 0.3 }, DType::F32),
        ("int", Random::Int { low: 0, high: 1000 }, DType::I64),
        ("normal", Random::Normal { mean: 0.0, std: 1.0 }, DType::F64),
    ];
    for (name, r, dtype) in draws {
        all.push(Row {
            name: format!("random {name} {dtype}"),
            elements: n,
            bytes: n * dtype.size(),
            work: Box::new(move |d| {
                drop(black_box(B::random(d, r, Stream { seed: 1, stream: 1 }, dtype, n).unwrap()))
            }),
        });
    }
    all.push(Row {
        name: "fill 1e6".into(),
        elements: 1_000_000,
        bytes: 4_000_000,
        work: Box::new(move |d| {
            drop(black_box(B::fill(d, Scalar::Float(1.5), DType::F32, 1_000_000).unwrap()))
        }),
    });
    let a = x.clone();
    all.push(Row {
        name: "concat 2".into(),
        elements: 2 * a.shape().numel(),
        bytes: 16 * a.shape().numel(),
        work: Box::new(move |_| drop(black_box(c::concat(&[&a, &a], 1).unwrap()))),
    });

    // By index: embedding rows, their gradient, and single elements.
    let count = 4 * s;
    let index: Vec<i64> = (0..count as i64).map(|i| i * 7919 % s as i64).collect();
    let index = B::upload(d, HostData::I64(index.into())).unwrap();
    let tall = Shape::new(&[count, s / 4]).unwrap();
    let il = Layout::contiguous(Shape::new(&[count, 1]).unwrap()).broadcast_to(&tall, "t").unwrap();
    let index = std::sync::Arc::new(index);
    let (a, i, l) = (x.clone(), index.clone(), il.clone());
    let rows512 = Layout::contiguous(Shape::new(&[count, s / 4]).unwrap());
    let base = rows512.clone();
    all.push(Row {
        name: "gather rows".into(),
        elements: n,
        bytes: n * 8,
        work: Box::new(move |d| {
            let x = View { buffer: a.buffer(), layout: &base, dtype: DType::F32 };
            drop(black_box(B::gather(d, x, 0, View { buffer: &*i, layout: &l, dtype: DType::I64 }).unwrap()));
        }),
    });
    let (a, i, l) = (x.clone(), index.clone(), il.clone());
    all.push(Row {
        name: "scatter-add rows".into(),
        elements: n,
        bytes: n * 12,
        work: Box::new(move |d| {
            let base = View { buffer: a.buffer(), layout: &rows512.slice(0, 0, s, 1), dtype: DType::F32 };
            let src = View { buffer: a.buffer(), layout: &rows512, dtype: DType::F32 };
            let i = View { buffer: &*i, layout: &l, dtype: DType::I64 };
            drop(black_box(B::scatter(d, Scatter::Add, base, 0, i, src).unwrap()));
        }),
    });
    let flags = c::cast(&c::relu(&x).unwrap(), DType::Bool).unwrap();
    all.push(Row {
        name: "nonzero".into(),
        elements: flags.shape().numel(),
        bytes: flags.shape().numel() * 5,
        work: Box::new(move |d| {
            drop(black_box(
                B::nonzero(d, View { buffer: flags.buffer(), layout: flags.layout(), dtype: DType::Bool })
                    .unwrap(),
            ));
        }),
    });
    all
}

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let one = CpuDevice::new(Isa::best(), 1).unwrap();
    let two = CpuDevice::new(Isa::best(), 2).unwrap();
    let avx2 = Isa::all().into_iter().nth(1).map(|isa| CpuDevice::new(isa, 1).unwrap());
    let reference = rows::<Reference>(&ReferenceDevice);
    let compare = std::env::var("NO_REFERENCE").is_err();
    println!(
        "{:32} {:>10} {:>9} {:>9} {:>10} {:>9} {:>10}",
        "", "us", "G/s", "GB/s", "2 threads", "avx2", "reference"
    );
    let on = |d: &CpuDevice| rows::<Cpu>(d);
    let (a, b, v) = (on(&one), on(&two), avx2.as_ref().map(on));
    for (i, row) in a.iter().enumerate().filter(|(_, row)| row.name.contains(&only)) {
        let us = |f: &dyn Fn()| least(f) * 1e6;
        let t = us(&|| (row.work)(&one));
        let t2 = us(&|| (b[i].work)(&two)) / t;
        let tv = v.as_ref().map_or(f64::NAN, |v| us(&|| (v[i].work)(avx2.as_ref().unwrap())) / t);
        let tr = if compare { us(&|| (reference[i].work)(&ReferenceDevice)) / t } else { f64::NAN };
        println!(
            "{:32} {t:10.2} {:9.3} {:9.2} {t2:9.2}x {tv:8.2}x {tr:9.1}x",
            row.name,
            row.elements as f64 / t / 1e3,
            row.bytes as f64 / t / 1e3
        );
    }
}
