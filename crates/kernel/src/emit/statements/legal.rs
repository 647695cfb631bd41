//! Languages of statements: what is done to a kernel before, and what a device refuses.

use crate::ir::Kernel;
use crate::pass::{self, Legalize, Unsupported};
use std::fmt::Display;

/// The kernel as it is emitted: optimised, and with what the target lacks built, but for what
/// becomes a function of the module.
///
/// # Errors
/// [`Unsupported`] if the kernel is not valid, or has what the language lacks.
pub fn legal(
    kernel: &Kernel,
    language: &str,
    lacks: &[(bool, &str)],
    legalize: Legalize,
) -> Result<Kernel, Unsupported> {
    crate::verify::verify(kernel).map_err(|e| Unsupported(e.0))?;
    if let Some((_, what)) = lacks.iter().find(|(used, _)| *used) {
        return Err(Unsupported(format!("{}: {language} has no {what}", kernel.name)));
    }
    let mut k = kernel.clone();
    pass::optimize(&mut k);
    pass::lower(&mut k, legalize);
    pass::optimize(&mut k);
    // Exchanges through shared memory have barriers, and what they bring is not known to be the
    // same for all: a kernel may have been valid and not be so any more.
    crate::verify::verify(&k).map_err(|e| Unsupported(e.0))?;
    Ok(k)
}

/// That a kernel has no more of what devices count than there is: buffers and the language's word
/// for them, bytes of shared memory, invocations of a workgroup.
///
/// # Errors
/// [`Unsupported`] for the first of them that exceeds the device's.
pub fn check_limits(
    k: &Kernel,
    (buffers, word): (u32, &str),
    shared: u32,
    invocations: u32,
) -> Result<(), Unsupported> {
    let count = k.buffers.len();
    let bytes = k.shared_bytes();
    let group = k.invocations();
    if count as u64 > u64::from(buffers) {
        return Err(exceeds(k, &format!("{count} {word}"), buffers));
    }
    if bytes > u64::from(shared) {
        return Err(exceeds(k, &format!("{bytes} bytes of shared memory"), shared));
    }
    if group > invocations {
        return Err(exceeds(k, &format!("workgroups of {group} invocations"), invocations));
    }
    Ok(())
}

/// What is said of a kernel that has more than a device has.
pub fn exceeds(k: &Kernel, what: &str, most: impl Display) -> Unsupported {
    Unsupported(format!("{}: {what}, and the device has {most} at most", k.name))
}
