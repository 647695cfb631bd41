//! What plans know of a device: compute units, limits of a workgroup, registers and tensor cores,
//! as plain data.
//!
//! A plan is a function of a problem and a `Machine`, so a test can ask what would run on a device
//! that it does not have. No order of an exact sum may depend on it.
//!
//! How it can be wrong: a machine that promises what its device lacks. The kernel of a plan is then
//! refused by the driver; no result is wrong.

use super::occupancy::ComputeUnits;
use elinvar_core::DType;
use elinvar_kernel::ir::{Elem, MmaShape};
use std::fmt;

/// A device as plans see it.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// Is it the processor, playing a GPU? It pays for a barrier what a real one pays for a hundred
    /// products, and a launch is a call.
    pub is_software: bool,
    /// Should kernels be short: are compilers slow with long ones, or fail?
    pub needs_short_kernels: bool,
    /// Buffers of a kernel, at most.
    pub buffers: u32,
    /// What a workgroup has, and the compute units.
    pub limits: WorkgroupLimits,
    /// What an invocation may hold of rows.
    pub registers: RegisterBudget,
    /// Invocations of a subgroup, at least and at most.
    pub subgroup: [u32; 2],
    /// TMA and wgmma?
    pub has_tma: bool,
    /// What its tensor cores multiply; none without such.
    pub mma_shapes: &'a [MmaShape],
}

/// What a device has for a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkgroupLimits {
    /// Invocations.
    pub invocations: u32,
    /// Bytes of shared memory.
    pub shared: u32,
    /// Copies that go on while others compute.
    pub cp_async: bool,
    /// Compute units of the device.
    pub compute_units: ComputeUnits,
}

/// What a device lets an invocation hold in registers of the rows that it reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RegisterBudget {
    /// One element at a time: where registers are memory, or compilers choke on long kernels.
    #[default]
    One,
    /// As many as keep memory busy; a row of some thousands may stay. Workgroups may have
    /// [`MAX_BLOCK_THREADS`].
    Many,
}

/// Invocations of a workgroup at most, if they hold many elements.
pub const MAX_BLOCK_THREADS: u32 = 1024;

impl Machine<'_> {
    /// Its compute units.
    pub fn units(&self) -> ComputeUnits {
        self.limits.compute_units
    }
    /// What its tensor cores multiply of such numbers, and add in any order; `None` if they do not
    /// know them. Of several shapes the largest: most products for what is read. (Products of f64
    /// on tensor cores are exact, and so no faster where any order will do.)
    pub fn mma_shape(&self, dtype: DType) -> Option<MmaShape> {
        let shapes = self.mma_shapes.iter().filter(|u| u.elem == Elem::from(dtype) && u.elem != Elem::F64);
        shapes.max_by_key(|u| u.shape.map(u32::from).iter().product::<u32>()).copied()
    }
}

impl fmt::Display for Machine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_software {
            true => f.write_str("software"),
            false => write!(f, "{} units", self.units().0),
        }
    }
}
