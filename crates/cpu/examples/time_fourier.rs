//! How long Fourier transforms of about 2^17 numbers take, on one thread: a line of type, op,
//! rows, length and the least milliseconds, for a program that measures another library.
//!
//! `cargo run --release -p elinvar-cpu --example time_fourier [ISA]`

use elinvar_core::DType;
use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_ops::catalogue::fourier::Norm;
use elinvar_ops::catalogue::pad::Mode;
use elinvar_ops::catalogue::stft::Frames;
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
        let row = |op: &str, rows: usize, n: usize, ms: f64| println!("{dtype} {op} {rows} {n} {ms:.5}");
        let noise = |shape: &[usize]| {
            let numbers =
                (0..shape.iter().product()).map(|i: usize| ((i * 7919) % 1009) as f64 / 504.0 - 1.0);
            Array::<Cpu>::from_f64s(&d, numbers.collect(), shape, dtype).unwrap()
        };
        for n in LENGTHS {
            let rows = ((1 << 17) / n).max(1);
            let (x, z, half) = (noise(&[rows, n]), noise(&[rows, n, 2]), noise(&[rows, n / 2 + 1, 2]));
            row("fft", rows, n, least(&|| Cpu::fft(&z, None, -1, Norm::Backward).unwrap()));
            row("ifft", rows, n, least(&|| Cpu::ifft(&z, None, -1, Norm::Backward).unwrap()));
            row("rfft", rows, n, least(&|| Cpu::rfft(&x, None, -1, Norm::Backward).unwrap()));
            row("irfft", rows, n, least(&|| Cpu::irfft(&half, Some(n), -1, Norm::Backward).unwrap()));
        }
        for (rows, n) in [(64, 64), (4, 256), (1, 1024)] {
            let z = noise(&[rows, n, n, 2]);
            row("fft2", rows, n, least(&|| Cpu::fft2(&z, None, [-2, -1], Norm::Backward).unwrap()));
        }
        let (signal, window) = (noise(&[8, 16_000]), noise(&[400]));
        let frames = Frames { hop_length: 160, ..Frames::new(400) };
        let stft = || Cpu::stft(&signal, Some(&window), &frames, Mode::Reflect).unwrap();
        row("stft", 8, 400, least(&stft));
        let spectra = stft();
        let istft = || Cpu::istft(&spectra, Some(&window), &frames, None).unwrap();
        row("istft", 8, 400, least(&istft));
    }
}
