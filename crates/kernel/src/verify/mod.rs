//! The verifier: what passes here, every emitter can express, and the interpreter runs without
//! checking again.
//!
//! * `types`: operands and results fit the instruction; memory is used as it was declared.
//! * `scope`: values are defined once, before they are used, where they are visible, and numbered
//!   in that order.
//! * `uniform`: what must be reached by a whole workgroup is reached by all of it or by none.
//! * `tma_wgmma`: tensor views, the shared memory of TMA tiles, accumulators of wgmma.
//! * this file: sizes and names.

mod scope;
mod tma_wgmma;
mod types;
mod uniform;

pub use types::FRAGMENT_SHAPES;
pub use uniform::Uniformity;

use crate::ir::{Elem, Inst, Kernel, Scalar};
use std::collections::HashSet;
use std::fmt;

/// Invocations of a workgroup, at most: what every API of today grants on real GPUs.
pub const MAX_INVOCATIONS: u64 = 1024;
/// Shared memory of a workgroup, at most, in bytes: the most that any GPU of today grants (228 KiB
/// less what the driver keeps). What a device really has is asked of the device
/// ([`crate::ir::Features::shared`]).
pub const MAX_SHARED_BYTES: u64 = 227 * 1024;
/// Bytes of parameters, at most: the 128 that Vulkan promises for push constants, less a zero
/// behind them where a device needs one (`emit::spirv::Device::keeps_zeros`).
pub const MAX_PARAM_BYTES: usize = 124;

/// Why a kernel is not valid: a sentence that names the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(pub String);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Invalid {}

type Check = Result<(), Invalid>;

/// Checks a kernel.
///
/// # Errors
/// [`Invalid`] with the first thing that is wrong.
pub fn verify(k: &Kernel) -> Check {
    header(k)?;
    scope::check(k)?;
    types::check(k)?;
    tma_wgmma::check(k)?;
    uniform::check(k)
}

/// A sentence about the kernel as a whole.
fn whole(k: &Kernel, what: impl fmt::Display) -> Check {
    Err(Invalid(format!("{}: {what}", k.name)))
}

/// A sentence about an instruction.
fn at(k: &Kernel, inst: &Inst, what: impl fmt::Display) -> Check {
    Err(Invalid(format!("{}: at `{}`: {what}", k.name, crate::text::print_inst(k, inst))))
}

fn header(k: &Kernel) -> Check {
    let invocations: u64 = k.group.iter().map(|&n| u64::from(n)).product();
    if invocations == 0 || invocations > MAX_INVOCATIONS {
        return whole(k, format_args!("a workgroup of {:?}; 1 to {MAX_INVOCATIONS} invocations", k.group));
    }
    if let Some(lanes) = k.subgroup {
        if !lanes.is_power_of_two() || lanes > 128 {
            return whole(k, format_args!("subgroups of {lanes}; a power of two up to 128"));
        }
        if !invocations.is_multiple_of(u64::from(lanes)) {
            return whole(k, format_args!("{invocations} invocations are not full subgroups of {lanes}"));
        }
    }
    let mut names = HashSet::new();
    let all = (k.buffers.iter().map(|b| &b.name))
        .chain(k.params.iter().map(|p| &p.name))
        .chain(k.views.iter().map(|v| &v.name))
        .chain(k.shared.iter().map(|s| &s.name));
    for name in std::iter::once(&k.name).chain(all) {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(good) || name.starts_with(|c: char| c.is_ascii_digit()) {
            return whole(k, format_args!("{name:?} is no name; letters, digits and _ make one"));
        }
        if *name != k.name && !names.insert(name) {
            return whole(k, format_args!("two things are called {name}"));
        }
    }
    let mut bytes = 0usize;
    for p in &k.params {
        if p.scalar == Scalar::Bool {
            return whole(k, format_args!("parameter {} is a bool, which has no agreed size", p.name));
        }
        let size = p.scalar.bits() as usize / 8;
        bytes = bytes.next_multiple_of(size) + size;
    }
    if bytes > MAX_PARAM_BYTES {
        return whole(k, format_args!("{bytes} bytes of parameters; at most {MAX_PARAM_BYTES}"));
    }
    for s in &k.shared {
        if s.elem == Elem::Bool || s.len == 0 {
            return whole(k, format_args!("shared memory {} of {} {}", s.name, s.len, s.elem));
        }
    }
    if k.shared_bytes() > MAX_SHARED_BYTES {
        let bytes = k.shared_bytes();
        return whole(k, format_args!("{bytes} bytes of shared memory; at most {MAX_SHARED_BYTES}"));
    }
    Ok(())
}
