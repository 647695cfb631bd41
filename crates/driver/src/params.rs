//! A kernel's parameter block: each parameter at the next multiple of its size.

use elinvar_core::{Error, Result};
use elinvar_kernel::ir::{Constant, Param};

/// Where each parameter is, and how many bytes all take: a multiple of 4.
#[cfg(not(target_arch = "wasm32"))]
pub fn layout(params: &[Param]) -> (Vec<u32>, u32) {
    let mut end = 0u32;
    let offsets = params.iter().map(|p| {
        let size = p.scalar.bits() / 8;
        let at = end.next_multiple_of(size);
        end = at + size;
        at
    });
    let offsets = offsets.collect();
    (offsets, end.next_multiple_of(4))
}

/// Are these the parameters of the kernel of this name?
///
/// # Errors
/// `InvalidArgument` if they are not.
pub fn check(name: &str, declared: &[Param], given: &[Constant]) -> Result<()> {
    match given.iter().map(|p| p.scalar).eq(declared.iter().map(|p| p.scalar)) {
        true => Ok(()),
        false => Err(Error::argument(format!("{name}: other parameters than the kernel has"))),
    }
}

/// The block of a launch of the kernel of this name.
///
/// # Errors
/// `InvalidArgument` if these are not the kernel's parameters.
#[cfg(not(target_arch = "wasm32"))]
pub fn block(name: &str, declared: &[Param], given: &[Constant]) -> Result<Vec<u8>> {
    check(name, declared, given)?;
    let (offsets, size) = layout(declared);
    let mut block = vec![0; size as usize];
    for (p, at) in given.iter().zip(offsets) {
        let bytes = (p.scalar.bits() / 8) as usize;
        block[at as usize..][..bytes].copy_from_slice(&p.bits.to_le_bytes()[..bytes]);
    }
    Ok(block)
}
