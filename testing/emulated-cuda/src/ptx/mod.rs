//! A module's text, decoded once.

mod boxes;
mod decode;
mod files;
pub mod inst;
mod module;

pub(crate) use boxes::PARAM_WINDOW;

use inst::{Column, Inst};
use std::fmt;

/// Special registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Thread index in the workgroup.
    Thread(u8),
    /// Workgroup index.
    Group(u8),
    /// Number of workgroups.
    Groups(u8),
    /// Threads of a workgroup.
    Threads(u8),
    /// Lane index in the warp.
    Lane,
}

/// A parameter of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Offset in the parameter block.
    pub offset: usize,
    /// Its bytes.
    pub size: usize,
    /// Its column.
    pub column: Column,
}

/// A module with one entry.
#[derive(Clone, Debug)]
pub struct Program {
    /// The name of the entry.
    pub entry: String,
    /// As in `sm_75`.
    pub capability: u32,
    /// Is it architecture-specific, as `sm_90a`?
    pub alone: bool,
    /// Threads of a workgroup.
    pub group: [u32; 3],
    /// The instructions.
    pub(crate) insts: Vec<Inst>,
    /// The source line of each instruction.
    pub(crate) lines: Vec<u32>,
    /// Operand lists of instructions with many operands.
    pub(crate) lists: Vec<Vec<Column>>,
    /// Columns of each file.
    pub(crate) narrow: usize,
    pub(crate) wide: usize,
    pub(crate) predicates: usize,
    /// Columns of constants.
    pub(crate) constants32: Vec<(Column, u32)>,
    pub(crate) constants64: Vec<(Column, u64)>,
    pub(crate) specials: Vec<(Column, Special)>,
    /// Parameters in their order.
    pub params: Vec<Param>,
    /// Number of byte-array parameters: they are not in `params`, and precede them.
    pub blobs: usize,
    /// Bytes of the block of parameters.
    pub param_bytes: usize,
    /// Bytes of shared memory that it declares.
    pub shared: usize,
    /// Has it dynamic shared memory?
    pub dynamic: bool,
    /// The common divisor of all shared memory accesses, in bytes.
    pub(crate) granule: usize,
    /// Does the device add f64 products from the last term to the first? No known device does; it
    /// makes code that relies on the order fail.
    pub(crate) backwards: bool,
    text: String,
}

impl Program {
    /// The source line of an instruction, and its number.
    pub(crate) fn line(&self, at: usize) -> (u32, &str) {
        let number = self.lines.get(at).copied().unwrap_or(0);
        (number, self.text.lines().nth(number as usize).unwrap_or("").trim())
    }
    /// The first comment of the text: emitters put the kernel's name there.
    pub(crate) fn title(&self) -> &str {
        self.text.lines().next().and_then(|l| l.strip_prefix("// ")).unwrap_or(&self.entry)
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
pub fn parse(text: &str, capability: u32, version: (u32, u32)) -> Result<Program, Refused> {
    module::program(text, capability, version)
}
