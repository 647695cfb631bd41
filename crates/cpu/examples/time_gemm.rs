//! How fast contractions are, on one thread and on two: GFLOP/s, and the share of what the processor's fma units can do at
//! most, which is measured in the same run. Arguments pick rows by parts of their names.

use elinvar_core::{DType, HostData, Layout, Precision, Shape, bf16, f16};
use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_ops::backend::{CompiledEpilogue, Epilogue, View};
use elinvar_ops::backend::{Compute, Memory};
use elinvar_ops::lane::Lane;
use elinvar_ops::map::Compiled;
use pulp::{Arch, Simd, WithSimd};
use std::hint::black_box;
use std::time::Instant;

/// gelu by the error function, after a bias.
#[derive(Clone, Copy, Debug)]
struct BiasGelu;
impl Epilogue<1> for BiasGelu {
    const NAME: &'static str = "bias_gelu";
    #[inline(always)]
    fn lane<L: Lane>(&self, sum: L, [bias]: [L; 1]) -> L {
        let x = sum + bias;
        x * L::lit(0.5) * (L::lit(1.0) + (x * L::lit(std::f64::consts::FRAC_1_SQRT_2)).erf())
    }
}
elinvar_ops::compile_epilogue! { 1 BiasGelu; }

/// Seconds: the least of as many runs as fit into a quarter of a second, five at least, for others use the processor too; short
/// ones are timed in groups.
fn least(f: &dyn Fn()) -> f64 {
    let start = Instant::now();
    let mut first = 0;
    while first < 3 || (start.elapsed().as_secs_f64() < 0.05 && first < 1000) {
        f();
        first += 1;
    }
    let once = start.elapsed().as_secs_f64() / f64::from(first);
    let group = (1e-4 / once).ceil().max(1.0);
    let runs = (0.25 / (once * group)).clamp(5.0, 400.0) as usize;
    let mut all: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            (0..group as usize).for_each(|_| f());
            start.elapsed().as_secs_f64() / group
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all[0]
}

/// So many chains of fma side by side, in registers.
struct Chains<const F64: bool>;

const ROUNDS: usize = 1_000_000;
/// Enough for four cycles of latency on two units.
const SIDE: usize = 12;

impl<const F64: bool> WithSimd for Chains<F64> {
    type Output = usize;
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        if F64 {
            let (a, b) = (simd.splat_f64s(black_box(0.5)), simd.splat_f64s(black_box(1.0)));
            let mut sums = [simd.splat_f64s(0.0); SIDE];
            for _ in 0..ROUNDS {
                for s in &mut sums {
                    *s = simd.mul_add_f64s(a, *s, b);
                }
            }
            black_box(sums);
            2 * ROUNDS * SIDE * S::F64_LANES
        } else {
            let (a, b) = (simd.splat_f32s(black_box(0.5)), simd.splat_f32s(black_box(1.0)));
            let mut sums = [simd.splat_f32s(0.0); SIDE];
            for _ in 0..ROUNDS {
                for s in &mut sums {
                    *s = simd.mul_add_f32s(a, *s, b);
                }
            }
            black_box(sums);
            2 * ROUNDS * SIDE * S::F32_LANES
        }
    }
}

/// GFLOP/s of fma in registers, all threads together.
fn peak<const F64: bool>(threads: usize) -> f64 {
    let once = || {
        let start = Instant::now();
        let flops: usize = std::thread::scope(|s| {
            let all: Vec<_> = (0..threads).map(|_| s.spawn(|| Arch::new().dispatch(Chains::<F64>))).collect();
            all.into_iter().map(|t| t.join().unwrap()).sum()
        });
        flops as f64 / start.elapsed().as_secs_f64() / 1e9
    };
    (0..7).map(|_| once()).fold(0.0, f64::max)
}

fn noise(n: usize, dtype: DType) -> HostData {
    let x = (0..n).map(|i| ((i * 7919) % 1013) as f32 / 500.0 - 1.0);
    match dtype {
        DType::F64 => HostData::F64(x.map(f64::from).collect()),
        DType::F16 => HostData::F16(x.map(f16::from_f32).collect()),
        DType::BF16 => HostData::BF16(x.map(bf16::from_f32).collect()),
        DType::I64 => HostData::I64(x.map(|x| (x * 100.0) as i64).collect()),
        DType::I32 => HostData::I32(x.map(|x| (x * 100.0) as i32).collect()),
        DType::U8 => HostData::U8(x.map(|x| (x * 100.0) as u8).collect()),
        DType::F32 | DType::Bool => HostData::F32(x.collect()),
    }
}

/// An operand: memory and its look as [b, rows, cols].
struct Operand {
    buffer: <Cpu as Memory>::Buffer,
    layout: Layout,
    dtype: DType,
}

impl Operand {
    fn new(d: &CpuDevice, dtype: DType, [b, rows, cols]: [usize; 3], turned: bool) -> Operand {
        let shape = if turned { [b, cols, rows] } else { [b, rows, cols] };
        let layout = Layout::contiguous(Shape::new(&shape).unwrap());
        let buffer = Cpu::upload(d, noise(b * rows * cols, dtype)).unwrap();
        Operand { buffer, layout: if turned { layout.transpose(1, 2) } else { layout }, dtype }
    }
    fn view(&self) -> View<'_, Cpu> {
        View { buffer: &self.buffer, layout: &self.layout, dtype: self.dtype }
    }
}

struct Timed {
    one: CpuDevice,
    two: CpuDevice,
    only: Vec<String>,
    peaks: [[f64; 2]; 2],
}

impl Timed {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|o| name.contains(o.as_str()))
    }
    fn show(&self, name: &str, flops: f64, bytes: f64, dtype: DType, f: &dyn Fn(&CpuDevice)) {
        let peak = self.peaks[usize::from(dtype == DType::F64)];
        let times = [&self.one, &self.two].map(|d| least(&|| f(d)));
        let each = |i: usize| {
            let g = flops / times[i] / 1e9;
            format!("{:11.2} us {g:8.1} GFLOP/s {:5.1} %", times[i] * 1e6, 100.0 * g / peak[i])
        };
        println!("{name:28} {} | {} {:6.1} GB/s", each(0), each(1), bytes / times[1] / 1e9);
    }
    /// A product, by name: b, m, k, n.
    fn product(&self, kind: &str, dtype: DType, sizes: [usize; 4], turned: [bool; 2]) {
        self.product_as(kind, Precision::Exact, dtype, sizes, turned);
    }
    fn product_as(
        &self,
        kind: &str,
        p: Precision,
        dtype: DType,
        [b, m, k, n]: [usize; 4],
        turned: [bool; 2],
    ) {
        let name = format!("{kind} {dtype} {b}x{m}x{n}x{k}");
        if !self.wants(&name) {
            return;
        }
        let x = Operand::new(&self.one, dtype, [b, m, k], turned[0]);
        let w = Operand::new(&self.one, dtype, [b, k, n], turned[1]);
        let (flops, bytes) = (2 * b * m * k * n, b * (m * k + k * n + m * n) * dtype.size());
        if kind == "prepacked" {
            let layout = w.layout.select(0, 0);
            Cpu::prepack(&self.one, View { buffer: &w.buffer, layout: &layout, dtype }).unwrap();
        }
        self.show(&name, flops as f64, bytes as f64, dtype, &|d| {
            black_box(Cpu::contract(d, p, x.view(), w.view(), None, &[]).unwrap());
        });
    }
    fn gelu(&self, [m, k, n]: [usize; 3]) {
        let name = format!("bias_gelu f32 1x{m}x{n}x{k}");
        if !self.wants(&name) {
            return;
        }
        let d = &self.one;
        let (x, w) =
            (Operand::new(d, DType::F32, [1, m, k], false), Operand::new(d, DType::F32, [1, k, n], true));
        let mut bias = Operand::new(d, DType::F32, [1, 1, n], false);
        bias.layout = bias.layout.broadcast_to(&Shape::new(&[1, m, n]).unwrap(), "time").unwrap();
        let (flops, bytes) = (2 * m * k * n, (m * k + k * n + m * n) * 4);
        self.show(&name, flops as f64, bytes as f64, DType::F32, &|d| {
            black_box(
                Cpu::contract(
                    d,
                    Precision::Exact,
                    x.view(),
                    w.view(),
                    Some(BiasGelu::object(&Compiled(BiasGelu))),
                    &[bias.view()],
                )
                .unwrap(),
            );
        });
    }
}

fn main() {
    use DType::{BF16, F16, F32, F64, I32, I64, U8};
    let isa = Isa::best();
    let t = Timed {
        one: CpuDevice::new(isa, 1).unwrap(),
        two: CpuDevice::new(isa, 2).unwrap(),
        only: std::env::args().skip(1).collect(),
        peaks: [[peak::<false>(1), peak::<false>(2)], [peak::<true>(1), peak::<true>(2)]],
    };
    println!("peak of fma, GFLOP/s on 1 and 2 threads: f32 {:.1?}, f64 {:.1?}", t.peaks[0], t.peaks[1]);
    let square = |kind: &str, dtype: DType, s: usize| {
        t.product(kind, dtype, [1, s, s, s], [kind == "tn", kind == "nt"]);
    };
    for s in [64, 128, 256, 512, 1024, 2048] {
        square("nn", F32, s);
    }
    for s in [256, 1024, 2048] {
        square("nt", F32, s);
        square("tn", F32, s);
    }
    for s in [1024, 2048] {
        for kind in ["nn", "nt", "tn"] {
            square(kind, F64, s);
        }
    }
    for m in [1, 8, 32] {
        for s in [1024, 4096] {
            t.product("linear", F32, [1, m, s, s], [false, true]);
            t.product("prepacked", F32, [1, m, s, s], [false, true]);
        }
    }
    t.product("bmm", F32, [64, 64, 64, 64], [false; 2]);
    t.product("bmm", F32, [96, 128, 64, 128], [false; 2]);
    square("nn", BF16, 1024);
    square("nn", F16, 1024);
    for kind in ["nn", "nt", "tn"] {
        let (fast, turned) = (format!("fast {kind}"), [kind == "tn", kind == "nt"]);
        t.product_as(&fast, Precision::Fast, BF16, [1, 1024, 1024, 1024], turned);
    }
    for m in [1, 8] {
        t.product_as("fast linear", Precision::Fast, BF16, [1, m, 4096, 4096], [false, true]);
    }
    t.product("linear", BF16, [1, 1, 4096, 4096], [false, true]);
    t.product("linear", BF16, [1, 8, 4096, 4096], [false, true]);
    for s in [4, 16] {
        t.product("tiny", F32, [1, s, s, s], [false; 2]);
    }
    t.product("tiny", F32, [1, 1, 64, 64], [false; 2]);
    t.product("tiny", F32, [1, 1, 64, 64], [false, true]);
    t.product("tiny", F32, [1, 64, 64, 1], [false; 2]);
    t.gelu([512, 384, 1536]);
    for dtype in [I64, I32, U8] {
        t.product("int", dtype, [1, 256, 256, 256], [false; 2]);
        t.product("int", dtype, [1, 256, 256, 256], [false, true]);
    }
}
