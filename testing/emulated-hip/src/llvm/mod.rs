//! A module's text, decoded once: SSA values become columns, phis become moves where a block ends.
//!
//! What is taken is what the emitter writes, and nothing else: an instruction with a flag, which
//! would leave something open, is refused, and so is a barrier without its fences.

mod arith;
mod call;
mod cursor;
mod decode;
mod lifetime;
mod memory;
mod module;
mod names;

use emulated_gpu::program::Program;

/// Architectures, and how many lanes a wave has that does not ask; newer ones have waves of both
/// widths.
pub const ARCHS: [(&str, usize); 6] =
    [("gfx906", 64), ("gfx90a", 64), ("gfx942", 64), ("gfx1030", 32), ("gfx1100", 32), ("gfx1201", 32)];

/// Decodes a text for an architecture (`gfx942`).
///
/// # Errors
/// A sentence with the line, for what LLVM would refuse and for what is not emulated.
pub fn parse(text: &str, arch: &str) -> Result<Program, String> {
    module::program(text, arch)
}
