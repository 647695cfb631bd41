//! How long Fourier transforms of about 2^17 numbers take, on one thread: a line of type, op,
//! rows, length and the least milliseconds, for a program that measures another library.
//!
//! `cargo run --release -p elinvar-cpu --example time_fourier [ISA]`

use elinvar_core::DType;
use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_ops::catalogue::fourier::Norm;
use elinvar_ops::{Array, Door};
use std::time::Instant;

const LENGTHS: [usize; 14] = [16, 64, 127, 128, 256, 512, 997, 1000, 1024, 2048, 4096, 16384, 65536, 1 << 20];

fn main() {
    let isa = std::env::args().nth(1).map_or(Isa::best(), |name| name.parse().expect("an instruction set"));
    let d = CpuDevice::new(isa, 1).unwrap();
    let least = |f: &dyn Fn() -> Array<Cpu>| {
        let (start, mut least) = (Instant::now(), f64::INFINITY);
        while start.elapsed().as_secs_f64() < 0.3 {
            let one = Instant::now();
            f().block_until_ready().unwrap();
            least = least.min(one.elapsed().as_secs_f64());
        }
        least * 1e3
    };
    for dtype in [DType::F32, DType::F64] {
        for n in LENGTHS {
            let rows = ((1 << 17) / n).max(1);
            let noise =
                |len: usize| (0..len).map(|i| ((i * 7919) % 1009) as f64 / 504.0 - 1.0).collect::<Vec<_>>();
            let x = Array::<Cpu>::from_f64s(&d, noise(rows * n), &[rows, n], dtype).unwrap();
            let z = Array::from_f64s(&d, noise(rows * n * 2), &[rows, n, 2], dtype).unwrap();
            let half =
                Array::from_f64s(&d, noise(rows * (n / 2 + 1) * 2), &[rows, n / 2 + 1, 2], dtype).unwrap();
            let row = |op: &str, ms: f64| println!("{dtype} {op} {rows} {n} {ms:.5}");
            row("fft", least(&|| Cpu::fft(&z, None, -1, Norm::Backward).unwrap()));
            row("ifft", least(&|| Cpu::ifft(&z, None, -1, Norm::Backward).unwrap()));
            row("rfft", least(&|| Cpu::rfft(&x, None, -1, Norm::Backward).unwrap()));
            row("irfft", least(&|| Cpu::irfft(&half, Some(n), -1, Norm::Backward).unwrap()));
        }
    }
}
