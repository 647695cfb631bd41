//! A device as plans see it, from what its driver tells.

use elinvar_driver::{DEFAULT_COMPUTE_UNITS, Info, Kind};
use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::launch::{MAX_BLOCK_THREADS, Machine, RegisterBudget, WorkgroupLimits};

/// The machine of a device.
pub(crate) fn machine(i: &Info) -> Machine<'_> {
    Machine {
        is_software: match i.kind {
            Kind::Software => true,
            Kind::Discrete | Kind::Integrated | Kind::Virtual | Kind::Other => false,
        },
        needs_short_kernels: i.short,
        buffers: i.buffers,
        limits: WorkgroupLimits {
            invocations: i.invocations,
            shared: i.shared,
            cp_async: i.cp_async,
            compute_units: ComputeUnits(i.compute_units.unwrap_or(DEFAULT_COMPUTE_UNITS)),
        },
        registers: register_budget(i),
        subgroup: i.subgroup,
        has_tma: i.tma,
        mma_shapes: &i.mma_shapes,
    }
}

/// What an invocation may hold of rows.
fn register_budget(i: &Info) -> RegisterBudget {
    match i.kind {
        Kind::Discrete if !i.short && i.invocations >= MAX_BLOCK_THREADS => RegisterBudget::Many,
        // Small GPUs have few registers for an invocation, or it is not known how many; a CPU has
        // next to none.
        Kind::Discrete | Kind::Integrated | Kind::Virtual | Kind::Software | Kind::Other => {
            RegisterBudget::One
        }
    }
}
