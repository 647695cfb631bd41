//! Requirements: does a device have what a kernel needs?

use crate::Info;
use elinvar_core::{Error, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::ir::Type;

/// That a device of a driver has what a kernel needs.
///
/// # Errors
/// `Unsupported`; the sentence says what it lacks.
pub fn check(driver: &str, has: &Info, kernel: &Kernel) -> Result<()> {
    let needs = kernel.features();
    let lacks = |what: String| {
        Err(Error::unsupported(format!("{driver}: {}: {} has no {what}", kernel.name, has.name)))
    };
    if needs.f64 && !has.f64 {
        return lacks("64-bit floats".into());
    }
    if needs.i64 && !has.i64 {
        return lacks("64-bit integers".into());
    }
    if needs.half && !has.half {
        return lacks("16-bit floats".into());
    }
    if needs.bytes && !has.bytes {
        return lacks("access to bytes".into());
    }
    if needs.tma && !has.tma {
        return lacks("TMA and wgmma".into());
    }
    if needs.shared > has.shared {
        return lacks(format!("{} bytes of shared memory", needs.shared));
    }
    if needs.invocations > has.invocations {
        return lacks(format!("workgroups of {} invocations", needs.invocations));
    }
    if kernel.buffers.len() as u32 > has.buffers {
        return lacks(format!("kernels of {} buffers", kernel.buffers.len()));
    }
    let fragment = |t: &Type| match t {
        Type::Fragment(f) if !has.mma_shapes.iter().any(|u| u.fragment(f.role) == *f) => Some(*f),
        Type::Fragment(_) | Type::Vector(..) => None,
    };
    if let Some(f) = kernel.values.iter().find_map(fragment) {
        return lacks(f.to_string());
    }
    match kernel.subgroup {
        Some(lanes) if has.subgroup != [lanes; 2] => lacks(format!("subgroups of {lanes} lanes")),
        Some(_) | None => Ok(()),
    }
}
