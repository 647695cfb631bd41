//! Counts of a step of training: kernels, launches, bytes moved. They depend on no clock, so they
//! are the same on every machine.
//!
//! The device is the null driver's, which is given all work and does none. What a launch moves is
//! taken for the memory that it is given, whole: more than it reads where it looks at a part.

use crate::data::Data;
use crate::rows::training::{Made, Model};
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
/// Of one that is captured, the graph is one kernel, whose bytes are not counted.
///
/// # Errors
/// The device's errors.
pub fn count(model: Model, made: Made) -> Result<Count> {
    let device = GpuDevice::new(Null::open(0)?, NEXT.fetch_add(1, Relaxed));
    let queue = Track::Queue(device.to_string().into(), 0);
    let mut step = try_run(|| model.step(made, &mut Data::new(device)))??;
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
pub struct Counts(pub Vec<(Model, Made, Count)>);

impl Counts {
    /// Counts the steps of all models.
    ///
    /// # Errors
    /// As [`count`].
    pub fn all() -> Result<Counts> {
        let both = |model| [Made::Plain, Made::Captured].map(|made| (model, made));
        let one = |(model, made)| Ok((model, made, count(model, made)?));
        Model::ALL.into_iter().flat_map(both).map(one).collect::<Result<_>>().map(Counts)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<14}  {:>7}  {:>8}  {:>9}", "step", "kernels", "launches", "MiB moved")?;
        for (model, made, c) in &self.0 {
            let (name, bytes) = match made {
                Made::Plain => {
                    (model.word().to_owned(), format!("{:.1}", c.bytes as f64 / f64::from(1 << 20)))
                }
                Made::Captured => (format!("{}-captured", model.word()), "-".to_owned()),
            };
            writeln!(f, "{name:<14}  {:>7}  {:>8}  {bytes:>9}", c.kernels, c.launches)?;
        }
        Ok(())
    }
}
