//! Counts of a step of training: kernels, launches, bytes moved. They depend on no clock, so they
//! are the same on every machine.
//!
//! The device is the null driver's, which is given all work and does none. What a launch moves is
//! taken for the memory that it is given, whole: more than it reads where it looks at a part.

use crate::data::Data;
use crate::rows::training::Model;
use elinvar::Result;
use elinvar::profile::{Kind, Track};
use elinvar::{profile, try_run};
use elinvar_driver::{Driver, Null};
use elinvar_gpu::GpuDevice;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What a step of training asks of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Kernels that differ.
    pub kernels: usize,
    /// Kernels that are started.
    pub launches: usize,
    /// Bytes of the memory that they are given, and of copies.
    pub bytes: u64,
}

/// The number of the next null device: in a profile, which sees all threads, no other device has
/// it.
static NEXT: AtomicUsize = AtomicUsize::new(1000);

/// Counts a step of a model, after two that create the optimiser's state and compile all kernels.
///
/// # Errors
/// The device's errors.
pub fn count(model: Model) -> Result<Count> {
    let device = GpuDevice::new(Null::open(0)?, NEXT.fetch_add(1, Relaxed));
    let queue = Track::Queue(device.to_string().into(), 0);
    let mut step = try_run(|| model.step(&mut Data::new(device)))??;
    try_run(|| (0..2).try_for_each(|_| step()))??;
    let (done, profile) = profile(|| try_run(&mut step));
    done??;
    let here = || profile.events().iter().filter(|e| e.track == queue);
    let launched = || here().filter(|e| e.kind == Kind::Kernel);
    let mut names: Vec<&str> = launched().map(|e| &*e.name).collect();
    let launches = names.len();
    names.sort_unstable();
    names.dedup();
    Ok(Count { kernels: names.len(), launches, bytes: here().map(|e| e.cost.bytes).sum() })
}

/// Counts as rows of a table.
pub struct Counts(pub Vec<(Model, Count)>);

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<6}  {:>7}  {:>8}  {:>9}", "step", "kernels", "launches", "MiB moved")?;
        for (model, c) in &self.0 {
            let mib = c.bytes as f64 / f64::from(1 << 20);
            writeln!(f, "{:<6}  {:>7}  {:>8}  {mib:>9.1}", model.word(), c.kernels, c.launches)?;
        }
        Ok(())
    }
}
