//! A row under the profiler: its table, against limits that are measured on the same device; and
//! what profiling it costs.

use crate::harness::{done, measure};
use crate::row::{Row, Variant};
use elinvar::profile::Limits;
use elinvar::{DType, Device, Generator, Profile, Result, Tensor, profile};
use std::time::Instant;

/// Calls that are profiled.
const CALLS: usize = 3;
/// Sizes grow until a call takes this many seconds, or is as large as any.
const LONG_ENOUGH: f64 = 0.1;
/// Elements of the copies by which the bandwidth is measured, from a part of a cache on.
const COPIES: [usize; 5] = [1 << 16, 1 << 19, 1 << 22, 1 << 24, 1 << 26];
/// Sides of the products by which the peak is measured.
const PRODUCTS: [usize; 6] = [64, 128, 256, 512, 1024, 4096];

/// The bandwidth of the largest copy, x * 2 of f32, and the rate of the fastest product of f32 that
/// the device computes in a tenth of a second.
///
/// # Errors
/// The device's errors.
pub fn limits(device: &Device) -> Result<Limits> {
    let mut rng = Generator::new(1);
    let mut limits = Limits { bytes_per_second: 0.0, flops_per_second: 0.0 };
    for n in COPIES {
        let x: Tensor = rng.uniform(-1.0, 1.0, [n], DType::F32, device);
        let seconds = quickest(|| done(&(&x * 2.0)))?;
        limits.bytes_per_second = 8.0 * n as f64 / seconds;
        if seconds > LONG_ENOUGH {
            break;
        }
    }
    for n in PRODUCTS {
        let x: Tensor = rng.uniform(-1.0, 1.0, [n, n], DType::F32, device);
        let seconds = quickest(|| done(&x.matmul(&x)))?;
        limits.flops_per_second = limits.flops_per_second.max(2.0 * (n as f64).powi(3) / seconds);
        if seconds > LONG_ENOUGH {
            break;
        }
    }
    Ok(limits)
}

/// The quickest of a few calls, after one of warm-up.
fn quickest(work: impl Fn() -> Result<()>) -> Result<f64> {
    work()?;
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let from = Instant::now();
        work()?;
        best = best.min(from.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// Seconds of a call without and with a profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// While none is recorded.
    pub off: f64,
    /// While one is.
    pub on: f64,
}

impl Row {
    /// Measures the row without and with a profile, in turns.
    ///
    /// # Errors
    /// As [`Row::measure`].
    pub fn price_of_profile(&self, device: &Device, seconds: f64) -> Result<Price> {
        let mut task = self.task(Variant::Ours, device)?;
        self.run(|| {
            let mut price = Price { off: f64::INFINITY, on: f64::INFINITY };
            for _ in 0..2 {
                price.off = price.off.min(measure(seconds / 2.0, &mut task)?.median);
                // A profile of its own for each call: one of all would have no end of events.
                let mut profiled = || profile(&mut task).0;
                price.on = price.on.min(measure(seconds / 2.0, &mut profiled)?.median);
            }
            Ok(price)
        })
    }
    /// Profiles a few calls, after one of warm-up.
    ///
    /// # Errors
    /// As [`Row::measure`].
    pub fn profiled(&self, device: &Device) -> Result<Profile> {
        let mut task = self.task(Variant::Ours, device)?;
        self.run(|| {
            task()?;
            let (done, profile) = profile(|| (0..CALLS).try_for_each(|_| task()));
            done.map(|()| profile)
        })
    }
}
