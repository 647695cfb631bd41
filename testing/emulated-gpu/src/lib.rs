//! What emulated GPUs have in common: the crates `emulated-cuda` and `emulated-hip` are decoders of
//! their vendor's language, and their vendor's C functions, around it.
//!
//! * [`program`], [`inst`]: a kernel as a decoder leaves it. Values are columns, one number for
//!   each lane of a warp (a wave, in AMD's words), and instructions work on columns.
//! * [`machine`]: runs workgroups, a warp of 32 or 64 lanes at a time. Errors that a device would
//!   not report are a [`machine::Fault`] here: accesses that are misaligned or out of bounds of an
//!   allocation, reads of uninitialised shared memory, data races in a workgroup, barriers and
//!   exchanges that only some of the lanes reach.
//! * [`device`]: memory, streams, events, modules. Work on a stream is deferred until the host
//!   waits for it, so a host that changes bytes too early, or frees memory too early, is detected.
//! * [`product`]: matrix products, as in the vendors' libraries.
//! * [`client`]: the other side, for stand-ins of libraries that use a driver.
//! * [`sys`]: memory as raw bytes, and C functions that differ between vendors in their names only.
//!
//! Its clock counts instructions: a kernel with fewer instructions is faster, independent of the
//! load of the host. Each stream has its own, so that work of two streams overlaps in time. A
//! stream runs only when something waits for it: what forgets to wait for another stream finds old
//! bytes there, each time.
//!
//! What is not emulated: caches, memories of several devices (they share one), and data races
//! between workgroups (the interpreter of the kernel language finds those).

pub mod client;
pub mod device;
pub mod inst;
pub mod machine;
pub mod product;
pub mod program;
pub mod settings;
pub mod sys;

use std::path::PathBuf;

/// The path of a library of C functions, for a test of this workspace: in the directory of the test
/// program, or in the one above.
pub fn library(name: &str) -> Option<PathBuf> {
    let name = format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let program = std::env::current_exe().ok()?;
    let beside = program.parent()?;
    [beside.join("deps"), beside.to_path_buf(), beside.parent()?.to_path_buf()]
        .into_iter()
        .map(|dir| dir.join(&name))
        .find(|path| path.is_file())
}
