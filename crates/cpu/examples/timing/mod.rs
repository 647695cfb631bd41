//! What the examples that measure share.

use elinvar_core::{DType, HostData, Layout, Shape};
use elinvar_cpu::{Cpu, CpuBuffer, CpuDevice, Isa};
use elinvar_ops::backend::View;
use std::time::Instant;

fn noise(n: usize) -> HostData {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    HostData::F32((0..n).map(|_| next()).collect())
}

/// A tensor of random numbers.
pub struct Tensor {
    pub data: CpuBuffer,
    pub layout: Layout,
}

impl Tensor {
    pub fn new(dims: &[usize]) -> Tensor {
        let layout = Layout::contiguous(Shape::new(dims).unwrap());
        Tensor { data: noise(layout.shape().numel()).into(), layout }
    }
    pub fn view(&self) -> View<'_, Cpu> {
        self.with(&self.layout)
    }
    pub fn with<'a>(&'a self, layout: &'a Layout) -> View<'a, Cpu> {
        View { buffer: &self.data, layout, dtype: DType::F32 }
    }
}

/// Seconds: the median and the least.
fn seconds(mut f: impl FnMut()) -> (f64, f64) {
    let (start, mut all) = (Instant::now(), Vec::new());
    while all.len() < 5 || (start.elapsed().as_secs_f64() < 0.25 && all.len() < 100) {
        let one = Instant::now();
        f();
        all.push(one.elapsed().as_secs_f64());
    }
    all.sort_by(f64::total_cmp);
    (all[all.len() / 2], all[0])
}

/// Rows by name, on one thread and on two.
pub struct Timed {
    pub devices: [CpuDevice; 2],
    only: Vec<String>,
}

impl Timed {
    /// On the best instruction set; the arguments of the program choose the rows.
    pub fn new() -> Timed {
        let device = |threads| CpuDevice::new(Isa::best(), threads).unwrap();
        Timed { devices: [device(1), device(2)], only: std::env::args().skip(1).collect() }
    }
    /// Prints a row, if it is asked for.
    pub fn show(&self, name: &str, f: impl Fn(&CpuDevice)) {
        if !self.only.is_empty() && !self.only.iter().any(|o| name.contains(o.as_str())) {
            return;
        }
        let [one, two] = self.devices.each_ref().map(|d| seconds(|| f(d)));
        println!(
            "{name:44} 1 thread {:9.3} ms (least {:9.3})  2 threads {:9.3} ms (least {:9.3})",
            one.0 * 1e3,
            one.1 * 1e3,
            two.0 * 1e3,
            two.1 * 1e3
        );
    }
}
