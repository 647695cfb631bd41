//! Times of products of matrices and convolutions: minima over some runs, in GFLOP/s, and against the peak of a loop
//! that stays in registers.

use elinvar_core::{HostData, Layout, Shape};
use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_ops::Backend;
use elinvar_ops::backend::{Conv, Plain, View};
use elinvar_reference::{Reference, ReferenceDevice};
use std::hint::black_box;
use std::time::Instant;

fn layout(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).unwrap())
}

/// The least time of a call, in seconds: at least `least` calls, for about a fifth of a second.
fn time(least: usize, mut f: impl FnMut()) -> f64 {
    let (begin, mut best, mut n) = (Instant::now(), f64::INFINITY, 0);
    while n < least || begin.elapsed().as_secs_f64() < 0.2 {
        let start = Instant::now();
        f();
        best = best.min(start.elapsed().as_secs_f64());
        n += 1;
    }
    best
}

fn data<T: Clone>(n: usize, f: impl Fn(f64) -> T) -> Vec<T> {
    let mut s = 12345u64;
    (0..n)
        .map(|_| {
            s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            f((s >> 40) as f64 / (1u64 << 24) as f64 - 0.5)
        })
        .collect()
}

fn view<'a, B: Backend<Buffer = HostData>>(data: &'a HostData, layout: &Layout) -> View<'a, B> {
    View { buffer: data, layout: layout.clone(), dtype: data.dtype() }
}

/// What a loop of fma reaches that stays in registers.
fn peak(double: bool) -> f64 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has it.
            #[allow(unsafe_code)]
            return unsafe { registers(double) };
        }
    }
    f64::NAN
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn registers(double: bool) -> f64 {
    use std::arch::x86_64::*;
    const N: usize = 100_000;
    if double {
        let (a, b) = (_mm512_set1_pd(black_box(0.999)), _mm512_set1_pd(black_box(0.001)));
        let t = time(20, || {
            let mut s = [_mm512_set1_pd(1.0); 16];
            for _ in 0..N {
                for s in &mut s {
                    *s = _mm512_fmadd_pd(*s, a, b);
                }
            }
            black_box(s);
        });
        (N * 16 * 8 * 2) as f64 / t / 1e9
    } else {
        let (a, b) = (_mm512_set1_ps(black_box(0.999)), _mm512_set1_ps(black_box(0.001)));
        let t = time(20, || {
            let mut s = [_mm512_set1_ps(1.0); 16];
            for _ in 0..N {
                for s in &mut s {
                    *s = _mm512_fmadd_ps(*s, a, b);
                }
            }
            black_box(s);
        });
        (N * 16 * 16 * 2) as f64 / t / 1e9
    }
}

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let one = CpuDevice::new(Isa::best(), 1).unwrap();
    let two = CpuDevice::new(Isa::best(), 2).unwrap();
    if only.is_empty() || only == "gemm" {
        for double in [false, true] {
            for s in [256, 512, 1024, 2048] {
                gemm(&one, &two, double, [s, s, s]);
            }
            for m in [1, 8, 32] {
                gemm(&one, &two, double, [m, 1024, 1024]);
            }
            gemm(&one, &two, double, [1024, 1024, 1]);
            gemm(&one, &two, double, [64, 64, 64]);
            gemm(&one, &two, double, [4, 4, 4]);
            gemm(&one, &two, double, [64, 128, 10]);
        }
    }
    if only.is_empty() || only == "conv" {
        // batch, channels in and out, plane, taps, padding, stride, groups
        let rows = [
            [32, 64, 64, 56, 3, 1, 1, 1],
            [32, 64, 128, 56, 3, 1, 2, 1],
            [32, 64, 128, 56, 1, 0, 1, 1],
            [32, 3, 64, 112, 7, 3, 2, 1],
            [32, 256, 256, 14, 3, 1, 1, 1],
            [32, 64, 64, 56, 3, 1, 1, 64],
            [64, 1, 16, 8, 3, 1, 1, 1],
            [64, 16, 32, 8, 3, 1, 1, 1],
            [64, 32, 32, 4, 3, 1, 1, 1],
        ];
        for row in rows {
            conv(&one, &two, row);
        }
    }
}

fn gemm(one: &CpuDevice, two: &CpuDevice, double: bool, [m, k, n]: [usize; 3]) {
    let make =
        |len| if double { HostData::F64(data(len, |x| x)) } else { HostData::F32(data(len, |x| x as f32)) };
    let (x, w) = (make(m * k), make(k * n));
    let flop = 2.0 * (m * k * n) as f64;
    let max = peak(double);
    print!("{} {m}x{k}x{n}, peak {max:.0}:", if double { "f64" } else { "f32" });
    for kind in ["NN", "NT", "TN"] {
        let xl = if kind == "TN" { layout(&[1, k, m]).transpose(1, 2) } else { layout(&[1, m, k]) };
        let wl = if kind == "NT" { layout(&[1, n, k]).transpose(1, 2) } else { layout(&[1, k, n]) };
        let t = [one, two].map(|d| {
            time(5, || {
                black_box(Cpu::contract(d, view(&x, &xl), view(&w, &wl), &Plain, []).unwrap());
            })
        });
        let g = t.map(|t| flop / t / 1e9);
        print!("  {kind} {:.1} us {:.1} ({:.0} %), 2: {:.1}", t[0] * 1e6, g[0], 100.0 * g[0] / max, g[1]);
    }
    if m * k * n <= 1 << 24 {
        let (xl, wl) = (layout(&[1, m, k]), layout(&[1, k, n]));
        let t = time(1, || {
            black_box(
                Reference::contract(&ReferenceDevice, view(&x, &xl), view(&w, &wl), &Plain, []).unwrap(),
            );
        });
        print!("  reference {:.2}", flop / t / 1e9);
    }
    println!();
}

fn conv(one: &CpuDevice, two: &CpuDevice, [b, c, o, s, t, p, st, g]: [usize; 8]) {
    let out = (s + 2 * p - t) / st + 1;
    let make = |len| HostData::F32(data(len, |x| x as f32));
    let (x, w, gy) = (make(b * c * s * s), make(o * (c / g) * t * t), make(b * o * out * out));
    let (xl, wl, gl) = (layout(&[b, c, s, s]), layout(&[o, c / g, t, t]), layout(&[b, o, out, out]));
    let conv = Conv { stride: vec![st; 2], padding: vec![p; 2], dilation: vec![1; 2], groups: g };
    let flop = 2.0 * (b * o * out * out * (c / g) * t * t) as f64;
    println!("conv {b}x{c}x{s}x{s} {t}x{t} -> {o}, stride {st}, groups {g}, peak {:.0}", peak(false));
    macro_rules! run {
        ($backend:ident, $d:expr) => {
            [0, 1, 2].map(|what| {
                time(1, || {
                    black_box(match what {
                        0 => $backend::conv($d, &conv, view(&x, &xl), view(&w, &wl), &[out, out], &Plain, []),
                        1 => $backend::conv_input_grad($d, &conv, view(&gy, &gl), view(&w, &wl), &[s, s]),
                        _ => $backend::conv_weight_grad($d, &conv, view(&x, &xl), view(&gy, &gl), &[t, t]),
                    })
                    .unwrap();
                })
            })
        };
    }
    let (one, two) = (run!(Cpu, one), run!(Cpu, two));
    let slow = if flop < 1e8 { run!(Reference, &ReferenceDevice) } else { [f64::NAN; 3] };
    for (i, name) in ["y ", "dx", "dw"].iter().enumerate() {
        let f = |t: f64| flop / t / 1e9;
        println!(
            "    {name} {:9.1} us {:6.1}, 2 threads: {:9.1} us {:6.1}, reference {:.2}",
            one[i] * 1e6,
            f(one[i]),
            two[i] * 1e6,
            f(two[i]),
            f(slow[i])
        );
    }
}
