//! What a launch costs by way of `wgpu`, beside this project's Vulkan driver on the same device:
//! small scans one after the other (sums alone: no multiply-add, which one of the two may have to
//! build), and a chain of ten maps. Medians of rounds that alternate.
//!
//! `cargo run --release -p elinvar-gpu --features webgpu --example webgpu_beside_vulkan`

use elinvar_core::{DType, Result};
use elinvar_driver::{Driver, Vulkan, WebGpu};
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_tensor::Tensor;
use std::time::{Duration, Instant};

/// Rounds, of which the first is not counted: it compiles.
const ROUNDS: usize = 12;
/// Scans of a round.
const SCANS: u32 = 500;
/// Chains of a round.
const CHAINS: u32 = 5;

fn timed(count: u32, f: impl Fn() -> Result<()>) -> Result<Duration> {
    let start = Instant::now();
    (0..count).try_for_each(|_| f())?;
    Ok(start.elapsed() / count)
}

/// Sums of 8 rows; the device is waited for once, behind all of them.
fn scan<D: Driver>(d: &GpuDevice<D>) -> Result<Duration> {
    let x: Tensor<Gpu<D>> = Tensor::full([8, 8], 0.5, DType::F32, d);
    let start = Instant::now();
    for _ in 0..SCANS {
        x.cumsum(0);
    }
    x.cumsum(0).block_until_ready()?;
    Ok(start.elapsed() / (SCANS + 1))
}

/// Ten maps of 2^16 numbers, which are fused to one launch; the device is waited for.
fn chain<D: Driver>(d: &GpuDevice<D>) -> Result<Duration> {
    let x: Tensor<Gpu<D>> = Tensor::full([1 << 16], 0.5, DType::F32, d);
    timed(CHAINS, || {
        let mut y = x.clone();
        for _ in 0..5 {
            y = (&y * &x).abs();
        }
        y.block_until_ready()
    })
}

fn median(mut all: Vec<Duration>) -> f64 {
    all.remove(0);
    all.sort();
    all[all.len() / 2].as_secs_f64() * 1e6
}

fn main() -> Result<()> {
    let vulkan = GpuDevice::new(Vulkan::open(0)?, 0);
    let webgpu = GpuDevice::new(WebGpu::open(0)?, 0);
    println!("{}; {}", vulkan.info()?.name, webgpu.info()?.driver);
    let mut all = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        all[0].push(scan(&vulkan)?);
        all[1].push(scan(&webgpu)?);
        all[2].push(chain(&vulkan)?);
        all[3].push(chain(&webgpu)?);
    }
    let [a, b, c, e] = all.map(median);
    for (what, vulkan, webgpu) in [("a launch", a, b), ("ten maps, waited for", c, e)] {
        println!(
            "{what}: vulkan {vulkan:.1} us, webgpu {webgpu:.1} us, webgpu over vulkan {:.2}",
            webgpu / vulkan
        );
    }
    Ok(())
}
