//! How long convolutions, pools and batch norm take, forward and backward, on one thread and on two: milliseconds of the
//! clock, the median of many runs and the least.
//!
//! `cargo run --release -p elinvar-cpu --example time_conv [NAME..]`: only rows whose name has one of these in it.

use elinvar_core::{DType, HostData, Layout, Precision, Shape};
use elinvar_cpu::{Cpu, CpuBuffer, CpuDevice};
use elinvar_ops::backend::*;
use elinvar_ops::catalogue::normalize::{NormalProducts, Normalize, NormalizeGrad};
use elinvar_ops::fold::Sum;
use elinvar_ops::map::Compiled;
use timing::{Tensor, Timed};

mod timing;

fn convolutions(t: &Timed) {
    // images, channels in and out, plane, taps, stride, padding, groups
    let all = [
        [8, 3, 64, 224, 7, 2, 3, 1],
        [8, 64, 64, 56, 3, 1, 1, 1],
        [8, 256, 256, 14, 3, 1, 1, 1],
        [8, 256, 1024, 14, 1, 1, 0, 1],
        [8, 144, 144, 56, 3, 1, 1, 144],
    ];
    for [n, c, k, h, r, s, p, g] in all {
        let name = format!("conv2d n{n} c{c} k{k} h{h} r{r} s{s} p{p} g{g}");
        let o = (h + 2 * p - r) / s + 1;
        let conv = Conv {
            stride: vec![s; 2],
            padding: vec![p; 2],
            dilation: vec![1; 2],
            groups: g,
            precision: Precision::Exact,
        };
        let (x, w, gy) =
            (Tensor::new(&[n, c, h, h]), Tensor::new(&[k, c / g, r, r]), Tensor::new(&[n, k, o, o]));
        let y = |d: &CpuDevice| drop(Cpu::conv(d, &conv, x.view(), w.view(), &[o, o], None, &[]).unwrap());
        let dx = |d: &CpuDevice| {
            drop(Cpu::conv_input_grad(d, &conv, gy.view(), w.view(), &[h, h]).unwrap());
        };
        let dw = |d: &CpuDevice| {
            drop(Cpu::conv_weight_grad(d, &conv, x.view(), gy.view(), &[r, r]).unwrap());
        };
        t.show(&format!("{name} y"), y);
        t.show(&format!("{name} dx"), dx);
        t.show(&format!("{name} dw"), dw);
        t.show(&format!("{name} all"), |d| {
            y(d);
            dx(d);
            dw(d);
        });
    }
}

fn pools(t: &Timed) {
    for (k, s, p) in [(2, 2, 0), (3, 2, 1)] {
        let (n, c, h) = (8, 64, 112);
        let o = (h + 2 * p - k) / s + 1;
        let x = Tensor::new(&[n, c, h, h]);
        // As the op has them: what lies in the padding is not in the table.
        let starts = || (0..o).map(|i| (i * s) as isize - p as isize);
        let axis = Windows {
            start: starts().map(|i| i.max(0)).collect(),
            len: starts().map(|i| (i + k as isize).min(h as isize) - i.max(0)).map(|n| n as usize).collect(),
            divisor: vec![k; o],
            dilation: 1,
        };
        let g = Tensor::new(&[n, c, o * o]);
        for kind in [PoolKind::Max, PoolKind::Avg] {
            let pool = Pool { kind, axes: vec![axis.clone(), axis.clone()] };
            let name = format!("pool {kind:?} {n}x{c}x{h}x{h} k{k} s{s} p{p}");
            t.show(&format!("{name} y"), |d| drop(Cpu::pool(d, &pool, x.view()).unwrap()));
            if kind == PoolKind::Avg {
                let windows = Layout::contiguous(Shape::new(&[n, c, o, o]).unwrap());
                let gy = g.with(&windows);
                t.show(&format!("{name} dx"), |d| {
                    drop(Cpu::avg_pool_grad(d, &pool, gy, &[h, h]).unwrap());
                });
                continue;
            }
            let winners = Cpu::pool(&t.devices[1], &pool, x.view()).unwrap().1.unwrap();
            let index = View::<Cpu> { buffer: &winners, layout: &g.layout, dtype: DType::I64 };
            let zero = CpuBuffer::from(HostData::F32([0.0].into()));
            let plane = Shape::new(&[n, c, h * h]).unwrap();
            let zeros = Layout::contiguous(Shape::new(&[1]).unwrap()).broadcast_to(&plane, "zeros").unwrap();
            let base = View::<Cpu> { buffer: &zero, layout: &zeros, dtype: DType::F32 };
            t.show(&format!("{name} dx"), |d| {
                drop(Cpu::scatter(d, Scatter::Add, base, 2, index, g.view()).unwrap());
            });
        }
    }
}

fn norms(t: &Timed) {
    let dims = [8, 64, 56, 56];
    let (x, g) = (Tensor::new(&dims), Tensor::new(&dims));
    let (w, b) = (Tensor::new(&[64, 1, 1]), Tensor::new(&[64, 1, 1]));
    let rows = |v: &Layout| v.permute(&[1, 0, 2, 3]);
    let (xr, gr) = (rows(&x.layout), rows(&g.layout));
    let wide = |v: &Layout| rows(&v.broadcast_to(x.layout.shape(), "w").unwrap());
    let (wr, br) = (wide(&w.layout), wide(&b.layout));
    let name = "batch_norm 8x64x56x56";
    let y = |d: &CpuDevice| {
        let all = [x.with(&xr), w.with(&wr), b.with(&br)];
        drop(Cpu::rows(d, &Compiled::<_, 3>(Normalize { eps: 1e-5 }), &all, 1, DType::F32).unwrap());
    };
    let dx = |d: &CpuDevice| {
        let all = [x.with(&xr), g.with(&gr), w.with(&wr)];
        drop(Cpu::rows(d, &Compiled::<_, 3>(NormalizeGrad { eps: 1e-5 }), &all, 1, DType::F32).unwrap());
    };
    let dw = |d: &CpuDevice| {
        let all = [x.with(&xr), g.with(&gr)];
        drop(Cpu::rows(d, &Compiled::<_, 2>(NormalProducts { eps: 1e-5 }), &all, 1, DType::F32).unwrap());
    };
    let db = |d: &CpuDevice| drop(Cpu::fold::<Sum>(d, g.with(&gr), 1, DType::F32).unwrap());
    t.show(&format!("{name} y"), y);
    t.show(&format!("{name} dx"), dx);
    t.show(&format!("{name} dw"), dw);
    t.show(&format!("{name} db"), db);
    t.show(&format!("{name} all"), |d| {
        y(d);
        dx(d);
        dw(d);
        db(d);
    });
}

fn main() {
    let t = Timed::new();
    convolutions(&t);
    pools(&t);
    norms(&t);
}
