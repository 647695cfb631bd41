//! How long folds, scans, row-wise formulas and copies of the sizes that libraries are compared by
//! take: milliseconds of the clock, on one thread and on two.
//!
//! `cargo run --release -p elinvar-cpu --example time_rowwise [NAME..]`: only rows whose name has
//! one of these in it.

use elinvar_core::Result;
use elinvar_core::{DType, Layout, Shape};
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_ops::Array;
use elinvar_ops::backend::*;
use elinvar_ops::casting::All;
use elinvar_ops::catalogue as c;
use elinvar_ops::catalogue::normalize::{Normalize, NormalizeGrad};
use elinvar_ops::catalogue::softmax::Softmax;
use elinvar_ops::fold::{self, Sum};
use elinvar_ops::map::Compiled;
use timing::{Tensor, Timed};

mod timing;

type Unary = fn(&Array<Cpu>) -> Result<Array<Cpu>>;

fn main() {
    let t = Timed::new();
    let shape = |d: &[usize]| Shape::new(d).unwrap();
    let layout = |d: &[usize]| Layout::contiguous(shape(d));
    {
        let x = Tensor::new(&[1 << 24]);
        for f in [Fold::Sum, Fold::Max] {
            t.show(&format!("{f:?} of 2^24"), |d| {
                drop(fold::by::<Cpu>(d, f, x.view(), 0, DType::F32).unwrap())
            });
        }
        let rows = layout(&[4096, 4096]);
        let columns = rows.transpose(0, 1);
        t.show("sum_axis0 4096x4096", |d| {
            drop(Cpu::fold::<Sum>(d, x.with(&columns), 1, DType::F32).unwrap());
        });
        t.show("sum_axis1 4096x4096", |d| {
            drop(Cpu::fold::<Sum>(d, x.with(&rows), 1, DType::F32).unwrap());
        });
        t.show("argmax_axis1 4096x4096", |d| {
            drop(Cpu::arg_fold(d, ArgFold::Max, x.with(&rows), 1).unwrap());
        });
        for n in [1 << 20, 1 << 24] {
            t.show(&format!("cast_bf16 {n}"), |d| {
                drop(Cpu::cast::<All>(d, x.with(&layout(&[n])), DType::BF16).unwrap());
            });
        }
    }
    for dims in [&[4096, 1024][..], &[16, 12, 128, 128]] {
        let x = Tensor::new(dims);
        t.show(&format!("softmax {dims:?}"), |d| {
            drop(Cpu::rows(d, &Compiled::<_, 1>(Softmax), &[x.view()], dims.len() - 1, DType::F32).unwrap());
        });
    }
    {
        let (x, w, b) = (Tensor::new(&[4096, 768]), Tensor::new(&[768]), Tensor::new(&[768]));
        let wide = w.layout.broadcast_to(x.layout.shape(), "w").unwrap();
        t.show("layer_norm 4096x768", |d| {
            let r = Normalize { eps: 1e-5 };
            drop(
                Cpu::rows(d, &Compiled::<_, 3>(r), &[x.view(), w.with(&wide), b.with(&wide)], 1, DType::F32)
                    .unwrap(),
            );
        });
    }
    {
        let (x, w) = (Tensor::new(&[8, 64, 56, 56]), Tensor::new(&[1, 64, 1, 1]));
        let channels = |l: &Layout| l.permute(&[1, 0, 2, 3]);
        let wide = channels(&w.layout.broadcast_to(x.layout.shape(), "w").unwrap());
        let by = channels(&x.layout);
        t.show("batch_norm 8x64x56x56", |d| {
            let r = Normalize { eps: 1e-5 };
            let x = [x.with(&by), w.with(&wide), w.with(&wide)];
            drop(Cpu::rows(d, &Compiled::<_, 3>(r), &x, 1, DType::F32).unwrap());
        });
        t.show("batch_norm gradient 8x64x56x56", |d| {
            let r = NormalizeGrad { eps: 1e-5 };
            let x = [x.with(&by), x.with(&by), w.with(&wide)];
            drop(Cpu::rows(d, &Compiled::<_, 3>(r), &x, 1, DType::F32).unwrap());
        });
        t.show("mean of channels 8x64x56x56", |d| {
            drop(Cpu::fold::<Sum>(d, x.with(&by), 1, DType::F32).unwrap());
        });
    }
    {
        let x = Tensor::new(&[4096, 1024]);
        t.show("cumsum_axis1 4096x1024", |d| {
            drop(Cpu::scan(d, Scan::Sum, x.view(), DType::F32).unwrap());
        });
    }
    {
        let x = Tensor::new(&[2048, 2048]);
        let turned = x.layout.transpose(0, 1);
        t.show("transpose_copy 2048x2048", |d| {
            drop(Cpu::copy(d, x.with(&turned)).unwrap());
        });
    }
    let array =
        |d: &CpuDevice, dims: &[usize]| Array::<Cpu>::new(d, Tensor::new(dims).data, shape(dims), DType::F32);
    for (name, dims) in [("bcast_col", &[1024, 1][..]), ("bcast_row", &[1024])] {
        let both = t.devices.each_ref().map(|d| (array(d, &[1024, 1024]), array(d, dims)));
        t.show(&format!("{name} 1024x1024"), |d| {
            let (x, y) = &both[d.threads() - 1];
            c::add(x, y).unwrap().buffer().data().unwrap();
        });
    }
    let unary: [(&str, Unary); 4] = [
        ("exp", |x| c::exp(x)),
        ("tanh", |x| c::tanh(x)),
        ("gelu_erf", |x| c::gelu(x, c::gelu::Approximate::None)),
        ("gelu_tanh", |x| c::gelu(x, c::gelu::Approximate::Tanh)),
    ];
    for n in [1 << 10, 1 << 16, 1 << 20, 1 << 24] {
        let both = t.devices.each_ref().map(|d| array(d, &[n]));
        for (name, f) in unary {
            t.show(&format!("{name} {n}"), |d| {
                f(&both[d.threads() - 1]).unwrap().buffer().data().unwrap();
            });
        }
    }
}
