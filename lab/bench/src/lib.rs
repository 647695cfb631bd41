//! Benchmarks: the workloads that other libraries are measured with, too, and the timing of them.
//!
//! [`rows()`] is the list of workloads, a table in Rust: what is computed, on which shapes, and how
//! many operations and bytes the work takes at least. [`Row::measure`] runs one on a device, and
//! gives a [`Line`] of JSON. `elinvar-lab bench` prints those lines, and `cargo xtask results`
//! makes a page of them.
//!
//! [`gates()`] are ratios that every version must keep, [`count()`] is what a step of training asks
//! of a GPU, and [`Row::profiled`] says what a row's time goes into.
//!
//! The names of groups, workloads, shapes and dtypes are the key that joins our lines with those of
//! other libraries: a renamed row has no peer there.
//!
//! Every workload is written as a user would write it, on [`Tensor`](elinvar::Tensor), whose
//! backend is chosen at run time; single ops of every kind are called by name, from a list that is
//! data. Rows that measure only call overhead run with the backend chosen at compile time, too.

mod count;
mod data;
mod gates;
mod harness;
mod line;
mod memory;
mod models;
mod profiled;
mod row;
mod rows;

pub use count::{Count, Counts, count};
pub use data::Data;
pub use gates::{Bound, Gate, Gates, Outcome, gates};
pub use harness::{Stats, done, measure};
pub use line::{Figure, Line};
pub use memory::{START, memory_of};
pub use profiled::{Price, limits};
pub use row::{GRAPH, Group, OURS, Row, STATIC, Term, Variant};
pub use rows::rows;
pub use rows::training::{Kind, Made, Model};

use elinvar::{CpuDevice, Device, Result};

/// The version in every line.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The device of this name, with this many threads if it is one that has threads.
///
/// # Errors
/// `UnknownDevice`; `InvalidArgument` if the system gives no threads.
pub fn device(name: &str, threads: Option<usize>) -> Result<Device> {
    Ok(match (Device::parse(name)?, threads) {
        (Device::Cpu(cpu), Some(n)) if n != cpu.threads() => Device::Cpu(CpuDevice::new(cpu.isa(), n)?),
        (device, _) => device,
    })
}

/// The number of CPU threads that work for a device.
pub fn threads(device: &Device) -> usize {
    match device {
        Device::Cpu(cpu) => cpu.threads(),
        // The submitting thread; of which kinds there are, features say.
        _ => 1,
    }
}
