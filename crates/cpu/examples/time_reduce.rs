//! How long work along axes and attention take, with the reference, on one thread and on two: seconds of processor time
//! for one thread (the mean of many runs), of the clock for two (the least of seven). An argument picks by name.

#[path = "../tests/common/data.rs"]
mod data;

use data::{Data, Numbers};
use elinvar_core::{DType, HostData, Layout, Shape};
use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_ops::backend::*;
use elinvar_ops::fold::Sum;
use elinvar_ops::map::Compiled;
use elinvar_reference::{Reference, ReferenceDevice};
use std::sync::LazyLock;
use std::time::Instant;

fn least(tries: usize, mut f: impl FnMut()) -> f64 {
    (0..tries)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

fn noise(n: usize) -> Data {
    HostData::F32((0..n).map(|i| ((i * 7919) % 1013) as f32 / 500.0 - 1.0).collect()).into()
}

/// A look at numbers, for either backend.
trait Look<B: Backend> {
    fn look<'a>(&'a self, layout: &'a Layout) -> View<'a, B>;
}

impl Look<Cpu> for Data {
    fn look<'a>(&'a self, layout: &'a Layout) -> View<'a, Cpu> {
        View { buffer: self.cpu(), layout, dtype: self.dtype() }
    }
}

impl Look<Reference> for Data {
    fn look<'a>(&'a self, layout: &'a Layout) -> View<'a, Reference> {
        View { buffer: self, layout, dtype: self.dtype() }
    }
}

/// Seconds that this thread was on a processor, which the machine's other work does not change; of the clock where the
/// system does not tell.
fn on_processor() -> f64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let seconds = text.split(' ').next().and_then(|n| n.parse::<f64>().ok()).map(|n| n * 1e-9);
    seconds.unwrap_or_else(|| START.elapsed().as_secs_f64())
}

struct Timed {
    one: CpuDevice,
    two: CpuDevice,
    only: Option<String>,
}

impl Timed {
    fn show(&self, name: &str, bytes: f64, cpu: impl Fn(&CpuDevice), reference: impl Fn()) {
        if self.only.as_ref().is_some_and(|o| !name.contains(o.as_str())) {
            return;
        }
        let two = least(7, || cpu(&self.two));
        // The clock of the processor ticks every few milliseconds: a mean over many.
        let (start, mut runs) = (on_processor(), 0);
        while on_processor() - start < 0.15 {
            cpu(&self.one);
            runs += 1;
        }
        let one = (on_processor() - start) / f64::from(runs);
        let start = on_processor();
        reference();
        let slow = on_processor() - start;
        println!(
            "{name:28} 1 thread {:9.3} ms ({:6.1} G/s)  2 threads {:9.3} ms ({:6.1} G/s)  reference {:9.2} ms: {:.1}, {:.1} times",
            one * 1e3,
            bytes / one / 1e9,
            two * 1e3,
            bytes / two / 1e9,
            slow * 1e3,
            slow / one,
            slow / two
        );
    }
}

fn main() {
    let isa = Isa::best();
    let t = Timed {
        one: CpuDevice::new(isa, 1).unwrap(),
        two: CpuDevice::new(isa, 2).unwrap(),
        only: std::env::args().nth(1),
    };
    let shape = |d: &[usize]| Layout::contiguous(Shape::new(d).unwrap());
    macro_rules! view {
        ($x:expr, $l:expr) => {
            $x.look(&$l)
        };
    }
    let sums = [
        ("sum of 1e7", shape(&[10_000_000]), 0),
        ("sum of rows 4096x4096", shape(&[4096, 4096]), 1),
        ("sum of columns 4096x4096", shape(&[4096, 4096]).transpose(0, 1), 1),
        ("sum of columns 65536x64", shape(&[65536, 64]).transpose(0, 1), 1),
        ("sum of rows 1e6x10", shape(&[1_000_000, 10]), 1),
        ("sum of rows 1e5x100", shape(&[100_000, 100]), 1),
        ("sum over 0,2,3 of 32x64x56x56", shape(&[32, 64, 3136]).permute(&[1, 0, 2]), 1),
    ];
    for (name, l, kept) in sums {
        let x = noise(l.shape().numel());
        t.show(
            name,
            x.len() as f64 * 4.0,
            |d| drop(Cpu::fold::<Sum>(d, view!(x, l), kept, DType::F32).unwrap()),
            || drop(Reference::fold::<Sum>(&ReferenceDevice, view!(x, l), kept, DType::F32).unwrap()),
        );
    }
    let l = shape(&[4096, 1024]);
    let x = noise(4096 * 1024);
    {
        use elinvar_ops::catalogue::{
            log_softmax::LogSoftmax,
            normalize::{Normalize, NormalizeGrad},
            softmax::{Softmax, SoftmaxGrad},
        };
        let w = noise(1024);
        let wl = shape(&[1024]).broadcast_to(l.shape(), "w").unwrap();
        macro_rules! timed {
            ($name:expr, $r:expr, $x:expr) => {
                t.show(
                    $name,
                    x.len() as f64 * 4.0,
                    |d| {
                        drop(
                            Cpu::rows(
                                d,
                                &$r,
                                &$x.map(|(x, l): (&Data, &Layout)| view!(*x, *l)),
                                1,
                                DType::F32,
                            )
                            .unwrap(),
                        )
                    },
                    || {
                        drop(
                            Reference::rows(
                                &ReferenceDevice,
                                &$r,
                                &$x.map(|(x, l): (&Data, &Layout)| view!(*x, *l)),
                                1,
                                DType::F32,
                            )
                            .unwrap(),
                        )
                    },
                )
            };
        }
        timed!("softmax 4096x1024", Compiled::<_, 1>(Softmax), [(&x, &l)]);
        timed!("softmax_grad 4096x1024", Compiled::<_, 2>(SoftmaxGrad), [(&x, &l), (&x, &l)]);
        timed!("log_softmax 4096x1024", Compiled::<_, 1>(LogSoftmax), [(&x, &l)]);
        timed!(
            "layer_norm 4096x1024",
            Compiled::<_, 3>(Normalize { eps: 1e-5 }),
            [(&x, &l), (&w, &wl), (&w, &wl)]
        );
        timed!(
            "layer_norm_grad 4096x1024",
            Compiled::<_, 3>(NormalizeGrad { eps: 1e-5 }),
            [(&x, &l), (&x, &l), (&w, &wl)]
        );
        let (s, sl) = (noise(1_000_000), shape(&[100_000, 10]));
        timed!("softmax 1e5x10", Compiled::<_, 1>(Softmax), [(&s, &sl)]);
        let tl = shape(&[1024, 4096]).transpose(0, 1);
        timed!("softmax of columns 1024x4096", Compiled::<_, 1>(Softmax), [(&x, &tl)]);
    }
    for causal in [false, true] {
        let a = Attention::exact(0.125, causal);
        let l = shape(&[4, 8, 512, 64]);
        let x = noise(l.shape().numel());
        let (o, lse) = Cpu::attention(&t.two, &a, view!(x, l), view!(x, l), view!(x, l), None).unwrap();
        let [o, lse] = [o, lse].map(|y| Data::from(y.numbers().clone()));
        let ll = shape(&[4, 8, 512]);
        let flops = 4.0 * 32.0 * 512.0 * 512.0 * 64.0;
        t.show(
            if causal { "attention causal" } else { "attention" },
            flops,
            |d| drop(Cpu::attention(d, &a, view!(x, l), view!(x, l), view!(x, l), None).unwrap()),
            || {
                drop(
                    Reference::attention(&ReferenceDevice, &a, view!(x, l), view!(x, l), view!(x, l), None)
                        .unwrap(),
                )
            },
        );
        t.show(
            if causal { "attention gradient causal" } else { "attention gradient" },
            flops * 2.5,
            |d| {
                drop(
                    Cpu::attention_grad(
                        d,
                        &a,
                        view!(x, l),
                        view!(x, l),
                        view!(x, l),
                        None,
                        view!(o, l),
                        view!(lse, ll),
                        view!(x, l),
                    )
                    .unwrap(),
                )
            },
            || {
                drop(
                    Reference::attention_grad(
                        &ReferenceDevice,
                        &a,
                        view!(x, l),
                        view!(x, l),
                        view!(x, l),
                        None,
                        view!(o, l),
                        view!(lse, ll),
                        view!(x, l),
                    )
                    .unwrap(),
                )
            },
        );
    }
    {
        let (x, l) = (noise(1_000_000), shape(&[1_000_000]));
        t.show(
            "cumsum 1e6",
            4e6,
            |d| drop(Cpu::scan(d, Scan::Sum, view!(x, l), DType::F32).unwrap()),
            || drop(Reference::scan(&ReferenceDevice, Scan::Sum, view!(x, l), DType::F32).unwrap()),
        );
        t.show(
            "sort 1e6",
            1e6,
            |d| drop(Cpu::sort(d, view!(x, l), false, l.shape()[l.rank() - 1]).unwrap()),
            || drop(Reference::sort(&ReferenceDevice, view!(x, l), false, l.shape()[l.rank() - 1]).unwrap()),
        );
        let l = shape(&[1000, 1000]);
        t.show(
            "argmax 1000x1000",
            4e6,
            |d| drop(Cpu::arg_fold(d, ArgFold::Max, view!(x, l), 1).unwrap()),
            || drop(Reference::arg_fold(&ReferenceDevice, ArgFold::Max, view!(x, l), 1).unwrap()),
        );
        let (x, l) = (noise(32 * 64 * 56 * 56), shape(&[32, 64, 56, 56]));
        for kind in [PoolKind::Max, PoolKind::Avg] {
            let axis = Windows {
                start: (0..28).map(|i| i * 2).collect(),
                len: vec![2; 28],
                divisor: vec![2; 28],
                dilation: 1,
            };
            let p = Pool { kind, axes: vec![axis.clone(), axis] };
            t.show(
                &format!("pool {kind:?} 2x2 of 32x64x56x56"),
                x.len() as f64 * 4.0,
                |d| drop(Cpu::pool(d, &p, view!(x, l)).unwrap()),
                || drop(Reference::pool(&ReferenceDevice, &p, view!(x, l)).unwrap()),
            );
        }
    }
}
