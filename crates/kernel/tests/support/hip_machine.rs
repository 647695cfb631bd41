//! The interpreter's buffers and launches for the machine that runs LLVM IR of AMD's devices.

use elinvar_kernel::Kernel;
use elinvar_kernel::emit::llvm::{Arch, kernarg};
use elinvar_kernel::interp::{Launch, Memory};
use emulated_hip as machine;

/// Runs a text on a launch.
///
/// # Errors
/// If it is refused, or does what must not be done.
pub fn run(
    k: &Kernel,
    text: &str,
    arch: Arch,
    launch: &Launch,
    buffers: &mut [Memory],
) -> Result<(), String> {
    let program = machine::parse(text, arch.name())?;
    let mut memory = machine::Memory::default();
    let mut places = Vec::new();
    for b in buffers.iter() {
        let size = b.elem.size() as usize;
        let all: Vec<u8> = b.cells.iter().flat_map(|c| c.to_le_bytes().into_iter().take(size)).collect();
        let place = memory.add(all.len()).ok_or("the system has no memory")?;
        memory.write(place, &all);
        places.push(place);
    }
    let (offsets, len) = kernarg(k);
    let mut params = vec![0; len];
    let numbers = (places.iter().map(|&place| (place, 8)))
        .chain(launch.params.iter().map(|p| (p.bits, p.scalar.bits() as usize / 8)))
        .chain(launch.groups.iter().map(|&n| (u64::from(n), 4)));
    for (&at, (bits, size)) in offsets.iter().zip(numbers) {
        params[at..at + size].copy_from_slice(&bits.to_le_bytes()[..size]);
    }
    let launch = machine::Launch { groups: launch.groups, dynamic: 0, params };
    machine::run(&program, &launch, &memory).map_err(|fault| fault.to_string())?;
    for (b, place) in buffers.iter_mut().zip(places) {
        let size = b.elem.size() as usize;
        for (cell, bytes) in b.cells.iter_mut().zip(memory.bytes(place).chunks_exact(size)) {
            *cell = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        }
    }
    Ok(())
}
