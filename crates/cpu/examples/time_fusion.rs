//! How long maps in a row take, put off (one pass over memory) and each at once, on two threads:
//! the least of many runs.

use elinvar_core::DType;
use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_ops::catalogue::gelu::Approximate;
use elinvar_tensor::{Generator, Tensor};
use std::time::Instant;

fn least(f: &dyn Fn() -> Tensor<Cpu>) -> f64 {
    let runs = || {
        let start = Instant::now();
        f().block_until_ready().expect("memory enough");
        start.elapsed().as_secs_f64()
    };
    let (start, mut least) = (Instant::now(), f64::INFINITY);
    while start.elapsed().as_secs_f64() < 0.2 {
        least = runs().min(least);
    }
    least * 1e6
}

fn main() {
    let two = CpuDevice::new(Isa::best(), 2).expect("two threads");
    for n in [4, 1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 24] {
        for (name, from) in [("put off", 0), ("at once", usize::MAX)] {
            let d = two.clone().fuse_from(from);
            let x: Tensor<Cpu> = Generator::new(1).randn([n], &d);
            let y: Tensor<Cpu> = Generator::new(2).randn([n], &d);
            let chain = || (&x * 1.5 + 0.25).gelu(Approximate::None) * 0.5 + 1.0;
            println!(
                "{n:9} {name}: add {:10.2} us, exp {:10.2} us, chain {:10.2} us, cast {:10.2} us",
                least(&|| &x + &y),
                least(&|| x.exp()),
                least(&chain),
                least(&|| x.to_dtype(DType::BF16)),
            );
        }
    }
}
