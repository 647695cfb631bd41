//! Counts of a step of training: kernels, launches, bytes moved. They depend on no clock, so they
//! are the same on every machine.
//!
//! The device is the null driver's, which is given all work and does none, or any GPU, whose
//! kernels may be others. What a launch moves is taken for the memory that it is given, whole: more
//! than it reads where it looks at a part.

use crate::data::Data;
use crate::rows::training::{Kind as Step, Made, Model};
use elinvar::Result;
use elinvar::profile::{Kind, Track};
use elinvar::{Device, DeviceOf, Error, profile, try_run};
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

/// Counts a step of a model on the null device, after two that create the optimiser's state and
/// compile all kernels. Of one that is captured, the graph is one kernel, whose bytes are not
/// counted.
///
/// # Errors
/// The device's errors.
pub fn count(model: Model, step: impl Into<Step>) -> Result<Count> {
    count_on(GpuDevice::new(Null::open(0)?, NEXT.fetch_add(1, Relaxed)), model, step.into())
}

/// The same on a device that nothing else works on.
fn count_on<D>(device: D, model: Model, step: Step) -> Result<Count>
where
    D: DeviceOf + Clone + fmt::Display + 'static,
{
    let queue = Track::Queue(device.to_string().into(), 0);
    let mut step = try_run(|| model.step(step, &mut Data::new(device)))??;
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
pub struct Counts(pub Vec<(Model, Step, Count)>);

impl Counts {
    /// Counts the steps of these models, on the null device if none is given.
    ///
    /// # Errors
    /// As [`count`]; `Unsupported` of a device that is given no launches.
    pub fn of(models: &[Model], device: Option<&Device>) -> Result<Counts> {
        if let Some(device @ (Device::Cpu(_) | Device::Reference(_))) = device {
            return Err(Error::unsupported(format!("count: {device} has no queue whose launches count")));
        }
        let all = |&model| Step::COUNTED.map(|step| (model, step));
        let one = |(model, step)| {
            let count = match device {
                Some(device) => count_on(device.clone(), model, step)?,
                None => count(model, step)?,
            };
            Ok((model, step, count))
        };
        models.iter().flat_map(all).map(one).collect::<Result<_>>().map(Counts)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<18}  {:>7}  {:>8}  {:>9}", "step", "kernels", "launches", "MiB moved")?;
        for (model, step, c) in &self.0 {
            let half = step.amp.map_or(String::new(), |half| format!("-{half}"));
            let (captured, bytes) = match step.made {
                Made::Plain => ("", format!("{:.1}", c.bytes as f64 / f64::from(1 << 20))),
                Made::Captured => ("-captured", "-".to_owned()),
            };
            let name = format!("{}{half}{captured}", model.word());
            writeln!(f, "{name:<18}  {:>7}  {:>8}  {bytes:>9}", c.kernels, c.launches)?;
        }
        Ok(())
    }
}
