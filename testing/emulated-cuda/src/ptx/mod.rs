//! A module's text, decoded once.

mod boxes;
mod decode;
mod files;
mod module;

use emulated_gpu::program::Program;
use std::fmt;
use std::ops::Deref;

/// A module with one entry.
#[derive(Clone, Debug)]
pub struct Module {
    /// As in `sm_75`.
    pub capability: u32,
    /// Is it architecture-specific, as `sm_90a`?
    pub alone: bool,
    /// What it runs.
    pub program: Program,
}

impl Deref for Module {
    type Target = Program;
    fn deref(&self) -> &Program {
        &self.program
    }
}

/// Why a module is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A syntax error: a sentence with the line.
    Text(String),
    /// A PTX version that is too new.
    Version((u32, u32)),
    /// A target that is too new, or specific to another architecture.
    Target(u32),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Text(why) => f.write_str(why),
            Refused::Version((a, b)) => write!(f, "PTX .version {a}.{b} is not supported by this driver"),
            Refused::Target(sm) => write!(f, "PTX .target sm_{sm} is for other devices than this"),
        }
    }
}

/// Decodes a text, for a device of this capability whose driver takes PTX up to this version.
///
/// # Errors
/// [`Refused`], as NVIDIA's compiler would; also for instructions that are not emulated.
pub fn parse(text: &str, capability: u32, version: (u32, u32)) -> Result<Module, Refused> {
    module::module(text, capability, version)
}
