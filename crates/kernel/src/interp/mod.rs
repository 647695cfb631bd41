//! The interpreter: the executable definition of the IR, with checks for races and bounds.
//!
//! Workgroups run one after the other. In a workgroup each instruction is executed for all
//! invocations that reach it before the next one, which no device promises; so that no kernel
//! relies on it, every element of memory remembers who accessed it since the last barrier, and what
//! could come out differently on a device is a [`Fault`].
//!
//! Checked at run time: bounds and alignment of every access, loads of shared memory that was never
//! stored to, data races in a workgroup and between workgroups, barriers and subgroup operations in
//! divergent control flow, loops that do not advance. It is slow and exact.
//!
//! [`Quirks`] makes it lack what some devices lack, so that what emitters build around it can be
//! tested.

mod machine;
mod memory;
mod race;

pub use crate::arith::{Flushes, Quirks};
pub use memory::Memory;

use crate::ir::{Constant, Kernel};
use std::fmt;

/// How a kernel is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Workgroups along x, y, z.
    pub groups: [u32; 3],
    /// A number for each parameter.
    pub params: Vec<Constant>,
}

/// A mistake of a kernel, or of its launch: a sentence that names the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Fault {}

/// Runs a kernel on a device that lacks nothing.
///
/// # Errors
/// A [`Fault`] if the kernel is not valid, if the launch does not fit it, or if it does what must
/// not be done.
pub fn run(kernel: &Kernel, launch: &Launch, buffers: &mut [Memory]) -> Result<(), Fault> {
    run_with_quirks(kernel, launch, buffers, Quirks::default())
}

/// Runs a kernel on a device that may lack something.
///
/// # Errors
/// As [`run`].
pub fn run_with_quirks(
    kernel: &Kernel,
    launch: &Launch,
    buffers: &mut [Memory],
    lacks: Quirks,
) -> Result<(), Fault> {
    crate::verify::verify(kernel).map_err(|e| Fault(e.to_string()))?;
    let name = &kernel.name;
    if buffers.len() != kernel.buffers.len() {
        return Err(Fault(format!("{name}: {} buffers, not {}", buffers.len(), kernel.buffers.len())));
    }
    for (given, want) in buffers.iter().zip(&kernel.buffers) {
        if given.elem != want.elem {
            return Err(Fault(format!(
                "{name}: buffer {} is of {}, not {}",
                want.name, given.elem, want.elem
            )));
        }
    }
    let types = launch.params.iter().map(|p| p.scalar);
    if !types.eq(kernel.params.iter().map(|p| p.scalar)) {
        return Err(Fault(format!(
            "{name}: the parameters {:?} do not fit {:?}",
            launch.params, kernel.params
        )));
    }
    machine::Machine::new(kernel, launch, buffers, lacks).run()
}
