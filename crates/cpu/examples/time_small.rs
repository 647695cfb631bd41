//! What an op costs that has next to nothing to compute: nanoseconds of one call.

use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_tensor::{Generator, Tensor};
use std::hint::black_box;
use std::time::Instant;

fn show(name: &str, mut f: impl FnMut()) {
    let mut least = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        (0..20_000).for_each(|_| f());
        least = least.min(start.elapsed().as_secs_f64() / 20_000.0);
    }
    println!("{name:24} {:8.1} ns", least * 1e9);
}

fn main() {
    let d = CpuDevice::default();
    let mut rng = Generator::new(1);
    let (a, b): (Tensor<Cpu>, Tensor<Cpu>) = (rng.randn([4], &d), rng.randn([4], &d));
    let r = a.clone().requires_grad();
    show("create [2]", || drop(black_box(Tensor::<Cpu>::new([1.0f32, 2.0], &d))));
    show("add [4]", || drop(black_box(&a + &b)));
    show("add [4], recorded", || drop(black_box(&r + &b)));
    show("reshape [4] to [2, 2]", || drop(black_box(a.reshape([2, 2]))));
}
